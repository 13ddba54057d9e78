"""Imports at first use: packages that an extra brings, and names of our own packages."""

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fedfb.errors import ConfigError

if TYPE_CHECKING:
    from pandas import DataFrame


EXTRAS: dict[str, tuple[str, ...]] = {
    "excel": ("python_calamine",),
    "export": ("onnx", "onnxruntime", "skops"),
    "flower": ("cryptography", "grpc"),  # the name of "study" before version 0.2
    "parquet": (),  # pyarrow is always installed
    "privacy": ("cryptography", "dp_accounting"),
    "report": ("jinja2", "matplotlib"),
    "study": ("cryptography", "grpc"),
    "sql": ("adbc_driver_manager", "adbc_driver_postgresql", "duckdb"),
    "torch": ("torch",),
}
"""The packages of each extra, by the names under which they are imported."""


def is_installed(package: str) -> bool:
    """Return True if a package can be imported. The package is not imported."""
    return find_spec(package) is not None


def refuse_without(extra: str, purpose: str, *packages: str, hint: str = "") -> None:
    """Raise an error at once if packages of an extra are not installed.

    Args:
        extra: the extra that brings the packages.
        purpose: what needs the packages, as the subject of the message.
        packages: names under which they are imported; none: all packages of the extra.
        hint: a sentence on how to avoid the packages.

    """
    missing = [name for name in packages or EXTRAS[extra] if not is_installed(name)]
    if missing:
        raise ConfigError(missing_message(extra, purpose, missing) + (hint and f" {hint}"))


def make_frame(rows: Sequence[Mapping[str, Any]]) -> "DataFrame":
    """Return rows as a frame of pandas, which no extra brings."""
    if not is_installed("pandas"):
        raise ConfigError("to_frame needs pandas: pip install pandas.")
    from pandas import DataFrame

    return DataFrame(list(rows))


def missing_message(extra: str, purpose: str, missing: list[str]) -> str:
    """Return the message that names the missing packages and the command that installs them.

    Args:
        extra: the extra that brings the packages.
        purpose: what needs the packages, as the subject of the message.
        missing: names under which the packages are imported.

    >>> print(missing_message("report", "a report", ["jinja2"]))  # doctest: +ELLIPSIS
    a report needs jinja2, which is not installed: ... -m pip install 'fedfb[report]'...
    """
    names = " and ".join(name.replace("_", "-") for name in missing)
    are = "is" if len(missing) == 1 else "are"
    return f"{purpose} needs {names}, which {are} not installed: {install_command(extra)}."


def install_command(extra: str) -> str:
    """Return the commands that install an extra: into any installation, and from a clone.

    The first command names this interpreter, because the pip of another interpreter would not find
    fedfb installed.
    """
    python = shlex.quote(sys.executable or "python3")
    return (
        f"{python} -m pip install 'fedfb[{extra}]' (or, in a clone of fedfb, "
        f"pip install '.[{extra}]')"
    )


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
