"""Rows of one client: their order in training, their cells, and passes over them in chunks."""

from collections.abc import Iterator

import numpy as np

from fedfb.core import Key, LocalSolver, generator
from fedfb.shapes import Array, Float, Int

CHUNK_ROWS = 4096
"""Rows that an evaluation holds at once, so that memory does not grow with the data."""


def orders(rows: int, solver: LocalSolver, key: Key) -> Iterator[Int[Array, " n"]]:
    """Yield for each epoch the order in which it visits the rows.

    The order belongs to the key alone: every run of a grid sees the same, so one pass over x serves
    them all.
    """
    rng = generator(key)
    for _ in range(solver.epochs):
        yield rng.permutation(rows)


def epochs(rows: int, solver: LocalSolver, key: Key) -> Iterator[list[Array]]:
    """Yield for each epoch the row numbers of its minibatches; the last may be smaller."""
    for order in orders(rows, solver, key):
        yield [order[start : start + solver.batch] for start in range(0, rows, solver.batch)]


def minibatches(rows: int, solver: LocalSolver, key: Key) -> Iterator[Int[Array, " b"]]:
    """Yield the row numbers of every minibatch of every epoch."""
    for epoch in epochs(rows, solver, key):
        yield from epoch


def by_cell(cell_weights: Float[Array, "r 2 a"]) -> Float[Array, "c r"]:
    """Return a table of weights with one row per cell, to be looked up by cell numbers."""
    return np.ascontiguousarray(cell_weights.reshape(len(cell_weights), -1).T)


def add_by_cell(
    total: Float[Array, "c r"], cell: Int[Array, " n"], values: Float[Array, "n r"]
) -> None:
    """Add the values of rows to the totals of their cells, in place."""
    for number in np.unique(cell):
        total[number] += values[cell == number].sum(axis=0)


def chunks(rows: int) -> Iterator[slice]:
    """Yield slices that cover all rows."""
    return (slice(start, start + CHUNK_ROWS) for start in range(0, rows, CHUNK_ROWS))
