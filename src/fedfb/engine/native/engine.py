"""The native engine: the numpy engine's arithmetic in one compiled kernel."""

from ctypes import byref
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedfb.core import ClientData, Key, LocalSolver
from fedfb.engine.base import Rebalance
from fedfb.engine.curvature import (
    Curvature,
    curvature_size,
    no_curvature,
    split_curvature,
)
from fedfb.engine.losses import RowLoss, slope
from fedfb.engine.native.layout import SIDE_BY_SIDE, unpack
from fedfb.engine.native.library import KINDS, best_instructions, kernel
from fedfb.engine.native.work import (
    Work,
    begin,
    give_gradient,
    give_noise,
    give_scratch,
    give_solver,
    make_sparse,
)
from fedfb.engine.optimise import local_weights, move_lambda
from fedfb.engine.private import PrivateEpoch, private_epochs
from fedfb.engine.rows import cell_counts, cells_of, orders
from fedfb.models import Network
from fedfb.shapes import Array, Float


@dataclass(frozen=True)
class NativeEngine:
    """One client's arithmetic in compiled code, in single or double precision.

    A run has the same bits alone, in any grid and on any number of threads, on one instruction set.
    """

    model: Network
    dtype: Any = np.float32
    instructions: str = field(default_factory=best_instructions)
    releases_gil: bool = field(default=True, init=False)

    def train(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        cell_weights: Float[Array, "r 2 a"],
        solver: LocalSolver,
        key: Key,
        anchor: Float[Array, "r p"] | None = None,
    ) -> Float[Array, "r p"]:
        work = self._training(params, data, solver, params if anchor is None else anchor)
        work.weigh_cells(cell_weights)
        if solver.private is not None:
            for epoch in private_epochs(data, params.shape, solver, key):
                self._train_privately(work, epoch)
            return self._params(work)
        for order in orders(len(data.y), solver, key):
            self._train_epoch(work, order)
            del order  # the next one is drawn before this name is bound again
        return self._params(work)

    def train_rebalancing(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        lam: Float[Array, "r *l"],
        rule: Rebalance,
        solver: LocalSolver,
        key: Key,
    ) -> tuple[Float[Array, "r p"], Float[Array, "r *l"]]:
        work, counts = self._training(params, data, solver, params), cell_counts(data)
        for number, order in enumerate(orders(len(data.y), solver, key), start=rule.updates + 1):
            work.weigh_cells(local_weights(rule, lam, data, counts))
            self._train_epoch(work, order)
            losses = self._sums_of(work, data, rule.surrogate)
            lam = move_lambda(losses, data, lam, rule, number)
        return self._params(work), lam

    def loss_sums(
        self, params: Float[Array, "r p"], data: ClientData, surrogate: RowLoss
    ) -> Float[Array, "r 2 a"]:
        return self._sums(params, data, surrogate)

    def confusion(self, params: Float[Array, "r p"], data: ClientData) -> Float[Array, "r 2 2 a"]:
        positive = self._sums(params, data, "positive")
        return np.stack([cell_counts(data) - positive, positive], axis=2)

    def gradient(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        cell_weights: Float[Array, "r 2 a"],
        surrogate: RowLoss = "ce",
        row_weights: Float[Array, "r n"] | None = None,
    ) -> Float[Array, "r p"]:
        work = self._differentiating(params, data, cell_weights, surrogate)
        self._weigh_rows(work, row_weights)
        return self._gradient(work, None, len(data.y), surrogate)

    def cell_gradients(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        surrogate: RowLoss = "ce",
        row_weights: Float[Array, "r n"] | None = None,
    ) -> Float[Array, "r 2 a p"]:
        weights = np.ones((len(params), 2, data.groups))
        work = self._differentiating(params, data, weights, surrogate)
        self._weigh_rows(work, row_weights)
        parts = [self._gradient(work, rows, len(rows), surrogate) for rows in cells_of(data).rows]
        return np.stack(parts, axis=1).reshape(len(params), 2, data.groups, -1)

    def logits(self, params: Float[Array, "r p"], x: Float[Array, "n d"]) -> Float[Array, "r n"]:
        nobody = np.zeros(len(x), np.int64)
        work = self._passing(params, ClientData(0, x, nobody, nobody, 1))
        found = np.empty((len(params), len(x)))
        work.kernel.logits(byref(work.job), len(x), found.ctypes.data)
        return found

    def curvature(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        cell_weights: Float[Array, "r 2 a"],
        full: bool = True,
    ) -> Curvature:
        if self.model.hidden:
            raise no_curvature(self.model)
        work = self._begin(params, data)
        make_sparse(work, passes=1)
        sums = np.zeros((len(params), curvature_size(self.model.size, full)))
        arrays = [
            np.ascontiguousarray(array, np.float64)
            for array in (params, cell_weights, np.empty((SIDE_BY_SIDE, self.model.size)))
        ]
        at = [array.ctypes.data for array in (*arrays, sums)]
        work.kernel.add_curvature(byref(work.job), len(data.y), full, *at)
        return split_curvature(sums, self.model.size)

    def _begin(self, params: Float[Array, "r p"], data: ClientData) -> Work:
        dtype = np.dtype(self.dtype)
        return begin(kernel(dtype, self.instructions), self.model, dtype, params, data)

    def _passing(self, params: Float[Array, "r p"], data: ClientData) -> Work:
        work = self._begin(params, data)
        make_sparse(work, passes=1)
        return give_scratch(work)

    def _training(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        solver: LocalSolver,
        anchor: Float[Array, "r p"],
    ) -> Work:
        work = self._begin(params, data)
        make_sparse(work, solver.epochs)
        give_solver(work, solver, anchor)
        return give_scratch(work)

    def _differentiating(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        cell_weights: Float[Array, "r 2 a"],
        surrogate: RowLoss,
    ) -> Work:
        slope(np.zeros(0), np.zeros(0), surrogate)  # refuses a loss that has none
        work = self._passing(params, data)
        give_gradient(work)
        work.weigh_cells(cell_weights)
        return work

    def _weigh_rows(self, work: Work, row_weights: Float[Array, "r n"] | None) -> None:
        if row_weights is not None:
            work.give(row_weights=np.ascontiguousarray(row_weights, np.float64))

    def _train_epoch(self, work: Work, order: Array) -> None:
        work.kernel.train_epoch(byref(work.job), order.ctypes.data, len(order))

    def _train_privately(self, work: Work, epoch: PrivateEpoch) -> None:
        order = np.concatenate(epoch.batches).astype(np.int64, copy=False)
        starts = np.cumsum([0, *map(len, epoch.batches)])
        give_noise(work, epoch.noise, epoch.expected)
        work.kernel.train_private(
            byref(work.job), order.ctypes.data, starts.ctypes.data, len(epoch.batches)
        )

    def _gradient(
        self, work: Work, order: Array | None, rows: int, surrogate: RowLoss
    ) -> Float[Array, "r p"]:
        total = work.behind["total"]
        total[:] = 0
        at = None if order is None else order.ctypes.data
        work.kernel.add_gradient(byref(work.job), at, rows, KINDS.index(surrogate))
        return unpack(total, self.model, work.layout)

    def _sums(self, params: Float[Array, "r p"], data: ClientData, kind: str) -> Array:
        return self._sums_of(self._passing(params, data), data, kind)

    def _sums_of(self, work: Work, data: ClientData, kind: str) -> Array:
        sums = np.zeros((work.layout.runs, 2, data.groups))
        work.kernel.add_losses(byref(work.job), len(data.y), KINDS.index(kind), sums.ctypes.data)
        return sums

    def _params(self, work: Work) -> Float[Array, "r p"]:
        return unpack(work.behind["theta"], self.model, work.layout)
