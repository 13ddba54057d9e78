"""How far scores are from probabilities, by group, before and after calibration."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from fedfb.algorithms.fedfb.calibration import apply_maps
from fedfb.core import MINIMUM_ROWS, Examples
from fedfb.experiments.seed_result import GroupCalibration
from fedfb.notions.values import enough
from fedfb.shapes import Array, Float, Int

SCORE_BINS = 10
"""Bins of scores, before neighbours are joined."""

EVERYBODY = "all"
"""The name of the figures of all rows together."""


def measure_calibration(
    score: Float[Array, " n"], examples: Examples, names: Sequence[str], maps: Float[Array, "b 2"]
) -> tuple[GroupCalibration, ...]:
    """Return the calibration error of all rows, then of each group that has enough rows.

    Args:
        score: score of each row.
        examples: the rows.
        names: names by group number.
        maps: what ``fedfb.algorithms.fedfb.calibration.fit_maps`` returned on training rows.
    """
    calibrated = apply_maps(maps, examples.group, score)
    places = {EVERYBODY: np.ones(len(score), dtype=bool)}
    places |= {name: examples.group == number for number, name in enumerate(names)}
    return tuple(
        GroupCalibration(
            name=name,
            before=calibration_error(score[rows], examples.y[rows]),
            after=calibration_error(calibrated[rows], examples.y[rows]),
        )
        for name, rows in places.items()
        if rows.sum() >= MINIMUM_ROWS
    )


def calibration_error(score: Float[Array, " n"], y: Int[Array, " n"]) -> float:
    r"""Return the mean distance of scores to shares of positive labels, bin by bin.

    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{n} \left|\frac{k_b}{n_b} - \bar s_b\right|

    Args:
        score: score of each row.
        y: its label.

    >>> round(calibration_error(np.full(20, 0.8), np.repeat([0, 1], 10)), 3)
    0.3
    """
    place = np.minimum((score * SCORE_BINS).astype(np.int64), SCORE_BINS - 1)
    rows = np.bincount(place, minlength=SCORE_BINS).astype(np.float64)
    excess = np.bincount(place, weights=y - score, minlength=SCORE_BINS)
    edges = join_bins(rows, MINIMUM_ROWS)
    far = sum(abs(float(excess[first:last].sum())) for first, last in pairwise(edges))
    return far / max(len(score), 1)


def join_bins(rows: Float[Array, " b"], minimum: int) -> list[int]:
    """Return the edges of the narrowest runs of bins that have enough rows each.

    Args:
        rows: number of rows of each bin.
        minimum: fewest rows of a run.

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
