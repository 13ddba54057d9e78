"""An experiment's settings as flags: read off its declaration, so that they are defined once."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import Field, fields
from pathlib import Path
from typing import Annotated, Any

import typer

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


def read_names(value: str, what: str) -> list[str]:
    """Read names separated by commas, refusing an empty list and repetitions."""
    found = list(names(value))
    if not found or len(set(found)) < len(found):
        raise ConfigError(f"{what} takes different names separated by commas, got {value!r}.")
    return found
