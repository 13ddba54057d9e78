"""The numpy engine: the specification that faster engines are tested against.

It is also the fallback without them. The runs of a grid share every pass over the rows: the first
layer of all of them is one matrix product ``X[b, d] @ W[d, r*h]``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedfb.core import ClientData, Key, LocalSolver, generator
from fedfb.engine.losses import decide, loss, slope
from fedfb.engine.optimise import make_optimiser
from fedfb.engine.packed import Packed, backward, forward, pack, unpack
from fedfb.models import Network
from fedfb.notions import Surrogate
from fedfb.shapes import Array, Float, Int

CHUNK_ROWS = 4096
"""Rows that an evaluation holds at once, so that memory does not grow with the data."""


@dataclass(frozen=True)
class NumpyEngine:
    """One client's arithmetic in numpy, in single or double precision."""

    model: Network
    dtype: Any = np.float64

    def train(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        cell_weights: Float[Array, "r 2 a"],
        solver: LocalSolver,
        key: Key,
    ) -> Float[Array, "r p"]:
        r"""Minimise :math:`\frac1n\sum_j\omega_j\ell_j` in E passes over minibatches of B rows.

        A minibatch's objective is :math:`\frac1{|b|}\sum_{j\in b}\omega_j\ell_j`, unbiased for the
        whole one: it is not divided by the batch's own sum of weights.
        """
        theta = pack(params.astype(self.dtype), self.model)
        step = make_optimiser(theta, solver, self.model)
        x, y = data.x.astype(self.dtype, copy=False), data.y.astype(self.dtype)
        weights = _by_cell(cell_weights).astype(self.dtype)
        cell = data.cell
        for rows in minibatches(len(y), solver, key):
            batch = x[rows]
            active = forward(theta, batch)
            error = slope(active[-1], y[rows, None], "ce")
            error *= weights[cell[rows]]
            error /= len(rows)
            step(theta, backward(theta, active, error))
        return unpack(theta, self.model).astype(np.float64)

    def loss_sums(
        self, params: Float[Array, "r p"], data: ClientData, surrogate: Surrogate
    ) -> Float[Array, "r 2 a"]:
        total = np.zeros((2 * data.groups, len(params)))
        for rows, z in self._logits_by_chunk(params, data):
            losses = loss(z, data.y[rows, None], surrogate)
            _add_by_cell(total, data.cell[rows], losses)
        return total.T.reshape(-1, 2, data.groups)

    def confusion(self, params: Float[Array, "r p"], data: ClientData) -> Float[Array, "r 2 2 a"]:
        positive: Array = np.zeros((2 * data.groups, len(params)))
        for rows, z in self._logits_by_chunk(params, data):
            _add_by_cell(positive, data.cell[rows], decide(z))
        positive = positive.T.reshape(-1, 2, data.groups)
        return np.stack([cell_counts(data) - positive, positive], axis=2)

    def gradient(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        cell_weights: Float[Array, "r 2 a"],
        surrogate: Surrogate = "ce",
    ) -> Float[Array, "r p"]:
        theta = pack(params.astype(self.dtype), self.model)
        weights, cell, total = _by_cell(cell_weights), data.cell, np.zeros(params.shape)
        for rows in _chunks(len(data.y)):
            active = forward(theta, data.x[rows].astype(self.dtype, copy=False))
            error = slope(active[-1], data.y[rows, None], surrogate) * weights[cell[rows]]
            total += unpack(backward(theta, active, error.astype(self.dtype)), self.model)
        return total

    def cell_gradients(
        self, params: Float[Array, "r p"], data: ClientData, surrogate: Surrogate = "ce"
    ) -> Float[Array, "r 2 a p"]:
        cells = np.eye(2 * data.groups).reshape(-1, 1, 2, data.groups)
        runs = (len(params), 2, data.groups)
        parts = [
            self.gradient(params, data, np.broadcast_to(cell, runs), surrogate) for cell in cells
        ]
        return np.stack(parts, axis=1).reshape(*runs, -1)

    def logits(self, params: Float[Array, "r p"], x: Float[Array, "n d"]) -> Float[Array, "r n"]:
        theta = pack(params.astype(self.dtype), self.model)
        parts = [forward(theta, x[rows].astype(self.dtype))[-1] for rows in _chunks(len(x))]
        return np.concatenate(parts).T.astype(np.float64)

    def _logits_by_chunk(
        self, params: Float[Array, "r p"], data: ClientData
    ) -> Iterator[tuple[slice, Float[Array, "n r"]]]:
        theta = pack(params.astype(self.dtype), self.model)
        for rows in _chunks(len(data.y)):
            x = data.x[rows].astype(self.dtype, copy=False)
            yield rows, forward(theta, x)[-1].astype(np.float64)


def minibatches(rows: int, solver: LocalSolver, key: Key) -> Iterator[Int[Array, " b"]]:
    """Yield the row numbers of every minibatch of every epoch; the last of an epoch may be smaller.

    The order belongs to the key alone: every run of a grid sees the same, so one pass over x serves
    them all.
    """
    rng = generator(key)
    for _ in range(solver.epochs):
        order = rng.permutation(rows)
        for start in range(0, rows, solver.batch):
            yield order[start : start + solver.batch]


def cell_counts(data: ClientData) -> Int[Array, "2 a"]:
    """Return the number of rows of each cell (label, group)."""
    return np.bincount(data.cell, minlength=2 * data.groups).reshape(2, data.groups)


def _by_cell(cell_weights: Float[Array, "r 2 a"]) -> Float[Array, "c r"]:
    return np.ascontiguousarray(cell_weights.reshape(len(cell_weights), -1).T)


def _add_by_cell(
    total: Float[Array, "c r"], cell: Int[Array, " n"], values: Float[Array, "n r"]
) -> None:
    for number in np.unique(cell):
        total[number] += values[cell == number].sum(axis=0)


def _chunks(rows: int) -> Iterator[slice]:
    return (slice(start, start + CHUNK_ROWS) for start in range(0, rows, CHUNK_ROWS))


__all__ = ["NumpyEngine", "Packed", "cell_counts", "minibatches"]
