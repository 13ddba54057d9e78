import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.stats import studentized_range

from fedfb.notions.critical import critical_value, range_critical_value, standard_errors
from fedfb.notions.intervals import (
    Bands,
    half_widths,
    interval,
    mean_variance,
    parity_bands,
    parity_contrasts,
    range_interval,
    rate_variance,
)

ROWS = {2: [300, 200], 3: [300, 200, 100], 5: [250, 200, 200, 150, 100]}
GAPS = [0.0, 0.03, 0.1, 0.4]
DATA_SETS = 4_000
# Bands from a few hundred rows truly cover 94.5 % to 95.4 % (200,000 data sets, measured apart); at
# 94.5 % fewer than 93 % of 4,000 data sets are covered with probability 3e-5.
COVERED = 0.93

variances = npst.arrays(float, st.integers(2, 6), elements=st.floats(1e-4, 1.0))


def one_block(rows):
    return parity_contrasts(np.asarray(rows, dtype=float), np.zeros(len(rows), dtype=int))


def rates_with_largest_gap(contrasts, gap):
    """Rates around one half whose largest distance from the pooled rate is ``gap``."""
    direction = contrasts @ np.arange(len(contrasts), dtype=float)
    return 0.5 + gap * direction / np.abs(direction).max()


def simulate(groups, gap, data_sets):
    """Return the contrasts, the true rates, the rows and the drawn numbers of positives."""
    rows = np.array(ROWS[groups], dtype=float)
    contrasts = one_block(rows)
    rates = rates_with_largest_gap(contrasts, gap)
    rng = np.random.default_rng((groups, int(100 * gap)))
    positives = rng.binomial(rows.astype(int), rates, size=(data_sets, groups)).astype(float)
    return contrasts, rates, rows, positives


@pytest.fixture(scope="module", params=[(a, g) for a in ROWS for g in GAPS], ids=str)
def simulated(request):
    contrasts, rates, rows, positives = simulate(*request.param, DATA_SETS)
    # One critical value serves all data sets: the test below shows how little theirs differ.
    critical = critical_value(contrasts, rates * (1 - rates) / rows)
    bands = [
        Bands(contrasts @ (k / rows), standard_errors(contrasts, rate_variance(k, rows)), critical)
        for k in positives
    ]
    return contrasts @ rates, bands


@pytest.mark.parametrize("groups", ROWS)
@pytest.mark.parametrize("gap", GAPS)
def test_critical_values_hardly_depend_on_the_estimated_variances(groups, gap):
    contrasts, rates, rows, positives = simulate(groups, gap, data_sets=20)
    critical = critical_value(contrasts, rates * (1 - rates) / rows)
    for k in positives:
        bands = parity_bands(contrasts, k / rows, rate_variance(k, rows))
        assert bands.critical == pytest.approx(critical, abs=0.02)


def test_intervals_cover_the_largest_gap(simulated):
    gaps, bands = simulated
    low, high = np.array([interval(b) for b in bands]).T
    largest = np.abs(gaps).max()
    if largest < 1e-12:
        assert np.mean(low == 0) >= COVERED
    else:
        assert np.mean((low <= largest) & (largest <= high)) >= COVERED


def test_signed_bands_cover_all_gaps_at_once_and_pointwise_bands_each_one(simulated):
    gaps, bands = simulated
    error = np.array([np.abs(b.gap - gaps) for b in bands])
    simultaneous = np.array([b.critical * b.se for b in bands])
    pointwise = np.array([half_widths(b) for b in bands])
    assert np.mean((error <= simultaneous).all(axis=1)) >= COVERED
    assert (np.mean(error <= pointwise, axis=0) >= COVERED).all()


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


@given(variances)
def test_critical_values_lie_between_one_contrast_and_sidak(variance):
    contrasts = one_block(np.ones(len(variance)))
    one = critical_value(contrasts[:1], variance)
    every = critical_value(contrasts, variance)
    sidak = np.abs(np.random.default_rng(0).standard_normal((200_000, len(variance))))
    assert one == pytest.approx(1.95996, abs=1e-5)  # of one gap it is exact; .06 below is 4.5 sd
    assert one - 0.06 <= every <= np.quantile(sidak.max(axis=1), 0.95) + 0.06


@given(st.floats(1e-4, 1.0), st.floats(1e-4, 1.0), st.integers(1, 99))
def test_two_groups_have_the_critical_value_of_one_gap(v_0, v_1, share):
    # Both gaps are the same error with opposite signs; .06 is 4.5 deviations of the Monte Carlo.
    contrasts = one_block([share, 100 - share])
    assert critical_value(contrasts, np.array([v_0, v_1])) == pytest.approx(1.96, abs=0.06)


@pytest.mark.parametrize("means", [2, 3, 10, 60, 500])
def test_range_critical_values_are_those_of_the_studentised_range(means):
    exact = studentized_range.ppf(0.95, means, np.inf) / np.sqrt(2)
    assert range_critical_value(means) == pytest.approx(exact, abs=1e-8)


def over_all_pairs(means, variance):
    """The interval of the range by its definition: the bands of all pairs at once."""
    first, second = np.triu_indices(len(means), k=1)
    se = np.sqrt(variance[first] + variance[second])
    bands = Bands(means[first] - means[second], se, range_critical_value(len(means)))
    return interval(bands)


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


@given(variances)
def test_the_range_bound_is_no_smaller_than_the_critical_value_of_the_pairs(variance):
    first, second = np.triu_indices(len(variance), k=1)
    pairs = np.eye(len(variance))[first] - np.eye(len(variance))[second]
    # Hayter's inequality; the slack is the Monte Carlo error of two quantiles.
    assert critical_value(pairs, variance) <= range_critical_value(len(variance)) + 0.06


def test_intervals_are_functions_of_their_table():
    bands = parity_bands(one_block([30, 40]), np.array([0.4, 0.5]), np.array([0.01, 0.01]))
    again = parity_bands(one_block([30, 40]), np.array([0.4, 0.5]), np.array([0.01, 0.01]))
    assert interval(bands) == interval(again)


@given(
    npst.arrays(float, 4, elements=st.floats(-1, 1)),
    npst.arrays(float, 4, elements=st.floats(0, 1)),
)
def test_the_interval_contains_zero_exactly_when_every_signed_band_does(gap, se):
    bands = Bands(gap, se, 2.0)
    low, high = interval(bands)
    assert (low == 0) == bool((np.abs(gap) <= 2.0 * se).all())
    assert low <= np.abs(gap).max() <= high


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


def test_certain_contrasts_take_no_part():
    contrasts = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]])
    variance = np.array([0.1, 0.2, 0.0])
    assert critical_value(contrasts, variance) == critical_value(contrasts[:1], variance)
    assert critical_value(contrasts[1:], variance) == 0
    assert standard_errors(contrasts, variance)[1] == 0
    assert interval(parity_bands(contrasts[1:], np.array([0.0, 0.0, 0.3]), variance)) == (0.3, 0.3)
