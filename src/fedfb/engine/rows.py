"""Rows of one client: their order in training, their cells, and passes over them in chunks.

The cells (label, group) of a client's rows.

Sums over rows by (label, group), from logits that come chunk by chunk.

What is made of arrays that nobody can write into, kept for as long as they live.
"""

import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

from fedfb.core import ClientData, Key, LocalSolver, generator
from fedfb.engine.losses import RowLoss, decide, loss
from fedfb.shapes import Array, Float, Int

T = TypeVar("T")


class Kept(Generic[T]):
    """What was made, by the arrays it was made of and a name.

    >>> import numpy as np
    >>> kept, rows = Kept(), np.arange(3)
    >>> rows.flags.writeable = False
    >>> kept.of((rows,), "sum", lambda: [rows.sum()]) is kept.of((rows,), "sum", list)
    True
    >>> del rows
    >>> len(kept)
    0
    """

    def __init__(self) -> None:
        self._found: dict[Hashable, tuple[tuple[weakref.ref[Array], ...], T]] = {}

    def __len__(self) -> int:
        return len(self._found)

    def of(self, arrays: tuple[Array, ...], name: Hashable, make: Callable[[], T]) -> T:
        """Return what is made of read-only arrays; of others it is made anew each time."""
        if any(array.flags.writeable for array in arrays):
            return make()
        key = (*map(id, arrays), name)
        refs, made = self._found.get(key, ((), None))
        if made is None or any(ref() is not array for ref, array in zip(refs, arrays, strict=True)):
            made = make()
            refs = tuple(
                weakref.ref(array, lambda _: self._found.pop(key, None)) for array in arrays
            )
            self._found[key] = refs, made
        return made

    def clear(self) -> None:
        """Forget all."""
        self._found.clear()


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


KEPT_ROWS = 2**18
"""Cells of up to so many rows are kept: for more, memory counts and passes take long anyway."""


@dataclass(frozen=True)
class Cells:
    """``data.cell`` in four bytes a row, and what follows from it."""

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


_KEPT: Kept[Cells] = Kept()


def cells_of(data: ClientData) -> Cells:
    """Return the cells of a client's rows; kept where the rows are read-only."""
    if len(data.y) > KEPT_ROWS:
        return _made(data)
    return _KEPT.of((data.y, data.group), data.groups, lambda: _made(data))


def cell_counts(data: ClientData) -> Int[Array, "2 a"]:
    """Return the number of rows of each cell (label, group)."""
    return cells_of(data).counts.copy()


def _made(data: ClientData) -> Cells:
    """Return the cells' numbers, made without more memory than they take."""
    cell = np.empty(len(data.y), np.int32)
    np.multiply(data.y, data.groups, out=cell, casting="unsafe")
    return Cells(np.add(cell, data.group, out=cell, casting="unsafe"), data.groups)


Chunks = Iterable[tuple[slice, Float[Array, "n r"]]]
"""Which rows, and the logits of all runs at them."""


def loss_sums(
    logits: Chunks, runs: int, data: ClientData, surrogate: RowLoss
) -> Float[Array, "r 2 a"]:
    """Return the sum of a loss over the rows of each cell."""
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
