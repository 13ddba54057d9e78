"""Measures that need more than decisions and labels: scores, a baseline, or the run's result."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from fedfb.audit.measures import measure_rate
from fedfb.audit.result import (
    AuditComparison,
    AuditDifference,
    Bin,
    Calibration,
    Change,
    LeftOutClient,
    Measure,
)
from fedfb.audit.rows import Tables
from fedfb.audit.suppress import PublishedTable
from fedfb.experiments.calibrate import join_bins
from fedfb.experiments.seed_result import ClientLeftOut, SeedResult
from fedfb.experiments.seeds import chance_beside
from fedfb.notions.critical import LEVEL, normal_quantile, standard_errors
from fedfb.notions.disparity import DisparityEstimate, rate_estimate
from fedfb.notions.intervals import Bands, mix_variance, parity_contrasts
from fedfb.notions.over_seeds import MeanDisparity, difference_of_disparities
from fedfb.notions.values import enough
from fedfb.shapes import Array, Bool, Float


def measure_calibration(
    total: Tables, published: PublishedTable, names: Sequence[str], minimum: int
) -> tuple[Calibration, ...] | None:
    """Return the calibration of every group that is published by label; None without scores.

    Args:
        total: sum of all clients' tables, with histograms of scores.
        published: what may be shown of the sum.
        names: names of the groups.
        minimum: fewest rows of a bin.

    """
    if total.bins is None or total.score_sums is None:
        return None
    return tuple(
        calibrate_group(name, total.bins[:, group], total.score_sums[group], minimum)
        for group, name in enumerate(names)
        if published.split[group]
    )


def calibrate_group(
    name: str, counts: Float[Array, "2 b"], score_sums: Float[Array, " b"], minimum: int
) -> Calibration:
    r"""Compare the mean score with the share of favourable labels, bin by bin.

    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{n} \left|\frac{k_b}{n_b} - \bar s_b\right|

    Neighbouring bins are joined until each has enough rows, so that none needs to be hidden.

    Args:
        name: name of the group.
        counts: rows by label and bin.
        score_sums: sum of the scores in each bin.
        minimum: fewest rows of a bin.

    >>> counts, sums = np.array([[40.0, 2.0, 10.0], [10.0, 1.0, 30.0]]), np.array([9.0, 1.5, 35.0])
    >>> group = calibrate_group("F", counts, sums, minimum=10)
    >>> [(bin.n, round(bin.score, 3)) for bin in group.bins], round(group.error, 3)
    ([(50, 0.18), (43, 0.849)], 0.07)
    """
    rows = counts.sum(axis=0)
    bins = []
    for first, last in pairwise(join_bins(rows, minimum)):
        n, k = rows[first:last].sum(), counts[1, first:last].sum()
        observed = measure_rate(k, n)
        assert observed is not None  # a published group has rows, and a joined bin has enough
        score = float(score_sums[first:last].sum() / n)
        bins.append(Bin(first / len(rows), last / len(rows), round(float(n)), score, observed))
    error = sum(bin.n * abs(bin.observed.value - bin.score) for bin in bins)
    n = rows.sum()
    return Calibration(
        name=name,
        mean_score=float(score_sums.sum() / n),
        base_rate=float(counts[1].sum() / n),
        error=float(error / n),
        bins=tuple(bins),
    )


def compare_accuracy(joint: Float[Array, "2 2 2"]) -> Measure:
    r"""Return the accuracy less that of the baseline, from rows where only one of both is right.

    .. math:: \frac{b - c}{n} \pm 1.96 \sqrt v

    with :math:`b` rows where only the classifier is right, :math:`c` rows where only the baseline
    is, and the variance :math:`v` of :func:`change_variance`.

    Args:
        joint: rows by label, decision and the baseline's decision.

    >>> joint = np.array([[[50.0, 10.0], [5.0, 20.0]], [[20.0, 5.0], [10.0, 60.0]]])
    >>> difference = compare_accuracy(joint)
    >>> round(difference.value, 3), [round(end, 3) for end in difference.interval]
    (0.056, [-0.004, 0.115])
    """
    n = joint.sum()
    gained = joint[0, 0, 1] + joint[1, 1, 0]
    lost = joint[0, 1, 0] + joint[1, 0, 1]
    half = normal_quantile(LEVEL) * np.sqrt(
        change_variance(*(np.atleast_1d(count) for count in (gained, lost, n)))[0]
    )
    value = (gained - lost) / n
    return Measure(float(value), (float(value - half), float(value + half)))


def compare_disparity(tables: Float[Array, "l 2 2 a"], minimum: int) -> AuditDifference | None:
    r"""Return the disparity less that of the baseline, with the overlap of two intervals.

    One comes from the intervals of both disparities
    (``fedfb.notions.over_seeds.difference_of_disparities``). The other is paired: with the
    differences :math:`\eta_g` of the two classifiers' signed gaps on the same rows and with their
    bands,

    .. math:: \big|\max_g |\delta_g| - \max_g |\delta'_g|\big| \le \max_g |\eta_g|
              \le \max_g (|\hat\eta_g| + 1.96\,\mathrm{se}_g)

    so that classifiers which seldom differ have a short interval. Returns None where a disparity
    is not estimable.

    Args:
        tables: rows by block, decision, baseline's decision and group.
        minimum: fewest rows of a group that is compared.

    """
    rows = tables.sum(axis=(1, 2))
    (disparity, bands), (baseline, baseline_bands) = (
        rate_estimate(positives, rows, minimum) for positives in _count_positives(tables)
    )
    if disparity.value is None or baseline.value is None:
        return None
    value = disparity.value - baseline.value
    ends, bound = (np.array(0.0), np.array(0.0)), 0.0
    if bands is not None and baseline_bands is not None:
        means = _as_mean(disparity, bands), _as_mean(baseline, baseline_bands)
        ends = difference_of_disparities(*means, np.array([value]))
        bound = _bound_change(tables, rows, enough(rows, minimum))
    low, high = (min(max(float(end), -bound), bound) for end in ends)
    return AuditDifference(value, (low, high), baseline.value)


def _as_mean(estimate: DisparityEstimate, bands: Bands) -> MeanDisparity:
    assert estimate.value is not None
    assert estimate.low is not None
    assert estimate.high is not None
    value, low, high = np.array([estimate.value, estimate.low, estimate.high])
    return MeanDisparity(value, low, high, bands.gap)


def _count_positives(tables: Float[Array, "l 2 2 a"]) -> tuple[Array, Array]:
    """Count the positive decisions of both classifiers, by block and group."""
    return tables[:, 1].sum(axis=1), tables[:, :, 1].sum(axis=1)


def _bound_change(
    tables: Float[Array, "l 2 2 a"], rows: Float[Array, "l a"], large: Bool[Array, "l a"]
) -> float:
    """Return the largest difference of the two classifiers' signed gaps that the bands allow."""
    n, block = rows[large], np.nonzero(large)[0]
    gained, lost = tables[:, 1, 0][large], tables[:, 0, 1][large]
    changes = (gained - lost) / n
    contrasts = parity_contrasts(n, block)
    se = standard_errors(contrasts, change_variance(gained, lost, n))
    half = normal_quantile(LEVEL) * np.sqrt(se**2 + mix_variance(changes, n, block))
    return float((np.abs(contrasts @ changes) + half).max())


def change_variance(
    gained: Float[Array, "*k"], lost: Float[Array, "*k"], rows: Float[Array, "*k"]
) -> Float[Array, "*k"]:
    r"""Return the variance of a difference of rates on the same rows (Agresti and Min 2005).

    .. math:: \frac{1}{n'^2} \Big(b' + c' - \frac{(b' - c')^2}{n'}\Big), \qquad n' = n + 2

    from the rows b that only one classifier decides positively and c that only the other one
    does, with half a row added to each of the four outcomes.

    >>> change_variance(np.array([0.0]), np.array([0.0]), np.array([98.0]))
    array([0.0001])
    """
    b, c, n = gained + 0.5, lost + 0.5, rows + 2
    variance: Float[Array, "*k"] = (b + c - (b - c) ** 2 / n) / n**2
    return variance


def compare_with_baseline(
    joint: Float[Array, "2 2 2 a"], published: PublishedTable, names: Sequence[str], minimum: int
) -> AuditComparison:
    """Return what differs between the classifier and its baseline, on published groups.

    Args:
        joint: rows by label, decision, the baseline's decision and group.
        published: what may be shown of the rows.
        names: names of the groups.
        minimum: fewest rows of a group that is compared.

    """
    split, whole = np.where(published.split, joint, 0.0), np.where(published.whole, joint, 0.0)
    blocks = {
        "demographic_parity": whole.sum(axis=0)[None],
        "equal_opportunity": split[1:],
        "equalized_odds": split,
    }
    return AuditComparison(
        accuracy=compare_accuracy(split.sum(axis=3)) if published.split.any() else None,
        notions={notion: compare_disparity(tables, minimum) for notion, tables in blocks.items()},
        changed=count_changes(whole, published, names),
    )


def count_changes(
    joint: Float[Array, "2 2 2 a"], published: PublishedTable, names: Sequence[str]
) -> tuple[Change, ...]:
    """Return the shares of each published group that only one of the two classifiers favours."""
    changes = []
    for group in np.flatnonzero(published.whole).tolist():
        table, n = joint[..., group].sum(axis=0), published.rows[group]
        changes.append(Change(names[group], float(table[1, 0] / n), float(table[0, 1] / n)))
    return tuple(changes)


def describe_left_out(
    run: SeedResult, notion: str, minimum: int, secure: bool
) -> tuple[LeftOutClient, ...] | None:
    """Return what a run found on clients that it left out of training; None if it left none out.

    A client with a cell that is hidden has no figure here: its rows less those that the audit shows
    would be those of the cell. Where a client has none, all clients together have none either.

    Args:
        run: result of the run that trained the audited model.
        notion: long name of the notion.
        minimum: fewest rows of a count that may be shown.
        secure: whether figures of single clients are unknown.
    """
    if run.leave_out is None:
        return None
    clients = () if secure else run.leave_out.clients
    shown = [part for part in clients if _has_no_hidden_cell(part, minimum)]
    everyone = [run.leave_out.everyone] * (len(shown) == len(clients))
    parts = [part for part in everyone if _has_no_hidden_cell(part, minimum)]
    return tuple(_describe_client(part, notion) for part in (*parts, *shown))


def _has_no_hidden_cell(part: ClientLeftOut, minimum: int) -> bool:
    groups = [group for group in part.included.groups if group.n]
    return all(min(g.positives, g.n - g.positives) >= minimum for g in groups)


def _describe_client(part: ClientLeftOut, notion: str) -> LeftOutClient:
    trained_on, left_out = part.included, part.excluded
    value = None if left_out is None else left_out.disparity[notion]
    return LeftOutClient(
        name=part.name,
        n=trained_on.rows,
        accuracy=None if left_out is None else left_out.accuracy,
        accuracy_if_trained_on=trained_on.accuracy,
        disparity=value,
        interval=None if left_out is None else left_out.interval[notion],
        disparity_if_trained_on=trained_on.disparity[notion],
        chance=None
        if left_out is None or value is None
        else chance_beside(left_out, notion, value),
    )
