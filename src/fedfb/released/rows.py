"""Rows as the released code holds them: clients, each with its last tenth set aside, and a test."""

from typing import NamedTuple

import numpy as np

from fedfb.shapes import Array, Float, Int


class Rows(NamedTuple):
    """Features (the last one is the group's number), labels, groups."""

    x: Float[Array, "n d"]
    y: Int[Array, " n"]
    group: Int[Array, " n"]

    def take(self, rows: Int[Array, " m"] | slice) -> "Rows":
        """Return the given rows, in the given order."""
        return Rows(self.x[rows], self.y[rows], self.group[rows])


class ReleasedData(NamedTuple):
    """A data set of the paper as its released code makes it."""

    name: str
    groups: int
    clients: tuple[Rows, ...]
    test: Rows


def with_group(x: Float[Array, "n d"], y: Int[Array, " n"], group: Int[Array, " n"]) -> Rows:
    """Make rows whose last feature is the group's number: the released classifiers see it.

    Features are rounded to float32, as they are before they enter torch's layers.
    """
    features = np.column_stack([x, group]).astype(np.float32)
    return Rows(features.astype(np.float64), y.astype(int), group.astype(int))


def held_out(rows: Rows) -> tuple[Rows, Rows]:
    """Split a client's rows as they stand: nine tenths to train on, the last tenth to validate."""
    cut = int(0.9 * len(rows.y))
    return rows.take(slice(cut)), rows.take(slice(cut, None))


def pooled(parts: tuple[Rows, ...]) -> Rows:
    """Return the rows of all clients, one after another."""
    return Rows(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def cell_counts(rows: Rows, groups: int) -> Float[Array, "2 a"]:
    """Count rows by label and group."""
    cell = rows.y * groups + rows.group
    return np.bincount(cell, minlength=2 * groups).reshape(2, groups).astype(np.float64)


def in_shares(rows: Int[Array, " n"], shares: tuple[float, ...]) -> list[Int[Array, " m"]]:
    """Cut rows as they stand at the rounded-down sums of shares; the last part takes the rest.

    >>> [part.tolist() for part in in_shares(np.arange(7), (0.5, 0.3, 0.2))]
    [[0, 1, 2], [3, 4], [5, 6]]
    """
    ends = np.cumsum(shares)[:-1]
    return np.split(rows, [min(int(end * len(rows)), len(rows)) for end in ends])


def min_max(values: Float[Array, " n"]) -> Float[Array, " n"]:
    """Scale to 0..1 by the extremes of just these values, whichever file or split they are of."""
    return (values - values.min()) / (values.max() - values.min())


def one_hot(cells: list[str], categories: list[str]) -> Float[Array, "n c"]:
    """Return one column per category; a cell of none of them is all zero.

    >>> one_hot(["b", "c"], ["a", "b"])
    array([[0., 1.],
           [0., 0.]])
    """
    place = {category: number for number, category in enumerate(categories)}
    numbers = np.array([place.get(cell, -1) for cell in cells])
    return (numbers[:, None] == np.arange(len(categories))).astype(np.float64)
