"""``fedfb schema``: describe the columns of your own files, and check files against a schema."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedfb.cli.options import Query, Sections, dialect_options, role_options, talk
from fedfb.errors import ConfigError
from fedfb.tables.dialect import Dialect, Dialects
from fedfb.tables.sources import join_patterns, with_query

if TYPE_CHECKING:
    from fedfb.data.declare import Wanted

app = typer.Typer(
    help="Describe the columns of your own files.\n\n"
    "Example: fedfb schema infer 'clients/*.csv' --label approved --positive yes --sensitive sex",
    no_args_is_help=True,
    rich_markup_mode=None,
)


FILES = typer.Argument(help="Files, folders, patterns such as 'clients/*.csv', or databases.")


@app.command(cls=Sections)
@dialect_options
@role_options
def infer(
    data: Annotated[list[str], FILES],
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
    data: Annotated[list[str], FILES],
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
