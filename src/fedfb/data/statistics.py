"""Means, spreads and quantiles of numeric columns, from sums over clients. No row leaves a client.

The caller supplies the function that adds uploads, so that the same tasks run masked or unmasked.
Names of columns, categories and groups are a public schema, known to all clients beforehand.
Quantiles come from summed counts, so no client reveals its smallest or largest number.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedfb.core import Arrays
from fedfb.errors import DataError
from fedfb.shapes import Array, Float, Int

AddUp = Callable[[str, Arrays, Mapping[str, Arrays]], Arrays]
"""Adds the clients' uploads: name of the task, the broadcast, and the upload of each client."""

NEGLIGIBLE = 1e-6
"""A variance below this part of the mean square is rounding error of the mean."""


def add_in_clear(task: str, broadcast: Arrays, uploads: Mapping[str, Arrays]) -> Arrays:
    """Add unmasked uploads.

    Args:
        task: name of the task.
        broadcast: arrays that the clients received.
        uploads: arrays of each client, by name.

    >>> add_in_clear("sums", {}, {"north": {"n": np.array([1])}, "south": {"n": np.array([2])}})
    {'n': array([3])}
    """
    first = next(iter(uploads.values()))
    return {name: np.sum([upload[name] for upload in uploads.values()], axis=0) for name in first}


class Spread(NamedTuple):
    """Mean and standard deviation of some columns, and how many cells are missing.

    A column of equal numbers has the deviation 1. A column without numbers has the mean 0.
    """

    mean: Float[Array, " k"]
    sd: Float[Array, " k"]
    missing: Int[Array, " k"]


Ask = Callable[[str, Arrays], Arrays]
"""Returns the sum of all clients' uploads: name of the task, and the broadcast."""


_ROWS_AT_A_TIME = 8192
"""Rows whose terms are computed together, so that they stay in the processor's cache."""


def compute_upload(task: str, broadcast: Arrays, columns: Sequence[Float[Array, " n"]]) -> Arrays:
    """Return the upload of one client about its columns: sums over its rows.

    Args:
        task: a name in ``TASKS``.
        broadcast: arguments of the task.
        columns: the client's numbers of each column, nan where missing.

    """
    rows = len(columns[0])
    # numpy adds the rows of several columns one after the other, and a single column by halves.
    step = _ROWS_AT_A_TIME if len(columns) > 1 else max(rows, 1)
    sums: Arrays = {}
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for begin in range(0, max(rows, 1), step):
            x = np.stack([column[begin : begin + step] for column in columns], axis=1)
            for name, terms in TASKS[task](x, **broadcast).items():
                terms[np.isnan(terms)] = 0
                parts = [sums[name][None], terms] if name in sums else [terms]
                sums[name] = np.concatenate(parts).sum(axis=0)
    if task == "column sums":
        sums["varies"] = np.array([_varies(column) for column in columns], np.int64)
    return sums


def _varies(column: Float[Array, " n"]) -> bool:
    """Return whether a client's numbers of a column differ."""
    least = np.fmin.reduce(column, initial=np.inf)
    return bool(least < np.fmax.reduce(column, initial=-np.inf))


def spread_by(columns: Sequence[str], ask: Ask) -> Spread:
    r"""Return the spread of numeric columns over all clients, from sums.

    .. math:: m_0=\frac1n\sum_jx_j,\quad s_0=\frac1n\sum_j|x_j-m_0|,\quad
              z_j=\frac{x_j-m_0}{s_0},\quad m=m_0+\frac{s_0}n\sum_jz_j,\quad
              \sigma=s_0\sqrt{\frac1n\sum_jz_j^2-\Big(\frac1n\sum_jz_j\Big)^2}

    This takes three exchanges. Sums of squares of the raw numbers would lose small spreads around
    large means, most of all in fixed point. :math:`z_j` is of the order of 1 in every column, and
    the last sum corrects an error of :math:`m_0`.

    Args:
        columns: names of the columns, for messages.
        ask: returns the sum of the clients' uploads to a task.

    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        first = ask("column sums", {})
        n = np.maximum(first["present"], 1)
        broadcast: Arrays = {"mean": first["sums"] / n}
        total = ask("column distances", broadcast)["distances"]
        _refuse_lost(columns, total, first["varies"])
        # Of numbers near the end of the float range the mean distance may vanish, the sum does not.
        scale = np.where(total / n > 0, total / n, np.where(total > 0, total, 1.0))
        broadcast = {**broadcast, "scale": scale}
        last = ask("column squares", broadcast)
        offset, squares = last["offsets"] / n, last["squares"] / n
        variance = np.maximum(squares - offset**2, 0.0)
        constant = (first["varies"] == 0) & ~(variance > NEGLIGIBLE * squares)
        sd = np.where(constant, 1.0, scale * np.sqrt(variance))
        return Spread(broadcast["mean"] + scale * offset, sd, first["missing"])


def _count_cells(x: Float[Array, "n k"]) -> Arrays:
    missing = np.isnan(x)
    return {"present": ~missing, "missing": missing, "sums": x}


def _measure_distances(x: Float[Array, "n k"], mean: Float[Array, " k"]) -> Arrays:
    return {"distances": np.abs(x - mean)}


def _measure_squares(
    x: Float[Array, "n k"], mean: Float[Array, " k"], scale: Float[Array, " k"]
) -> Arrays:
    z = (x - mean) / scale
    return {"offsets": z, "squares": z**2}


TASKS: Mapping[str, Callable[..., Arrays]] = {
    "column sums": _count_cells,
    "column distances": _measure_distances,
    "column squares": _measure_squares,
}
"""The function of each task: from a client's numbers and the broadcast to terms to be added."""


def _refuse_lost(
    columns: Sequence[str], distances: Float[Array, " k"], varies: Int[Array, " k"]
) -> None:
    """Refuse a column whose numbers differ by less than the precision of the sums."""
    for name, total, clients in zip(columns, distances.tolist(), varies.tolist(), strict=True):
        if clients and total == 0:
            raise DataError(
                f"the numbers of column {name!r} differ by so little that their distances are lost "
                "in the fixed point of secure sums. Express the column in a smaller unit."
            )


BINS = 64
"""Bins of a histogram."""

_HISTOGRAMS = 2
"""Number of histograms. The second divides the bin of the first that holds the quantile."""


class Quantiles(NamedTuple):
    """The upper end of the bin that holds each quantile, and the width of the bin."""

    values: Float[Array, "k q"]
    width: Float[Array, "k q"]


def quantiles_by(task: str, shares: Sequence[float], spread: Spread, ask: Ask) -> Quantiles:
    r"""Return quantiles of columns over all clients, each to the width of a bin, from counts.

    The quantile :math:`Q_p` is the least number that :math:`np` of all numbers do not exceed. Mean
    and standard deviation bound it, by Cantelli's inequality:

    .. math:: m-\sigma\sqrt{(1-p)/p}\;\le\;Q_p\;\le\;m+\sigma\sqrt{p/(1-p)}

    so no client reveals the range of its numbers. Two histograms of 64 bins leave a bin of
    :math:`\sigma\,(\sqrt{(1-p)/p}+\sqrt{p/(1-p)})/64^2`: .0006 standard deviations for the
    quartiles, .0025 for the 1% quantile.

    Args:
        task: name of the task. Clients upload :func:`counts_below`.
        shares: the shares p.
        spread: mean and standard deviation of the columns.
        ask: returns the sum of the clients' uploads to a task.

    """
    p = np.asarray(shares, float)
    mean, sd = spread.mean[:, None], spread.sd[:, None]
    low, high = mean - sd * np.sqrt((1 - p) / p), mean + sd * np.sqrt(p / (1 - p))
    slack = 1e-6 * (high - low)  # sums are rounded, and so are mean and standard deviation
    low, high = low - slack, high + slack
    for _ in range(_HISTOGRAMS):
        edges = low[..., None] + (high - low)[..., None] * np.arange(1, BINS + 1) / BINS
        total = ask(task, {"edges": edges})
        rank = np.ceil(p * total["present"][:, None] - 1e-9)
        bin_ = np.minimum((total["below"] < rank[..., None]).sum(axis=-1), BINS - 1)
        width = (high - low) / BINS
        high = np.take_along_axis(edges, bin_[..., None], axis=-1)[..., 0]
        low = high - width
    return Quantiles(high, high - low)


STEP_SHARES = tuple(place / 13 for place in range(1, 13))
"""The quantiles of steps: 13 ranges of a number, with as many rows each."""


def steps_by(task: str, spread: Spread, ask: Ask) -> list[tuple[float, ...]]:
    """Return the steps of columns: quantiles over all clients that divide the rows, ascending.

    Quantiles that divide the rows as the one before does, or do not divide them at all, are left
    out: of a number with few values a few steps are left.

    Args:
        task: name of the task. Clients upload :func:`counts_below`.
        spread: mean and standard deviation of the columns.
        ask: returns the sum of the clients' uploads to a task.

    """
    values, _ = quantiles_by(task, STEP_SHARES, spread, ask)
    total = ask(task, {"edges": values[..., None]})
    below, present = total["below"][..., 0], total["present"][:, None]
    before = np.concatenate([np.zeros_like(present), below[:, :-1]], axis=1)
    divides = (below > before) & (below < present)
    return [tuple(of[keep].tolist()) for of, keep in zip(values, divides, strict=True)]


def counts_below(columns: Sequence[Float[Array, " n"]], edges: Float[Array, "k q b"]) -> Arrays:
    """Return the number of cells, and the number of cells up to each edge.

    Args:
        columns: a client's numbers of each column, nan where missing.
        edges: edges by column, quantile and bin.

    """
    present = [np.sort(x[~np.isnan(x)]) for x in columns]
    below = [np.searchsorted(x, e, side="right") for x, e in zip(present, edges, strict=True)]
    return {
        "present": np.array([len(x) for x in present], np.int64),
        "below": np.array(below, np.int64),
    }
