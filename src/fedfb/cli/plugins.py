"""``--plugin``: methods from a user's own file, for the commands that name methods."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

Command = Callable[..., None]


def with_plugins(command: Command) -> Command:
    """Give a command the option --plugin, whose methods are registered before it runs."""
    own = inspect.signature(command, eval_str=True).parameters
    option = typer.Option(
        "--plugin",
        metavar="FILE,..",
        help="Python files with methods of your own (docs/extend.md).",
        show_default=False,
    )
    plugin = inspect.Parameter(
        "plugin",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[list[str] | None, option],
    )

    def loading(**values: Any) -> None:
        register_plugins(values.pop("plugin") or [])
        command(**values)

    named = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own.values()]
    loading.__name__, loading.__doc__ = command.__name__, command.__doc__
    loading.__signature__ = inspect.Signature([*named, plugin])  # type: ignore[attr-defined]
    loading.__annotations__ = {p.name: p.annotation for p in (*named, plugin)}
    return loading


def register_plugins(values: list[str]) -> None:
    """Register the methods of files, separated by commas or given one by one; each file once."""
    paths = dict.fromkeys(Path(part) for value in values for part in value.split(",") if part)
    if not paths:
        return
    from fedfb.algorithms import register
    from fedfb.experiments.plugins import read_methods

    for path in paths:
        for method in read_methods(path):
            register(method)
