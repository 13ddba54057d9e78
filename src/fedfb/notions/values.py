"""Disparities of many tables at once, without intervals, and what disparity chance alone shows.

A table ``confusion[label, decision, group]`` is that of :mod:`fedfb.notions.disparity`.

Chance is a classifier that does not see groups: the favourable decisions are shuffled among the
rows. The draws are the same in every call, so a figure is a function of its table. An interval of
:mod:`fedfb.notions.intervals` contains 0 if no gap is larger than chance allows for its own group's
size; here the largest gap counts, whatever the size of its group. A tiny group may therefore have a
gap that chance alone often shows, while another group's smaller gap is beyond chance.
"""

from typing import Any

import msgspec
import numpy as np

from fedfb.core import MINIMUM_ROWS as MINIMUM_ROWS
from fedfb.core import Key, generator
from fedfb.notions.critical import LEVEL, normal_quantile, range_critical_value
from fedfb.shapes import Array, Bool, Float, Num


def enough(rows: Num[Array, "*k"], minimum: int) -> Bool[Array, "*k"]:
    """Return True where a count reaches the minimum; a count of 0 never does.

    Args:
        rows: numbers of rows. They are whole, but a sum of fractions or of fixed-point numbers may
            be 9.999999 instead of 10: half a row is tolerated.
        minimum: the smallest count; less than 1 means 1.

    >>> enough(np.array([0.0, 9.0, 9.999999, 11.0]), 10)
    array([False, False,  True,  True])
    """
    return rows > max(minimum, 1) - 0.5


def disparity_values(
    confusion: Float[Array, "*k 2 2 a"], minimum: int = MINIMUM_ROWS
) -> dict[str, Float[Array, "*k"]]:
    """Return every disparity of groups by name, without intervals; NaN where not estimable.

    Args:
        confusion: numbers of rows by label, decision and group; leading axes are tables.
        minimum: a rate of fewer rows is not estimable.

    >>> confusion = np.array([[[30.0, 20.0], [10.0, 10.0]], [[10.0, 10.0], [30.0, 60.0]]])
    >>> disparities = disparity_values(confusion[None])
    >>> {name: values.round(3).tolist() for name, values in disparities.items()}
    ... # doctest: +NORMALIZE_WHITESPACE
    {'demographic_parity': [0.111], 'spd': [0.2],
     'equal_opportunity': [0.068], 'equalized_odds': [0.068]}
    """
    names = ("demographic_parity", "spd", "equal_opportunity", "equalized_odds")
    return {name: disparity_value(name, confusion, minimum) for name in names}


def disparity_value(
    name: str, confusion: Float[Array, "*k 2 2 a"], minimum: int = MINIMUM_ROWS
) -> Float[Array, "*k"]:
    """Return one disparity of groups for every table; NaN where it is not estimable.

    Args:
        name: long name of a notion, or ``spd``.
        confusion: numbers of rows by label, decision and group; leading axes are tables.
        minimum: a rate of fewer rows is not estimable.
    """
    positives, rows = confusion[..., 1, :], confusion.sum(axis=-2)
    match name:
        case "equal_opportunity":
            return largest_rate_gaps(positives[..., 1:, :], rows[..., 1:, :], minimum)
        case "equalized_odds":
            return largest_rate_gaps(positives, rows, minimum)
    k, n = positives.sum(axis=-2), rows.sum(axis=-2)
    if name == "demographic_parity":
        return largest_rate_gaps(k[..., None, :], n[..., None, :], minimum)
    if n.shape[-1] != 2:
        return np.full(n.shape[:-1], np.nan)
    rates = k / np.where(enough(n, minimum), n, np.nan)
    return np.abs(rates[..., 0] - rates[..., 1])


def largest_rate_gaps(
    positives: Float[Array, "*k b a"], rows: Float[Array, "*k b a"], minimum: int
) -> Float[Array, "*k"]:
    """Return the value of :func:`fedfb.notions.disparity.rate_disparity` for every table.

    The value is NaN where it is not estimable. The arguments are those of ``rate_disparity``.
    """
    if rows.shape[-1] == 1:
        return np.zeros(rows.shape[:-2])
    estimable = enough(rows, minimum)
    n, k = np.where(estimable, rows, 0.0), np.where(estimable, positives, 0.0)
    total = n.sum(axis=-1, keepdims=True)
    overall = k.sum(axis=-1, keepdims=True) / np.where(total > 0, total, 1.0)
    gaps = np.abs(k / np.where(estimable, n, 1.0) - overall)
    largest = np.where(estimable, gaps, 0.0).max(axis=(-2, -1))
    return np.where(estimable.all(axis=-2).sum(axis=-1) < 2, np.nan, largest)


def largest_rate_gap(
    positives: Float[Array, "b a"], rows: Float[Array, "b a"], minimum: int
) -> float | None:
    """Return :func:`largest_rate_gaps` of one table; None where it is not estimable."""
    [value] = nan_to_none(largest_rate_gaps(positives[None], rows[None], minimum))
    return value


def nan_to_none(values: Float[Array, "*k"]) -> list[Any]:
    """Return an array as nested lists for JSON, with None in place of NaN.

    >>> nan_to_none(np.array([0.5, np.nan]))
    [0.5, None]
    """
    plain = values.astype(object)
    plain[np.isnan(values)] = None
    return plain.tolist()


def four_fifths(confusion: Float[Array, "2 2 a"], minimum: int = MINIMUM_ROWS) -> float | None:
    r"""Return the ratio that the four-fifths rule compares with 0.8.

    .. math:: \min_a P_a / \max_a P_a

    Only estimable groups count. The ratio is None if no group has a positive decision, or if fewer
    than two of several groups are estimable.

    >>> confusion = np.array([[[30.0, 20.0], [10.0, 10.0]], [[10.0, 10.0], [30.0, 60.0]]])
    >>> round(four_fifths(confusion), 3)
    0.714
    """
    k, n = confusion[:, 1].sum(axis=0), confusion.sum(axis=(0, 1))
    estimable = enough(n, minimum)
    if estimable.sum() < min(len(n), 2):
        return None
    rates = k[estimable] / n[estimable]
    return float(rates.min() / rates.max()) if rates.max() > 0 else None


def four_fifths_interval(
    positives: Float[Array, " a"], rows: Float[Array, " a"]
) -> tuple[float, float]:
    r"""Return the 95 % interval of the least ratio of two rates, from all pairs at once.

    .. math:: \log\frac{p_a}{p_b} \pm c \sqrt{v_a + v_b}, \qquad p = \frac{k + .5}{n + .5}, \qquad
              v = \max\Big(\frac{1}{k + .5} - \frac{1}{n + .5},\;
              \frac{1 - \tilde p}{n \tilde p}\Big), \qquad \tilde p = \frac{k + 2}{n + 4}

    The variances of the logarithms are those of Walter (1975), which also hold where a rate is 0.
    They are at least those of rates moved towards one half, which also hold where a rate is 1. The
    critical value of the upper end is Tukey's: the pair with the smallest ratio is selected after
    all pairs were compared. The lower end fails only if that of the pair with the smallest true
    ratio fails, so its critical value is that of one pair.

    >>> low, high = four_fifths_interval(np.array([40.0, 70.0]), np.array([80.0, 100.0]))
    >>> round(low, 2), round(high, 2)
    (0.56, 0.93)
    """
    logarithm = np.log((positives + 0.5) / (rows + 0.5))
    adjusted = (positives + 2) / (rows + 4)
    walter = 1 / (positives + 0.5) - 1 / (rows + 0.5)
    variance = np.maximum(walter, (1 - adjusted) / (rows * adjusted))
    pair = ~np.eye(len(rows), dtype=bool)
    ratio = (logarithm[:, None] - logarithm[None, :])[pair]
    se = np.sqrt(variance[:, None] + variance[None, :])[pair]
    low = np.exp((ratio - normal_quantile(LEVEL) * se).min())
    high = np.exp((ratio + range_critical_value(len(rows)) * se).min())
    return float(low), float(min(high, 1.0))


CHANCE_DRAWS = 5_000
MOST_CHANCE_NUMBERS = 2_000_000
"""Of more clients than these numbers allow, fewer ranges are drawn, at least FEWEST_DRAWS."""

FEWEST_CHANCE_DRAWS = 200
_KEY: Key = (0, 9)


class Chance(msgspec.Struct, frozen=True):
    """Disparities of a classifier that does not see groups: mean, quantile, share as large."""

    mean: float
    quantile_95: float
    share_as_large: float


def draw_blind_disparities(
    positives: Float[Array, "b a"], rows: Float[Array, "b a"], minimum: int
) -> Float[Array, " d"]:
    r"""Return disparities of a classifier that favours as many rows, whatever their group.

    .. math:: (K_1, \dots, K_A) \sim \mathrm{Hypergeometric}(n_1, \dots, n_A; \textstyle\sum_a k_a)

    in every block: the favourable decisions are shuffled among its rows.

    Args:
        positives: favourable decisions by block and group.
        rows: rows by block and group.
        minimum: fewest rows of a group that is compared.

    """
    largest = np.zeros(CHANCE_DRAWS)
    for block, (k, n) in enumerate(zip(positives, rows, strict=True)):
        large = enough(n, minimum)
        sizes, total = np.rint(n[large]).astype(np.int64), round(float(k[large].sum()))
        draws = generator((*_KEY, block)).multivariate_hypergeometric(
            sizes, total, size=CHANCE_DRAWS, method="marginals"
        )
        gaps = np.abs(draws / sizes - total / sizes.sum()).max(axis=1)
        largest = np.maximum(largest, gaps)
    return largest


def summarize_draws(draws: Float[Array, " d"], value: float) -> Chance:
    """Return mean and quantile of drawn disparities, and the share as large as the measured one.

    Args:
        draws: disparities drawn by chance.
        value: the measured disparity.

    """
    # The measured disparity counts as one more draw, so that the share is never 0.
    share = (np.sum(draws >= value - 1e-12) + 1) / (len(draws) + 1)
    # Not numpy.quantile: it imports numpy's masked arrays, which a plain run does not need.
    quantile = np.sort(draws)[-(-95 * len(draws) // 100) - 1]
    return Chance(float(draws.mean()), float(quantile), float(share))


def expect_losses_by_chance(variance: Float[Array, " i"], value: float) -> Chance:
    """Return the range of mean losses that clients with the same true mean would show.

    Means are taken as normal. Each client keeps the variance of its mean loss.

    Args:
        variance: variance of each client's mean loss.
        value: the measured range.

    """
    draws = max(min(CHANCE_DRAWS, MOST_CHANCE_NUMBERS // len(variance)), FEWEST_CHANCE_DRAWS)
    means = generator((*_KEY, len(variance))).standard_normal((draws, len(variance)))
    return summarize_draws(np.ptp(means * np.sqrt(variance), axis=1), value)
