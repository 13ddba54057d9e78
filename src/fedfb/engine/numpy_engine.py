"""The numpy engine: the specification of faster engines, and the fallback without them.

The runs of a grid share every pass over the rows: the first layer of all runs is one matrix product
``X[b, d] @ W[d, r*h]``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedfb.core import ClientData, Key, LocalSolver
from fedfb.engine import rows as sums
from fedfb.engine.base import Curvature, Rebalance, RowLoss, slope
from fedfb.engine.optimise import (
    Packed,
    PrivateEpoch,
    Step,
    backward,
    clip_factors,
    forward,
    local_weights,
    make_optimiser,
    move_lambda,
    pack_layers,
    private_epochs,
    unpack_layers,
)
from fedfb.engine.rows import by_cell, cell_counts, chunks, epochs, no_curvature, sum_curvature
from fedfb.models import Network
from fedfb.shapes import Array, Float, Int


@dataclass(frozen=True)
class NumpyEngine:
    """One client's arithmetic in numpy, in single or double precision."""

    model: Network
    dtype: Any = np.float64
    instructions: str = field(default="numpy", init=False)
    releases_gil: bool = field(default=False, init=False)

    def train(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        cell_weights: Float[Array, "r 2 a"],
        solver: LocalSolver,
        key: Key,
        anchor: Float[Array, "r p"] | None = None,
    ) -> Float[Array, "r p"]:
        r"""Minimise :math:`\frac1n\sum_j\omega_j\ell_j` in E passes over minibatches of B rows.

        The objective of a minibatch is :math:`\frac1{|b|}\sum_{j\in b}\omega_j\ell_j`. It is
        unbiased, because it is not divided by the sum of the batch's weights.
        """
        theta = self._pack(params)
        step = make_optimiser(
            theta, solver, self.model, theta if anchor is None else self._pack(anchor)
        )
        rows, weights = self._rows(data), by_cell(cell_weights).astype(self.dtype)
        if solver.private is not None:
            draws = private_epochs(data, params.shape, solver, key)
            self._train_privately(theta, rows, weights, draws, solver.private.clip, step)
            return self._unpack(theta)
        for epoch in epochs(len(data.y), solver, key):
            _one_epoch(theta, rows, weights, epoch, step)
        return self._unpack(theta)

    def _train_privately(
        self,
        theta: Packed,
        rows: "_Rows",
        weights: Float[Array, "c r"],
        draws: Iterable[PrivateEpoch],
        clip: float,
        step: Step,
    ) -> None:
        r"""Take steps along :math:`\frac1B(\sum_{j\in b}\text{clip}(\omega_j\nabla\ell_j)+z)`."""
        x, y, cell = rows
        for epoch in draws:
            for batch, noise in zip(epoch.batches, epoch.noise, strict=True):
                active = forward(theta, x[batch])
                error = slope(active[-1], y[batch], "ce") * weights[cell[batch]]
                error *= clip_factors(theta, active, error, clip)
                gradient = backward(theta, active, error)
                gradient.flat[:] += self._pack(noise).flat
                gradient.flat[:] /= epoch.expected
                step(theta, gradient)

    def train_rebalancing(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        lam: Float[Array, "r *l"],
        rule: Rebalance,
        solver: LocalSolver,
        key: Key,
    ) -> tuple[Float[Array, "r p"], Float[Array, "r *l"]]:
        theta = self._pack(params)
        step = make_optimiser(theta, solver, self.model, theta)
        rows, counts = self._rows(data), cell_counts(data)
        for number, epoch in enumerate(epochs(len(data.y), solver, key), start=rule.updates + 1):
            local = by_cell(local_weights(rule, lam, data, counts))
            _one_epoch(theta, rows, local.astype(self.dtype), epoch, step)
            losses = self.loss_sums(self._unpack(theta), data, rule.surrogate)
            lam = move_lambda(losses, data, lam, rule, number)
        return self._unpack(theta), lam

    def loss_sums(
        self, params: Float[Array, "r p"], data: ClientData, surrogate: RowLoss
    ) -> Float[Array, "r 2 a"]:
        return sums.loss_sums(self._logits_by_chunk(params, data), len(params), data, surrogate)

    def confusion(self, params: Float[Array, "r p"], data: ClientData) -> Float[Array, "r 2 2 a"]:
        return sums.confusion(self._logits_by_chunk(params, data), len(params), data)

    def gradient(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        cell_weights: Float[Array, "r 2 a"],
        surrogate: RowLoss = "ce",
        row_weights: Float[Array, "r n"] | None = None,
    ) -> Float[Array, "r p"]:
        theta = self._pack(params)
        weights, cell, total = by_cell(cell_weights), data.cell, np.zeros(params.shape)
        for rows in chunks(len(data.y)):
            active = forward(theta, data.x[rows].astype(self.dtype, copy=False))
            error = slope(active[-1], data.y[rows, None], surrogate) * weights[cell[rows]]
            if row_weights is not None:
                error = error * row_weights[:, rows].T
            total += unpack_layers(backward(theta, active, error.astype(self.dtype)), self.model)
        return total

    def cell_gradients(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        surrogate: RowLoss = "ce",
        row_weights: Float[Array, "r n"] | None = None,
    ) -> Float[Array, "r 2 a p"]:
        cells = np.eye(2 * data.groups).reshape(-1, 1, 2, data.groups)
        runs = (len(params), 2, data.groups)
        parts = [
            self.gradient(params, data, np.broadcast_to(cell, runs), surrogate, row_weights)
            for cell in cells
        ]
        return np.stack(parts, axis=1).reshape(*runs, -1)

    def curvature(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        cell_weights: Float[Array, "r 2 a"],
        full: bool = True,
    ) -> Curvature:
        if self.model.hidden:
            raise no_curvature(self.model)
        return sum_curvature(params, data, cell_weights, full)

    def logits(self, params: Float[Array, "r p"], x: Float[Array, "n d"]) -> Float[Array, "r n"]:
        theta = self._pack(params)
        parts = [forward(theta, x[rows].astype(self.dtype))[-1] for rows in chunks(len(x))]
        return np.concatenate(parts).T.astype(np.float64)

    def _rows(self, data: ClientData) -> "_Rows":
        x, y = data.x.astype(self.dtype, copy=False), data.y.astype(self.dtype)
        return x, y[:, None], data.cell

    def _pack(self, params: Float[Array, "r p"]) -> Packed:
        return pack_layers(params.astype(self.dtype), self.model)

    def _unpack(self, theta: Packed) -> Float[Array, "r p"]:
        return unpack_layers(theta, self.model).astype(np.float64)

    def _logits_by_chunk(
        self, params: Float[Array, "r p"], data: ClientData
    ) -> Iterator[tuple[slice, Float[Array, "n r"]]]:
        theta = self._pack(params)
        for rows in chunks(len(data.y)):
            x = data.x[rows].astype(self.dtype, copy=False)
            yield rows, forward(theta, x)[-1].astype(np.float64)


_Rows = tuple[Float[Array, "n d"], Float[Array, "n 1"], Int[Array, " n"]]


def _one_epoch(
    theta: Packed,
    rows: _Rows,
    weights: Float[Array, "c r"],
    epoch: Sequence[Array],
    step: Step,
) -> None:
    x, y, cell = rows
    for batch in epoch:
        active = forward(theta, x[batch])
        error = slope(active[-1], y[batch], "ce")
        error *= weights[cell[batch]]
        error /= len(batch)
        step(theta, backward(theta, active, error))
