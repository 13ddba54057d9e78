"""What commands share: settings as flags, sections of help, output files, plugins, and messages.

The flags of an experiment are read from its declaration, so that each setting is defined once.
"""

import inspect
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from fedfb.errors import ConfigError, escape_controls
from fedfb.experiments.spec import Experiment
from fedfb.experiments.spec_file import from_values, read_settings
from fedfb.settings import describe_default, flag_of, kind_of, names, read_word, setting_of
from fedfb.tables.dialect import FLAGS, Dialect
from fedfb.tables.sources import STDIN

if TYPE_CHECKING:
    from fedfb import runtime
    from fedfb.data.declare import Wanted
    from fedfb.experiments.cache import Store

Command = Callable[..., None]


def experiment_options(*without: str) -> Callable[[Command], Command]:
    """Return a decorator that gives a command the settings of an experiment as flags.

    The command receives them as its parameter ``experiment``. Its other parameters stay. A
    parameter ``file`` names a TOML file whose values the flags override.

    Args:
        without: names of settings that are not flags of this command.
    """
    declared = [field for field in fields(Experiment) if field.name not in without]

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        command_parameters = [p for p in signature.parameters.values() if p.name != "experiment"]

        def run_command(**values: Any) -> None:
            flags = {field.name: values.pop(field.name) for field in declared}
            experiment = _read_experiment(flags, values.get("file"))
            command(**values, experiment=experiment)

        parameters = [*command_parameters, *(make_option(field) for field in declared)]
        run_command.__name__, run_command.__doc__ = command.__name__, command.__doc__
        run_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run_command.__annotations__ = {p.name: p.annotation for p in parameters}
        return run_command

    return decorate


def make_option(field: Field[Any]) -> inspect.Parameter:
    """Return a setting as typer reads it: a switch if it is off by default, otherwise text."""
    declared, flag = setting_of(field), flag_of(field.name)
    switch = field.default is False and not declared.in_words
    default = "" if switch else describe_default(field)
    own = (declared.or_own,) if declared.or_own else ()
    metavar = "|".join((*kind_of(field).choices, *own)) or kind_of(field).metavar
    option = typer.Option(
        *(f"{flag}/--no-{flag[2:]}" if switch else flag, *declared.flags),
        help=f"{declared.help} (default {default})." if default else f"{declared.help}.",
        rich_help_panel=declared.panel,
        show_default=False,
        metavar=None if switch else metavar,
    )
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[
            list[str] | None if declared.several else bool | None if switch else str | None, option
        ],
    )


def dialect_options(command: Command) -> Command:
    """Give a command the settings that say how text files are written, as its ``dialect``."""
    return _give_settings(command, "dialect", FLAGS, lambda texts: Dialect(**texts))


def role_options(command: Command) -> Command:
    """Give a command the settings that say what columns are, as its ``wanted``."""
    return _give_settings(command, "wanted", ROLES, _read_roles)


ROLES = ("label", "positive", "sensitive", "client_column", "ignore", "bins", "merge", "dates")
"""Settings that say what columns are."""


def _read_roles(texts: dict[str, str | None]) -> "Wanted":
    from fedfb.data.declare import Wanted

    kinds = {field.name: kind_of(field) for field in fields(Experiment) if field.name in ROLES}
    values = {name: read_word(text, kinds[name]) for name, text in texts.items() if text}
    return Wanted(**{"label": "", "positive": "", "sensitive": (), **values})


def _give_settings(
    command: Command, parameter: str, names: Collection[str], read: Callable[[dict[str, Any]], Any]
) -> Command:
    """Give a command some settings of an experiment as flags.

    Args:
        command: the command.
        parameter: the name of its parameter that has what is read of the flags.
        names: of the settings.
        read: reads the texts of the flags.
    """
    # Annotations stay text: that of the parameter may name what only a type checker imports.
    signature = inspect.signature(command)
    parameters = [p for p in signature.parameters.values() if p.name != parameter]
    parameters += [make_option(field) for field in fields(Experiment) if field.name in names]

    def run_command(**values: Any) -> None:
        texts = {name: values.pop(name) for name in names}
        command(**values, **{parameter: read(texts)})

    run_command.__name__, run_command.__doc__ = command.__name__, command.__doc__
    keywords = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    run_command.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    run_command.__annotations__ = {p.name: p.annotation for p in parameters}
    return run_command


def _read_experiment(flags: dict[str, Any], file: Path | None) -> Experiment:
    values = {} if file is None else read_settings(file)
    overrides = {name: value for name, value in flags.items() if value not in (None, [])}
    model = values.get("model")
    if isinstance(model, str) and ":" in model and "model" not in overrides:
        raise ConfigError(
            f"{file} names code: the model {model!a} would be imported and run with your rights. "
            f"If you trust it, name it yourself: --model {ascii(model)[1:-1]}."
        )
    return from_values({**values, **overrides})


Query = Annotated[
    str | None,
    typer.Option("--query", metavar="SQL", help="Of a database: the rows to read, 'select ...'."),
]

TrustCode = Annotated[
    bool,
    typer.Option(
        "--trust-code",
        help="Run code that FOLDER names (a torch model): only of a folder whose maker you trust.",
    ),
]

STRICT_EXIT = 3
"""The exit code of --strict if a result misses what was requested."""

Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help=f"Exit with code {STRICT_EXIT} if the result misses its target or another request.",
    ),
]


def end_strictly(strict: bool, shortfalls: Sequence[Any]) -> None:
    """Exit with code 3 after all output, if ``strict`` is set and the result has shortfalls."""
    if strict and shortfalls:
        raise typer.Exit(STRICT_EXIT)


STDOUT = Path("-")
"""The name of a file that means standard output."""


def check_writable(flag: str, path: Path | None) -> None:
    """Refuse a file that could not be written, before any training."""
    if path is None or path == STDOUT:
        return
    if path.is_dir() or not path.parent.is_dir():
        raise ConfigError(f"{flag} {path}: give the name of a file in a folder that exists.")


def read_names(value: str, what: str) -> list[str]:
    """Read names separated by commas; an empty list and repetitions are refused.

    Args:
        value: the text of the flag.
        what: the flag, for errors.
    """
    listed = list(names(value))
    if not listed or len(set(listed)) < len(listed):
        raise ConfigError(f"{what} takes different names separated by commas, got {value!r}.")
    return listed


GENERAL = "Options"
COLUMN = 26
"""The largest width of the column of flags; a longer flag gets a separate line."""


SEVERAL = ("data", "scores", "like")
"""Options that take several paths, one after the other."""


def _repeat_flags(args: Sequence[str], several: Collection[str]) -> Iterator[str]:
    """Write the flag before each of its values.

    >>> list(_repeat_flags(["--data", "a.csv", "b.csv", "--label", "y"], ["--data"]))
    ['--data', 'a.csv', '--data', 'b.csv', '--label', 'y']
    """
    flag, first = None, False
    for arg in args:
        if arg.startswith("-") and arg != STDIN:
            flag, first = (arg, True) if arg in several else (None, False)
            yield arg
        elif flag is None or _is_own_argument(arg):
            yield arg
            flag = None if not first else flag
        else:
            yield from (arg,) if first else (flag, arg)
            first = False


def _is_own_argument(word: str) -> bool:
    """Return whether a word after paths is an experiment or the folder of a run."""
    return word.endswith(".toml") or os.path.isfile(os.path.join(word, "experiment.toml"))


class Sections(TyperCommand):
    """A command whose help lists options by section; its description explains its arguments.

    Typer has no plain sections, only drawn panels, which leave half of 80 columns for the words.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read flags. An unquoted pattern, which the shell has expanded, is one value."""
        several = {
            name
            for option in self.get_params(ctx)
            if option.param_type_name == "option" and option.name in SEVERAL and option.multiple
            for name in option.opts
        }
        parsed: list[str] = super().parse_args(ctx, list(_repeat_flags(args, several)))
        return parsed

    # Any: the types belong to click, which newer versions of typer contain.
    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the sections of options one after the other."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None and option.param_type_name == "option":
                section = getattr(option, "rich_help_panel", None) or GENERAL
                sections.setdefault(section, []).append(record)
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows, col_max=COLUMN)


def refuse_taken(path: Path, force: bool) -> None:
    """Refuse a file that cannot be written.

    Args:
        path: the file of --out.
        force: allow to overwrite an existing file.
    """
    if path.is_dir():
        raise ConfigError(f"--out {path} is a folder. Give the name of a file.")
    if not path.parent.is_dir():
        raise ConfigError(f"--out {path}: the folder {path.parent} does not exist. Make it first.")
    if path.exists() and not force:
        raise ConfigError(f"{path} exists already. Give --out FILE, or overwrite it: --force.")


def make_store(no_store: bool) -> "Store | None":
    """Return the store of records; None if it is switched off."""
    from fedfb.experiments.cache import Store, default_folder

    return None if no_store else Store(default_folder())


def add_plugin_option(command: Command) -> Command:
    """Give a command the option --plugin, whose methods are registered before it runs."""
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    option = typer.Option(
        "--plugin",
        metavar="FILE,..",
        help="Python files with your own methods (docs/extend.md).",
        show_default=False,
    )
    plugin = inspect.Parameter(
        "plugin",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[list[str] | None, option],
    )

    def run_command(**values: Any) -> None:
        register_plugins(values.pop("plugin") or [])
        command(**values)

    keywords = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    run_command.__name__, run_command.__doc__ = command.__name__, command.__doc__
    run_command.__signature__ = inspect.Signature([*keywords, plugin])  # type: ignore[attr-defined]
    run_command.__annotations__ = {p.name: p.annotation for p in (*keywords, plugin)}
    return run_command


def register_plugins(values: list[str]) -> None:
    """Register the methods of files; each value may hold several files separated by commas."""
    paths = dict.fromkeys(Path(part) for value in values for part in value.split(",") if part)
    if not paths:
        return
    from fedfb.algorithms import register
    from fedfb.algorithms.method import read_methods

    for path in paths:
        for method in read_methods(path):
            register(method)


def talk(sentence: str) -> None:
    """Print a sentence to stderr; stdout is for data. A closed stderr is ignored."""
    with suppress(OSError):
        typer.secho(escape_controls(sentence), err=True, dim=True)


@contextmanager
def progress_bar(total: int, label: str) -> Iterator[Callable[["runtime.Progress"], None]]:
    """Show how many rounds are done; nothing is shown if stderr is not a terminal.

    Args:
        total: the rounds of all seeds and methods together.
        label: the word before the bar.
    """
    if not sys.stderr or not sys.stderr.isatty():
        yield lambda progress: None
        return
    # Imported here: the import takes a third of the time that fedfb --help may take.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda progress: bar.update(task, advance=1)
