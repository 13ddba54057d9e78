"""``fedfb doctor`` and ``fedfb schema``: examine your own files, and describe their columns."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedfb.cli.options import (
    Query,
    Sections,
    check_writable,
    dialect_options,
    role_options,
    talk,
)
from fedfb.errors import ConfigError
from fedfb.tables.address import is_one_address
from fedfb.tables.dialect import Dialect, Dialects
from fedfb.tables.sources import join_patterns, with_query

if TYPE_CHECKING:
    from fedfb.data.declare import Wanted
    from fedfb.doctor.diagnose import Diagnosis

_FILES = typer.Argument(help="Files, folders, patterns such as 'clients/*.csv', or databases.")

STOPS = 1
"""The exit code if something stops a run."""


@dialect_options
@role_options
def doctor(
    data: Annotated[list[str], _FILES],
    dialect: Dialect,
    wanted: "Wanted",
    schema: Annotated[
        Path | None, typer.Option(help="What the columns are, in place of these flags.")
    ] = None,
    minimum_group: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Groups of fewer rows are small (default 10).",
            show_default=False,
        ),
    ] = 10,
    query: Query = None,
    fix: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a schema that settles them into this new file."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Find all problems of files at once, before a run.

    DATA are files, folders, patterns or databases. The table has a row for each problem and a
    column for each file; below it stand the first line, an example, and the flag or schema line
    that settles the problem. Without --label and --sensitive candidates are named. The exit code is
    1 if something stops a run. --fix writes a schema with a comment above each decision: read it
    before you use it.

    Example: fedfb doctor clients/*.csv --label paid --positive yes --sensitive sex --fix s.toml
    """
    from fedfb.data.schema_file import read_schema
    from fedfb.doctor.diagnose import diagnose
    from fedfb.report.doctor import print_diagnosis, survey_values

    if minimum_group < 1:
        raise ConfigError(f"--minimum-group is {minimum_group}, expected at least 1.")
    declared = None if schema is None else read_schema(schema)
    if fix is not None:
        _check_fix(fix, wanted, declared is not None)
    pattern = with_query(join_patterns(data), query)
    diagnosis = diagnose(pattern, wanted, dialect, declared, minimum_group)
    # The schema first: if it cannot be written, the error stands alone.
    advice = [] if fix is None else _write_fix(fix, diagnosis, pattern)
    typer.echo(survey_values(diagnosis) if as_json else print_diagnosis(diagnosis), nl=as_json)
    for sentence in advice:
        talk(sentence)
    if fix is None and diagnosis.stops and not as_json:
        talk("--fix schema.toml writes a schema that settles what a schema can settle.")
    if diagnosis.stops:
        raise typer.Exit(STOPS)


def _check_fix(path: Path, wanted: "Wanted", has_schema: bool) -> None:
    """Refuse --fix where no whole schema could be written, or a file would be overwritten."""
    if has_schema:
        raise ConfigError("--fix writes a schema, and --schema gives one. Leave one of them out.")
    roles = {"label": wanted.label, "positive": wanted.positive, "sensitive": wanted.sensitive}
    absent = [f"--{flag}" for flag, value in roles.items() if not value]
    if absent:
        raise ConfigError(
            f"--fix writes a whole schema, and needs {', '.join(absent)} too. fedfb doctor "
            "without --fix names candidates."
        )
    if path.exists():
        raise ConfigError(f"{path} exists. Give a new file, or remove it first.")
    check_writable("--fix", path)


def _write_fix(path: Path, diagnosis: "Diagnosis", data: str) -> list[str]:
    """Write the schema, and return sentences about it."""
    from fedfb.doctor.settle import settle
    from fedfb.files import write_whole
    from fedfb.tables.problems import number_lines

    if not diagnosis.files:
        return [f"No file can be read, so {path} was not written."]
    settlement = settle(diagnosis)
    write_whole(path, settlement.text())
    shown = f"'{data}'" if is_one_address(data) else data
    return [
        f"The schema is in {path}. Read it: each decision has its reason above it.",
        *(
            f"LEFT TO YOU: {problem.sentence()}. {problem.remedy}".rstrip()
            for problem in number_lines(settlement.left, diagnosis.cells)
        ),
        f"Then: fedfb run --data {shown if len(shown) < 60 else '...'} --schema {path}",
    ]


app = typer.Typer(
    help="Describe the columns of your own files.\n\n"
    "Example: fedfb schema infer 'clients/*.csv' --label approved --positive yes --sensitive sex",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(cls=Sections)
@dialect_options
@role_options
def infer(
    data: Annotated[list[str], _FILES],
    dialect: Dialect,
    wanted: "Wanted",
    query: Query = None,
    out: Annotated[Path | None, typer.Option(help="Write into this new file.")] = None,
) -> None:
    """Write a schema of files, to edit and to agree on.

    DATA are files, folders, patterns or databases. --label names the column to predict, --positive
    its favourable value, --sensitive the columns that form the groups. Identifiers, dates and free
    text are detected and left out. A run with the schema gives the same bits as a run with these
    flags.

    Example: fedfb schema infer rows.csv --label paid --positive yes --sensitive sex --out s.toml
    """
    from fedfb.data.infer import infer as infer_schema
    from fedfb.data.schema_file import write_schema
    from fedfb.files import write_whole
    from fedfb.tables.problems import name_files, refuse
    from fedfb.tables.read import notes_of, read_files

    for flag in ("label", "positive", "sensitive"):
        if not getattr(wanted, flag):
            raise ConfigError(
                f"a schema needs --{flag}: label names the column to predict, positive its "
                "favourable value, sensitive the columns that form the groups."
            )
    if out is not None and out.exists():
        raise ConfigError(f"{out} exists. Give a new file, or remove it first.")
    pattern = with_query(join_patterns(data), query)
    files = [*read_files(pattern, Dialects(dialect)).values()]
    for note in notes_of(files):
        talk(note)
    schema, doubts = infer_schema(files, wanted)
    left_out = {column.name for column in schema.of("ignored")}
    undecided = {doubt.column for doubt in doubts if doubt.kind == "undecided number"}
    renamed = [doubt for doubt in doubts if doubt.kind == "other name"]
    others = [doubt for doubt in doubts if doubt.kind != "other name"]
    refuse((d for d in others if d.column not in left_out - undecided), files)
    for doubt in renamed:
        talk(f"{doubt.sentence()}: the schema says so.")
    files_of: dict[tuple[str, str], list[str]] = {}
    for doubt in others:
        files_of.setdefault((doubt.what, doubt.column), []).append(doubt.source)
    for (what, name), sources in files_of.items():
        where = name_files(sources)
        if name in left_out:
            talk(f"LEFT OUT: {where}: {what}. To use it, give it a role and a type in the schema.")
        else:
            talk(f"{where}: {what}.")
    text = write_schema(schema)
    if out is None:
        typer.echo(text, nl=False)
        return
    write_whole(out, text)
    more = "" if query is None else f" --query {shlex.quote(query)}"
    talk(
        f"The schema is in {out}. Check it, then: "
        f"fedfb run --data {_quote(data)}{more} --schema {out}"
    )


def _quote(data: list[str]) -> str:
    """Write files as the command line takes them; many are not written out."""
    return shlex.join(data) if len(data) <= 3 else f"{shlex.join(data[:2])} ..."


@app.command(cls=Sections)
@dialect_options
def check(
    schema: Annotated[Path, typer.Argument(help="A schema, as fedfb schema infer writes it.")],
    data: Annotated[list[str], _FILES],
    dialect: Dialect,
    query: Query = None,
) -> None:
    """List the cells of files that do not fit a schema.

    SCHEMA is a file from fedfb schema infer, DATA are files, folders or patterns. The exit code is
    1 if a cell does not fit.

    Example: fedfb schema check schema.toml 'clients/*.csv'
    """
    from fedfb.data.conform import check_file
    from fedfb.data.schema_file import read_schema
    from fedfb.tables.problems import number_lines
    from fedfb.tables.read import notes_of, try_files

    declared = read_schema(schema)
    pattern = with_query(join_patterns(data), query)
    by_client, unreadable = try_files(pattern, Dialects(dialect, declared.files))
    files = [*by_client.values()]
    for note in notes_of(files):
        talk(note)
    misfits = [problem for file in files for problem in check_file(file, declared)]
    problems = number_lines([*unreadable, *misfits], files)
    for source in sorted({file.source for file in files} | {p.source for p in problems}):
        sentences = [problem.sentence() for problem in problems if problem.source == source]
        typer.echo("\n".join(sentences) or f"{source}: fits")
    if problems:
        raise typer.Exit(1)
