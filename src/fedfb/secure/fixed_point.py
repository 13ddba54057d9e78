r"""Numbers as elements of the ring, with bounds that are declared and kept.

A value :math:`x` with :math:`|x| \le B` is carried as :math:`q = \mathrm{round}(2^f x)`, so the sum
over :math:`n` parties is right to :math:`n 2^{-f-1}`, and cannot wrap as long as

.. math:: n \lceil 2^f B \rceil < 2^{63}

Nothing is clipped: a value that is not finite or beyond its bound is refused where it arises.
"""

import math
import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedfb.core import Arrays
from fedfb.secure.encoding import number, pack
from fedfb.secure.errors import RangeError
from fedfb.secure.keys import sha256
from fedfb.secure.masks import Ring
from fedfb.shapes import Array

DEFAULT_SUM_BITS = 56
"""Where the bits are chosen for a caller the sum stays below 2^56: a sum of a wrong mask fills all
64, so that a word of it passes for a sum with a chance of 2^-7 only."""


class Part(NamedTuple):
    """One named array of an upload, as all parties know it beforehand.

    ``bound`` is the largest absolute value of one party's entry, ``bits`` the binary places behind
    the point. Zero bits declare whole numbers: a fraction is then refused, not rounded.
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
        """The largest absolute value of one party's word."""
        return math.ceil(Fraction(self.bound) * (1 << self.bits))


Schema = tuple[Part, ...]
"""The parts of an upload in the order of their names. Public, and the same for all parties."""


def choose_bits(bound: float, parties: int) -> int:
    """Return the most binary places with which the sum of so many parties stays below 2^56.

    >>> choose_bits(bound=1.0, parties=5)
    53
    """
    require_bound("a part", bound)
    places = math.floor(DEFAULT_SUM_BITS - math.log2(bound) - math.log2(parties))
    return min(max(places, 0), 1000)


def require_bound(name: str, bound: float) -> None:
    if not (math.isfinite(bound) and bound > 0):
        raise RangeError(f"the bound of {name} is {bound}, expected a positive finite number.")


def make_schema(parts: Sequence[Part], parties: int) -> Schema:
    """Order the parts by name and check that no sum of so many parties can wrap."""
    schema = tuple(sorted(parts))
    if len({part.name for part in schema}) < len(schema) or not schema:
        raise RangeError(f"a schema has one part or more with distinct names, not {len(schema)}.")
    for part in schema:
        require_bound(repr(part.name), part.bound)
        if not 0 <= part.bits <= 1000 or any(axis < 0 for axis in part.shape):
            raise RangeError(f"{part.name!r} has {part.bits} bits and the shape {part.shape}.")
        if parties * part.limit >= 2**63:
            raise RangeError(
                f"the sum of {parties} parties' {part.name!r} could wrap: bound {part.bound:g} "
                f"with {part.bits} bits. Declare fewer bits or a smaller bound."
            )
    return schema


def words(schema: Schema) -> int:
    """Return the length of the ring vector."""
    return sum(part.size for part in schema)


def schema_digest(schema: Schema) -> bytes:
    """Hash a schema; it goes into every key."""
    return sha256(
        *(
            pack(
                part.name.encode(),
                b"".join(number(axis) for axis in part.shape),
                struct.pack(">d", part.bound),
                number(part.bits),
            )
            for part in schema
        )
    )


def encode(schema: Schema, arrays: Arrays) -> Ring:
    """Write the named arrays of one party as one ring vector.

    >>> schema = make_schema([Part("loss", (2,), bound=10.0, bits=4)], parties=3)
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
    if flat.size and max(abs(flat.min().item()), abs(flat.max().item())) > part.bound:
        count = int(np.sum((flat > part.bound) | (flat < -part.bound)))
        raise RangeError(
            f"{part.name!r} exceeds its bound {part.bound:g} at {count} of {flat.size} places; "
            "nothing was sent. Declare a larger bound (with fewer bits), the same for all parties."
        )
    return _quantise(part, flat).view(np.uint64)


def _quantise(part: Part, flat: Array) -> npt.NDArray[np.int64]:
    if flat.dtype.kind != "f" and part.bits == 0:
        return flat.astype(np.int64)
    scaled = np.ldexp(flat.astype(np.float64), part.bits)
    rounded = np.rint(scaled)
    if part.bits == 0 and not np.array_equal(rounded, scaled):
        raise RangeError(f"{part.name!r} is declared whole (0 bits) and has a fraction.")
    return rounded.astype(np.int64)


def decode(schema: Schema, parties: int, total: Ring) -> Arrays:
    """Read the sum of so many parties' vectors.

    >>> schema = make_schema([Part("loss", (2,), bound=10.0, bits=4)], parties=3)
    >>> decode(schema, 3, np.array([8, 2**64 - 16], dtype=np.uint64))
    {'loss': array([ 0.5, -1. ])}
    """
    if total.shape != (words(schema),):
        raise RangeError(f"the sum has shape {total.shape}, expected {(words(schema),)}.")
    ends = np.cumsum([part.size for part in schema])[:-1]
    pieces = np.split(total.view(np.int64), ends)
    return {
        part.name: _decode_part(part, parties, piece)
        for part, piece in zip(schema, pieces, strict=True)
    }


def _decode_part(part: Part, parties: int, signed: npt.NDArray[np.int64]) -> Array:
    limit = parties * part.limit
    if signed.size and (int(signed.max()) > limit or int(signed.min()) < -limit):
        raise RangeError(
            f"the sum of {part.name!r} is beyond {parties} times its bound {part.bound:g}: a party "
            "broke its bound, or a mask was not removed. The sum is thrown away."
        )
    return np.ldexp(signed.astype(np.float64), -part.bits).reshape(part.shape)
