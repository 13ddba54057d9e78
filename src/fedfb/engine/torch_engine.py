"""The torch engine: torch computes logits and gradients, the numpy engine's code does the rest.

Torch computes two things: the logits of a module, and the gradient of a weighted sum of logits
(:class:`Passes`). Losses, weights, cells, signals, the order of rows and the solver's step are
those of the numpy engine.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fedfb.core import ClientData, Key, LocalSolver
from fedfb.engine import rows as sums
from fedfb.engine.base import Curvature, Rebalance, RowLoss, slope
from fedfb.engine.optimise import Move, local_weights, make_move, move_lambda
from fedfb.engine.rows import by_cell, cell_counts, chunks, epochs, no_curvature
from fedfb.errors import ConfigError
from fedfb.models import TorchModel, alone, buffers_of, find_torch, refuse_moved, trained_parameters
from fedfb.shapes import Array, Float


class Passes(NamedTuple):
    """A module's passes over rows; for all runs at once if the module can be batched over runs."""

    module: Any
    parts: tuple[tuple[str, tuple[int, ...]], ...]
    buffers: dict[str, Any]
    batched: bool

    @property
    def size(self) -> int:
        """The number of parameters that are trained."""
        return sum(int(np.prod(shape)) for _, shape in self.parts)

    def forward(self, theta: Float[Array, "r p"], x: Float[Array, "b d"]) -> tuple[Any, Any]:
        """Return the parameters as a torch tensor (the same memory) and the logits (r, b)."""
        torch = find_torch()
        at, rows = torch.from_numpy(theta).requires_grad_(), torch.from_numpy(x)
        if self.batched and len(theta) > 1:
            forward_runs = torch.func.vmap(self._one_run, in_dims=(0, None), randomness="same")
            return at, forward_runs(at, rows)
        random_state, logits = torch.get_rng_state(), []
        for run in at:
            torch.set_rng_state(random_state)
            logits.append(self._one_run(run, rows))
        return at, torch.stack(logits)

    def run_by_run(self) -> "Passes":
        """Return passes that compute one run after the other, with the same bits in any grid."""
        return self._replace(batched=False)

    def backward(self, at: Any, z: Any, error: Float[Array, "b r"]) -> Float[Array, "r p"]:
        """Return the gradient from the derivative ``error`` of the objective to each logit."""
        torch = find_torch()
        by_run = torch.from_numpy(np.ascontiguousarray(error.T)).to(z.dtype)
        [gradient] = torch.autograd.grad(z, at, by_run, retain_graph=True)
        return np.ascontiguousarray(gradient.numpy())

    def _one_run(self, flat: Any, rows: Any) -> Any:
        values, start = {}, 0
        for name, shape in self.parts:
            stop = start + int(np.prod(shape))
            values[name] = flat[start:stop].view(shape)
            start = stop
        return find_torch().func.functional_call(self.module, values, (rows,)).reshape(len(rows))


MODULE_DRAWS = 15
"""The part of a key that draws a module's own random numbers in training."""


@dataclass(frozen=True)
class TorchEngine:
    """One client's arithmetic for a torch model, in single or double precision.

    Training is in train mode. The random numbers of a module (dropout) follow from the key, so
    every run of a grid drops the same units, and a run alone equals the run in a grid up to
    rounding. Everything else, also gradients of sums, is in eval mode. Logits have the same bits in
    any grid.
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
        theta = self._cast(params)
        move = self._move(solver, theta if anchor is None else self._cast(anchor))
        with alone((*key, MODULE_DRAWS)):
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
        theta, counts = self._cast(params), cell_counts(data)
        move = self._move(solver, theta)
        with alone((*key, MODULE_DRAWS)):
            for number, epoch in enumerate(
                epochs(len(data.y), solver, key), start=rule.updates + 1
            ):
                self._one_epoch(theta, data, local_weights(rule, lam, data, counts), epoch, move)
                losses = self.loss_sums(theta.astype(np.float64), data, rule.surrogate)
                lam = move_lambda(losses, data, lam, rule, number)
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
        [gradient] = self._gradients(params, data, [by_cell(cell_weights)], surrogate, row_weights)
        return gradient

    def cell_gradients(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        surrogate: RowLoss = "ce",
        row_weights: Float[Array, "r n"] | None = None,
    ) -> Float[Array, "r 2 a p"]:
        cells = np.eye(2 * data.groups)[:, :, None]
        gradients = self._gradients(params, data, cells, surrogate, row_weights)
        return np.stack(gradients, axis=1).reshape(len(params), 2, data.groups, -1)

    def curvature(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        cell_weights: Float[Array, "r 2 a"],
        full: bool = True,
    ) -> Curvature:
        raise no_curvature(self.model)

    def logits(self, params: Float[Array, "r p"], x: Float[Array, "n d"]) -> Float[Array, "r n"]:
        logits = np.zeros((len(params), len(x)))
        for rows, z in self._logits_by_chunk(params, x):
            logits[:, rows] = z.T
        return logits

    @cached_property
    def _passes(self) -> Passes:
        with alone():
            return make_passes(self.model, self.dtype)

    def _cast(self, params: Float[Array, "r p"]) -> Float[Array, "r p"]:
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
        theta, passes = self._cast(params), self._passes.run_by_run()
        for rows in chunks(len(x)):
            with alone(), find_torch().no_grad():
                passes.module.eval()
                _, z = passes.forward(theta, x[rows].astype(self.dtype))
                logits = by_row(z).astype(np.float64)
            yield rows, logits

    def _gradients(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        tables: Sequence[Float[Array, "c #r"]] | Float[Array, "k c #r"],
        surrogate: RowLoss,
        row_weights: Float[Array, "r n"] | None,
    ) -> list[Float[Array, "r p"]]:
        """Return one gradient for each table of weights by cell: one pass forward, many back."""
        theta, passes, cell = self._cast(params), self._passes, data.cell
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


NOT_BATCHED = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RuntimeError, TypeError, ValueError, Warning),
)
"""What a module raises that works on one run and cannot be batched over several."""


def by_row(z: Any) -> Float[Array, "b r"]:
    """Return logits as the shared arithmetic has them, rows first."""
    return z.detach().numpy().T


def make_passes(model: TorchModel, dtype: Any) -> Passes:
    """Build a model's module, look at how it answers, and try it on two runs at once."""
    module = model.checked(dtype)
    parts = tuple((name, tuple(value.shape)) for name, value in trained_parameters(module))
    passes = Passes(module, parts, buffers_of(module), batched=True)
    return passes._replace(batched=_can_be_batched(passes, model.inputs, np.dtype(dtype)))


def _can_be_batched(passes: Passes, inputs: int, dtype: np.dtype) -> bool:
    """Try two runs at once: modules that branch on values, or write into them, take one."""
    theta = np.random.default_rng(0).normal(size=(2, passes.size)).astype(dtype)
    x = np.random.default_rng(1).integers(0, 2, (3, inputs)).astype(dtype)
    try:
        for mode in (True, False):
            passes.module.train(mode)
            with alone((0,)), warnings.catch_warnings():
                warnings.filterwarnings("error", message="There is a performance drop")
                at, z = passes.forward(theta, x)
                passes.backward(at, z, np.ones((3, 2), dtype))
            with alone((0,)):
                _, expected = passes.run_by_run().forward(theta, x)
            if not np.allclose(by_row(z), by_row(expected), rtol=1e-3, atol=1e-3):
                return False
    except NOT_BATCHED:
        return False
    return True
