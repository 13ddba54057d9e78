"""A torch module's passes over rows: logits, and the gradient of a weighted sum of them."""

import warnings
from typing import Any, NamedTuple

import numpy as np

from fedfb.models import TorchModel
from fedfb.models.torch_model import alone, buffers_of, find_torch, trained_parameters
from fedfb.shapes import Array, Float

NOT_BATCHED = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RuntimeError, TypeError, ValueError, Warning),
)
"""What a module raises that works on one run and cannot be batched over several."""


class Passes(NamedTuple):
    """A module's passes over rows, for all runs at once where it can be batched over them."""

    module: Any
    parts: tuple[tuple[str, tuple[int, ...]], ...]
    buffers: dict[str, Any]
    batched: bool

    @property
    def size(self) -> int:
        """The number of parameters that are trained."""
        return sum(int(np.prod(shape)) for _, shape in self.parts)

    def forward(self, theta: Float[Array, "r p"], x: Float[Array, "b d"]) -> tuple[Any, Any]:
        """Return the parameters as torch sees them (the same memory) and the logits (r, b)."""
        torch = find_torch()
        at, rows = torch.from_numpy(theta).requires_grad_(), torch.from_numpy(x)
        if self.batched and len(theta) > 1:
            one = torch.func.vmap(self._one_run, in_dims=(0, None), randomness="same")
            return at, one(at, rows)
        drawn, logits = torch.get_rng_state(), []
        for run in at:
            torch.set_rng_state(drawn)
            logits.append(self._one_run(run, rows))
        return at, torch.stack(logits)

    def run_by_run(self) -> "Passes":
        """Return passes that take one run after the other, whose bits no grid changes."""
        return self._replace(batched=False)

    def backward(self, at: Any, z: Any, error: Float[Array, "b r"]) -> Float[Array, "r p"]:
        """Return the gradient, given the derivative of the objective to each logit."""
        torch = find_torch()
        by_run = torch.from_numpy(np.ascontiguousarray(error.T)).to(z.dtype)
        [found] = torch.autograd.grad(z, at, by_run, retain_graph=True)
        return np.ascontiguousarray(found.numpy())

    def _one_run(self, flat: Any, rows: Any) -> Any:
        values, start = {}, 0
        for name, shape in self.parts:
            stop = start + int(np.prod(shape))
            values[name] = flat[start:stop].view(shape)
            start = stop
        return find_torch().func.functional_call(self.module, values, (rows,)).reshape(len(rows))


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
