"""``fedfb doctor``: all problems of your own files at once, and a schema that settles them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedfb.cli.options import Query, check_writable, dialect_options, role_options, talk
from fedfb.errors import ConfigError
from fedfb.tables.address import is_one_address
from fedfb.tables.dialect import Dialect
from fedfb.tables.sources import join_patterns, with_query

if TYPE_CHECKING:
    from fedfb.data.declare import Wanted
    from fedfb.doctor.diagnose import Diagnosis

STOPS = 1
"""The exit code if something stops a run."""


@dialect_options
@role_options
def doctor(
    data: Annotated[
        list[str],
        typer.Argument(help="Files, folders, patterns such as 'clients/*.csv', or databases."),
    ],
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
