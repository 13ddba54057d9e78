r"""Probabilities by group from a histogram of scores, after Platt (1999).

A score s of group a stands for the probability

.. math:: P(y=1)=\sigma\bigl(\alpha_a\,\mathrm{logit}(s)+\beta_a\bigr)

Weights that make decisions fair shift scores away from probabilities, differently by group. The
two numbers of each group are fitted to the summed histogram. The map of all groups is pulled
towards the identity, the map of a group towards that of all: by as much as one row of prior weight
says, so a group of few rows has nearly the map of all.
"""

import numpy as np

from fedfb.algorithms.newton import minimise
from fedfb.core import Arrays
from fedfb.engine import sigmoid
from fedfb.shapes import Array, Float, Int

PRIOR = np.diag([0.0, 1.0])
"""Precision of the prior of a map's change, beside the ridge of 1 that fits have for slopes: a
change of the slope and of the intercept has the standard deviation 1."""

NEAREST = 1 / 2048
"""Scores nearer to 0 or 1 count as this near: the middle of the last of 1,024 bins."""


def fit_maps(rows: Float[Array, "2 a k"]) -> Float[Array, "b 2"]:
    """Return slope and intercept by group, and those of all groups together as the last.

    Args:
        rows: numbers of rows by label, group and bin of the score.

    >>> fit_maps(np.zeros((2, 1, 4)))
    array([[1., 0.],
           [1., 0.]])
    """
    bins = rows.shape[2]
    logit = log_odds((np.arange(bins) + 0.5) / bins)
    everyone = _fit(rows.sum(axis=1), logit, np.array([1.0, 0.0]))
    groups = [_fit(rows[:, group], logit, everyone) for group in range(rows.shape[1])]
    return np.stack([*groups, everyone])


def apply_maps(
    maps: Float[Array, "b 2"], group: Int[Array, " n"], score: Float[Array, " n"]
) -> Float[Array, " n"]:
    """Return the probability that each score stands for.

    Args:
        maps: what :func:`fit_maps` returns.
        group: group of each row; -1, a group that training did not have, has the map of all.
        score: score of each row.
    """
    slope, intercept = maps[group].T
    return sigmoid(slope * log_odds(score) + intercept)


def log_odds(score: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """Return the logit of a score, finite also at 0 and 1."""
    p = np.clip(np.asarray(score, np.float64), NEAREST, 1 - NEAREST)
    return np.log(p) - np.log1p(-p)


def _fit(
    rows: Float[Array, "2 k"], logit: Float[Array, " k"], around: Float[Array, " 2"]
) -> Float[Array, " 2"]:
    """Return the map that fits a group's rows, pulled towards another map."""
    design = np.stack([logit, np.ones_like(logit)], axis=1)
    n, change = rows.sum(axis=0), np.zeros(2)
    if not n.any():
        return around
    search = minimise(change, 0.0, None)
    try:
        change = next(search)
        while True:
            change = search.send(_sums(rows, n, design, around, change))
    except StopIteration as end:
        change, _ = end.value
    return around + change


def _sums(
    rows: Float[Array, "2 k"],
    n: Float[Array, " k"],
    design: Float[Array, "k 2"],
    around: Float[Array, " 2"],
    change: Float[Array, " 2"],
) -> Arrays:
    """Return loss, gradient and second derivatives at a change of the map, with its prior."""
    z = design @ (around + change)
    p = sigmoid(z)
    loss = float(n @ np.logaddexp(0.0, z) - rows[1] @ z)
    second = (design * (n * p * (1 - p))[:, None]).T @ design + PRIOR
    return {
        "weight": np.asarray(n.sum()),
        "loss": np.asarray(loss + change @ PRIOR @ change / 2),
        "gradient": design.T @ (n * p - rows[1]) + PRIOR @ change,
        "second": second[np.tril_indices(2)],
    }
