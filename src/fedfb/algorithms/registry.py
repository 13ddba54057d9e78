"""Every method by its name, and methods from a file of the user.

Methods are listed in this order and imported when they are first used. A file of the user defines
``METHOD`` or ``METHODS``; ``fedfb --plugin FILE`` and :func:`read_methods` read it.
"""

import sys
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from fedfb.algorithms.method import Method
from fedfb.errors import ConfigError, unknown_name

_HOME = {
    "fedavg": "fedavg.METHOD",
    "fedprox": "fedavg.FEDPROX",
    "fedfb": "fedfb.fedfb.METHOD",
    "cfl": "fedfb.fedfb.CFL",
    "fedfb-sums": "fedfb.sums.METHOD",
    "fedfb-thresholds": "fedfb.thresholds.METHOD",
    "lft-ensemble": "baselines.lft.LFT_ENSEMBLE",
    "lft-fedavg": "baselines.lft.LFT_FEDAVG",
    "fairfed": "baselines.fairfed.METHOD",
    "reweighing": "baselines.reweighing.METHOD",
    "hardt": "baselines.hardt.METHOD",
    "fairbatch": "baselines.fairbatch.METHOD",
    "zafar": "baselines.zafar.METHOD",
    "agnosticfair": "baselines.agnosticfair.METHOD",
    "fpfl": "baselines.fpfl.METHOD",
    "fedfair": "baselines.fedfair.METHOD",
    "fcfl": "baselines.fcfl.METHOD",
    "fairfl": "baselines.fairfl.METHOD",
    "q-ffl": "baselines.q_ffl.METHOD",
    "ditto": "baselines.ditto.METHOD",
    "gifair": "baselines.gifair.METHOD",
    "afl": "baselines.afl.METHOD",
    "term": "baselines.term.METHOD",
}


class Methods(MutableMapping[str, Method]):
    """Methods by name. A built-in method is imported at first access: a run needs one method."""

    def __init__(self) -> None:
        self._methods: dict[str, Method | None] = dict.fromkeys(_HOME)

    def __getitem__(self, name: str) -> Method:
        method = self._methods[name]
        if method is None:
            module, _, attribute = _HOME[name].rpartition(".")
            method = getattr(import_module(f"fedfb.algorithms.{module}"), attribute)
            self._methods[name] = method
        return method

    def __setitem__(self, name: str, method: Method) -> None:
        self._methods[name] = method

    def __delitem__(self, name: str) -> None:
        del self._methods[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods)

    def __len__(self) -> int:
        return len(self._methods)


METHODS = Methods()


def find_method(name: str) -> Method:
    """Return the method with this name.

    >>> find_method("cfl").is_pooled("plain")
    True
    """
    if name not in METHODS:
        raise ConfigError(unknown_name("algorithm", name, METHODS))
    return METHODS[name]


def register(method: Method) -> None:
    """Add a method under its name, in this process.

    >>> register(METHODS["fedavg"])  # the same method again: nothing changes
    """
    present = METHODS.get(method.name)
    if present is not None and present is not method:
        raise ConfigError(
            f"there is already an algorithm {method.name!r} ({present.summary}; {present.paper}). "
            "Give yours another name."
        )
    METHODS[method.name] = method


_EXPECTED = "Expected METHOD = Method(...), or METHODS, a list of them (docs/extend.md)."


def read_methods(path: Path) -> tuple[Method, ...]:
    """Run a Python file and return the METHOD, or the METHODS, that it defines."""
    names = vars(_imported(path))
    if "METHOD" not in names and "METHODS" not in names:
        raise ConfigError(f"the plugin {path} has no METHOD. {_EXPECTED}")
    methods = [names["METHOD"]] if "METHOD" in names else names["METHODS"]
    if not isinstance(methods, list):
        kind = type(methods).__name__
        raise ConfigError(f"the plugin {path} has METHODS of type {kind}. {_EXPECTED}")
    for method in methods:
        if not isinstance(method, Method):
            kind = type(method).__name__
            raise ConfigError(f"the plugin {path} has a METHOD of type {kind}. {_EXPECTED}")
    return tuple(methods)


def _imported(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"there is no plugin {path}. Expected a Python file. {_EXPECTED}")
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
