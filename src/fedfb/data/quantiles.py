"""Quantiles of numeric columns from summed counts: no silo's least or largest number leaves it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedfb.core import Arrays
from fedfb.data.statistics import Answers, Spread
from fedfb.shapes import Array, Float

BINS = 64
"""Bins of a histogram."""

HISTOGRAMS = 2
"""The second one divides the bin of the first in which a quantile lies."""


class Quantiles(NamedTuple):
    """The upper end of the bin in which each quantile lies, and how wide that bin is."""

    values: Float[Array, "k q"]
    width: Float[Array, "k q"]


def quantiles_by(
    question: str, shares: Sequence[float], spread: Spread, answers: Answers
) -> Quantiles:
    r"""Return quantiles of columns over all silos, each to the width of a bin, from counts.

    The quantile :math:`Q_p` is the least number that :math:`np` of all numbers do not exceed. Where
    to look for it follows from mean and standard deviation, by Cantelli's inequality:

    .. math:: m-\sigma\sqrt{(1-p)/p}\;\le\;Q_p\;\le\;m+\sigma\sqrt{p/(1-p)}

    so nobody says how far its numbers reach. Two histograms of 64 bins leave a bin of
    :math:`\sigma\,(\sqrt{(1-p)/p}+\sqrt{p/(1-p)})/64^2`: of the quartiles .0006, of the 1% quantile
    .0025 standard deviations. What a silo answers to the question: :func:`counts_below`.
    """
    p = np.asarray(shares, float)
    mean, sd = spread.mean[:, None], spread.sd[:, None]
    low, high = mean - sd * np.sqrt((1 - p) / p), mean + sd * np.sqrt(p / (1 - p))
    slack = 1e-6 * (high - low)  # sums are rounded, and so are mean and standard deviation
    low, high = low - slack, high + slack
    for _ in range(HISTOGRAMS):
        edges = low[..., None] + (high - low)[..., None] * np.arange(1, BINS + 1) / BINS
        total = answers(question, {"edges": edges})
        needed = np.ceil(p * total["present"][:, None] - 1e-9)
        bin_ = np.minimum((total["below"] < needed[..., None]).sum(axis=-1), BINS - 1)
        width = (high - low) / BINS
        high = np.take_along_axis(edges, bin_[..., None], axis=-1)[..., 0]
        low = high - width
    return Quantiles(high, high - low)


def counts_below(columns: Sequence[Float[Array, " n"]], edges: Float[Array, "k q b"]) -> Arrays:
    """Return how many numbers there are, and how many are not above each edge."""
    present = [np.sort(x[~np.isnan(x)]) for x in columns]
    below = [np.searchsorted(x, e, side="right") for x, e in zip(present, edges, strict=True)]
    return {
        "present": np.array([len(x) for x in present], np.int64),
        "below": np.array(below, np.int64),
    }
