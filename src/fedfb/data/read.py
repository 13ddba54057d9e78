"""Read CSV files, Parquet files and frames as cells of text, and make tables of them.

All sources become the cells that a CSV file would hold, so that the same values give the same bits
from any source. Errors name file and line. Parquet needs pyarrow.
"""

import csv
import glob
import io
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from fedfb.data.table import Table, check_same_columns, number_as_text, parse_number
from fedfb.errors import ConfigError, DataError, unknown_name
from fedfb.extras import refuse_without
from fedfb.files import CHANGED
from fedfb.shapes import Array

MISSING = frozenset({"", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null"})
"""Cells that count as missing."""

MAX_COLUMNS = 5000
"""The most columns of a file: every column becomes one feature or several."""

_INVISIBLE = " \t\xa0\ufeff\u200b\u200e\u200f\u2060"
"""Invisible characters that programs leave at the ends of cells."""

_SEPARATORS = (",", ";", "\t", "|")


class Cells(NamedTuple):
    """A file as text: columns of cells ('' = missing) and the line each row ends on."""

    source: str
    columns: dict[str, list[str]]
    lines: list[int]


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
    return typed([read_cells(path, separator) for path in paths], text)


def read_cells(
    path: str | Path,
    separator: str | None = None,
    *,
    header: Sequence[str] | None = None,
    skip: int = 0,
    only: Sequence[str] | None = None,
) -> Cells:
    """Read a CSV file as text.

    Args:
        path: the file.
        separator: separator of cells; None: detected.
        header: names of the columns of a file without a header line.
        skip: number of lines before the first.
        only: columns to store, the first of each name; None: all.

    """
    source = str(path)
    lines = io.StringIO(_decode(Path(path)), newline="")
    for _ in range(skip):
        lines.readline()
    start, first = lines.tell(), lines.readline()
    while not first.strip():
        skip, start, first = skip + 1, lines.tell(), lines.readline()
    separator = separator or _sniff(first)
    lines.seek(start)
    # Strict: a quote that is never closed would swallow the rest of the file.
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
    try:
        names = list(header) if header else clean(next(reader, []), missing=())
        places = _choose_columns(source, names, only)
        numbered = ((skip + reader.line_num, row) for row in reader if row)
        rows, ends = _read_rows(source, numbered, len(names), places)
    except csv.Error as error:
        line = skip + reader.line_num
        raise DataError(f"{source}, line {line}: {error}. Correct the quotes there.") from None
    if not rows:
        raise DataError(f"{source} has a header but no rows. Expected one row per example.")
    columns = zip([names[i] for i in places], zip(*rows, strict=True), strict=True)
    return Cells(source, {name: clean(column) for name, column in columns}, ends)


def typed(files: Sequence[Cells], text: Collection[str] = ()) -> tuple[Table, ...]:
    """Make a table of each file. A column is numeric if it is in all; ``text`` never is."""
    check_same_columns([(file.source, list(file.columns)) for file in files])
    columns: list[dict[str, Array]] = [{} for _ in files]
    for name in files[0].columns:
        parts = None if name in text else _read_numbers(name, files)
        if parts is None:
            parts = [np.array(file.columns[name], object) for file in files]
        for column, part in zip(columns, parts, strict=True):
            column[name] = part
    return tuple(Table(c, file.source) for c, file in zip(columns, files, strict=True))


def _decode(path: Path) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataError(
            f"there is no file {str(path)!r}. Check the path, as seen from {str(Path.cwd())!r}."
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}. Expected a CSV file.") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DataError(f"{path}, line {line}: not UTF-8. Save the file as UTF-8.") from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise DataError(f"{path}, line {line}: a NUL byte, so not text. Save the file as UTF-8.")
    if not text.strip():
        raise DataError(f"{path} is empty. Expected a header line and one row per example.")
    return text


def _sniff(line: str) -> str:
    return max(_SEPARATORS, key=lambda s: len(next(csv.reader([line], delimiter=s), [])))


def _choose_columns(source: str, names: Sequence[str], only: Sequence[str] | None) -> list[int]:
    if only is not None:
        for name in only:
            if name not in names:
                raise DataError(f"{source}: {unknown_name('column', name, set(names))}")
        return [names.index(name) for name in only]
    check_names(source, names)
    return list(range(len(names)))


def check_names(source: str, names: Sequence[str]) -> None:
    """Refuse too many columns, columns without a name, and names that occur twice."""
    refuse_many_columns(source, len(names))
    first: dict[str, int] = {}
    for position, name in enumerate(names):
        if not name:
            raise DataError(
                f"{source}: column {position + 1} has no name. Name it in the header or remove it."
            )
        if name in first:
            raise DataError(
                f"{source}: column name {name!r} occurs twice in the header (columns "
                f"{first[name] + 1} and {position + 1}). Rename or remove one of them."
            )
        first[name] = position


def refuse_many_columns(source: str, number: int) -> None:
    """Refuse more columns than the declared limit."""
    if number > MAX_COLUMNS:
        raise DataError(
            f"{source} has {number} columns, and at most {MAX_COLUMNS} can be read. Keep those "
            "that a model should know, and check that each line is one row, not one column."
        )


def _read_rows(
    source: str, numbered: Iterable[tuple[int, list[str]]], width: int, places: Sequence[int]
) -> tuple[list[tuple[str, ...]], list[int]]:
    pick = itemgetter(*places) if len(places) > 1 else lambda row: (row[places[0]],)
    rows, ends = [], []
    for line, row in numbered:
        if len(row) != width:
            raise DataError(
                f"{source}, line {line}: {len(row)} cells, expected {width} as in the header. "
                "Correct the line (a separator inside a cell needs quotes) or name the separator."
            )
        rows.append(pick(row))
        ends.append(line)
    return rows, ends


def clean(cells: Iterable[str], missing: Collection[str] = MISSING) -> list[str]:
    """Strip spaces, normalize letters (NFC), and replace marks of missing cells by ''.

    >>> clean([" a", "e\u0301", "NA"])
    ['a', 'é', '']
    """
    stripped = (
        cell if cell.isascii() else unicodedata.normalize("NFC", cell).strip(_INVISIBLE)
        for cell in map(str.strip, cells)
    )
    return ["" if cell in missing else cell for cell in stripped]


def _read_numbers(name: str, files: Sequence[Cells]) -> list[Array] | None:
    """Return one float array per file; None if some cell is no number, or all are missing."""
    parts, any_number = [], False
    for file in files:
        numbers = []
        for cell in file.columns[name]:
            number = parse_number(cell) if cell else np.nan
            if number is None:
                return None
            numbers.append(number)
        any_number = any_number or any(file.columns[name])
        parts.append(np.array(numbers, float))
    if not any_number:
        return None
    for file, part in zip(files, parts, strict=True):
        _refuse_infinite(name, file, part)
    return parts


def _refuse_infinite(name: str, file: Cells, numbers: Array) -> None:
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        row = int(infinite[0])
        raise DataError(
            f"{file.source}, line {file.lines[row]}, column {name!r}: "
            f"{file.columns[name][row]!r} is not finite. Write a number, or leave the cell empty "
            "if the value is missing."
        )


def read_rows(path: str | Path, separator: str | None = None) -> Cells:
    """Read a file as text: Parquet by its suffix, everything else as CSV."""
    if Path(path).suffix.lower() in SUFFIXES:
        return read_parquet(path)
    return read_cells(path, separator)


def paths_of(pattern: str, test: str | None = None) -> list[Path]:
    """Return the files of a path or pattern, sorted by name. ``test`` must not be among them."""
    if Path(pattern).is_dir():
        raise DataError(f"{pattern!r} is a folder. Write '{pattern.rstrip('/')}/*.csv'.")
    literal = [pattern] if Path(pattern).is_file() else glob.glob(pattern, recursive=True)
    paths = [Path(path) for path in literal if Path(path).is_file()]
    if not paths:
        raise DataError(
            f"no file matches {pattern!r}, as seen from {str(Path.cwd())!r}. Expected the path "
            "of a CSV or Parquet file, or a pattern such as 'silos/*.csv' in quotes."
        )
    if test is not None and Path(test).resolve() in [path.resolve() for path in paths]:
        raise ConfigError(
            f"the test file {test!r} is also a training file of {pattern!r}. Move it elsewhere."
        )
    return sorted(paths, key=lambda path: (path.stem, str(path)))


def names_of(paths: list[Path]) -> tuple[str, ...]:
    """Name files by their stems, or by their paths where two have the same stem."""
    stems = [path.stem for path in paths]
    return tuple(stems if len(set(stems)) == len(stems) else map(str, paths))


SUFFIXES = (".parquet", ".pq")


def read_parquet(path: str | Path) -> Cells:
    """Read a Parquet file as the text that a CSV file of the same values would hold."""
    refuse_without("parquet", f"the Parquet file {path}")
    import pyarrow
    from pyarrow import parquet

    try:
        names = parquet.read_schema(path).names
        refuse_many_columns(str(path), len(names))
        # As one file: the folders above it may look like a partitioned data set.
        table = parquet.ParquetFile(path).read()
        columns = [column.to_pylist() for column in table.columns]
    except FileNotFoundError:
        raise DataError(
            f"there is no file {str(path)!r}. Check the path, as seen from {str(Path.cwd())!r}."
        ) from None
    # pyarrow raises ArrowException for damage that it detects. Values that are no text, dates or
    # numbers raise the others, and an impossible length raises MemoryError.
    except (OSError, pyarrow.ArrowException, MemoryError, *CHANGED) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise DataError(
            f"{path} cannot be read as Parquet: {reason}. Write the file again."
        ) from None
    return cells_of(str(path), names, columns)


def cells_of(source: str, names: Sequence[Any], columns: Iterable[Sequence[Any]]) -> Cells:
    """Return named columns of values as cells. The first row is on line 1.

    >>> cells_of("rows", ["age", "sex"], [[31, 52.5], ["F", None]]).columns
    {'age': ['31', '52.5'], 'sex': ['F', '']}
    """
    titles = clean_names(names)
    check_names(source, titles)
    cells_by_title = {
        title: clean(_write_cell(source, title, row, value) for row, value in enumerate(values))
        for title, values in zip(titles, columns, strict=True)
    }
    rows = len(next(iter(cells_by_title.values()), ()))
    if not rows:
        raise DataError(f"{source} has columns but no rows. Expected one row per example.")
    for title, cells in cells_by_title.items():
        if len(cells) != rows:
            raise DataError(
                f"{source}: column {title!r} has {len(cells)} cells and others have {rows}. "
                "All columns need one cell per row."
            )
    return Cells(source, cells_by_title, list(range(1, rows + 1)))


def clean_names(names: Iterable[Any]) -> list[str]:
    """Return column names as text. Names of other types, such as numbers, are written as text."""
    return clean(map(str, names), missing=())


def as_text(value: Any) -> str | None:
    """Write one value as a cell. Return None if it is no single value.

    Whole numbers lose their decimal point, so that the label 1.0 is the label 1.

    >>> [as_text(value) for value in (1.0, 0.1, True, None, float("nan"), date(2024, 1, 31), [1])]
    ['1', '0.1', 'True', '', '', '2024-01-31', None]
    """
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, float):
        return number_as_text(value)
    if isinstance(value, Decimal):
        return "" if value.is_nan() else str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value) if isinstance(value, timedelta | UUID) else None


def columns_of(source: str, frame: Any) -> Cells:
    """Return a frame of pandas or polars, or a mapping of columns, as cells."""
    if hasattr(frame, "collect"):  # a lazy frame of polars
        frame = frame.collect()
    if not is_frame(frame):
        raise ConfigError(
            f"{source} is a {type(frame).__name__}. Expected a frame of pandas or polars, or a "
            "mapping of column names to lists."
        )
    names = list(frame) if isinstance(frame, Mapping) else list(frame.columns)
    check_names(source, clean_names(names))  # first: a name that occurs twice cannot be looked up
    return cells_of(source, names, (_list_values(frame[name]) for name in names))


def is_frame(value: Any) -> bool:
    """Return whether a value has named columns, or is a lazy frame."""
    return isinstance(value, Mapping) or hasattr(value, "collect") or hasattr(value, "columns")


def _list_values(column: Any) -> Sequence[Any]:
    for method in ("tolist", "to_list"):  # numpy and pandas; polars
        if hasattr(column, method):
            values: Sequence[Any] = getattr(column, method)()
            return values
    if isinstance(column, str) or not isinstance(column, Iterable):
        raise ConfigError(f"a column is a {type(column).__name__}. Expected a list or an array.")
    return list(column)


def _write_cell(source: str, name: str, row: int, value: Any) -> str:
    text = as_text(value)
    if text is None:
        raise DataError(
            f"{source}, row {row + 1}, column {name!r}: a {type(value).__name__} is not a single "
            "value. Expected numbers, text, yes or no, or nothing: spread it over columns, or "
            "remove the column."
        )
    return text
