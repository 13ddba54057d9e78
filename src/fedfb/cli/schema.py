"""``fedfb schema``: describe the columns of your own files, and check files against a schema."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from fedfb.cli.options import Query, Sections, talk
from fedfb.data.address import with_query
from fedfb.errors import ConfigError
from fedfb.settings import declarations, names

app = typer.Typer(
    help="Describe the columns of your own files.\n\n"
    "Example: fedfb schema infer 'clients/*.csv' --label approved --positive yes --sensitive sex",
    no_args_is_help=True,
    rich_markup_mode=None,
)

MAX_CELLS = 5
"""How many wrong cells of a column are printed; all are counted."""


@app.command(cls=Sections)
def infer(
    data: Annotated[
        str, typer.Argument(help="A file, a pattern such as 'clients/*.csv', or a database.")
    ],
    label: Annotated[str, typer.Option(help="The column to predict.")] = "",
    positive: Annotated[str, typer.Option(help="Its favourable value.")] = "",
    sensitive: Annotated[
        str, typer.Option(metavar="A,B,..", help="Sensitive columns; several are crossed.")
    ] = "",
    client_column: Annotated[
        str | None, typer.Option(help="The column that names the client.")
    ] = None,
    ignore: Annotated[str, typer.Option(metavar="A,B,..", help="Columns to leave out.")] = "",
    bins: Annotated[
        str, typer.Option(metavar="COLUMN: ..", help="Ranges of a number, 'age: 25,40'.")
    ] = "",
    merge: Annotated[
        str,
        typer.Option(
            metavar="COLUMN: ..", help="Values to merge into one, 'race: Asian+Other=rest'."
        ),
    ] = "",
    query: Query = None,
    out: Annotated[Path | None, typer.Option(help="Write into this new file.")] = None,
) -> None:
    """Write a schema of files, to edit and to agree on.

    DATA is a file, or a pattern in quotes. --label names the column to predict, --positive its
    favourable value, --sensitive the columns that form the groups. Identifiers, dates and free text
    are detected and left out. A run with the schema gives the same bits as a run with these flags.

    Example: fedfb schema infer rows.csv --label paid --positive yes --sensitive sex --out s.toml
    """
    from fedfb.data.declare import Wanted
    from fedfb.data.infer import infer as infer_schema
    from fedfb.data.read import paths_of, read_rows
    from fedfb.data.schema_file import write_schema
    from fedfb.files import write_whole

    for flag, value in (("label", label), ("positive", positive), ("sensitive", sensitive)):
        if not value:
            raise ConfigError(
                f"a schema needs --{flag}: label names the column to predict, positive its "
                "favourable value, sensitive the columns that form the groups."
            )
    if out is not None and out.exists():
        raise ConfigError(f"{out} exists. Give a new file, or remove it first.")
    files = [read_rows(path) for path in paths_of(with_query(data, query))]
    wanted = Wanted(
        label,
        positive,
        names(sensitive),
        client_column,
        names(ignore),
        declarations(bins),
        declarations(merge),
    )
    schema, doubts = infer_schema(files, wanted)
    for doubt in doubts:
        left_out = schema.named[doubt.column].role == "ignored"
        talk(f"column {doubt.column!r} {doubt.what}" + (": left out." if left_out else "."))
    text = write_schema(schema)
    if out is None:
        typer.echo(text, nl=False)
        return
    write_whole(out, text)
    talk(f"The schema is in {out}. Check it, then: fedfb run --data {data!r} --schema {out}")


@app.command(cls=Sections)
def check(
    schema: Annotated[Path, typer.Argument(help="A schema, as fedfb schema infer writes it.")],
    data: Annotated[
        str, typer.Argument(help="A file, a pattern such as 'clients/*.csv', or a database.")
    ],
    query: Query = None,
) -> None:
    """List the cells of files that do not fit a schema.

    SCHEMA is a file from fedfb schema infer, DATA a file or a pattern in quotes. The exit code is 1
    if a cell does not fit.

    Example: fedfb schema check schema.toml 'clients/*.csv'
    """
    from fedfb.data.conform import misfits
    from fedfb.data.read import paths_of, read_rows
    from fedfb.data.schema_file import read_schema

    declared = read_schema(schema)
    fits = True
    for path in paths_of(with_query(data, query)):
        counts: Counter[str] = Counter()
        for misfit in misfits(read_rows(path), declared):
            counts[misfit.column] += 1
            if counts[misfit.column] <= MAX_CELLS:
                typer.echo(str(misfit))
        for column, count in counts.items():
            if count > MAX_CELLS:
                typer.echo(f"{path}, column {column!r}: {count} cells in all")
        if not counts:
            typer.echo(f"{path}: fits")
        fits = fits and not counts
    if not fits:
        raise typer.Exit(1)
