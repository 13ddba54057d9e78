"""How often the intervals of several seeds contain the truth, in 2,000 simulated experiments each.

Every experiment trains K models whose rates scatter around those of the groups (``training`` is
the standard deviation) and tests them on rows that all seeds share, or that each seed draws. Rows
are drawn from a population, so the sizes of groups vary too.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import ndtri

from fedfb.notions import intervals
from fedfb.notions.disparity import loss_variances, notion_bands
from fedfb.notions.intervals import range_interval
from fedfb.notions.over_seeds import (
    MeanDisparity,
    difference_of_disparities,
    difference_of_rates,
    mean_disparity,
    mean_range,
    mean_rate,
)
from slow_cases import slow_unless

EXPERIMENTS = 2_000
# An interval that truly covers 94.2 % contains fewer than 93 % of 2,000 truths with probability
# .01, one that covers 95 % with 4e-5. All that are checked here cover at least 94.2 % in 20,000
# experiments (measured apart), and seeds are fixed.
FEWEST = 0.93
SHARES = {
    2: np.array([0.4, 0.6]),
    4: np.array([0.1, 0.2, 0.3, 0.4]),
    24: np.linspace(1, 3, 24) / 48,
}
ROWS = 1_000
NAME = "demographic_parity"


class Drawn(NamedTuple):
    """Positive decisions and rows by experiment, seed and group, and the models' true rates."""

    positives: np.ndarray
    rows: np.ndarray
    rates: np.ndarray


def rates_with_gap(groups, gap):
    """Rates around one half whose largest distance from the pooled rate is ``gap``."""
    shares = SHARES[groups]
    direction = np.arange(groups, dtype=float)
    direction -= shares @ direction
    return 0.5 + gap * direction / np.abs(direction).max()


def gaps_of(rates, shares):
    return rates - (rates * shares).sum(axis=-1, keepdims=True)


def true_disparity(groups, gap, training):
    """The mean over trainings of the models' true disparities, and that of their mean gaps."""
    rng, rates = np.random.default_rng(0), rates_with_gap(groups, gap)
    if not training:
        return (np.abs(gaps_of(rates, SHARES[groups])).max(),) * 2
    models = np.clip(rates + training * rng.standard_normal((100_000, groups)), 0.001, 0.999)
    gaps = gaps_of(models, SHARES[groups])
    of_means = 0.0 if gap == 0 else np.abs(gaps.mean(axis=0)).max()
    return np.abs(gaps).max(axis=1).mean(), of_means


def draw(rng, rates, training, seeds, shared, number=EXPERIMENTS):
    """Draw experiments; on shared rows a model favours all whom a more severe one favours."""
    groups = len(rates)
    models = rates + training * rng.standard_normal((number, seeds, groups))
    models = np.clip(models, 0.001, 0.999)
    if not shared:
        rows = rng.multinomial(ROWS, SHARES[groups], (number, seeds))
        return Drawn(rng.binomial(rows, models), rows, models)
    rows = rng.multinomial(ROWS, SHARES[groups], number)
    order = np.argsort(models, axis=1)
    ascending = np.take_along_axis(models, order, axis=1)
    positives, left, below = [np.zeros_like(rows)], rows, np.zeros(rows.shape)
    for rate in ascending.swapaxes(0, 1):
        more = rng.binomial(left, (rate - below) / (1 - below))
        positives.append(positives[-1] + more)
        left, below = left - more, rate
    by_seed = np.empty(models.shape)
    np.put_along_axis(by_seed, order, np.stack(positives[1:], axis=1).astype(float), axis=1)
    return Drawn(by_seed, np.repeat(rows[:, None], seeds, axis=1), models)


def over_seeds(drawn, shared):
    """Return what is printed of every experiment, through the functions that print it."""
    number, seeds, groups = drawn.positives.shape
    k, n = (part.reshape(-1, groups).astype(float) for part in drawn[:2])
    # All that demographic parity needs: decisions and rows; labels do not matter.
    confusion = np.zeros((len(k), 2, 2, groups))
    confusion[:, 1, 1], confusion[:, 1, 0] = k, n - k
    bands = notion_bands(NAME, confusion, minimum=1)
    values = np.abs(bands.gap).max(axis=1)
    _, highs = intervals.intervals(bands)
    *ends, values, highs = (
        np.moveaxis(part.reshape(number, seeds, *part.shape[1:]), 1, 0)
        for part in (*bands[:-1], values, highs)
    )
    return mean_disparity(values, highs, intervals.Bands(*ends, bands.critical), shared)


def share_covered(low, high, truth):
    return np.mean((np.asarray(low) <= truth + 1e-12) & (truth - 1e-12 <= np.asarray(high)))


CASES = [
    (groups, gap, training, seeds, shared)
    for groups, gap, training in product((2, 4), (0.0, 0.03, 0.4), (0.0, 0.03))
    for seeds, shared in ((1, 1.0), (5, 0.0), (5, 1.0), (10, 0.0), (10, 1.0))
    if seeds > 1 or not training  # one model is what it is
] + [(24, 0.0, 0.0, 5, 0.0), (24, 0.0, 0.03, 5, 1.0), (24, 0.03, 0.0, 5, 1.0)]


def is_usual(groups, gap, training, seeds, shared):
    """Five seeds that share their test rows, as published data do."""
    return groups == 4 and seeds == 5 and shared == 1 and bool(training)


@pytest.mark.parametrize(
    ("groups", "gap", "training", "seeds", "shared"), slow_unless(is_usual, CASES)
)
def test_intervals_cover_the_mean_disparity(groups, gap, training, seeds, shared):
    rng = np.random.default_rng((groups, int(100 * gap), int(100 * training), seeds, int(shared)))
    drawn = draw(rng, rates_with_gap(groups, gap), training, seeds, shared)
    found = over_seeds(drawn, shared)
    trained = np.abs(gaps_of(drawn.rates, SHARES[groups])).max(axis=2).mean(axis=1)
    for truth in (*true_disparity(groups, gap, training), trained):
        assert share_covered(found.low, found.high, truth) >= FEWEST
    assert ((found.low <= found.mean) & (found.mean <= found.high)).all()


@pytest.mark.parametrize("rate", [0.03, 0.5, 0.95])
@pytest.mark.parametrize("training", [0.0, 0.02])
@pytest.mark.parametrize(("seeds", "shared"), [(1, 1.0), (5, 0.0), (5, 1.0), (10, 0.0), (10, 1.0)])
@pytest.mark.parametrize("rows", slow_unless(lambda rows: rows == 30, [30, 300]))
def test_intervals_cover_the_mean_of_a_rate(rate, training, seeds, shared, rows):
    """Accuracies, and the rates of groups and clients on a page."""
    rng = np.random.default_rng((int(100 * rate), int(100 * training), seeds, int(shared), rows))
    training = training if seeds > 1 else 0.0
    models = rate + training * rng.uniform(-1, 1, (seeds, EXPERIMENTS))
    latent = rng.random((1 if shared else seeds, EXPERIMENTS, rows), dtype=np.float32)
    rates = (latent < models[..., None]).mean(axis=2)
    low, high = mean_rate(rates, np.full(rates.shape, float(rows)), shared)
    assert share_covered(low, high, rate) >= FEWEST


class TwoMethods(NamedTuple):
    """The measured disparities of two methods, as they are printed, and their accuracies."""

    disparities: tuple[MeanDisparity, MeanDisparity]
    by_seed: np.ndarray
    accuracies: np.ndarray


def two_methods(rng, gaps, training, seeds, shared, alike, groups=2, rows=300):
    """Draw two methods that decide on the same rows; ``alike`` correlates their decisions.

    Positive decisions count as right here, so that rates are accuracies too.
    """
    number = EXPERIMENTS
    draws = 1 if shared else seeds
    group = rng.choice(groups, p=SHARES[groups], size=(number, draws, rows))
    common, other = (rng.standard_normal((number, draws, rows), dtype=np.float32) for _ in range(2))
    latent = common, np.sqrt(alike) * common + np.sqrt(1 - alike) * other
    found, accuracies, values = [], [], []
    for own, gap in zip(latent, gaps, strict=True):
        models = rates_with_gap(groups, gap) + training * rng.standard_normal(
            (number, seeds, groups)
        )
        bars = ndtri(np.clip(models, 0.001, 0.999)).astype(np.float32)
        decided = [(group == a) & (own < bars[:, :, a, None]) for a in range(groups)]
        positives = np.stack([part.sum(axis=2) for part in decided], axis=2)
        sizes = np.stack([(group == a).sum(axis=2) for a in range(groups)], axis=2)
        sizes = np.broadcast_to(sizes, positives.shape)
        found.append(over_seeds(Drawn(positives, sizes, models), shared))
        accuracies.append(positives.sum(axis=2).T / rows)
        rates = positives / sizes
        shares = sizes / rows
        values.append(np.abs(gaps_of(rates, shares)).max(axis=2).T)
    return TwoMethods(tuple(found), values[0] - values[1], np.stack(accuracies))


@pytest.mark.parametrize("gaps", [(0.0, 0.0), (0.1, 0.0), (0.1, 0.1), (0.1, -0.1), (0.4, 0.03)])
@pytest.mark.parametrize("alike", slow_unless(lambda alike: alike > 0, [0.0, 0.9]))
@pytest.mark.parametrize(
    ("training", "seeds", "shared"),
    slow_unless(
        lambda training, seeds, shared: seeds == 1 or (training > 0 and shared == 1),
        [(0.0, 1, 1.0), (0.0, 5, 0.0), (0.03, 5, 0.0), (0.03, 5, 1.0), (0.0, 10, 1.0)],
    ),
)
def test_intervals_cover_the_difference_of_two_methods(gaps, alike, training, seeds, shared):
    rng = np.random.default_rng((int(10 * alike), int(100 * training), seeds, int(shared)))
    found = two_methods(rng, gaps, training, seeds, shared, alike)
    one, other = (true_disparity(2, abs(gap), training)[0] for gap in gaps)
    ends = difference_of_disparities(*found.disparities, found.by_seed)
    assert share_covered(*ends, one - other) >= FEWEST
    rates = [rates_with_gap(2, gap) @ SHARES[2] for gap in gaps]
    rows = np.full(found.accuracies[0].shape, 300.0)
    ends = difference_of_rates(*found.accuracies, rows, shared)
    assert share_covered(*ends, rates[0] - rates[1]) >= FEWEST


@pytest.mark.parametrize("gap", [0.0, 0.1])
def test_intervals_cover_where_seeds_split_one_file(gap):
    """Test rows of two splits overlap by the test's share of the file, three tenths."""
    rng, number, rows, seeds = np.random.default_rng(int(10 * gap)), EXPERIMENTS, 1_000, 6
    group = rng.choice(2, p=SHARES[2], size=(number, rows))
    decision = rng.random((number, rows)) < rates_with_gap(2, gap)[group]
    chosen = [rng.permuted(np.arange(rows)[None].repeat(number, 0), axis=1)[:, :300]
              for _ in range(seeds)]  # fmt: skip
    parts = [
        (np.take_along_axis(group, own, axis=1), np.take_along_axis(decision, own, axis=1))
        for own in chosen
    ]
    sizes = np.stack([[(g == a).sum(axis=1) for a in range(2)] for g, _ in parts])
    positives = np.stack([[((g == a) & d).sum(axis=1) for a in range(2)] for g, d in parts])
    drawn = Drawn(*(part.transpose(2, 0, 1) for part in (positives, sizes)), np.zeros(0))
    found = over_seeds(drawn, 0.3)
    assert share_covered(found.low, found.high, gap) >= FEWEST
    accuracy = mean_rate(positives.sum(axis=1) / 300, np.full((seeds, number), 300.0), 0.3)
    assert share_covered(*accuracy, rates_with_gap(2, gap) @ SHARES[2]) >= FEWEST


@pytest.mark.parametrize(("rows", "apart"), [(10, 0.0), (100, 0.2)])
@pytest.mark.parametrize(("seeds", "shared"), [(1, 1.0), (5, 0.0), (5, 1.0)])
@pytest.mark.parametrize("clients", slow_unless(lambda clients: clients == 2, [2, 20]))
def test_intervals_cover_the_mean_range_of_skewed_losses(clients, rows, apart, seeds, shared):
    """Client parity: Gamma losses, and training that moves every client's by a tenth."""
    rng, number = np.random.default_rng((clients, rows, int(10 * apart), seeds, int(shared))), 400
    # At 95 % fewer than 91 % of 400 are covered with probability 5e-4.
    draws, expected = 1 if shared else seeds, 0.5 + apart * np.linspace(0, 1, clients)
    training = 0.0 if seeds == 1 else 0.05
    models = expected * (1 + training * rng.standard_normal((number, seeds, clients)))
    unit = rng.gamma(2, 0.5, (number, draws, clients, rows))
    total, squares = unit.sum(axis=3) * models, (unit**2).sum(axis=3) * models**2
    covered, many = [], np.full((seeds, clients), float(rows))
    big = expected * (1 + training * rng.standard_normal((20_000, clients)))
    truth = np.ptp(big, axis=1).mean()
    for t, q in zip(total, squares, strict=True):
        variance = loss_variances(np.stack([many, t, q], axis=1), 2)
        ends = [range_interval(m, v)[1] for m, v in zip(t / rows, variance, strict=True)]
        values = np.ptp(t / rows, axis=1)
        found = mean_range(values, np.array(ends), t / rows, variance, shared)
        covered.append(found.low <= truth + 1e-12 and truth <= found.high)
    assert np.mean(covered) >= 0.91
