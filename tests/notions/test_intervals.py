import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.special import ndtri
from scipy.stats import binom, binomtest, studentized_range

from fedfb.notions.critical import binomial_score, normal_quantile, range_critical_value
from fedfb.notions.intervals import (
    intervals,
    mean_variance,
    parity_bands,
    parity_contrasts,
    range_interval,
    rate_ends,
    rate_variance,
)

DATA_SETS = 4_000
# Intervals from a few hundred rows truly cover 94.5 % to 95.4 %; at 94.5 % fewer than 93 % of 4,000
# data sets are covered with probability 3e-5.
COVERED = 0.93


@pytest.mark.parametrize("level", [0.95, 0.998])
@pytest.mark.parametrize("rows", [10, 13, 40, 1_000])
def test_ends_of_a_rate_are_those_of_the_exact_interval(rows, level):
    counts = np.unique(np.linspace(0, rows, 40).astype(int))
    low, high = rate_ends(counts.astype(float), np.full(len(counts), float(rows)), level)
    exact = [binomtest(int(k), rows).proportion_ci(level, method="exact") for k in counts]
    np.testing.assert_allclose(low, [ends.low for ends in exact], atol=3e-3)
    np.testing.assert_allclose(high, [ends.high for ends in exact], atol=3e-3)


@pytest.mark.parametrize("rate", [0.01, 0.2, 0.5, 0.95])
@pytest.mark.parametrize("rows", [10, 50, 500])
def test_binomial_scores_are_normal_quantiles_of_binomial_tails(rows, rate):
    count = np.arange(rows, dtype=float)
    exact = ndtri(binom.cdf(count, rows, rate))
    tail = (np.abs(exact) > 1) & (np.abs(exact) < 4)
    score = binomial_score(count, np.full(rows, float(rows)), np.full(rows, rate))
    np.testing.assert_allclose(score[tail], exact[tail], atol=0.03)


tables = st.integers(2, 24).flatmap(
    lambda groups: st.tuples(
        npst.arrays(float, groups, elements=st.integers(1, 3_000)),
        npst.arrays(float, groups, elements=st.floats(0, 1)),
    )
)


@given(tables)
def test_the_interval_contains_zero_exactly_when_every_band_does_and_always_the_value(table):
    rows, rates = table
    bands = parity_bands(rates * rows, rows, np.zeros(len(rows), dtype=int))
    low, high = intervals(bands)
    assert (low == 0) == bool(((bands.low <= 0) & (bands.high >= 0)).all())
    assert low <= np.abs(bands.gap).max() <= high + 1e-12


@given(tables)
def test_decisions_the_other_way_round_have_the_same_interval(table):
    rows, rates = table
    block, positives = np.zeros(len(rows), dtype=int), rates * rows
    ends = intervals(parity_bands(positives, rows, block))
    np.testing.assert_allclose(intervals(parity_bands(rows - positives, rows, block)), ends,
                               atol=1e-6)  # fmt: skip


@given(tables)
def test_ten_times_the_rows_never_widen_a_band(table):
    rows, rates = table
    block, positives = np.zeros(len(rows), dtype=int), np.rint(rates * rows)
    few, many = (parity_bands(times * positives, times * rows, block) for times in (1, 10))
    assert (many.high - many.low <= few.high - few.low + 1e-6).all()


@given(st.integers(1, 99), npst.arrays(float, 2, elements=st.floats(0, 1)))
def test_two_groups_have_one_gap_and_its_band_is_one_at_the_plain_level(share, rates):
    rows = 10.0 * np.array([share, 100 - share])
    bands = parity_bands(rates * rows, rows, np.array([0, 0]), drawn_mix=False)
    assert bands.critical == pytest.approx(1.959964)
    np.testing.assert_allclose(bands.low, bands.alone_low)
    np.testing.assert_allclose(share * bands.low[0], (share - 100) * bands.high[1], atol=1e-6)


def test_bands_of_many_rows_are_those_of_a_normal_law():
    rows, rates = np.array([4e5, 3e5, 2e5]), np.array([0.2, 0.3, 0.35])
    bands = parity_bands(rates * rows, rows, np.zeros(3, dtype=int), drawn_mix=False)
    share = rows / rows.sum()
    contrasts = np.eye(3) - share
    se = np.sqrt(contrasts**2 @ (rates * (1 - rates) / rows))
    np.testing.assert_allclose(bands.gap, rates - share @ rates)
    # The rows of all other groups count as one binomial: a little wider.
    np.testing.assert_allclose((bands.high - bands.low) / 2, 2.388 * se, rtol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("clients", [2, 5, 20])
@pytest.mark.parametrize("spread", [0.0, 0.2])
def test_pairwise_intervals_cover_the_range_of_skewed_losses_of_unequal_clients(clients, spread):
    rng = np.random.default_rng((clients, int(10 * spread)))
    sizes = np.linspace(100, 400, clients).astype(int)
    expected = 0.5 + spread * np.linspace(0, 1, clients)
    drawn = [t * rng.gamma(2, 1 / 2, (DATA_SETS, n)) for t, n in zip(expected, sizes, strict=True)]
    total = np.array([x.sum(axis=1) for x in drawn]).T
    squares = np.array([(x**2).sum(axis=1) for x in drawn]).T
    rows = sizes.astype(float)
    variance = mean_variance(np.tile(rows, (DATA_SETS, 1)), total, squares)
    ends = [range_interval(m, v) for m, v in zip(total / rows, variance, strict=True)]
    low, high = np.array(ends).T
    assert np.mean((low <= spread) & (spread <= high)) >= COVERED


@pytest.mark.parametrize("means", [2, 3, 10, 60, 500])
def test_range_critical_values_are_those_of_the_studentised_range(means):
    exact = studentized_range.ppf(0.95, means, np.inf) / np.sqrt(2)
    assert range_critical_value(means) == pytest.approx(exact, abs=1e-8)


def over_all_pairs(means, variance):
    """The interval of the range by its definition: the bands of all pairs at once."""
    first, second = np.triu_indices(len(means), k=1)
    se = np.sqrt(variance[first] + variance[second])
    apart = np.abs(means[first] - means[second])
    low = (apart - range_critical_value(len(means)) * se).max()
    return max(low, 0.0), (apart + normal_quantile(0.95) * se).max()


@given(st.data(), st.integers(2, 12))
def test_the_interval_of_a_range_is_that_of_all_pairs_to_the_bit(data, clients):
    few = st.sampled_from([0.0, 0.1, 0.2, 0.5])  # ties are where candidates are easily lost
    sizes = st.one_of(few, st.floats(0, 1))
    means, variance = (data.draw(npst.arrays(float, clients, elements=sizes)) for _ in range(2))
    assert range_interval(means, variance) == over_all_pairs(means, variance)


@pytest.mark.parametrize("slope", [-1.0, 0.0, 1.0])
def test_the_interval_of_a_range_is_exact_for_300_clients(slope, monkeypatch):
    # Variances that grow or shrink with the means leave the most candidates: several parts.
    monkeypatch.setattr("fedfb.notions.intervals.PAIRS_AT_ONCE", 1000)
    rng = np.random.default_rng(3)
    means = np.sort(rng.random(300))
    variance = 0.01 * (slope * means**2 if slope > 0 else 1 + slope * means**2)
    variance = variance if slope else rng.random(300) / 100
    assert range_interval(means, variance) == over_all_pairs(means, variance)


@given(
    npst.arrays(float, 6, elements=st.integers(1, 50)),
    npst.arrays(float, 6, elements=st.floats(0, 1)),
)
def test_parity_contrasts_are_distances_from_the_pooled_mean_of_the_block(rows, means):
    block = np.array([0, 0, 0, 1, 1, 1])
    pooled = [np.average(means[block == b], weights=rows[block == b]) for b in block]
    np.testing.assert_allclose(parity_contrasts(rows, block) @ means, means - pooled, atol=1e-12)


@given(npst.arrays(float, st.integers(2, 20), elements=st.floats(0, 27)))
def test_the_variance_of_a_mean_comes_from_sums(x):
    n, total, squares = (np.array([float(s)]) for s in (len(x), x.sum(), (x**2).sum()))
    expected = x.var(ddof=1) / len(x)
    np.testing.assert_allclose(mean_variance(n, total, squares), expected, rtol=1e-6, atol=1e-11)


def test_a_rate_of_zero_or_one_keeps_a_variance():
    assert (rate_variance(np.array([0.0, 30.0]), np.array([30.0, 30.0])) > 1e-3).all()
