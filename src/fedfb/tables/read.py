"""Read CSV, Parquet and Arrow files and databases as columns, one or all of a --data value."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from fedfb.errors import DataError
from fedfb.extras import refuse_without
from fedfb.files import CHANGED
from fedfb.tables.address import Database, find_source
from fedfb.tables.cells import Cells, check_names, clean_names, typed
from fedfb.tables.csv_file import read_cells
from fedfb.tables.database import read_database
from fedfb.tables.dialect import DETECT, DETECT_ALL, Dialect, Dialects
from fedfb.tables.marks import settle_numbers
from fedfb.tables.problems import Problem, refuse
from fedfb.tables.sources import (
    ARROW,
    PARQUET,
    find_files,
    form_of,
    is_stream,
    load_bytes,
    name_source,
    names_of,
)
from fedfb.tables.table import Table
from fedfb.tables.values import cells_of


def read_csv(path: str | Path, separator: str | None = None) -> Table:
    """Read one CSV file. A column is numeric if every cell that is not missing is a number."""
    return read_csvs([path], separator)[0]


def read_csvs(
    paths: Sequence[str | Path], separator: str | None = None, text: Collection[str] = ()
) -> tuple[Table, ...]:
    """Read files with the same columns. Types are inferred over all files together.

    Args:
        paths: the files.
        separator: separator of cells; None: detected.
        text: columns that stay text, even if they hold numbers.

    """
    return typed([read_cells(path, Dialect(separator)) for path in paths], text)


def read_files(
    data: str, dialects: Dialects = DETECT_ALL, test: str | None = None
) -> dict[str, Cells]:
    """Read the files of paths, patterns and folders, by the names of their clients.

    Args:
        data: one or several paths, patterns, folders or addresses; '-' is standard input.
        dialects: what is declared about the files.
        test: a file that must not be among them.

    Raises:
        DataError: some files cannot be read; all of them are named.

    """
    files, problems = try_files(data, dialects, test)
    refuse(problems, [])
    return files


def try_files(
    data: str, dialects: Dialects = DETECT_ALL, test: str | None = None
) -> tuple[dict[str, Cells], list[Problem]]:
    """Read files as :func:`read_files` does, and return why others cannot be read."""
    paths, notes = find_files(data, test)
    files: dict[str, Cells] = {}
    problems = []
    for name, path in zip(names_of(paths), paths, strict=True):
        result = try_read(path, dialects)
        if isinstance(result, Problem):
            problems.append(result)
        else:
            files[name] = result._replace(notes=(*notes, *result.notes))
            notes = ()
    return files, problems


def try_read(path: str | Path | Database, dialects: Dialects = DETECT_ALL) -> Cells | Problem:
    """Read a file or a database, or return why it cannot be read."""
    try:
        path = find_source(path)
        return read_rows(path, dialects.of(path))
    except DataError as error:
        what, _, remedy = str(error).partition(". ")
        return Problem(str(path), "unreadable", what.rstrip("."), remedy)


def notes_of(files: Collection[Cells]) -> tuple[str, ...]:
    """Return the notes of all files."""
    return tuple(note for file in files for note in file.notes)


def read_rows(path: str | Path | Database, dialect: Dialect = DETECT) -> Cells:
    """Read a database, or a file: Parquet and Arrow by the first bytes, all else as CSV."""
    source = find_source(path)
    if isinstance(source, Database):
        cells = settle_numbers(read_database(source), dialect)
    else:
        cells = _read_form(source, dialect)
    columns = rename_columns(cells.source, list(cells.columns), dialect)
    return cells._replace(columns=dict(zip(columns, cells.columns.values(), strict=True)))


def rename_columns(source: str, names: Sequence[str], dialect: Dialect) -> list[str]:
    """Return columns of a file by the names that a schema declares them to have elsewhere."""
    new_names = dict(dialect.columns or ())
    renamed = [new_names.get(name, name) for name in names]
    if new_names:
        check_names(source, [name for name in renamed if name])
    return renamed


def _read_form(path: Path, dialect: Dialect) -> Cells:
    form, suffix = form_of(path), path.suffix.lower()
    named = "Parquet" if suffix in PARQUET else "Arrow" if suffix in ARROW else None
    if form in ("Parquet", "Arrow"):
        cells = settle_numbers(_read_arrow(path, form), dialect)
        note = f"{path}: a {form} file by its content, and read as one"
        is_named = form == named or is_stream(path)
        return cells if is_named else cells._replace(notes=(note, *cells.notes))
    if form == "Excel":
        return settle_numbers(_read_excel(path), dialect)
    if named is None or form is not None:
        return read_cells(path, dialect)
    if not _is_text(path):
        return _read_arrow(path, named)
    cells = read_cells(path, dialect)
    note = f"{path}: text by its content, not {named}, and read as CSV"
    return cells._replace(notes=(note, *cells.notes))


def _is_text(path: Path) -> bool:
    """Return whether a file that is named as a binary one holds lines of text."""
    content = load_bytes(path)[:4096]
    return b"\0" not in content and b"\n" in content and bool(content.strip())


def _read_excel(path: Path) -> Cells:
    """Read the first sheet of an Excel workbook."""
    source = name_source(path)
    refuse_without("excel", f"{source}, an Excel workbook,", hint="Or export it as CSV (UTF-8).")
    from python_calamine import CalamineError, CalamineWorkbook

    try:
        book = CalamineWorkbook.from_filelike(BytesIO(load_bytes(path)))
        lines = book.get_sheet_by_index(0).to_python(skip_empty_area=False)
    except (CalamineError, *CHANGED) as error:
        raise DataError(f"{source} cannot be read as Excel: {error}. Save it again.") from None
    places = np.array([place for place, line in enumerate(lines, 1) if any(c != "" for c in line)])
    if len(places) < 2:
        raise DataError(f"{source}: the first sheet has no header and rows.")
    names, *rows = (lines[place - 1] for place in places)
    cells = cells_of(source, names, map(list, zip(*rows, strict=True)))
    others = book.sheet_names[1:]
    notes = (f"{source}: of its sheets only the first is read",) if others else ()
    return cells._replace(lines_of=lambda wanted: places[wanted + 1].tolist(), notes=notes)


def _read_arrow(path: Path, form: str) -> Cells:
    """Read a Parquet file or a file of Arrow's own form."""
    import pyarrow

    source = name_source(path)
    with reading_arrow(source, form):
        file = pyarrow.BufferReader(load_bytes(path)) if is_stream(path) else path
        if form == "Parquet":
            return check_table(source, open_parquet(source, file).read(use_threads=False))
        from pyarrow import feather

        return check_table(source, feather.read_table(file, use_threads=False))


def open_parquet(source: str, file: Any) -> Any:
    """Open a Parquet file. Its text is read as the dictionaries that the file holds."""
    from pyarrow import parquet

    # As one file: the folders above it may look like a partitioned data set.
    names = parquet.ParquetFile(file).schema_arrow.names
    check_names(source, clean_names(names))
    return parquet.ParquetFile(file, read_dictionary=names)


def check_table(source: str, table: Any) -> Cells:
    """Return the columns of an Arrow table, and find damage in it."""
    from pyarrow import types

    table.validate(full=True)
    cells = cells_of(source, table.column_names, table.columns)
    for column in cells.columns.values():
        if types.is_temporal(column.data.type):
            column.words  # noqa: B018 - a date that does not exist is an error of the file
    return cells


@contextmanager
def reading_arrow(source: str, form: str) -> Iterator[None]:
    """Turn damage that Arrow detects into an error that names the file."""
    import pyarrow

    try:
        yield
    # pyarrow raises ArrowException for damage that it detects. Values that are no text, dates or
    # numbers raise the others, and an impossible length raises MemoryError.
    except (OSError, pyarrow.ArrowException, MemoryError, *CHANGED) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise DataError(
            f"{source} cannot be read as {form}: {reason}. Write the file again."
        ) from None
