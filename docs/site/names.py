"""The public names of a module, each documented once: where users import it from."""

import builtins
import inspect
import sys
from functools import cache
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

from sphinx.pycode import ModuleAnalyzer

from fedfb.estimator import FederatedClassifier

HOMES = ("fedfb", "fedfb.core", "fedfb.estimator", "fedfb.data")
"""Packages whose names are not told again where others import them from deeper inside."""

METHODS = (FunctionType, property, classmethod, staticmethod)


def names(module: str) -> str:
    """Return the text that makes autodoc tell a module's docstring and its public names."""
    entries = [f".. automodule:: {module}"]
    entries += [entry(module, name) for name in public(module) if not elsewhere(module, name)]
    return "```{eval-rst}\n" + "\n\n".join(entries) + "\n```"


def public(module: str) -> list[str]:
    """Return the names a module offers: those it lists, else those made in it or its package."""
    home = import_module(module)
    if hasattr(home, "__all__"):
        return [name for name in home.__all__ if not name.startswith("_")]
    return [name for name, value in vars(home).items() if is_public(home, name, value)]


def is_public(home: ModuleType, name: str, value: Any) -> bool:
    if name.startswith("_") or inspect.ismodule(value):
        return False
    is_package = hasattr(home, "__path__")
    if inspect.isclass(value) or inspect.isfunction(value):
        made_in = value.__module__
        return made_in == home.__name__ or (is_package and made_in.startswith(home.__name__))
    return is_package or name in words_on_values(home.__name__)


@cache
def words_on_values(module: str) -> dict[str, str]:
    """Return what a module says below its constants and type aliases."""
    found = ModuleAnalyzer.for_module(module).find_attr_docs()
    return {name: " ".join(words) for (within, name), words in found.items() if not within}


def words_on(module: str, name: str) -> str:
    """Return what is said of a value, in the module or in the one that it comes from."""
    value = getattr(import_module(module), name)
    inside = [each for each in list(sys.modules) if each.startswith(f"{module}.")]
    sources = [each for each in inside if getattr(sys.modules[each], name, None) is value]
    told = (words_on_values(each).get(name, "") for each in (module, *sources))
    return next(filter(None, told), "")


def elsewhere(module: str, name: str) -> bool:
    """Tell whether a name has been told of a package that users import it from."""
    value = getattr(import_module(module), name)
    before = HOMES[: HOMES.index(module)] if module in HOMES else HOMES
    return any(getattr(import_module(home), name, None) is value for home in before)


def entry(module: str, name: str) -> str:
    value = getattr(import_module(module), name)
    if inspect.isclass(value) and value.__module__.startswith("fedfb"):
        kind = "exception" if issubclass(value, Exception) else "class"
        told = [key for key, member in vars(value).items() if is_told(key, member)]
        options = f"\n   :members: {', '.join(told)}" if told else ""
        return f".. auto{kind}:: {module}.{name}{options}"
    if inspect.isfunction(value):
        return f".. autofunction:: {module}.{name}"
    return f".. py:data:: {name}\n   :module: {module}\n\n   {words_on(module, name)}"


def is_told(name: str, member: Any) -> bool:
    """Tell whether a member of a class is a method of its own, with a word about it.

    One that is called like a built-in type would be taken for that type in all signatures.
    """
    if name.startswith("_") or isinstance(getattr(builtins, name, None), type):
        return False
    return isinstance(member, METHODS) and bool(member.__doc__)


def in_short(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Leave out of a classifier's words what it shares with all others."""
    if what == "class" and value in FederatedClassifier.__subclasses__():
        shared = ":class:`~fedfb.estimator.FederatedClassifier`"
        lines[:] = [lines[0], "", f"Settings and methods are those of {shared}."]
