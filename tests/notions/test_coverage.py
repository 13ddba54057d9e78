"""How often the intervals of 1,000 simulated federations cover the truth."""

import numpy as np
import pytest
from scipy.stats import binom

from fedfb.notions.disparity import rate_disparity, rate_estimates
from fedfb.notions.intervals import intervals, rate_ends
from fedfb.notions.values import four_fifths_interval

FEDERATIONS = 1_000
# Of 1,000 intervals that truly cover 95.5 %, fewer than 93 % cover with probability 2e-4.
FEWEST = 0.93
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


@pytest.fixture(scope="module", params=[False, True], ids=["given mix", "drawn mix"])
def drawn_mix(request):
    return request.param


@cases
def test_intervals_cover_each_signed_gap_and_the_largest(groups, gap, drawn_mix):
    truth, positives, rows = drawn(groups, gap, drawn_mix)
    _, bands = rate_estimates(positives[:, None], rows[:, None], 10, drawn_mix)
    covered = np.mean((bands.alone_low <= truth) & (truth <= bands.alone_high), axis=0)
    # An exact interval of counts covers more than 95 %, and a mix taken as fixed is a bound too.
    assert ((covered >= FEWEST) & (covered <= (0.99 if drawn_mix else 0.999))).all(), covered
    low, high = intervals(bands)
    largest = np.abs(truth).max()
    if gap == 0:
        assert np.mean(low == 0) >= FEWEST
    else:
        assert np.mean((low <= largest) & (largest <= high)) >= FEWEST


def test_the_gaps_of_a_disparity_are_the_differences_from_the_pooled_rate(drawn_mix):
    _, positives, rows = drawn(4, 0.1, drawn_mix)
    for k, n in zip(positives[:5], rows[:5], strict=True):
        estimate = rate_disparity(k[None], n[None], 10, drawn_mix)
        assert estimate.gaps == pytest.approx(k / n - k.sum() / n.sum())
        assert estimate.value == pytest.approx(np.abs(estimate.gaps).max())
        assert estimate.low <= estimate.value <= estimate.high


@cases
def test_intervals_cover_the_four_fifths_ratio(groups, gap):
    truth, positives, rows = drawn(groups, gap)
    rates = truth + 0.5
    ends = [four_fifths_interval(k, n) for k, n in zip(positives, rows, strict=True)]
    low, high = np.array(ends).T
    ratio = rates.min() / rates.max()
    assert np.mean((low <= ratio) & (ratio <= high)) >= FEWEST


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
