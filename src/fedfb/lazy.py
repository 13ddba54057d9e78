"""Packages whose names are imported when first used: a start loads what it needs, and no more."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def imported_when_used(package: str, home: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package; ``home`` says in which of its modules a name is.

    >>> from fedfb.errors import ConfigError
    >>> imported_when_used("fedfb", {"ConfigError": "errors"})("ConfigError") is ConfigError
    True
    """

    def find(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home[name]}"), name)

    return find
