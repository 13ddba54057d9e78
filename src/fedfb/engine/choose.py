"""Choose the engine: the native engine if it was compiled, otherwise numpy."""

import os
import sys
from functools import cache
from typing import Any

from fedfb.engine.base import Engine
from fedfb.engine.native.library import is_built
from fedfb.errors import ConfigError, unknown_name
from fedfb.models import Model, TorchModel

ENGINES = ("auto", "native", "numpy")

ENGINE_VARIABLE = "FEDFB_ENGINE"
"""The environment variable that states what ``auto`` means."""


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


def is_native(name: str) -> bool:
    """Return True if a name means the native engine.

    >>> is_native("native"), is_native("numpy")
    (True, False)
    """
    if name == "auto":
        name = os.environ.get(ENGINE_VARIABLE, "auto")
    if name not in ENGINES:
        raise ConfigError(unknown_name("engine", name, ENGINES))
    if name == "auto" and not is_built():
        _tell_of_the_fallback()
        return False
    return name != "numpy"


@cache
def _tell_of_the_fallback() -> None:
    """Warn once in a process that training will be slow."""
    sys.stderr.write(
        "The native engine was not compiled when fedfb was installed: numpy does its work, a few "
        "times slower. With a C compiler, install fedfb again.\n"
    )
