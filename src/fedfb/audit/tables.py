"""The tables of counts that a client uploads for an audit, and their sum."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fedfb.audit.rows import AuditedRows, Subject
from fedfb.core import Arrays
from fedfb.data.statistics import AddUp
from fedfb.experiments.evaluate import cross_entropy
from fedfb.shapes import Array, Float

SCORE_BINS = 10
"""Bins of scores, all of the same width."""


class Tables(NamedTuple):
    """Counts of one client, or of all clients together.

    ``confusion[label, decision, group]``; ``joint[label, decision, baseline, group]``;
    ``bins[label, group, bin]`` of scores and ``score_sums[group, bin]``; ``losses[0, group]`` sums
    up the cross-entropy and ``losses[1, group]`` its square.
    """

    confusion: Float[Array, "2 2 a"]
    joint: Float[Array, "2 2 2 a"] | None = None
    bins: Float[Array, "2 a b"] | None = None
    score_sums: Float[Array, "a b"] | None = None
    losses: Float[Array, "2 a"] | None = None


def make_table_upload(rows: AuditedRows, groups: int, randomised: bool) -> Arrays:
    """Return the upload of one client: tables of counts of its rows.

    Args:
        rows: rows of the client.
        groups: number of groups.
        randomised: whether some decisions are chances. Counts are whole numbers otherwise.

    >>> y = np.array([0, 1, 1])
    >>> make_table_upload(AuditedRows(y, y * 0, y / 1.0), 1, False)["confusion"][:, :, 0]
    array([[1, 0],
           [0, 2]])
    """
    counts = np.float64 if randomised else np.int64
    cell = rows.y * groups + rows.group
    upload: Arrays = {"confusion": _count(cell, groups, rows.decision).astype(counts)}
    if rows.baseline is not None:
        other = (1 - rows.baseline, rows.baseline)
        upload["joint"] = np.stack(
            [_count(cell, groups, rows.decision, weight) for weight in other], axis=2
        ).astype(counts)
    if rows.score is not None:
        place = np.minimum((rows.score * SCORE_BINS).astype(np.int64), SCORE_BINS - 1)
        of_bin = rows.group * SCORE_BINS + place
        upload["bins"] = np.bincount(
            rows.y * groups * SCORE_BINS + of_bin, minlength=2 * groups * SCORE_BINS
        ).reshape(2, groups, SCORE_BINS)
        upload["score_sums"] = _sum(of_bin, rows.score, groups * SCORE_BINS).reshape(
            groups, SCORE_BINS
        )
        loss = cross_entropy(rows.score, rows.y)
        upload["losses"] = np.stack([_sum(rows.group, w, groups) for w in (loss, loss**2)])
    return upload


def _count(
    cell: Array, groups: int, decision: Array, weight: Array | None = None
) -> Float[Array, "2 2 a"]:
    """Count rows, of this weight, by label, decision and group."""
    weight = np.ones(len(cell)) if weight is None else weight
    parts = [_sum(cell, weight * chance, 2 * groups) for chance in (1 - decision, decision)]
    return np.stack([part.reshape(2, groups) for part in parts], axis=1)


def _sum(place: Array, weight: Array, places: int) -> Float[Array, " k"]:
    # bincount of no rows returns integers even with weights.
    return np.bincount(place, weights=weight, minlength=places).astype(np.float64)


def make_uploads(subject: Subject) -> dict[str, Arrays]:
    """Return the upload of every client, each from the rows of this client alone."""
    return {
        name: make_table_upload(rows, len(subject.groups), subject.randomised)
        for name, rows in subject.clients.items()
    }


def read_tables(upload: Mapping[str, Array]) -> Tables:
    """Read an upload, or a sum of uploads."""
    return Tables(**{name: value.astype(np.float64) for name, value in upload.items()})


def add_uploads(uploads: Mapping[str, Arrays], add: AddUp) -> Tables:
    """Return the sum over all clients.

    Args:
        uploads: upload of each client, by name.
        add: adds uploads, masked or unmasked.

    """
    return read_tables(add("audit", {}, uploads))
