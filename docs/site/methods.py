"""Every method: what it is for, what it is set by, and its equations as its docstring has them."""

import inspect
from importlib import import_module

from names import entry, public

from fedfb.algorithms import METHODS, Method
from fedfb.core import Algorithm


def methods() -> str:
    told: set[str] = set()
    parts = []
    for name, method in METHODS.items():
        module = method.make.__module__
        parts += [f"## {name}", about(method)]
        parts.append(equations(module) if module not in told else "Its equations stand above.")
        told.add(module)
    return "\n\n".join(parts)


def about(method: Method) -> str:
    notions = ", ".join(name.replace("_", " ") for name in method.notions)
    lines = [f"{method.summary[0].upper()}{method.summary[1:]} ({method.paper})."]
    lines.append(f"- Notions: {notions}." if method.fair else "- It aims at no notion.")
    if len(method.variants) > 1:
        lines.append(f"- Variants, the usual one first: {', '.join(method.variants)}.")
    lines += [
        f"- `--set {name}={knob.default:g}`: {knob.help}" for name, knob in method.knobs.items()
    ]
    return lines[0] + "\n\n" + "\n".join(lines[1:])


def equations(module: str) -> str:
    """Return the entries of a method's file, the method itself first."""
    home = import_module(module)

    def is_helper(name: str) -> bool:
        value = getattr(home, name)
        return not (inspect.isfunction(value) and value.__annotations__.get("return") is Algorithm)

    offered = [name for name in public(module) if not inspect.isclass(getattr(home, name))]
    entries = [f".. automodule:: {module}"]
    entries += [entry(module, name) for name in sorted(offered, key=is_helper)]
    return "```{eval-rst}\n" + "\n\n".join(entries) + "\n```"
