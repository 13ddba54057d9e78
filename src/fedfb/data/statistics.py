"""Means and spreads of numeric columns from sums over clients: no row leaves its owner.

Who adds up is handed in, so that the same three questions can be put masked or not. What
is not a number (names of columns, categories, groups) is a public schema, known to all beforehand.

Quantiles of numeric columns from summed counts: no silo's least or largest number leaves it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedfb.core import Arrays
from fedfb.errors import DataError
from fedfb.shapes import Array, Float, Int

AddUp = Callable[[str, Arrays, Mapping[str, Arrays]], Arrays]
"""Add up what clients, by their names, answer to a question: its name, and what they were told."""

NEGLIGIBLE = 1e-6
"""A variance that is smaller than this part of the squared error of the mean is that error's."""


def add_in_clear(task: str, broadcast: Arrays, uploads: Mapping[str, Arrays]) -> Arrays:
    """Add up what is sent as it is.

    >>> add_in_clear("sums", {}, {"north": {"n": np.array([1])}, "south": {"n": np.array([2])}})
    {'n': array([3])}
    """
    first = next(iter(uploads.values()))
    return {name: np.sum([upload[name] for upload in uploads.values()], axis=0) for name in first}


class Spread(NamedTuple):
    """Mean and standard deviation of some columns, and how many cells are missing.

    A column whose numbers are all the same has the deviation 1, one without any the mean 0.
    """

    mean: Float[Array, " k"]
    sd: Float[Array, " k"]
    missing: Int[Array, " k"]


Answers = Callable[[str, Arrays], Arrays]
"""The sum of what all silos answer to a question: its name, and what they are told."""


def answer(task: str, broadcast: Arrays, x: Float[Array, "n k"]) -> Arrays:
    """Return what one silo says of its columns."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return ANSWERS[task](x, **broadcast)


def spread_by(columns: Sequence[str], ask: Answers) -> Spread:
    r"""Return the spread of numeric columns over all silos, from sums.

    .. math:: m_0=\frac1n\sum_jx_j,\quad s_0=\frac1n\sum_j|x_j-m_0|,\quad
              z_j=\frac{x_j-m_0}{s_0},\quad m=m_0+\frac{s_0}n\sum_jz_j,\quad
              \sigma=s_0\sqrt{\frac1n\sum_jz_j^2-\Big(\frac1n\sum_jz_j\Big)^2}

    Three questions, since sums of squares of numbers as they are would lose small spreads around
    large means, all the more in fixed point: :math:`z_j` is of the order of 1 in every column, and
    an error of :math:`m_0` is mended by the last sum.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        first = ask("column sums", {})
        n = np.maximum(first["present"], 1)
        broadcast: Arrays = {"mean": first["sums"] / n}
        total = ask("column distances", broadcast)["distances"]
        _refuse_lost(columns, total, first["varies"])
        # A mean distance of numbers near the end of the float range may vanish, their sum does not.
        scale = np.where(total / n > 0, total / n, np.where(total > 0, total, 1.0))
        broadcast = {**broadcast, "scale": scale}
        last = ask("column squares", broadcast)
        offset, squares = last["offsets"] / n, last["squares"] / n
        variance = np.maximum(squares - offset**2, 0.0)
        constant = (first["varies"] == 0) & ~(variance > NEGLIGIBLE * squares)
        sd = np.where(constant, 1.0, scale * np.sqrt(variance))
        return Spread(broadcast["mean"] + scale * offset, sd, first["missing"])


def _sum_cells(x: Float[Array, "n k"]) -> Arrays:
    """Return numbers of cells, their sums, and whether this client's numbers differ."""
    present = ~np.isnan(x)
    least = np.where(present, x, np.inf).min(axis=0, initial=np.inf)
    largest = np.where(present, x, -np.inf).max(axis=0, initial=-np.inf)
    return {
        "present": present.sum(axis=0),
        "missing": (~present).sum(axis=0),
        "sums": np.nansum(x, axis=0),
        "varies": (least < largest).astype(np.int64),
    }


def _sum_distances(x: Float[Array, "n k"], mean: Float[Array, " k"]) -> Arrays:
    return {"distances": np.nansum(np.abs(x - mean), axis=0)}


def _sum_squares(
    x: Float[Array, "n k"], mean: Float[Array, " k"], scale: Float[Array, " k"]
) -> Arrays:
    z = (x - mean) / scale
    return {"offsets": np.nansum(z, axis=0), "squares": np.nansum(z**2, axis=0)}


ANSWERS: Mapping[str, Callable[..., Arrays]] = {
    "column sums": _sum_cells,
    "column distances": _sum_distances,
    "column squares": _sum_squares,
}
"""What a silo says of its columns, by question: its rows, and what it was told."""


def _refuse_lost(
    columns: Sequence[str], distances: Float[Array, " k"], varies: Int[Array, " k"]
) -> None:
    """Refuse a column whose numbers differ by less than what carries the sums can tell."""
    for name, total, clients in zip(columns, distances.tolist(), varies.tolist(), strict=True):
        if clients and total == 0:
            raise DataError(
                f"the numbers of column {name!r} differ by so little that their distances are lost "
                "in the fixed point of secure sums. Express the column in a smaller unit."
            )


BINS = 64
"""Bins of a histogram."""

HISTOGRAMS = 2
"""The second one divides the bin of the first in which a quantile lies."""


class Quantiles(NamedTuple):
    """The upper end of the bin in which each quantile lies, and how wide that bin is."""

    values: Float[Array, "k q"]
    width: Float[Array, "k q"]


def quantiles_by(task: str, shares: Sequence[float], spread: Spread, ask: Answers) -> Quantiles:
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
        total = ask(task, {"edges": edges})
        rank = np.ceil(p * total["present"][:, None] - 1e-9)
        bin_ = np.minimum((total["below"] < rank[..., None]).sum(axis=-1), BINS - 1)
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
