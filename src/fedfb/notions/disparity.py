"""Disparities of a classifier with their intervals, from tables of counts; for evaluation only.

A confusion table ``confusion[label, decision, group]`` holds numbers of rows. The numbers are
fractional where decisions are randomised. Tables can be added, so a table may be a secure sum over
clients.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedfb.notions.critical import LEVEL
from fedfb.notions.intervals import (
    Bands,
    difference_band,
    intervals,
    parity_bands,
    range_interval,
    steady_variance,
)
from fedfb.notions.values import MINIMUM_ROWS, enough
from fedfb.shapes import Array, Bool, Float


class DisparityEstimate(NamedTuple):
    """A disparity with its 95 % interval; all three are None where it is not estimable.

    ``gaps`` are signed; a gap that is left out is None. ``not_estimable`` holds the numbers of the
    groups (for client parity: clients) that have a rate with too few rows.
    """

    value: float | None
    low: float | None
    high: float | None
    gaps: tuple[float | None, ...]
    not_estimable: tuple[int, ...]


def not_estimable(gaps: int, left_out: tuple[int, ...] = ()) -> DisparityEstimate:
    """Return the estimate of a disparity that cannot be estimated.

    Args:
        gaps: number of gaps, all None.
        left_out: numbers of the groups with too few rows.

    >>> not_estimable(2, left_out=(1,))
    DisparityEstimate(value=None, low=None, high=None, gaps=(None, None), not_estimable=(1,))
    """
    return DisparityEstimate(None, None, None, (None,) * gaps, left_out)


def make_estimates(
    bands: Bands, gaps: Sequence[tuple[float | None, ...]], left_out: tuple[int, ...]
) -> list[DisparityEstimate]:
    """Return for every run the estimate of the largest absolute gap of rates.

    Args:
        bands: gaps, standard errors and critical values, with an axis of runs.
        gaps: for every run the signed gaps, None where left out.
        left_out: numbers of the groups with too few rows.
    """
    largest = np.abs(bands.gap).max(axis=1)
    ends = (part.tolist() for part in (largest, *intervals(bands)))
    return [
        DisparityEstimate(value, low, min(high, 1.0), run_gaps, left_out)
        for value, low, high, run_gaps in zip(*ends, gaps, strict=True)
    ]


def rate_disparity(
    positives: Float[Array, "b a"],
    rows: Float[Array, "b a"],
    minimum: int,
    drawn_mix: bool = True,
) -> DisparityEstimate:
    r"""Compare each group's rate with the pooled rate of the estimable groups, block by block.

    .. math:: \max_{b,a} \left| \frac{k_{ba}}{n_{ba}}
              - \frac{\sum_{a'} k_{ba'}}{\sum_{a'} n_{ba'}} \right|

    A rate with too few rows is left out of the maximum and of the pooled rate, and the estimate
    names its group. At least two groups must be estimable in all blocks. If the schema has a single
    group, the disparity is 0. The gaps are ordered by block, then by group.

    Args:
        positives: positive decisions k by block and group.
        rows: rows n by block and group.
        minimum: a rate of fewer rows is not estimable.
        drawn_mix: whether the number of rows of each group is random too. False: the interval
            takes these numbers as fixed.

    >>> rate_disparity(np.array([[16.0, 48.0]]), np.array([[64.0, 64.0]]), minimum=10).gaps
    (-0.25, 0.25)
    """
    return rate_estimate(positives, rows, minimum, drawn_mix)[0]


def rate_estimate(
    positives: Float[Array, "b a"],
    rows: Float[Array, "b a"],
    minimum: int,
    drawn_mix: bool = True,
) -> tuple[DisparityEstimate, Bands | None]:
    """Return :func:`rate_disparity`, and the bands of its estimable gaps or None.

    The arguments are those of :func:`rate_disparity`.
    """
    [estimate], bands = rate_estimates(positives[None], rows[None], minimum, drawn_mix)
    if bands is None:
        return estimate, None
    gap, low, high, alone_low, alone_high, critical = bands
    return estimate, Bands(gap[0], low[0], high[0], alone_low[0], alone_high[0], critical)


def rate_estimates(
    positives: Float[Array, "r b a"],
    rows: Float[Array, "r b a"],
    minimum: int,
    drawn_mix: bool = True,
) -> tuple[list[DisparityEstimate], Bands | None]:
    """Return :func:`rate_estimate` for every run.

    The arguments are those of :func:`rate_disparity`, with a leading run axis. The rows are the
    same in all runs: ``rows[0]`` decides for all of them what is estimable.
    """
    runs, blocks, groups = rows.shape
    if groups == 1:
        return [DisparityEstimate(0.0, 0.0, 0.0, (0.0,) * blocks, ())] * runs, None
    estimable = enough(rows[0], minimum)
    complete = estimable.all(axis=0)
    left_out = tuple(np.flatnonzero(~complete).tolist())
    if complete.sum() < 2:
        return [not_estimable(blocks * groups, left_out)] * runs, None
    bands = rate_bands(positives, rows, estimable, drawn_mix)
    return make_estimates(bands, place_values(bands.gap, estimable.ravel()), left_out), bands


def rate_bands(
    positives: Float[Array, "r b a"],
    rows: Float[Array, "r b a"],
    estimable: Bool[Array, "b a"],
    drawn_mix: bool = True,
    level: float = LEVEL,
) -> Bands:
    """Return the bands of the estimable signed gaps, ordered by block, then by group.

    Args:
        positives: positive decisions by run, block and group.
        rows: rows by run, block and group.
        estimable: the rates with enough rows.
        drawn_mix: see :func:`rate_disparity`.
        level: probability with which all bands hold.
    """
    block = np.nonzero(estimable)[0]
    return parity_bands(positives[:, estimable], rows[:, estimable], block, drawn_mix, level)


def place_values(
    values: Float[Array, "r k"], where: Bool[Array, " n"]
) -> list[tuple[float | None, ...]]:
    """Return for every run a tuple with its values where ``where`` is True, and None elsewhere.

    Args:
        values: by run, as many as ``where`` has True entries.
        where: the places of the values.

    >>> place_values(np.array([[0.5]]), np.array([False, True]))
    [(None, 0.5)]
    """
    places = np.where(where, np.cumsum(where) - 1, -1).tolist()
    return [tuple(None if place < 0 else run[place] for place in places) for run in values.tolist()]


def notion_blocks(
    name: str, confusion: Float[Array, "r 2 2 a"]
) -> tuple[Float[Array, "r b a"], Float[Array, "r b a"]]:
    """Return the positive decisions and the rows that a notion compares, by block and group.

    Equalized odds has one block per label. Every other notion has one block.
    """
    match name:
        case "equal_opportunity":
            return confusion[:, 1:, 1], confusion[:, 1:].sum(axis=2)
        case "equalized_odds":
            return confusion[:, :, 1], confusion.sum(axis=2)
    return confusion[:, :, 1].sum(axis=1)[:, None], confusion.sum(axis=(1, 2))[:, None]


def notion_bands(
    name: str,
    confusion: Float[Array, "r 2 2 a"],
    minimum: int = MINIMUM_ROWS,
    level: float = LEVEL,
) -> Bands | None:
    """Return every run's bands of the gaps that are estimable in all runs.

    Args:
        name: long name of a notion, or ``spd``.
        confusion: one table per run. Runs may have different rows.
        minimum: a rate of fewer rows is not estimable.
        level: probability with which all bands of a run hold; for ``spd`` always the usual one.

    Returns:
        None if fewer than two groups are estimable in all runs.
    """
    k, n = notion_blocks(name, confusion)
    estimable = np.all(enough(n, minimum), axis=0)
    if estimable.all(axis=0).sum() < 2:
        return None
    if name == "spd":
        return difference_band(k[:, 0], n[:, 0])
    return rate_bands(k, n, estimable, drawn_mix=True, level=level)


def demographic_parity(
    confusion: Float[Array, "r 2 2 a"], minimum: int = MINIMUM_ROWS
) -> list[DisparityEstimate]:
    r"""Return the largest distance of a group's rate of positive decisions from the overall one.

    .. math:: \max_a |P_a - P|, \qquad P_a = P(\hat y = 1 \mid a)

    >>> confusion = np.array([[[30.0, 20.0], [10.0, 10.0]], [[10.0, 10.0], [30.0, 60.0]]])
    >>> [estimate] = demographic_parity(confusion[None])
    >>> round(estimate.value, 3)   # rates 40/80 and 70/100, overall 110/180
    0.111
    """
    return rate_estimates(*notion_blocks("demographic_parity", confusion), minimum)[0]


def spd(confusion: Float[Array, "r 2 2 a"], minimum: int = MINIMUM_ROWS) -> list[DisparityEstimate]:
    r"""Return the statistical parity difference of two groups; of more or fewer, no estimate.

    .. math:: |P_0 - P_1|

    The one gap is :math:`P_0 - P_1`. Not demographic parity's number: that is
    :math:`\max(\pi_0, \pi_1)` times this one.

    >>> confusion = np.array([[[30.0, 20.0], [10.0, 10.0]], [[10.0, 10.0], [30.0, 60.0]]])
    >>> [estimate] = spd(confusion[None])
    >>> round(estimate.value, 3)
    0.2
    """
    runs, groups = len(confusion), confusion.shape[3]
    if groups != 2:
        return [not_estimable(0)] * runs
    k, n = confusion[:, :, 1].sum(axis=1), confusion.sum(axis=(1, 2))
    left_out = tuple(np.flatnonzero(~enough(n[0], minimum)).tolist())
    if left_out:
        return [not_estimable(1, left_out)] * runs
    bands = difference_band(k, n)
    return make_estimates(bands, place_values(bands.gap, np.array([True])), ())


def equal_opportunity(
    confusion: Float[Array, "r 2 2 a"], minimum: int = MINIMUM_ROWS
) -> list[DisparityEstimate]:
    r"""Return the largest distance between a group's true positive rate and the overall one.

    .. math:: \max_a |P(\hat y = 1 \mid y = 1, a) - P(\hat y = 1 \mid y = 1)|

    >>> confusion = np.array([[[30.0, 20.0], [10.0, 10.0]], [[10.0, 10.0], [30.0, 60.0]]])
    >>> [estimate] = equal_opportunity(confusion[None])
    >>> round(estimate.value, 3)   # rates 30/40 and 60/70, overall 90/110
    0.068
    """
    return rate_estimates(*notion_blocks("equal_opportunity", confusion), minimum)[0]


def equalized_odds(
    confusion: Float[Array, "r 2 2 a"], minimum: int = MINIMUM_ROWS
) -> list[DisparityEstimate]:
    r"""Return the largest distance between a group's rate and the overall one, over both labels.

    .. math:: \max_{y,a} |P(\hat y = 1 \mid y, a) - P(\hat y = 1 \mid y)|

    The gaps of label 0 come first, then those of label 1. A group with too few rows of one label is
    named; its rate on the other label still counts, so the value is never below that of equal
    opportunity.

    >>> confusion = np.array([[[30.0, 20.0], [10.0, 10.0]], [[10.0, 10.0], [30.0, 60.0]]])
    >>> [estimate] = equalized_odds(confusion[None])
    >>> round(estimate.value, 3)   # here label 1 differs more than label 0
    0.068
    """
    return rate_estimates(*notion_blocks("equalized_odds", confusion), minimum)[0]


def client_parity(
    loss: Float[Array, "r 3 i"], minimum: int = MINIMUM_ROWS
) -> list[DisparityEstimate]:
    r"""Return the range of the clients' mean losses.

    .. math:: \max_i L_i - \min_i L_i, \qquad L_i = S_i / n_i

    The gaps are the differences to the pooled mean loss of the estimable clients. The interval is
    that of :func:`fedfb.notions.intervals.range_interval` with
    :func:`fedfb.notions.intervals.steady_variance`. From 10 rows per client on, it covers at least
    93 % for skewed losses (``tests/notions/test_coverage.py``).

    Args:
        loss: for each run and client the number of rows, the sum of losses, the sum of their
            squares.
        minimum: a client with fewer rows is not estimable. A variance needs at least two rows.

    >>> loss = np.array([[50.0, 50.0], [10.0, 25.0], [4.0, 20.0]])
    >>> [estimate] = client_parity(loss[None])
    >>> round(estimate.value, 3)
    0.3
    """
    estimable = enough(loss[0, 0], max(minimum, 2))
    left_out = tuple(np.flatnonzero(~estimable).tolist())
    if estimable.sum() < 2:
        return [not_estimable(len(estimable), left_out)] * len(loss)
    rows, total, squares = loss.swapaxes(0, 1)[:, :, estimable]
    means = total / rows
    pooled = total.sum(axis=1, keepdims=True) / rows.sum(axis=1, keepdims=True)
    gaps = place_values(means - pooled, estimable)
    ranges = np.ptp(means, axis=1).tolist()
    cells = zip(means, steady_variance(rows, total, squares), strict=True)
    ends = [range_interval(*cell) for cell in cells]
    return [
        DisparityEstimate(value, *interval, run_gaps, left_out)
        for value, interval, run_gaps in zip(ranges, ends, gaps, strict=True)
    ]


def loss_variances(loss: Float[Array, "r 3 i"], minimum: int = MINIMUM_ROWS) -> Float[Array, "r i"]:
    """Return the variance of every client's mean loss; NaN where client parity leaves it out.

    >>> loss = np.array([[50.0, 50.0, 1.0], [10.0, 25.0, 1.0], [4.0, 20.0, 1.0]])
    >>> loss_variances(loss[None]).round(4)
    array([[0.0011, 0.0031,    nan]])
    """
    estimable = enough(loss[0, 0], max(minimum, 2))
    variance = np.full((len(loss), loss.shape[2]), np.nan)
    if estimable.any():
        variance[:, estimable] = steady_variance(*loss.swapaxes(0, 1)[:, :, estimable])
    return variance


def disparities(
    confusion: Float[Array, "r 2 2 a"],
    client_losses: Float[Array, "r 3 i"] | None,
    minimum: int = MINIMUM_ROWS,
    by_label: Float[Array, "r 2 2 a"] | None = None,
) -> list[dict[str, DisparityEstimate]]:
    """Return for every run each disparity by its name. All runs decide on the same rows.

    Args:
        confusion: the tables of all runs.
        client_losses: rows, losses and squared losses of each client; None: no client parity.
        minimum: a rate of fewer rows is not estimable.
        by_label: the tables for equal opportunity and equalized odds, if these compare fewer
            groups; None: ``confusion``.

    >>> confusion = np.array([[[30.0, 20.0], [10.0, 10.0]], [[10.0, 10.0], [30.0, 60.0]]])
    >>> [estimates] = disparities(confusion[None], client_losses=None)
    >>> {name: estimate.value is not None for name, estimate in estimates.items()}
    ... # doctest: +NORMALIZE_WHITESPACE
    {'demographic_parity': True, 'spd': True, 'equal_opportunity': True,
     'equalized_odds': True, 'client_parity': False}
    """
    by_label = confusion if by_label is None else by_label
    estimates = {
        "demographic_parity": demographic_parity(confusion, minimum),
        "spd": spd(confusion, minimum),
        "equal_opportunity": equal_opportunity(by_label, minimum),
        "equalized_odds": equalized_odds(by_label, minimum),
        "client_parity": (
            [not_estimable(0)] * len(confusion)
            if client_losses is None
            else client_parity(client_losses, minimum)
        ),
    }
    return [dict(zip(estimates, run, strict=True)) for run in zip(*estimates.values(), strict=True)]
