"""Methods from a user's own file."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from fedfb.algorithms import Method
from fedfb.errors import ConfigError

EXPECTED = "Expected METHOD = Method(...), or METHODS, a list of them (docs/extend.md)."


def read_methods(path: Path) -> tuple[Method, ...]:
    """Run a Python file and return the METHOD, or the METHODS, that it defines."""
    names = vars(_imported(path))
    if "METHOD" not in names and "METHODS" not in names:
        raise ConfigError(f"the plugin {path} has no METHOD. {EXPECTED}")
    methods = [names["METHOD"]] if "METHOD" in names else names["METHODS"]
    if not isinstance(methods, list):
        kind = type(methods).__name__
        raise ConfigError(f"the plugin {path} has METHODS of type {kind}. {EXPECTED}")
    for method in methods:
        if not isinstance(method, Method):
            kind = type(method).__name__
            raise ConfigError(f"the plugin {path} has a METHOD of type {kind}. {EXPECTED}")
    return tuple(methods)


def _imported(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"there is no plugin {path}. Expected a Python file. {EXPECTED}")
    name = f"fedfb_plugin_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"the plugin {path} is not a Python file, whose name ends in .py.")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses of the file look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # anybody's code: whatever it raises is told with its line
        del sys.modules[name]
        line, kind = _line(error, path), type(error).__name__
        raise ConfigError(f"the plugin {path} stops in line {line} with {kind}: {error}") from error
    return module


def _line(error: Exception, path: Path) -> int | str:
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return error.lineno
    lines = [f.lineno for f in extract_tb(error.__traceback__) if f.filename == str(path)]
    return next((line for line in reversed(lines) if line is not None), "unknown")
