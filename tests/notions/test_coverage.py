"""How often the intervals of 1,000 simulated federations cover the truth."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from fedfb.notions.critical import critical_value, standard_errors
from fedfb.notions.disparity import rate_disparity
from fedfb.notions.intervals import mix_variance, parity_contrasts, rate_ends, rate_variance
from fedfb.notions.values import four_fifths_interval

FEDERATIONS = 1_000
# Of 1,000 intervals that truly cover 95 %, fewer than 93 % or more than 97 % cover with probability
# 4e-3. The bounds are those asked for; seeds are fixed, as of 88 checks one may fail by chance.
FEWEST, MOST = 0.93, 0.97
ONE_SIGNED_BAND = 1.959964
CLIENTS = {
    2: [[300, 100], [80, 260], [120, 140]],
    4: [[150, 60, 90, 40], [30, 200, 60, 80], [70, 40, 150, 130]],
    5: [[150, 60, 90, 40, 70], [30, 200, 60, 80, 30], [70, 40, 150, 130, 100]],
}
"""Rows by client and group: clients are unlike, and some have few of a group."""

cases = pytest.mark.parametrize(
    ("groups", "gap"), [(a, gap) for a in CLIENTS for gap in (0.0, 0.03, 0.1, 0.4)]
)


def true_rates(shares, gap):
    """Rates around one half whose largest distance from the pooled rate is ``gap``."""
    direction = np.arange(len(shares), dtype=float)
    direction -= shares @ direction
    return 0.5 + gap * direction / np.abs(direction).max()


def drawn(groups, gap, drawn_mix=False):
    """Return the true gaps, and the summed tables (positives, rows) of all federations."""
    rng = np.random.default_rng((groups, int(100 * gap), drawn_mix))
    clients = np.array(CLIENTS[groups])
    shares = clients.sum(axis=0) / clients.sum()
    rates = true_rates(shares, gap)
    if drawn_mix:
        sizes = [rng.multinomial(client.sum(), shares, FEDERATIONS) for client in clients]
    else:
        sizes = [np.tile(client, (FEDERATIONS, 1)) for client in clients]
    positives = sum(rng.binomial(size, rates) for size in sizes)
    return rates - shares @ rates, positives.astype(float), sum(sizes).astype(float)


def bands(positives, rows, drawn_mix, critical=None):
    """Gap, standard error and critical value of one federation, as rate_disparity has them."""
    block, means = np.zeros(len(rows), dtype=int), positives / rows
    contrasts, variance = parity_contrasts(rows, block), rate_variance(positives, rows)
    if critical is None:
        critical = critical_value(contrasts, variance)
    se = standard_errors(contrasts, variance)
    if drawn_mix:
        se = np.sqrt(se**2 + mix_variance(means, rows, block))
    return contrasts @ means, se, critical


@pytest.fixture(scope="module", params=[False, True], ids=["given mix", "drawn mix"])
def drawn_mix(request):
    return request.param


@cases
def test_intervals_cover_each_signed_gap_and_the_largest(groups, gap, drawn_mix):
    truth, positives, rows = drawn(groups, gap, drawn_mix)
    # Critical values hardly depend on the drawn table (test_intervals.py): one serves all.
    _, _, critical = bands(positives[0], rows[0], drawn_mix)
    found = [bands(k, n, drawn_mix, critical) for k, n in zip(positives, rows, strict=True)]
    gaps, se = (np.array([one[part] for one in found]) for part in (0, 1))
    covered = np.mean(np.abs(gaps - truth) <= ONE_SIGNED_BAND * se, axis=0)
    assert ((covered >= FEWEST) & (covered <= MOST)).all(), covered
    low = np.maximum(np.abs(gaps) - critical * se, 0.0).max(axis=1)
    high = (np.abs(gaps) + critical * se).max(axis=1)
    largest = np.abs(truth).max()
    if gap == 0:
        assert np.mean(low == 0) >= FEWEST
    else:
        assert np.mean((low <= largest) & (largest <= high)) >= FEWEST


def test_these_are_the_intervals_that_a_disparity_has(drawn_mix):
    _, positives, rows = drawn(4, 0.1, drawn_mix)
    for k, n in zip(positives[:5], rows[:5], strict=True):
        gaps, se, critical = bands(k, n, drawn_mix)
        estimate = rate_disparity(k[None], n[None], 10, drawn_mix)
        assert estimate.gaps == pytest.approx(gaps)
        assert estimate.high == pytest.approx((np.abs(gaps) + critical * se).max())
        assert estimate.low == pytest.approx(np.maximum(np.abs(gaps) - critical * se, 0).max())


@cases
def test_intervals_cover_the_four_fifths_ratio(groups, gap):
    truth, positives, rows = drawn(groups, gap)
    rates = truth + 0.5
    ends = [four_fifths_interval(k, n) for k, n in zip(positives, rows, strict=True)]
    low, high = np.array(ends).T
    ratio = rates.min() / rates.max()
    assert np.mean((low <= ratio) & (ratio <= high)) >= FEWEST


@pytest.mark.parametrize(("k", "n"), [(0, 10), (3, 10), (10, 10), (250, 1000)])
def test_the_interval_of_one_rate_is_wilsons_corrected_for_continuity(k, n):
    low, high = rate_ends(np.array([float(k)]), np.array([float(n)]))
    expected = binomtest(k, n).proportion_ci(method="wilsoncc")
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize("n", [10, 30, 200])
def test_the_interval_of_one_rate_covers_every_rate(n):
    """Exactly, over all counts: rates of groups and clients, and bins of calibration."""
    k = np.arange(n + 1.0)
    low, high = rate_ends(k, np.full(n + 1, float(n)))
    for rate in np.linspace(0.001, 0.999, 999):
        assert binom.pmf(k, n, rate)[(low <= rate) & (rate <= high)].sum() >= 0.947


@pytest.mark.parametrize("rows", [[30, 60], [30, 60, 90, 40]])
@pytest.mark.parametrize("rate", [0.05, 0.9])
def test_intervals_cover_the_four_fifths_ratio_of_small_groups(rows, rate):
    rng = np.random.default_rng((len(rows), int(100 * rate)))
    positives = rng.binomial(rows, rate, (FEDERATIONS, len(rows))).astype(float)
    size = np.array(rows, dtype=float)
    low, high = np.array([four_fifths_interval(k, size) for k in positives]).T
    assert np.mean((low <= 1) & (high >= 1)) >= FEWEST
