"""Choose the engine: the native engine if it was compiled, otherwise numpy."""

import os
import sys
from functools import cache
from typing import Any, NamedTuple

from fedfb.engine.base import Engine
from fedfb.engine.native.library import best_instructions, is_built
from fedfb.errors import ConfigError, unknown_name
from fedfb.models import Model, TorchModel, is_own

ENGINES = ("auto", "native", "numpy")

ENGINE_VARIABLE = "FEDFB_ENGINE"
"""The environment variable that states what ``auto`` means."""

NOT_COMPILED = "the native engine was not compiled when fedfb was installed"


def choose_engine(name: str, model: Model, dtype: Any) -> Engine:
    """Return an engine for a model.

    Args:
        name: one of ENGINES; ``auto`` is the native engine if it can be used.
        model: the model. A torch model always has the torch engine.
        dtype: float32 or float64.

    >>> from fedfb.models import Network
    >>> choose_engine("numpy", Network(2), "float64").instructions
    'numpy'
    """
    if isinstance(model, TorchModel):
        return _torch_engine(name, model, dtype)
    # Imported at use: a run needs one engine.
    if is_native(name):
        from fedfb.engine.native import NativeEngine

        return NativeEngine(model, dtype)
    from fedfb.engine.numpy_engine import NumpyEngine

    return NumpyEngine(model, dtype)


def _torch_engine(name: str, model: TorchModel, dtype: Any) -> Engine:
    from fedfb.engine.torch_engine import TorchEngine

    if name != "auto":
        raise ConfigError(
            f"--engine {name} trains --model logistic and mlp, and {model.name} is a torch model: "
            "leave --engine out."
        )
    return TorchEngine(model, dtype)


class _EngineChoice(NamedTuple):
    """The name of the engine that runs, and why this engine."""

    name: str
    reason: str


def explain_engine(name: str, model: str = "logistic") -> _EngineChoice:
    """Return the engine that a name means for a model, and the reason.

    Args:
        name: one of :data:`ENGINES`, as ``--engine`` takes it.
        model: as ``--model`` takes it; ``module:function`` is a torch model.

    >>> explain_engine("numpy")
    _EngineChoice(name='numpy', reason='--engine numpy')
    >>> explain_engine("auto", "nets:build")
    _EngineChoice(name='torch', reason='nets:build is a torch model')
    """
    if is_own(model):
        return _EngineChoice("torch", f"{model} is a torch model")
    reason, wanted = f"--engine {name}", name
    if name == "auto":
        wanted = os.environ.get(ENGINE_VARIABLE, "auto")
        reason = f"{ENGINE_VARIABLE}={wanted}"
    if wanted not in ENGINES:
        raise ConfigError(unknown_name("engine", wanted, ENGINES))
    if wanted != "auto":
        return _EngineChoice(wanted, reason)
    if is_built():
        return _EngineChoice("native", "the default")
    return _EngineChoice("numpy", NOT_COMPILED)


def is_native(name: str) -> bool:
    """Return True if a name means the native engine.

    >>> is_native("native"), is_native("numpy")
    (True, False)
    """
    choice = explain_engine(name)
    if choice.reason == NOT_COMPILED:
        _tell_of_the_fallback()
    return choice.name == "native"


def describe_engine() -> str:
    """Return which engine runs here if no setting names one, or why none can."""
    try:
        choice = explain_engine("auto")
        name = f"native ({best_instructions()})" if choice.name == "native" else choice.name
    except ConfigError as error:
        return f"none: {error}"
    return f"{name}: {choice.reason}"


@cache
def _tell_of_the_fallback() -> None:
    """Warn once in a process that training will be slow."""
    sys.stderr.write(
        f"{NOT_COMPILED.capitalize()}: numpy does its work, a few "
        "times slower. With a C compiler, install fedfb again.\n"
    )
