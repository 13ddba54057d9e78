"""The models: shapes, initial values and flat parameter vectors, and each by its name.

Logistic regression and multilayer perceptrons are one class: a chain of layer sizes that ends in
one logit. A name with a colon, ``module:function``, is a user's own torch network. Torch is
imported only if such a model is used.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module, invalidate_caches
from itertools import pairwise
from os import getcwd
from threading import RLock
from typing import Any

import numpy as np

from fedfb.core import Key, generator
from fedfb.errors import ConfigError, unknown_name
from fedfb.extras import refuse_without
from fedfb.shapes import Array, Float

EXPECTED = "Expected module:function, a function that takes the number of features and returns an "
EXPECTED += "nn.Module with one logit per row (docs/torch.md)."


def is_own(name: str) -> bool:
    """Return True if a model's name is that of a user's function.

    >>> is_own("nets:build"), is_own("mlp")
    (True, False)
    """
    return ":" in name


def name_of(factory: Any) -> str:
    """Return the name ``module:function`` of a function or class.

    >>> name_of(is_own)
    'fedfb.models:is_own'
    """
    module, name = getattr(factory, "__module__", None), getattr(factory, "__qualname__", "")
    if not isinstance(factory, type) and hasattr(factory, "parameters"):
        raise ConfigError(
            f"model: this is a {type(factory).__name__} that was built already. Every seed starts "
            f"with parameters of its own, so give what builds it. {EXPECTED}"
        )
    if module is None or not name.isidentifier():
        raise ConfigError(
            f"model: {name or factory!r} cannot be found again by its name, as a saved run must. "
            f"Define it at the top of a module. {EXPECTED}"
        )
    return f"{module}:{name}"


def find_factory(name: str) -> Any:
    """Import the function of a name; modules in the working directory are found too.

    >>> find_factory("fedfb.models:is_own") is is_own
    True
    """
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), attribute)):
        raise ConfigError(f"--model {name!r} is not the name of a function. {EXPECTED}")
    factory = getattr(_import_module(module_name, name), attribute, None)
    if not callable(factory):
        raise ConfigError(f"--model {name}: {module_name} has no function {attribute}. {EXPECTED}")
    return factory


def _import_module(module: str, name: str) -> Any:
    if module in sys.modules:
        return sys.modules[module]
    folder = getcwd()
    sys.path.insert(0, folder)
    invalidate_caches()
    try:
        return import_module(module)
    except Exception as error:  # a user's code may raise anything: the message shows it
        if isinstance(error, ModuleNotFoundError) and error.name in (module, module.split(".")[0]):
            raise ConfigError(
                f"--model {name}: there is no module {module}, neither in the working directory "
                f"nor installed. Run fedfb where its file is, or put its folder on PYTHONPATH."
            ) from None
        kind = type(error).__name__
        raise ConfigError(f"--model {name}: {module} stops with {kind}: {error}") from error
    finally:
        sys.path.remove(folder)


_CONSTANT = 0
"""The seed of values that are not trained: they are the same wherever the module is built."""

_PROBES = 8
"""Number of rows of zeros and ones on which a module is tested."""

_ONE_AT_A_TIME = RLock()  # torch has one generator and one number of threads for a whole process


@dataclass(frozen=True)
class TorchModel:
    """What ``module:function`` builds for a number of features.

    The parameters of one run are one flat vector: those of the module that are trained
    (``requires_grad``), in the order of ``named_parameters``, each row by row.
    """

    name: str
    inputs: int

    @cached_property
    def size(self) -> int:
        """The number of parameters that are trained."""
        with alone():
            return sum(value.numel() for _, value in trained_parameters(self.build(_CONSTANT)))

    def init(self, seed: int) -> Float[Array, " p"]:
        """Return the module's own initial parameters, drawn by torch from a seed."""
        with alone():
            parts = [
                value.detach().cpu().double().numpy().reshape(-1)
                for _, value in trained_parameters(self.build(seed))
            ]
        return np.concatenate(parts)

    def build(self, seed: int) -> Any:
        """Return the module that the function builds, with random values of a seed."""
        torch, factory = find_torch(), find_factory(self.name)
        with alone((seed, 0)), _name_errors(self, "stops while it is built"):
            module = factory(self.inputs)
        if not isinstance(module, torch.nn.Module):
            kind = type(module).__name__
            raise ConfigError(f"--model {self.name} returns a value of type {kind}. {EXPECTED}")
        for name, value in module.named_parameters():
            if torch.nn.parameter.is_lazy(value):
                raise ConfigError(
                    f"--model {self.name}: the parameter {name!r} has no shape before the first "
                    "rows are seen. Take a layer that is told its number of inputs."
                )
        if not trained_parameters(module):
            raise ConfigError(f"--model {self.name} has no parameters to train. {EXPECTED}")
        return module

    def checked(self, dtype: Any) -> Any:
        """Return the module in a precision, after tests of its output."""
        torch = find_torch()
        with alone((_CONSTANT, 0)):
            module = self.build(_CONSTANT).to(getattr(torch, np.dtype(dtype).name))
            rows = generator((_CONSTANT, 0)).integers(0, 2, (_PROBES, self.inputs)).astype(dtype)
            with (
                torch.no_grad(),
                _name_errors(self, f"cannot be used on rows of {self.inputs} features"),
            ):
                _refuse_other_answers(self, module, torch.from_numpy(rows))
                _refuse_mixing_rows(self, module, torch.from_numpy(rows))
        return module

    def module(self, params: Float[Array, " p"]) -> Any:
        """Return the module with these parameters, ready to predict with torch alone."""
        torch, module, start = find_torch(), self.build(_CONSTANT), 0
        with torch.no_grad():
            for _, value in trained_parameters(module):
                part = torch.from_numpy(params[start : start + value.numel()].copy())
                value.copy_(part.reshape(value.shape))
                start += value.numel()
        return module.eval()


def find_torch() -> Any:
    """Return torch, or raise an error with the command that installs it."""
    refuse_without(
        "torch",
        "a model of your own",
        hint="Its usual build takes 3 GB. Models that need none: --model logistic, --model mlp.",
    )
    import torch

    return torch


@contextmanager
def alone(key: Key | None = None) -> Iterator[None]:
    """Use torch on one thread and with a seeded generator; restore both afterwards.

    On one thread the bits of a run do not depend on the number of cores.

    Args:
        key: seeds the generator; None: no random numbers are expected.
    """
    torch = find_torch()
    with _ONE_AT_A_TIME:
        threads, random_state = torch.get_num_threads(), torch.get_rng_state()
        torch.set_num_threads(1)
        if key is not None:
            torch.default_generator.manual_seed(int(generator(key).integers(2**63)))
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            torch.set_rng_state(random_state)


def trained_parameters(module: Any) -> list[tuple[str, Any]]:
    """Return the parameters that are trained, with their names."""
    return [(name, value) for name, value in module.named_parameters() if value.requires_grad]


@contextmanager
def _name_errors(model: TorchModel, what: str) -> Iterator[None]:
    """Turn any exception of a user's module into an error that names the module."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:  # a user's code may raise anything: the message shows it
        kind = type(error).__name__
        raise ConfigError(f"--model {model.name} {what}: {kind}: {error}") from error


def buffers_of(module: Any) -> dict[str, Any]:
    """Return copies of a module's buffers."""
    return {name: value.clone() for name, value in module.named_buffers()}


def refuse_moved(model: TorchModel, module: Any, before: dict[str, Any]) -> None:
    """Refuse buffers that change in training: they are not parameters, and are not averaged."""
    for name, value in module.named_buffers():
        if not value.equal(before[name]):
            raise ConfigError(
                f"--model {model.name}: the buffer {name!r} changes in training, as BatchNorm's "
                "running statistics do, and is no parameter that clients could average. Take a "
                "layer without one, such as LayerNorm or GroupNorm."
            )


def _refuse_other_answers(model: TorchModel, module: Any, rows: Any) -> None:
    """Refuse a module whose output in train mode has another shape, or that changes a buffer."""
    before = buffers_of(module)
    module.train()
    shape = tuple(getattr(module(rows), "shape", ()))
    if shape not in ((len(rows),), (len(rows), 1)):
        raise ConfigError(
            f"--model {model.name} answers {len(rows)} rows in the shape {shape}, expected "
            f"({len(rows)},) or ({len(rows)}, 1): one logit per row, before any sigmoid."
        )
    refuse_moved(model, module, before)


def _refuse_mixing_rows(model: TorchModel, module: Any, rows: Any) -> None:
    """Refuse a module whose logit of a row depends on the rows beside it."""
    module.eval()
    together, apart = module(rows).reshape(-1), [module(row[None]).reshape(()) for row in rows]
    gap = max(abs(float(a) - float(b)) for a, b in zip(together, apart, strict=True))
    if gap > 1e-3 * (1 + float(together.abs().max())):
        raise ConfigError(
            f"--model {model.name}: the logit of a row depends on the rows beside it (or on "
            "chance), in eval mode too, so a person would be decided by who else is asked about. "
            "Take that layer out."
        )


@dataclass(frozen=True)
class Network:
    r"""A fully connected ReLU network with one logit; without hidden layers, logistic regression.

    .. math:: h_0=x,\quad h_{l+1}=[h_l W_l+b_l]_+,\quad z=h_L W_L+b_L,\quad
              P(y=1\mid x)=1/(1+e^{-z})

    The parameters of one run are one flat vector: W_0 (row by row), b_0, W_1, b_1, ...

    >>> Network(inputs=3, hidden=(4,)).size
    21
    """

    inputs: int
    hidden: tuple[int, ...] = ()

    @cached_property
    def layers(self) -> tuple[tuple[int, int], ...]:
        """The (inputs, outputs) of each layer."""
        return tuple(pairwise((self.inputs, *self.hidden, 1)))

    @cached_property
    def size(self) -> int:
        """The number of parameters."""
        return sum((fan_in + 1) * fan_out for fan_in, fan_out in self.layers)

    def init(self, seed: int) -> Float[Array, " p"]:
        r"""Draw initial parameters, uniform on :math:`\pm 1/\sqrt{\text{fan in}}`, from a seed."""
        rng = generator((seed, 0))
        parts = []
        for fan_in, fan_out in self.layers:
            bound = fan_in**-0.5
            parts.append(rng.uniform(-bound, bound, size=(fan_in + 1) * fan_out))
        return np.concatenate(parts)

    def split(
        self, params: Float[Array, "r p"]
    ) -> list[tuple[Float[Array, "r i o"], Float[Array, "r o"]]]:
        """Return (W, b) of each layer as views into the flat vectors."""
        runs, start, layers = len(params), 0, []
        for fan_in, fan_out in self.layers:
            middle = start + fan_in * fan_out
            weight = params[:, start:middle].reshape(runs, fan_in, fan_out)
            layers.append((weight, params[:, middle : middle + fan_out]))
            start = middle + fan_out
        return layers


_MODELS = ("logistic", "mlp")

Model = Network | TorchModel
"""What an engine trains: it has ``inputs``, a number of parameters ``size``, and ``init``."""


def make_model(name: str, inputs: int, hidden: tuple[int, ...] = (4,)) -> Model:
    """Return the model with this name.

    Args:
        name: one of _MODELS, or ``module:function`` for a torch model.
        inputs: number of features.
        hidden: sizes of the hidden layers; only for ``mlp``.

    >>> make_model("logistic", inputs=2)
    Network(inputs=2, hidden=())
    >>> make_model("nets:build", inputs=2)
    TorchModel(name='nets:build', inputs=2)
    """
    if is_own(name):
        return TorchModel(name, inputs)
    if name not in _MODELS:
        raise ConfigError(unknown_name("model", name, _MODELS))
    if name == "mlp" and (not hidden or min(hidden) < 1):
        raise ConfigError(
            f"an mlp needs hidden layers of at least one unit, got {hidden!r}. "
            "Give sizes such as --hidden 16,8, or choose --model logistic."
        )
    return Network(inputs, hidden if name == "mlp" else ())
