"""The rows of one client: their order in training, their cells, and sums by cell.

A cell is a pair (label, group). Sums over rows come from logits in chunks, so that memory does not
grow with the data. Results that depend on read-only arrays are cached while the arrays exist.

The sums of a Newton step (loss, gradient, second derivatives) are in double precision on every
engine: a fit by sums is the same however rows are distributed over clients only if the sums agree
to rounding.
"""

import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

from fedfb.core import ClientData, Key, LocalSolver, generator
from fedfb.engine.base import Curvature, RowLoss, decide, loss, sigmoid
from fedfb.errors import ConfigError
from fedfb.models import Model, Network
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


def curvature_size(parameters: int, full: bool) -> int:
    """Return the number of sums of one run.

    >>> curvature_size(3, full=True), curvature_size(3, full=False)
    (10, 7)
    """
    return 1 + parameters + (parameters * (parameters + 1) // 2 if full else parameters)


def split_curvature(sums: Float[Array, "r s"], parameters: int) -> Curvature:
    """Return loss, gradient and second derivatives of sums in this order.

    >>> split_curvature(np.arange(6.0)[None], parameters=2).second
    array([[3., 4., 5.]])
    """
    return Curvature(sums[:, 0], sums[:, 1 : 1 + parameters], sums[:, 1 + parameters :])


def full_matrix(triangle: Float[Array, " q"], parameters: int) -> Float[Array, "p p"]:
    """Return the symmetric matrix of a lower triangle.

    >>> full_matrix(np.array([1.0, 2.0, 3.0]), parameters=2)
    array([[1., 2.],
           [2., 3.]])
    """
    matrix = np.zeros((parameters, parameters))
    matrix[np.tril_indices(parameters)] = triangle
    return matrix + np.tril(matrix, -1).T


def sum_curvature(
    params: Float[Array, "r p"],
    data: ClientData,
    cell_weights: Float[Array, "r 2 a"],
    full: bool,
) -> Curvature:
    """Return the sums over a client's rows, in chunks so that memory does not grow with them.

    Args:
        params: weights of the features, then the bias; by run.
        data: the client's rows.
        cell_weights: weights of the rows by run, label and group.
        full: the triangle of second derivatives, or its diagonal.
    """
    runs, size = params.shape
    weights, cell = by_cell(cell_weights), data.cell
    sums, triangle = np.zeros((runs, curvature_size(size, full))), np.tril_indices(size)
    total = split_curvature(sums, size)
    for rows in chunks(len(data.y)):
        x, y = np.ones((len(data.y[rows]), size)), data.y[rows].astype(np.float64)
        x[:, :-1] = data.x[rows]
        # Run by run: a product for several runs would round otherwise in another grid.
        for run in range(runs):
            z, weight = x @ params[run], weights[cell[rows], run]
            p = sigmoid(z)
            bend = weight * p * sigmoid(-z)
            total.loss[run] += np.sum(weight * loss(z, y, "ce"))
            total.gradient[run] += (weight * (p - y)) @ x
            total.second[run] += (x.T @ (bend[:, None] * x))[triangle] if full else bend @ x**2
    return total


def no_curvature(model: Model) -> ConfigError:
    """Return the error for a model that is not a logistic regression."""
    name = f"a network with hidden layers {model.hidden}" if isinstance(model, Network) else model
    return ConfigError(
        f"--solver newton fits logistic regressions, and this model is {name}. Leave out --solver, "
        "or choose --model logistic."
    )
