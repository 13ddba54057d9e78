r"""Numbers as elements of the ring, with bounds that are declared and checked.

A value :math:`x` with :math:`|x| \le B` is carried as :math:`q = \mathrm{round}(2^f x)`. The sum
over :math:`n` clients is then exact to :math:`n 2^{-f-1}`, and it cannot wrap as long as

.. math:: n \lceil 2^f B \rceil < 2^{63}

No value is clipped. A value that is not finite or beyond its bound is refused by its client.
"""

import math
import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedfb.core import Arrays
from fedfb.secure.encoding import RangeError, pack, pack_number
from fedfb.secure.keys import sha256
from fedfb.secure.secrets import Ring
from fedfb.shapes import Array

DEFAULT_SUM_BITS = 56
"""With bits from ``choose_bits`` a sum stays below 2^56. A mask that was not removed fills all 64
bits, so a word of such a sum passes the range check of ``decode`` with a probability of 2^-7."""


class Part(NamedTuple):
    """One named array of an upload, as all clients know it in advance.

    ``bound`` is the largest absolute value of an entry of one client, ``bits`` the number of binary
    places after the point. Zero bits declare whole numbers: a fraction is then refused, not
    rounded.
    """

    name: str
    shape: tuple[int, ...]
    bound: float
    bits: int

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def limit(self) -> int:
        """The largest absolute value of one client's word."""
        return math.ceil(Fraction(self.bound) * (1 << self.bits))


Schema = tuple[Part, ...]
"""The parts of an upload in the order of their names. Public, and the same for all clients."""


def choose_bits(bound: float, clients: int) -> int:
    """Return the largest number of binary places with which the sum stays below 2^56.

    Args:
        bound: the largest absolute value of an entry of one client.
        clients: how many clients are summed at most.

    >>> choose_bits(bound=1.0, clients=5)
    53
    """
    require_bound("a part", bound)
    # Rounding down: the sum of all clients at their bounds must still fit.
    places = math.floor(DEFAULT_SUM_BITS - math.log2(bound) - math.log2(clients))
    return min(max(places, 0), 1000)


def require_bound(name: str, bound: float) -> None:
    if not (math.isfinite(bound) and bound > 0):
        raise RangeError(f"the bound of {name} is {bound}, expected a positive finite number.")


def make_schema(parts: Sequence[Part], clients: int) -> Schema:
    """Sort the parts by name and check that no sum can wrap.

    Args:
        parts: the arrays of an upload; names are different.
        clients: how many clients are summed at most.
    """
    schema = tuple(sorted(parts))
    if len({part.name for part in schema}) < len(schema) or not schema:
        raise RangeError(f"a schema has one part or more with distinct names, not {len(schema)}.")
    for part in schema:
        require_bound(repr(part.name), part.bound)
        if not 0 <= part.bits <= 1000 or any(axis < 0 for axis in part.shape):
            raise RangeError(f"{part.name!r} has {part.bits} bits and the shape {part.shape}.")
        # A sum beyond 63 bits would come out with the wrong sign, and nobody could tell.
        if clients * part.limit >= 2**63:
            raise RangeError(
                f"the sum of {clients} clients' {part.name!r} could wrap: bound {part.bound:g} "
                f"with {part.bits} bits. Declare fewer bits or a smaller bound."
            )
    return schema


def count_words(schema: Schema) -> int:
    """Return the length of the ring vector."""
    return sum(part.size for part in schema)


def hash_schema(schema: Schema) -> bytes:
    """Return the hash of a schema, which is part of every key."""
    return sha256(
        *(
            pack(
                part.name.encode(),
                b"".join(pack_number(axis) for axis in part.shape),
                struct.pack(">d", part.bound),
                pack_number(part.bits),
            )
            for part in schema
        )
    )


def encode(schema: Schema, arrays: Arrays) -> Ring:
    """Return the named arrays of one client as one ring vector.

    Args:
        schema: shapes and bounds; the order of its parts is the order in the vector.
        arrays: the upload, with exactly the names of the schema; all values finite.

    Raises:
        RangeError: a value is outside its declared bound. Nothing has been sent then.

    >>> schema = make_schema([Part("loss", (2,), bound=10.0, bits=4)], clients=3)
    >>> encode(schema, {"loss": np.array([0.5, -1.0])}).view(np.int64)
    array([  8, -16])
    """
    if set(arrays) != {part.name for part in schema}:
        raise RangeError(
            f"the upload has {sorted(arrays)}, its schema {[part.name for part in schema]}."
        )
    return np.concatenate([_encode_part(part, np.asarray(arrays[part.name])) for part in schema])


def _encode_part(part: Part, value: Array) -> Ring:
    if value.shape != part.shape or value.dtype.kind not in "iufb":
        raise RangeError(
            f"{part.name!r} is {value.dtype} of shape {value.shape}, expected real numbers of "
            f"shape {part.shape}."
        )
    flat = value.reshape(-1)
    if not np.isfinite(flat).all():
        place = int(np.argmin(np.isfinite(flat)))
        raise RangeError(f"{part.name!r} is not finite at place {place}; nothing was sent.")
    # As Python numbers: the absolute value of the least int64 does not fit into an int64.
    if flat.size and max(abs(flat.min().item()), abs(flat.max().item())) > part.bound:
        count = int(np.sum((flat > part.bound) | (flat < -part.bound)))
        raise RangeError(
            f"{part.name!r} exceeds its bound {part.bound:g} at {count} of {flat.size} places; "
            "nothing was sent. Declare a larger bound (with fewer bits), the same for all clients."
        )
    # Two's complement: adding modulo 2^64 adds negative numbers too.
    return _quantise(part, flat).view(np.uint64)


def _quantise(part: Part, flat: Array) -> npt.NDArray[np.int64]:
    if flat.dtype.kind != "f" and part.bits == 0:
        return flat.astype(np.int64)
    scaled = np.ldexp(flat.astype(np.float64), part.bits)
    rounded = np.rint(scaled)
    if part.bits == 0 and not np.array_equal(rounded, scaled):
        raise RangeError(f"{part.name!r} is declared whole (0 bits) and has a fraction.")
    return rounded.astype(np.int64)


def decode(schema: Schema, clients: int, total: Ring) -> Arrays:
    """Return the arrays of a total.

    Args:
        schema: the schema with which every upload was encoded.
        clients: how many vectors the total contains.
        total: the sum of the vectors, unmasked.

    >>> schema = make_schema([Part("loss", (2,), bound=10.0, bits=4)], clients=3)
    >>> decode(schema, 3, np.array([8, 2**64 - 16], dtype=np.uint64))
    {'loss': array([ 0.5, -1. ])}
    """
    if total.shape != (count_words(schema),):
        raise RangeError(f"the sum has shape {total.shape}, expected {(count_words(schema),)}.")
    ends = np.cumsum([part.size for part in schema])[:-1]
    pieces = np.split(total.view(np.int64), ends)
    return {
        part.name: _decode_part(part, clients, piece)
        for part, piece in zip(schema, pieces, strict=True)
    }


def _decode_part(part: Part, clients: int, signed: npt.NDArray[np.int64]) -> Array:
    # A mask that was not removed looks like a random word: almost surely beyond this limit.
    limit = clients * part.limit
    if signed.size and (int(signed.max()) > limit or int(signed.min()) < -limit):
        raise RangeError(
            f"the sum of {part.name!r} is beyond {clients} times its bound {part.bound:g}: a "
            "client exceeded its bound, or a mask was not removed. The sum is discarded."
        )
    return np.ldexp(signed.astype(np.float64), -part.bits).reshape(part.shape)
