"""The native engine: the numpy engine's arithmetic in one compiled kernel.

A call is a job: what the kernel is to compute, and the arrays behind it.
"""

from ctypes import byref
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedfb.core import ClientData, Key, LocalSolver
from fedfb.engine.base import Curvature, Rebalance, RowLoss, slope
from fedfb.engine.native.library import (
    LOSS_KINDS,
    SIDE_BY_SIDE,
    Job,
    Kernel,
    Layout,
    aligned_zeros,
    best_instructions,
    by_unit_and_run,
    filled_up,
    kernel,
    layout_of,
    pack_steps,
    unpack_params,
)
from fedfb.engine.optimise import PrivateEpoch, local_weights, move_lambda, private_epochs
from fedfb.engine.rows import (
    ArrayCache,
    cell_counts,
    curvature_size,
    no_curvature,
    orders,
    row_cells,
    split_curvature,
)
from fedfb.models import Network
from fedfb.shapes import Array, Float

SPARSE_SHARE, BYTES_BESIDE = 0.3, 36
"""Rows are made sparse where this share of the dense table holds them and all else that a row has:
where it starts, its cell, its label and group, and its place in the order."""

SPARSE_PASSES = 2
"""Passes over the rows that pay for making them sparse."""

SAMPLED_ROWS = 256


@dataclass(frozen=True)
class Work:
    """A job, and what keeps its memory alive."""

    kernel: Kernel
    model: Network
    layout: Layout
    dtype: np.dtype
    job: Job
    behind: dict[str, Array]

    def give(self, **arrays: Array) -> None:
        """Hand arrays to the kernel, and keep them for as long as it may read them."""
        for name, array in arrays.items():
            self.behind[name] = array
            setattr(self.job, name, array.ctypes.data)

    def pack(self, params: Float[Array, "r p"]) -> Array:
        """Return parameters in the kernel's layout."""
        return pack_steps(params[None], self.model, self.layout, self.dtype)

    def zeros(self) -> Array:
        """Return a zero for every parameter."""
        return aligned_zeros(self.layout.size, self.dtype)

    def weigh_cells(self, weights: Float[Array, "r 2 a"]) -> None:
        """Set the weights of the cells; rows that fill up a tile weigh 0."""
        cells = 2 * self.job.groups
        table = aligned_zeros(len(weights) * self.job.table, self.dtype)
        table.reshape(len(weights), -1)[:, :cells] = weights.reshape(-1, cells)
        self.give(cell_weights=table)


def give_scratch(work: Work) -> Work:
    """Add the memory that the passes need, once it is settled whether rows are sparse."""
    size = work.kernel.scratch_bytes(byref(work.job)) // work.dtype.itemsize
    work.give(scratch=aligned_zeros(size, work.dtype))
    return work


def give_gradient(work: Work) -> None:
    """Add a gradient and its sum over blocks."""
    work.give(gradient=work.zeros(), total=aligned_zeros(work.layout.size, np.dtype(np.float64)))


def give_solver(work: Work, solver: LocalSolver, anchor: Array) -> None:
    """Add an optimiser; its state is new."""
    each = (work.model, work.layout, work.dtype)
    work.job.adam, work.job.batch = solver.optimiser == "adam", solver.batch
    work.job.weight_decay = solver.weight_decay
    give_gradient(work)
    work.give(
        mean=work.zeros(), square=work.zeros(), rates=by_unit_and_run(solver.learning_rate, *each)
    )
    work.job.clip = 0.0 if solver.private is None else solver.private.clip
    if solver.prox is not None:
        work.give(pulls=by_unit_and_run(solver.prox, *each), anchor=work.pack(anchor))


def give_noise(work: Work, noise: Float[Array, "s r p"], expected: int) -> None:
    """Add the noise of the next steps, and the number that their sums are divided by."""
    work.job.expected = expected
    work.give(noise=pack_steps(noise, work.model, work.layout, work.dtype))


def make_sparse(work: Work, passes: int) -> None:
    """Leave the zeros out of rows that are mostly zeros; the results are the same bits.

    What is made of a read-only array serves all that follows on it. It is made when so many passes
    were asked for that they pay for it.
    """
    x = work.behind["x"]
    passed = _KEPT.of((x,), work.dtype.char, PassedRows)
    passed.passes += passes
    if passed.sparse is None and passed.passes >= SPARSE_PASSES:
        passed.sparse = _without_zeros(work, x)
    if passed.sparse:
        work.give(**passed.sparse)


@dataclass
class PassedRows:
    """How often an array of rows was passed over, and its rows without zeros.

    None: not made yet; nothing: they are not worth it.
    """

    passes: int = 0
    sparse: dict[str, Array] | None = None


_KEPT: ArrayCache[PassedRows] = ArrayCache()


def _without_zeros(work: Work, x: Array) -> dict[str, Array]:
    kernel, job = work.kernel, byref(work.job)
    entry = work.dtype.itemsize + np.dtype(np.uint16).itemsize
    room = SPARSE_SHARE * x.nbytes - BYTES_BESIDE * len(x)
    sample = x[:: max(1, len(x) // SAMPLED_ROWS)]
    expected = np.count_nonzero(sample) * len(x) / max(1, len(sample))
    if work.model.inputs > np.iinfo(np.uint16).max or entry * expected > room:
        return {}
    starts = np.empty(len(x) + 1, np.int64)
    kernel.count_nonzero(job, len(x), starts.ctypes.data)
    if entry * starts[-1] > room:
        return {}
    columns, values = np.empty(starts[-1] + 1, np.uint16), np.empty(starts[-1] + 1, work.dtype)
    kernel.compress(job, len(x), columns.ctypes.data, values.ctypes.data)
    return {"starts": starts, "columns": columns, "values": values}


def _rows_in_memory(x: Array) -> Array:
    """Return rows the kernel can read; single and double precision are read where they lie."""
    known = x.dtype in (np.float32, np.float64) and x.dtype.isnative
    side_by_side = x.shape[1] < 2 or x.strides[1] == x.itemsize
    if known and side_by_side and x.strides[0] % x.itemsize == 0:
        return x
    return np.ascontiguousarray(x, x.dtype.newbyteorder("=") if known else np.float64)


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
        return self._sums_of(self._passing(params, data), data, surrogate)

    def confusion(self, params: Float[Array, "r p"], data: ClientData) -> Float[Array, "r 2 2 a"]:
        positive = self._sums_of(self._passing(params, data), data, "positive")
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
        parts = [self._gradient(work, rows, len(rows), surrogate) for rows in row_cells(data).rows]
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
        """Return the work of passing a client's rows through the runs' models."""
        dtype = np.dtype(self.dtype)
        compiled = kernel(dtype, self.instructions)
        layout = layout_of(self.model, len(params), compiled.vector_bytes // dtype.itemsize)
        x = _rows_in_memory(data.x)
        job = Job(
            runs=len(params),
            inputs=self.model.inputs,
            depth=len(self.model.layers),
            features=layout.features,
            slabs=layout.slabs,
            wide=layout.wide,
            upper=layout.upper,
            stride=x.strides[0] // x.itemsize if len(x) > 1 else self.model.inputs,
            x_is_double=x.dtype == np.float64,
            groups=data.groups,
            table=filled_up(2 * data.groups + 1, compiled.vector_bytes // dtype.itemsize),
            all_rows=len(x),
        )
        work = Work(compiled, self.model, layout, dtype, job, {})
        work.give(
            sizes=np.array([units for _, units in self.model.layers], np.int64),
            x=x,
            cell=row_cells(data).number,
            theta=work.pack(params),
        )
        return work

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
        work.kernel.add_gradient(byref(work.job), at, rows, LOSS_KINDS.index(surrogate))
        return unpack_params(total, self.model, work.layout)

    def _sums_of(self, work: Work, data: ClientData, kind: str) -> Array:
        sums = np.zeros((work.layout.runs, 2, data.groups))
        work.kernel.add_losses(
            byref(work.job), len(data.y), LOSS_KINDS.index(kind), sums.ctypes.data
        )
        return sums

    def _params(self, work: Work) -> Float[Array, "r p"]:
        return unpack_params(work.behind["theta"], self.model, work.layout)
