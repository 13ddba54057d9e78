"""Calibration: whether a score means the same in every group, from histograms of scores."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from fedfb.audit.measures import measure_rate
from fedfb.audit.result import Bin, Calibration
from fedfb.audit.rows import Tables
from fedfb.audit.suppress import PublishedTable
from fedfb.notions.values import enough
from fedfb.shapes import Array, Float


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


def join_bins(rows: Float[Array, " b"], minimum: int) -> list[int]:
    """Return the edges of the narrowest runs of bins that have enough rows each.

    >>> join_bins(np.array([50.0, 3.0, 40.0, 0.0, 4.0]), 10)
    [0, 1, 5]
    """
    edges, since = [0], 0.0
    for place, count in enumerate(rows.tolist()):
        since += count
        if enough(np.array([since]), minimum).all():
            edges.append(place + 1)
            since = 0.0
    # The bins after the last edge are too few for a run: they belong to the last run.
    edges[-1] = len(rows)
    return edges if len(edges) > 1 else [0, len(rows)]
