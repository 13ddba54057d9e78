"""Packages that only some commands need: they come with extras of the installation."""

import shlex
import sys
from importlib.util import find_spec

from fedfb.errors import ConfigError

EXTRAS: dict[str, tuple[str, ...]] = {
    "export": ("onnx", "onnxruntime", "skops"),
    "flower": ("flwr", "cryptography", "fastapi", "httpx", "starlette", "uvicorn"),
    "parquet": ("pyarrow",),
    "privacy": ("cryptography", "dp_accounting"),
    "report": ("jinja2", "matplotlib"),
    "torch": ("torch",),
}
"""What each extra brings, by the names under which packages are imported."""


def is_installed(package: str) -> bool:
    """Return whether a package can be imported; it is not imported yet."""
    return find_spec(package) is not None


def refuse_without(extra: str, purpose: str, *packages: str, hint: str = "") -> None:
    """Refuse early where packages of an extra are not installed.

    Args:
        extra: the extra that brings the packages.
        purpose: what needs them, as the subject of the message.
        packages: names under which they are imported; all of the extra if none is named.
        hint: a sentence on how to do without them.

    """
    missing = [name for name in packages or EXTRAS[extra] if not is_installed(name)]
    if missing:
        raise ConfigError(missing_message(extra, purpose, missing) + (hint and f" {hint}"))


def missing_message(extra: str, purpose: str, missing: list[str]) -> str:
    """Say which packages are missing, and how they are installed.

    >>> print(missing_message("parquet", "a Parquet file", ["pyarrow"]))  # doctest: +ELLIPSIS
    a Parquet file needs pyarrow, which is not installed: ... -m pip install 'fedfb[parquet]'...
    """
    names = " and ".join(name.replace("_", "-") for name in missing)
    are = "is" if len(missing) == 1 else "are"
    return f"{purpose} needs {names}, which {are} not installed: {install_command(extra)}."


def install_command(extra: str) -> str:
    """Return the commands that add an extra: to any installation, and from a clone.

    The first one names this interpreter: another one's pip would not find fedfb installed.
    """
    python = shlex.quote(sys.executable or "python3")
    return (
        f"{python} -m pip install 'fedfb[{extra}]' (or, in a clone of fedfb, "
        f"pip install '.[{extra}]')"
    )
