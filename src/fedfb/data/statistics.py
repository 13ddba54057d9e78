"""Means and spreads of numeric columns from sums over clients: no row leaves its owner.

Who adds up is handed in, so that the same three questions can be put masked or not. What
is not a number (names of columns, categories, groups) is a public schema, known to all beforehand.
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


def add_in_clear(question: str, told: Arrays, answers: Mapping[str, Arrays]) -> Arrays:
    """Add up what is sent as it is.

    >>> add_in_clear("sums", {}, {"north": {"n": np.array([1])}, "south": {"n": np.array([2])}})
    {'n': array([3])}
    """
    first = next(iter(answers.values()))
    return {name: np.sum([said[name] for said in answers.values()], axis=0) for name in first}


class Spread(NamedTuple):
    """Mean and standard deviation of some columns, and how many cells are missing.

    A column whose numbers are all the same has the deviation 1, one without any the mean 0.
    """

    mean: Float[Array, " k"]
    sd: Float[Array, " k"]
    missing: Int[Array, " k"]


Answers = Callable[[str, Arrays], Arrays]
"""The sum of what all silos answer to a question: its name, and what they are told."""


def answer(question: str, told: Arrays, x: Float[Array, "n k"]) -> Arrays:
    """Return what one silo says of its columns."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return ANSWERS[question](x, **told)


def spread_by(columns: Sequence[str], answers: Answers) -> Spread:
    r"""Return the spread of numeric columns over all silos, from sums.

    .. math:: m_0=\frac1n\sum_jx_j,\quad s_0=\frac1n\sum_j|x_j-m_0|,\quad
              z_j=\frac{x_j-m_0}{s_0},\quad m=m_0+\frac{s_0}n\sum_jz_j,\quad
              \sigma=s_0\sqrt{\frac1n\sum_jz_j^2-\Big(\frac1n\sum_jz_j\Big)^2}

    Three questions, since sums of squares of numbers as they are would lose small spreads around
    large means, all the more in fixed point: :math:`z_j` is of the order of 1 in every column, and
    an error of :math:`m_0` is mended by the last sum.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        first = answers("column sums", {})
        n = np.maximum(first["present"], 1)
        told: Arrays = {"mean": first["sums"] / n}
        total = answers("column distances", told)["distances"]
        _refuse_lost(columns, total, first["varies"])
        # A mean distance of numbers near the end of the float range may vanish, their sum does not.
        scale = np.where(total / n > 0, total / n, np.where(total > 0, total, 1.0))
        told = {**told, "scale": scale}
        last = answers("column squares", told)
        offset, squares = last["offsets"] / n, last["squares"] / n
        variance = np.maximum(squares - offset**2, 0.0)
        constant = (first["varies"] == 0) & ~(variance > NEGLIGIBLE * squares)
        sd = np.where(constant, 1.0, scale * np.sqrt(variance))
        return Spread(told["mean"] + scale * offset, sd, first["missing"])


def _sums(x: Float[Array, "n k"]) -> Arrays:
    """Return numbers of cells, their sums, and whether this client's numbers differ."""
    there = ~np.isnan(x)
    least = np.where(there, x, np.inf).min(axis=0, initial=np.inf)
    most = np.where(there, x, -np.inf).max(axis=0, initial=-np.inf)
    return {
        "present": there.sum(axis=0),
        "missing": (~there).sum(axis=0),
        "sums": np.nansum(x, axis=0),
        "varies": (least < most).astype(np.int64),
    }


def _distances(x: Float[Array, "n k"], mean: Float[Array, " k"]) -> Arrays:
    return {"distances": np.nansum(np.abs(x - mean), axis=0)}


def _squares(x: Float[Array, "n k"], mean: Float[Array, " k"], scale: Float[Array, " k"]) -> Arrays:
    z = (x - mean) / scale
    return {"offsets": np.nansum(z, axis=0), "squares": np.nansum(z**2, axis=0)}


ANSWERS: Mapping[str, Callable[..., Arrays]] = {
    "column sums": _sums,
    "column distances": _distances,
    "column squares": _squares,
}
"""What a silo says of its columns, by question: its rows, and what it was told."""


def _refuse_lost(
    columns: Sequence[str], distances: Float[Array, " k"], varies: Int[Array, " k"]
) -> None:
    """Refuse a column whose numbers differ by less than what carries the sums can tell."""
    for name, total, silos in zip(columns, distances.tolist(), varies.tolist(), strict=True):
        if silos and total == 0:
            raise DataError(
                f"the numbers of column {name!r} differ by so little that their distances are lost "
                "in the fixed point of secure sums. Express the column in a smaller unit."
            )
