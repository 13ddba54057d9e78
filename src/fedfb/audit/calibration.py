"""Whether a score means the same in every group, read off histograms of scores."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from fedfb.audit.measures import Record, rate
from fedfb.audit.suppress import Published
from fedfb.audit.tables import Tables
from fedfb.notions.values import enough
from fedfb.shapes import Array, Float


def calibration(
    total: Tables, shown: Published, names: Sequence[str], minimum: int
) -> list[Record] | None:
    """Describe the calibration of every group that is shown by label; None without scores."""
    if total.bins is None or total.score_sums is None:
        return None
    return [
        calibration_of(name, total.bins[:, group], total.score_sums[group], minimum)
        for group, name in enumerate(names)
        if shown.split[group]
    ]


def calibration_of(
    name: str, counts: Float[Array, "2 b"], score_sums: Float[Array, " b"], minimum: int
) -> Record:
    r"""Compare the mean score with the share of favourable labels, bin by bin.

    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{n} \left|\frac{k_b}{n_b} - \bar s_b\right|

    Neighbouring bins are joined until each has enough rows, so that none needs to be hidden.

    >>> counts, sums = np.array([[40.0, 2.0, 10.0], [10.0, 1.0, 30.0]]), np.array([9.0, 1.5, 35.0])
    >>> found = calibration_of("F", counts, sums, minimum=10)
    >>> [(one["n"], round(one["score"], 3)) for one in found["bins"]], round(found["error"], 3)
    ([(50, 0.18), (43, 0.849)], 0.07)
    """
    rows = counts.sum(axis=0)
    edges = joined(rows, minimum)
    bins: list[Record] = []
    for first, last in pairwise(edges):
        n, k = rows[first:last].sum(), counts[1, first:last].sum()
        bins.append(
            {
                "from": first / len(rows),
                "to": last / len(rows),
                "n": round(float(n)),
                "score": float(score_sums[first:last].sum() / n),
                "observed": rate(k, n),
            }
        )
    error = sum(one["n"] * abs(one["observed"]["value"] - one["score"]) for one in bins)
    n = rows.sum()
    return {
        "name": name,
        "mean_score": float(score_sums.sum() / n),
        "base_rate": float(counts[1].sum() / n),
        "error": float(error / n),
        "bins": bins,
    }


def joined(rows: Float[Array, " b"], minimum: int) -> list[int]:
    """Return the edges of the narrowest runs of bins that have enough rows each.

    >>> joined(np.array([50.0, 3.0, 40.0, 0.0, 4.0]), 10)
    [0, 1, 5]
    """
    edges, since = [0], 0.0
    for place, count in enumerate(rows.tolist()):
        since += count
        if enough(np.array([since]), minimum).all():
            edges.append(place + 1)
            since = 0.0
    # What is left at the end belongs to the last run.
    edges[-1] = len(rows)
    return edges if len(edges) > 1 else [0, len(rows)]
