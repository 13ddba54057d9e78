"""Any threshold of shares restores a secret; fewer fit every secret alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedfb.secure import FormatError, ProtocolError, ThresholdError
from fedfb.secure.secrets import PRIME, SHARE_BYTES, combine, find_weights_at_zero, split_secret
from secure.clients import seeded

secrets = st.binary(min_size=32, max_size=32)


@st.composite
def sharings(draw):
    points = draw(st.lists(st.integers(1, 2**32), min_size=1, max_size=20, unique=True))
    return draw(secrets), draw(st.integers(1, len(points))), points, draw(st.integers(0, 2**32))


@given(sharings(), st.randoms(use_true_random=False))
def test_any_threshold_of_shares_restores_the_secret(sharing, rng):
    secret, threshold, points, seed = sharing
    shares = split_secret(secret, threshold, points, seeded(seed))
    some = rng.sample(points, rng.randint(threshold, len(points)))
    assert combine({point: shares[point] for point in some}, threshold) == secret


@given(sharings(), secrets)
def test_fewer_shares_fit_any_other_secret_just_as_well(sharing, other):
    """With the missing one chosen freely the given shares restore whatever one likes."""
    secret, threshold, points, seed = sharing
    if threshold == 1:
        return
    shares = split_secret(secret, threshold, points, seeded(seed))
    known, missing = points[: threshold - 1], points[threshold - 1]
    weights = find_weights_at_zero([*known, missing])
    partial = sum(weights[point] * int.from_bytes(shares[point], "big") for point in known)
    wanted = (int.from_bytes(other, "big") - partial) * pow(weights[missing], -1, PRIME) % PRIME
    made = {point: shares[point] for point in known}
    made[missing] = wanted.to_bytes(SHARE_BYTES, "big")
    assert combine(made, threshold) == other


def test_a_share_alone_is_uniform_whatever_the_secret():
    """Chi-square over the second byte of 4,000 shares for two secrets; 1e-5 each."""
    for secret in (bytes(32), b"\xff" * 32):
        draw = seeded(secret.hex())
        found = [split_secret(secret, 2, [1, 2], draw)[1][1] for _ in range(4000)]
        assert stats.chisquare(np.bincount(found, minlength=256)).pvalue > 1e-5


def is_probable_prime(n, bases):
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    return all(
        pow(base, odd, n) in (1, n - 1)
        or any(pow(base, odd * 2**power, n) == n - 1 for power in range(twos))
        for base in bases
    )


def test_the_field_is_the_smallest_that_holds_every_secret():
    """Miller-Rabin, 40 bases: a composite passes with a chance below 4^-40."""
    bases = range(2, 42)
    assert is_probable_prime(PRIME, bases)
    assert not any(is_probable_prime(n, bases) for n in range(2**256 + 1, PRIME, 2))


def test_sharing_by_hand():
    """f(x) = 7 + 5 x: shares 12, 17, 22 at 1, 2, 3."""
    secret = (7).to_bytes(32, "big")
    shares = split_secret(secret, 2, [1, 2, 3], lambda size: (5).to_bytes(size, "big"))
    assert [int.from_bytes(share, "big") for share in shares.values()] == [12, 17, 22]
    assert combine({1: shares[1], 3: shares[3]}, 2) == secret


def test_what_cannot_be_shared_or_combined_is_refused():
    with pytest.raises(FormatError, match="expected 32"):
        split_secret(b"short", 1, [1])
    for threshold, points in ((3, [1, 2]), (0, [1]), (2, [1, 1]), (1, [0])):
        with pytest.raises(ThresholdError):
            split_secret(bytes(32), threshold, points)
    with pytest.raises(ThresholdError, match="expected 2"):
        combine({1: bytes(33)}, 2)
    with pytest.raises(FormatError, match="not an element"):
        combine({1: PRIME.to_bytes(33, "big")}, 1)
    with pytest.raises(ProtocolError, match="do not belong"):
        combine({1: (PRIME - 1).to_bytes(33, "big")}, 1)
