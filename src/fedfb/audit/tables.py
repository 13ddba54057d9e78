"""The tables of counts that a silo answers an audit with, and their sum."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fedfb.audit.rows import SiloRows, Subject
from fedfb.core import Arrays
from fedfb.data.statistics import AddUp
from fedfb.experiments.evaluate import cross_entropy
from fedfb.shapes import Array, Float

BINS = 10
"""Bins of scores, all of the same width."""


class Tables(NamedTuple):
    """Counts of one silo, or of all together.

    ``confusion[label, decision, group]``; ``joint[label, decision, baseline, group]``;
    ``bins[label, group, bin]`` of scores and ``score_sums[group, bin]``; ``losses[0, group]`` sums
    up the cross-entropy and ``losses[1, group]`` its square.
    """

    confusion: Float[Array, "2 2 a"]
    joint: Float[Array, "2 2 2 a"] | None = None
    bins: Float[Array, "2 a b"] | None = None
    score_sums: Float[Array, "a b"] | None = None
    losses: Float[Array, "2 a"] | None = None


def silo_answer(rows: SiloRows, groups: int, randomised: bool) -> Arrays:
    """Return what one silo says of its rows; counts are whole unless decisions are randomised.

    >>> y = np.array([0, 1, 1])
    >>> silo_answer(SiloRows(y, y * 0, y / 1.0), 1, False)["confusion"][:, :, 0]
    array([[1, 0],
           [0, 2]])
    """
    counts = np.float64 if randomised else np.int64
    cell = rows.y * groups + rows.group
    answer: Arrays = {"confusion": _count(cell, groups, rows.decision).astype(counts)}
    if rows.baseline is not None:
        other = (1 - rows.baseline, rows.baseline)
        answer["joint"] = np.stack(
            [_count(cell, groups, rows.decision, weight) for weight in other], axis=2
        ).astype(counts)
    if rows.score is not None:
        place = np.minimum((rows.score * BINS).astype(np.int64), BINS - 1)
        of_bin = rows.group * BINS + place
        answer["bins"] = np.bincount(
            rows.y * groups * BINS + of_bin, minlength=2 * groups * BINS
        ).reshape(2, groups, BINS)
        answer["score_sums"] = _sum(of_bin, rows.score, groups * BINS).reshape(groups, BINS)
        loss = cross_entropy(rows.score, rows.y)
        answer["losses"] = np.stack([_sum(rows.group, w, groups) for w in (loss, loss**2)])
    return answer


def _count(
    cell: Array, groups: int, decision: Array, weight: Array | None = None
) -> Float[Array, "2 2 a"]:
    """Count rows, of this weight, by label, decision and group."""
    weight = np.ones(len(cell)) if weight is None else weight
    parts = [_sum(cell, weight * chance, 2 * groups) for chance in (1 - decision, decision)]
    return np.stack([part.reshape(2, groups) for part in parts], axis=1)


def _sum(place: Array, weight: Array, places: int) -> Float[Array, " k"]:
    # Of no rows at all numpy's weighted count is a whole number.
    return np.bincount(place, weights=weight, minlength=places).astype(np.float64)


def silo_answers(subject: Subject) -> dict[str, Arrays]:
    """Return what every silo answers, each from its own rows alone."""
    return {
        name: silo_answer(rows, len(subject.groups), subject.randomised)
        for name, rows in subject.silos.items()
    }


def read_tables(answer: Mapping[str, Array]) -> Tables:
    """Read an answer, or a sum of answers."""
    return Tables(**{name: value.astype(np.float64) for name, value in answer.items()})


def summed(answers: Mapping[str, Arrays], add: AddUp) -> Tables:
    """Return the sum over all silos, masked or not as ``add`` has it."""
    return read_tables(add("audit", {}, answers))
