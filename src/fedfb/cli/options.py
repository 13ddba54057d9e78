"""An experiment's settings as flags: read off its declaration, so that they are defined once.

The help of a command in plain sections: its own options first, then those of an experiment.

Files that commands write: never over one that is there, unless asked to.

The store of records, as commands use it.

``--plugin``: methods from a user's own file, for the commands that name methods.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from fedfb.errors import ConfigError
from fedfb.experiments.settings import (
    Setting,
    assignments,
    declarations,
    flag_of,
    names,
    number,
    numbers,
    seeds,
    setting_of,
    text,
    whole,
    wholes,
    yes_or_no,
)
from fedfb.experiments.spec import Experiment
from fedfb.experiments.spec_file import from_values, read_toml

Command = Callable[..., None]


def experiment_options(*without: str) -> Callable[[Command], Command]:
    """Give a command all settings of an experiment as flags; it receives them as ``experiment``.

    The command's own parameters stay; a parameter ``file`` names a TOML whose values the flags
    override.
    """
    declared = [field for field in fields(Experiment) if field.name not in without]

    def decorate(command: Command) -> Command:
        own = list(inspect.signature(command, eval_str=True).parameters.values())
        own = [parameter for parameter in own if parameter.name != "experiment"]

        def reading(**values: Any) -> None:
            flags = {field.name: values.pop(field.name) for field in declared}
            experiment = _experiment(flags, values.get("file"))
            command(**values, experiment=experiment)

        parameters = [*own, *(option_of(field) for field in declared)]
        reading.__name__, reading.__doc__ = command.__name__, command.__doc__
        reading.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        reading.__annotations__ = {p.name: p.annotation for p in parameters}
        return reading

    return decorate


def option_of(field: Field[Any]) -> inspect.Parameter:
    """Return a setting as typer reads it: a switch if off by default, else text; see in_words."""
    declared, flag = setting_of(field), flag_of(field.name)
    off = declared.parse is yes_or_no and field.default is False
    switch = off and not declared.in_words
    option = typer.Option(
        *(f"{flag}/--no-{flag[2:]}" if switch else flag, *declared.flags),
        help=declared.help + _default_in_words(field, switch) + ".",
        rich_help_panel=declared.panel,
        show_default=False,
        metavar=None if switch else _metavar(declared),
    )
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[bool | None if switch else str | None, option],
    )


def _metavar(declared: Setting) -> str:
    own = (declared.or_own,) if declared.or_own else ()
    return "|".join((*declared.choices, *own)) or METAVARS[declared.parse]


METAVARS: dict[Callable[[str], Any], str] = {
    text: "TEXT",
    number: "X",
    whole: "N",
    numbers: "X,X,..",
    wholes: "N,N,..",
    names: "A,B,..",
    assignments: "NAME=X,..",
    declarations: "COLUMN: ..",
    seeds: "N|N:N",
    yes_or_no: "yes|no",
}
"""How the value of a flag is written in its help."""


def _default_in_words(field: Field[Any], switch: bool) -> str:
    if switch or field.default in (None, ()):
        return ""
    if isinstance(field.default, bool):
        return f" (default {'yes' if field.default else 'no'})"
    values = field.default if isinstance(field.default, tuple) else (field.default,)
    if setting_of(field).parse is seeds:
        return f" (default {len(values)})"  # as it is typed: so many, from 0 on
    return f" (default {','.join(str(value) for value in values)})"


def _experiment(flags: dict[str, Any], file: Path | None) -> Experiment:
    values = {} if file is None else read_toml(file)
    given = {name: value for name, value in flags.items() if value is not None}
    return from_values({**values, **given})


NOT_KEPT = 3
"""The exit code of --strict where a result does not keep what was asked for."""

Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help=f"Exit with code {NOT_KEPT} if a target is missed or another promise not kept.",
    ),
]


def end_strictly(strict: bool, shortfalls: Sequence[Any]) -> None:
    """End with an exit code of its own, after all output, if a promise is not kept."""
    if strict and shortfalls:
        raise typer.Exit(NOT_KEPT)


STDOUT = Path("-")
"""The name of a file that means standard output."""


def check_writable(flag: str, path: Path | None) -> None:
    """Refuse a file that could not be written, before any training."""
    if path is None or path == STDOUT:
        return
    if path.is_dir() or not path.parent.is_dir():
        raise ConfigError(f"{flag} {path}: give the name of a file in a folder that exists.")


def read_names(value: str, what: str) -> list[str]:
    """Read names separated by commas, refusing an empty list and repetitions."""
    found = list(names(value))
    if not found or len(set(found)) < len(found):
        raise ConfigError(f"{what} takes different names separated by commas, got {value!r}.")
    return found


OWN = "Options"
COLUMN = 26
"""The widest that the column of flags grows; a longer flag gets a line of its own."""


class Sections(TyperCommand):
    """A command whose help lists options by section; arguments are told in its description.

    Typer has no plain sections, only drawn panels, which leave half of 80 columns for the words.
    """

    # Any: the types are those of click, which newer versions of typer carry inside themselves.
    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write one section of options after the other."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            written = option.get_help_record(ctx)
            if written is not None and option.param_type_name == "option":
                section = getattr(option, "rich_help_panel", None) or OWN
                sections.setdefault(section, []).append(written)
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows, col_max=COLUMN)


def refuse_taken(path: Path, force: bool) -> None:
    """Refuse a name that cannot be written to, or only over something that is there."""
    if path.is_dir():
        raise ConfigError(f"--out {path} is a folder. Give the name of a file.")
    if not path.parent.is_dir():
        raise ConfigError(f"--out {path}: there is no folder {path.parent}. Make it first.")
    if path.exists() and not force:
        raise ConfigError(f"{path} is there already. Give --out FILE, or write over it: --force.")


if TYPE_CHECKING:
    from fedfb.experiments.cache import Store


def make_store(no_store: bool) -> "Store | None":
    """Return the store of records, None where it is switched off."""
    from fedfb.experiments.cache import Store, default_folder

    return None if no_store else Store(default_folder())


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
    from fedfb.algorithms.registry import read_methods

    for path in paths:
        for method in read_methods(path):
            register(method)
