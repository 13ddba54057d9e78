"""The torch engine: any module's logits and their gradients, by torch; all else is shared.

Torch is asked for two things only, logits and the gradient of a weighted sum of them. Losses,
weights, cells, signals, the order of rows and the solver's step are those of the numpy engine.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fedfb.core import ClientData, Key, LocalSolver
from fedfb.engine import rows as sums
from fedfb.engine.base import Rebalance
from fedfb.engine.losses import RowLoss, slope
from fedfb.engine.optimise import Move, local_weights, make_move, moved
from fedfb.engine.rows import by_cell, cell_counts, chunks, epochs
from fedfb.engine.torch_passes import Passes, by_row, make_passes
from fedfb.errors import ConfigError
from fedfb.models import TorchModel
from fedfb.models.torch_model import alone, find_torch, refuse_moved
from fedfb.shapes import Array, Float

DROPPED = 15
"""The tag of a key from which a module's own randomness is drawn while it trains."""


@dataclass(frozen=True)
class TorchEngine:
    """One client's arithmetic for a torch model, in single or double precision.

    Training is in train mode: what a module draws (dropout) belongs to the key, so every run of a
    grid drops the same units, and a run alone is the run in a grid up to rounding. Everything else,
    gradients of sums too, is in eval mode; logits of a model have the same bits in any grid.
    """

    model: TorchModel
    dtype: Any = np.float32
    releases_gil: bool = field(default=False, init=False)

    @property
    def instructions(self) -> str:
        """The version of torch."""
        return f"torch {find_torch().__version__}"

    def train(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        cell_weights: Float[Array, "r 2 a"],
        solver: LocalSolver,
        key: Key,
        anchor: Float[Array, "r p"] | None = None,
    ) -> Float[Array, "r p"]:
        theta = self._taken(params)
        move = self._move(solver, theta if anchor is None else self._taken(anchor))
        with alone((*key, DROPPED)):
            for epoch in epochs(len(data.y), solver, key):
                self._one_epoch(theta, data, cell_weights, epoch, move)
        return theta.astype(np.float64)

    def train_rebalancing(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        lam: Float[Array, "r *l"],
        rule: Rebalance,
        solver: LocalSolver,
        key: Key,
    ) -> tuple[Float[Array, "r p"], Float[Array, "r *l"]]:
        theta, counts = self._taken(params), cell_counts(data)
        move = self._move(solver, theta)
        with alone((*key, DROPPED)):
            for number, epoch in enumerate(
                epochs(len(data.y), solver, key), start=rule.updates + 1
            ):
                self._one_epoch(theta, data, local_weights(rule, lam, data, counts), epoch, move)
                losses = self.loss_sums(theta.astype(np.float64), data, rule.surrogate)
                lam = moved(losses, data, lam, rule, number)
        return theta.astype(np.float64), lam

    def loss_sums(
        self, params: Float[Array, "r p"], data: ClientData, surrogate: RowLoss
    ) -> Float[Array, "r 2 a"]:
        return sums.loss_sums(self._logits_by_chunk(params, data.x), len(params), data, surrogate)

    def confusion(self, params: Float[Array, "r p"], data: ClientData) -> Float[Array, "r 2 2 a"]:
        return sums.confusion(self._logits_by_chunk(params, data.x), len(params), data)

    def gradient(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        cell_weights: Float[Array, "r 2 a"],
        surrogate: RowLoss = "ce",
        row_weights: Float[Array, "r n"] | None = None,
    ) -> Float[Array, "r p"]:
        [found] = self._gradients(params, data, [by_cell(cell_weights)], surrogate, row_weights)
        return found

    def cell_gradients(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        surrogate: RowLoss = "ce",
        row_weights: Float[Array, "r n"] | None = None,
    ) -> Float[Array, "r 2 a p"]:
        cells = np.eye(2 * data.groups)[:, :, None]
        found = self._gradients(params, data, cells, surrogate, row_weights)
        return np.stack(found, axis=1).reshape(len(params), 2, data.groups, -1)

    def logits(self, params: Float[Array, "r p"], x: Float[Array, "n d"]) -> Float[Array, "r n"]:
        found = np.zeros((len(params), len(x)))
        for rows, z in self._logits_by_chunk(params, x):
            found[:, rows] = z.T
        return found

    @cached_property
    def _passes(self) -> Passes:
        with alone():
            return make_passes(self.model, self.dtype)

    def _taken(self, params: Float[Array, "r p"]) -> Float[Array, "r p"]:
        """Return parameters in the engine's precision; refuse those of another module."""
        size = self._passes.size
        if params.shape[1] != size:
            raise ConfigError(
                f"--model {self.model.name} has {size} parameters for {self.model.inputs} "
                f"features, and these are {params.shape[1]}: it is not the function that they were "
                "trained with. Bring that one back, or train again."
            )
        return params.astype(self.dtype)

    def _move(self, solver: LocalSolver, anchor: Float[Array, "r p"]) -> Move:
        if solver.private:
            raise ConfigError(
                f"--privacy-epsilon cuts the gradient of every single row, which is not done for "
                f"{self.model.name}, a torch model. Choose --model logistic or mlp."
            )
        size = anchor.shape[1]
        return make_move(
            solver, lambda by_run: np.repeat(by_run.astype(self.dtype), size), anchor.reshape(-1)
        )

    def _one_epoch(
        self,
        theta: Float[Array, "r p"],
        data: ClientData,
        cell_weights: Float[Array, "r 2 a"],
        epoch: Sequence[Array],
        move: Move,
    ) -> None:
        """Move the parameters in place, one minibatch after the other."""
        passes, weights = self._passes, by_cell(cell_weights).astype(self.dtype)
        x, y, cell = data.x.astype(self.dtype, copy=False), data.y[:, None], data.cell
        passes.module.train()
        for batch in epoch:
            at, z = passes.forward(theta, x[batch])
            error = slope(by_row(z), y[batch], "ce") * weights[cell[batch]] / len(batch)
            move(theta.reshape(-1), passes.backward(at, z, error).reshape(-1))
        refuse_moved(self.model, passes.module, passes.buffers)

    def _logits_by_chunk(
        self, params: Float[Array, "r p"], x: Float[Array, "n d"]
    ) -> Iterator[tuple[slice, Float[Array, "n r"]]]:
        theta, passes = self._taken(params), self._passes.run_by_run()
        for rows in chunks(len(x)):
            with alone(), find_torch().no_grad():
                passes.module.eval()
                _, z = passes.forward(theta, x[rows].astype(self.dtype))
                found = by_row(z).astype(np.float64)
            yield rows, found

    def _gradients(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        tables: Sequence[Float[Array, "c #r"]] | Float[Array, "k c #r"],
        surrogate: RowLoss,
        row_weights: Float[Array, "r n"] | None,
    ) -> list[Float[Array, "r p"]]:
        """Return one gradient for each table of weights by cell: one pass forward, many back."""
        theta, passes, cell = self._taken(params), self._passes, data.cell
        total = [np.zeros(params.shape) for _ in tables]
        with alone():
            passes.module.eval()
            for rows in chunks(len(data.y)):
                at, z = passes.forward(theta, data.x[rows].astype(self.dtype))
                error = slope(by_row(z), data.y[rows, None], surrogate)
                if row_weights is not None:
                    error = error * row_weights[:, rows].T
                for number, table in enumerate(tables):
                    total[number] += passes.backward(at, z, error * table[cell[rows]])
        return total
