"""The rows of one client: their order in training, their cells, and sums by cell.

A cell is a pair (label, group). Sums over rows come from logits in chunks, so that memory does not
grow with the data. Results that depend on read-only arrays are cached while the arrays exist.
"""

import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

from fedfb.core import ClientData, Key, LocalSolver, generator
from fedfb.engine.base import RowLoss, decide, loss
from fedfb.shapes import Array, Float, Int

T = TypeVar("T")


class ArrayCache(Generic[T]):
    """A cache of values by the arrays that they were computed from, and a name.

    >>> import numpy as np
    >>> cache, rows = ArrayCache(), np.arange(3)
    >>> rows.flags.writeable = False
    >>> cache.of((rows,), "sum", lambda: [rows.sum()]) is cache.of((rows,), "sum", list)
    True
    >>> del rows
    >>> len(cache)
    0
    """

    def __init__(self) -> None:
        self._values: dict[Hashable, tuple[tuple[weakref.ref[Array], ...], T]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def of(self, arrays: tuple[Array, ...], name: Hashable, make: Callable[[], T]) -> T:
        """Return a value computed from arrays; it is cached if all arrays are read-only.

        Args:
            arrays: the arrays that the value depends on.
            name: tells apart several values of the same arrays.
            make: computes the value.
        """
        if any(array.flags.writeable for array in arrays):
            return make()
        # Another array may get the id of a deleted one: the weak references tell them apart.
        key = (*map(id, arrays), name)
        refs, value = self._values.get(key, ((), None))
        if value is None or any(
            ref() is not array for ref, array in zip(refs, arrays, strict=True)
        ):
            value = make()
            refs = tuple(
                weakref.ref(array, lambda _: self._values.pop(key, None)) for array in arrays
            )
            self._values[key] = refs, value
        return value

    def clear(self) -> None:
        """Remove all values."""
        self._values.clear()


CHUNK_ROWS = 4096
"""Rows that an evaluation holds in memory at once."""


def orders(rows: int, solver: LocalSolver, key: Key) -> Iterator[Int[Array, " n"]]:
    """Yield for each epoch the order in which it visits the rows.

    The order depends on the key alone. All runs of a grid have the same order, so one pass over x
    trains all of them.

    Args:
        rows: number of rows.
        solver: gives the number of epochs.
        key: draws the orders.
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
    """Return weights as a table with one row per cell number."""
    return np.ascontiguousarray(cell_weights.reshape(len(cell_weights), -1).T)


def add_by_cell(
    total: Float[Array, "c r"], cell: Int[Array, " n"], values: Float[Array, "n r"]
) -> None:
    """Add the values of rows to the totals of their cells, in place.

    Args:
        total: totals by cell and run; changed.
        cell: cell number of each row.
        values: by row and run.
    """
    for number in np.unique(cell):
        total[number] += values[cell == number].sum(axis=0)


def chunks(rows: int) -> Iterator[slice]:
    """Yield slices that cover all rows."""
    return (slice(start, start + CHUNK_ROWS) for start in range(0, rows, CHUNK_ROWS))


CACHED_ROWS = 2**18
"""The largest number of rows whose cells are cached. For more rows, memory matters more."""


@dataclass(frozen=True)
class _Cells:
    """``data.cell`` in four bytes a row, with counts and rows by cell."""

    number: Int[Array, " n"]
    groups: int

    @cached_property
    def counts(self) -> Int[Array, "2 a"]:
        """The number of rows of each cell."""
        counts = np.bincount(self.number, minlength=2 * self.groups)
        return counts.reshape(2, self.groups)

    @cached_property
    def rows(self) -> list[Int[Array, " m"]]:
        """The rows of each cell, in their order."""
        return [np.flatnonzero(self.number == cell) for cell in range(2 * self.groups)]


_CACHE: ArrayCache[_Cells] = ArrayCache()


def row_cells(data: ClientData) -> _Cells:
    """Return the cells of a client's rows; cached if the rows are read-only."""
    if len(data.y) > CACHED_ROWS:
        return _make_cells(data)
    return _CACHE.of((data.y, data.group), data.groups, lambda: _make_cells(data))


def cell_counts(data: ClientData) -> Int[Array, "2 a"]:
    """Return the number of rows of each cell (label, group)."""
    return row_cells(data).counts.copy()


def _make_cells(data: ClientData) -> _Cells:
    """Return the cells, computed in place so that no second array is needed."""
    cell = np.empty(len(data.y), np.int32)
    np.multiply(data.y, data.groups, out=cell, casting="unsafe")
    return _Cells(np.add(cell, data.group, out=cell, casting="unsafe"), data.groups)


Chunks = Iterable[tuple[slice, Float[Array, "n r"]]]
"""Slices of rows, with the logits of all runs at these rows."""


def loss_sums(
    logits: Chunks, runs: int, data: ClientData, surrogate: RowLoss
) -> Float[Array, "r 2 a"]:
    """Return the sum of a loss over the rows of each cell.

    Args:
        logits: logits in chunks of rows.
        runs: number of runs.
        data: the client's rows.
        surrogate: the loss.
    """
    total = np.zeros((2 * data.groups, runs))
    for rows, z in logits:
        add_by_cell(total, data.cell[rows], loss(z, data.y[rows, None], surrogate))
    return total.T.reshape(-1, 2, data.groups)


def confusion(logits: Chunks, runs: int, data: ClientData) -> Float[Array, "r 2 2 a"]:
    """Return the number of rows by label, decision and group."""
    positive: Array = np.zeros((2 * data.groups, runs))
    for rows, z in logits:
        add_by_cell(positive, data.cell[rows], decide(z))
    positive = positive.T.reshape(-1, 2, data.groups)
    return np.stack([cell_counts(data) - positive, positive], axis=2)
