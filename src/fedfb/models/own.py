"""A user's own model by its name ``module:function`` in settings and files.

Nothing here imports torch.
"""

import sys
from importlib import import_module, invalidate_caches
from os import getcwd
from typing import Any

from fedfb.errors import ConfigError

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
    'fedfb.models.own:is_own'
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

    >>> find_factory("fedfb.models.own:is_own") is is_own
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
