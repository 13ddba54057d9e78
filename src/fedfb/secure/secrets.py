r"""Masks on a vector, and shares of the secrets behind them.

Masks lie over :math:`\mathbb{Z}_{2^{64}}`: the key stream of ChaCha20, read as 64-bit numbers.

Client :math:`u` uploads (Bonawitz et al. 2017, section 4)

.. math:: y_u = x_u + G(b_u) + \sum_{v > u} G(s_{uv}) - \sum_{v < u} G(s_{uv}) \pmod{2^{64}}

with its own seed :math:`b_u` and a secret :math:`s_{uv}` with each neighbour :math:`v`. In the sum
over all clients the pairwise masks cancel.

Shares are those of Shamir, of 32 secret bytes: ``threshold`` of them restore a secret, fewer reveal
nothing.

The secret is :math:`f(0)` of a random polynomial :math:`f` of degree :math:`t - 1` over the field
of :math:`p = 2^{256} + 297` elements, the smallest prime that has room for every 32 bytes. The
share of client :math:`j` is :math:`f(j)`. From :math:`t` points :math:`J`

.. math:: f(0) = \sum_{j \in J} f(j) \prod_{m \in J, m \ne j} \frac{m}{m - j} \pmod p

We wrote it because the maintained packages that we found share 16-byte secrets, or use a prime that
the caller must choose. The arithmetic is ten lines, and tests check its laws.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from fedfb.secure.encoding import FormatError, ProtocolError, ThresholdError
from fedfb.secure.keys import Random, urandom

Ring = npt.NDArray[np.uint64]
"""A vector over the integers modulo 2^64."""

WORD_BYTES = 8
CHUNK_WORDS = 1 << 15
"""Words that are masked at a time: the stream and the vector fit into a processor's cache."""


def add_masks(vector: Ring, plus: Iterable[bytes], minus: Iterable[bytes]) -> Ring:
    """Return a vector plus the streams of some keys and minus the streams of others.

    Args:
        vector: elements of the ring; not changed.
        plus: keys whose streams are added.
        minus: keys whose streams are subtracted.

    >>> key = bytes(32)
    >>> masked = add_masks(np.arange(3, dtype=np.uint64), plus=[key], minus=[])
    >>> add_masks(masked, plus=[], minus=[key])
    array([0, 1, 2], dtype=uint64)
    """
    total = vector.copy()
    for key in plus:
        _add_stream(total, key, np.add)
    for key in minus:
        _add_stream(total, key, np.subtract)
    return total


def _add_stream(total: Ring, key: bytes, combine: np.ufunc) -> None:
    # Counter and nonce are zero: a key makes one stream only. A key used twice would show the
    # difference of two uploads.
    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    # Encrypting zeros returns the key stream itself.
    zeros = memoryview(bytes(WORD_BYTES * min(CHUNK_WORDS, total.size)))
    buffer = bytearray(len(zeros))
    for start in range(0, total.size, CHUNK_WORDS):
        part = total[start : start + CHUNK_WORDS]
        stream.update_into(zeros[: part.nbytes], buffer)
        combine(part, np.frombuffer(buffer, "<u8", count=part.size), out=part)


def write_ring(vector: Ring) -> bytes:
    """Write a vector, eight bytes a word, little-endian."""
    return vector.astype("<u8", copy=False).tobytes()


def read_ring(data: bytes, words: int, what: str) -> Ring:
    """Read a vector.

    Args:
        data: what ``write_ring`` returned.
        words: how many words are expected.
        what: name of the vector, for errors.
    """
    if len(data) != WORD_BYTES * words:
        raise FormatError(f"{what} has {len(data)} bytes, expected {WORD_BYTES * words}.")
    return np.frombuffer(data, "<u8").astype(np.uint64)


PRIME = 2**256 + 297
SECRET_BYTES = 32
SHARE_BYTES = 33


def split_secret(
    secret: bytes, threshold: int, points: Sequence[int], random: Random = urandom
) -> dict[int, bytes]:
    """Share a secret among points.

    Args:
        secret: 32 bytes.
        threshold: how many shares restore the secret.
        points: where the polynomial is evaluated; positive and different.
        random: source of random bytes.

    >>> shares = split_secret(bytes(range(32)), threshold=2, points=[1, 2, 5])
    >>> combine({1: shares[1], 5: shares[5]}, threshold=2) == bytes(range(32))
    True
    """
    if len(secret) != SECRET_BYTES:
        raise FormatError(f"a secret of {len(secret)} bytes cannot be shared, expected 32.")
    if not 0 < threshold <= len(points) or len(set(points)) < len(points) or min(points) < 1:
        raise ThresholdError(
            f"cannot share among {len(points)} points with threshold {threshold}: points are "
            "positive and distinct, and at least as many as the threshold."
        )
    # 48 bytes: after the remainder the probabilities of two elements differ by less than 2^-127.
    coefficients = [int.from_bytes(random(48), "big") % PRIME for _ in range(threshold - 1)]
    polynomial = [*coefficients, int.from_bytes(secret, "big")]
    return {point: _evaluate(polynomial, point).to_bytes(SHARE_BYTES, "big") for point in points}


def _evaluate(polynomial: Sequence[int], point: int) -> int:
    value = 0
    for coefficient in polynomial:
        value = (value * point + coefficient) % PRIME
    return value


def combine(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """Return the secret from at least ``threshold`` shares, by their points."""
    points = choose_points(shares, threshold)
    return combine_weighted(shares, find_weights_at_zero(points))


def choose_points(shares: Mapping[int, bytes], threshold: int) -> tuple[int, ...]:
    """Return the points to interpolate from: the lowest ones, as many as the threshold."""
    if len(shares) < threshold:
        raise ThresholdError(
            f"{len(shares)} shares of a secret are available, expected {threshold}."
        )
    return tuple(sorted(shares)[:threshold])


def find_weights_at_zero(points: Sequence[int]) -> dict[int, int]:
    r"""Return Lagrange's weights :math:`\prod_{m \ne j} m / (m - j)`, by point :math:`j`.

    >>> find_weights_at_zero([1, 2]) == {1: 2, 2: PRIME - 1}
    True
    """
    weights = {}
    for j in points:
        above, below = 1, 1
        for m in points:
            if m != j:
                above, below = above * m % PRIME, below * (m - j) % PRIME
        weights[j] = above * pow(below, -1, PRIME) % PRIME
    return weights


def combine_weighted(shares: Mapping[int, bytes], weights: Mapping[int, int]) -> bytes:
    """Return the secret from the shares at the points of Lagrange's weights."""
    total = sum(weight * read_share(shares[point]) for point, weight in weights.items()) % PRIME
    # The field is a little larger than 32 bytes: such a value cannot be a shared secret.
    if total >= 2**256:
        raise ProtocolError(
            "the shares of a secret do not belong together: the secret is too large."
        )
    return total.to_bytes(SECRET_BYTES, "big")


def read_share(share: bytes) -> int:
    """Return a share as an element of the field."""
    value = int.from_bytes(share, "big")
    if len(share) != SHARE_BYTES or value >= PRIME:
        raise FormatError("a share is not an element of the field.")
    return value
