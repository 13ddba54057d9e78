"""The files of an audit: who owns which row, and what cannot be used."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np

from fedfb.data.files import names_of
from fedfb.data.partition import Clients, by_column
from fedfb.data.read import Cells
from fedfb.data.table import Table, concat
from fedfb.errors import DataError
from fedfb.files import read_bytes


def as_text(cells: Cells) -> Table:
    """Return a file's columns as they are written."""
    columns = {name: np.array(column, object) for name, column in cells.columns.items()}
    return Table(columns, cells.source)


def under_each_other(tables: Sequence[Table], names: Sequence[str]) -> Table:
    """Return some columns of all files as one table."""
    return concat([Table({name: t.column(name) for name in names}, t.source) for t in tables])


def owner_of(paths: Sequence[Path], tables: Sequence[Table], column: str | None) -> Clients:
    """Return the silo of every row: by a column, or else its file."""
    if column is not None:
        whose = under_each_other(tables, (column,))
        refuse_missing(whose, column)
        return by_column(whose.text(column))
    sizes = [len(table) for table in tables]
    return Clients(np.repeat(np.arange(len(paths)), sizes), names_of(list(paths)))


def refuse_absent(table: Table, label: str, positive: str) -> None:
    """Refuse a favourable value that the label never has."""
    values = sorted(set(table.text(label).tolist()))
    if positive not in values:
        shown = ", ".join(values[:10]) + (", ..." if len(values) > 10 else "")
        raise DataError(
            f"{table.source}: the favourable value {positive!r} never occurs in the label column "
            f"{label!r}, whose values are {shown}. Choose one of these with --positive."
        )


def refuse_missing(table: Table, column: str) -> None:
    """Refuse rows that do not say which silo they belong to."""
    missing = int((table.text(column) == "").sum())
    if missing:
        raise DataError(
            f"{table.source}: column {column!r} names the silo and is missing in {missing} of "
            f"{len(table)} rows. Fill it in or remove these rows."
        )


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return sha256(read_bytes(path, "the file that was read just before")).hexdigest()
