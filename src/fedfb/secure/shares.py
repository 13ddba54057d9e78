r"""Shamir's sharing of 32 secret bytes: ``threshold`` shares restore them, fewer reveal nothing.

The secret is :math:`f(0)` of a random polynomial :math:`f` of degree :math:`t - 1` over the field
of :math:`p = 2^{256} + 297` elements, the smallest prime that has room for every 32 bytes. The
share of client :math:`j` is :math:`f(j)`. From :math:`t` points :math:`J`

.. math:: f(0) = \sum_{j \in J} f(j) \prod_{m \in J, m \ne j} \frac{m}{m - j} \pmod p

We wrote it because the maintained packages that we found share 16-byte secrets, or use a prime that
the caller must choose. The arithmetic is ten lines, and tests check its laws.
"""

from collections.abc import Mapping, Sequence

from fedfb.secure.errors import FormatError, ProtocolError, ThresholdError
from fedfb.secure.keys import Random, urandom

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
