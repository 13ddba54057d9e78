"""Packages whose names are imported at first use: a start imports only what it needs."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def export_lazily(
    package: str, homes: Mapping[str, str], *names: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Args:
        package: the package, its ``__name__``.
        homes: for each public name, the module of the package that defines it.
        names: further public names, which the package defines itself.

    >>> from fedfb.errors import ConfigError
    >>> import_name, _, public = export_lazily("fedfb", {"ConfigError": "errors"}, "__version__")
    >>> import_name("ConfigError") is ConfigError, public
    (True, ['ConfigError', '__version__'])
    """
    public = sorted([*homes, *names])

    def import_name(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return import_name, lambda: public, public
