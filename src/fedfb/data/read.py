"""Read CSV, Parquet and Arrow files as columns, and find files by a pattern. Errors name the line.

Arrow reads CSV. It is more lenient with quotes than this library, and its errors name no lines. A
file that Arrow refuses or may read otherwise is therefore read by Python's csv, which is slower: it
names the line, or gives the cells as they were meant.
"""

import csv
import glob
import io
import re
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedfb.data.address import is_address
from fedfb.data.cells import (
    MISSING,
    Cells,
    SourceColumn,
    cells_of,
    check_names,
    clean,
    clean_names,
    typed,
)
from fedfb.data.database import Database, as_database, databases_of, read_database
from fedfb.data.table import Table
from fedfb.errors import ConfigError, DataError, unknown_name
from fedfb.files import CHANGED
from fedfb.shapes import Array, Int

_SEPARATORS = (",", ";", "\t", "|")
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_PARQUET, _ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
_COMPRESSED = {".gz": "gzip", ".zst": "zstd"}


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


def read_rows(path: "str | Path | Database", separator: str | None = None) -> Cells:
    """Read a file or a database: Parquet and Arrow by the suffix, everything else as CSV."""
    if (database := as_database(path)) is not None:
        return read_database(database)
    assert not isinstance(path, Database)
    suffix = Path(path).suffix.lower()
    if suffix in (*_PARQUET, *_ARROW):
        return _read_arrow(path, "Parquet" if suffix in _PARQUET else "Arrow")
    return read_cells(path, separator)


class Head(NamedTuple):
    """What precedes the rows of a CSV file: column names, separator, and where the rows begin.

    ``skipped`` is the number of lines before ``begin``, where Python's csv starts to count.
    """

    names: list[str]
    separator: str
    begin: int
    rows: int
    skipped: int


def read_cells(
    path: str | Path,
    separator: str | None = None,
    *,
    header: Sequence[str] | None = None,
    skip: int = 0,
    only: Sequence[str] | None = None,
) -> Cells:
    """Read a CSV file, which may be compressed (.gz, .zst).

    Args:
        path: the file.
        separator: separator of cells; None: detected.
        header: names of the columns of a file without a header line.
        skip: number of lines before the first.
        only: columns to store, the first of each name; None: all.

    """
    source, content = str(path), _load(Path(path))
    try:
        head = _read_head(source, content, separator, header, skip)
        places = _choose_columns(source, head.names, only)
        columns = _read_by_arrow(content, head, places)
        if columns is None:
            columns = _read_by_python(source, content, head, places)
    except csv.Error as error:
        raise DataError(f"{source}, {error}. Correct the quotes there.") from None
    if not len(columns[0]):
        raise DataError(f"{source} has a header but no rows. Expected one row per example.")
    named = {head.names[i]: SourceColumn(c) for i, c in zip(places, columns, strict=True)}
    return Cells(source, named, len(columns[0]), partial(_find_lines, Path(path), head))


def _load(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataError(
            f"there is no file {str(path)!r}. Check the path, as seen from {str(Path.cwd())!r}."
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}. Expected a CSV file.") from None
    content = _decompress(path, content).removeprefix(b"\xef\xbb\xbf")
    if not _is_utf8(content):
        try:
            content.decode()
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise DataError(f"{path}, line {line}: not UTF-8. Save the file as UTF-8.") from None
    if (place := content.find(b"\0")) >= 0:
        line = content.count(b"\n", 0, place) + 1
        raise DataError(f"{path}, line {line}: a NUL byte, so not text. Save the file as UTF-8.")
    return content


def _decompress(path: Path, content: bytes) -> bytes:
    if path.suffix.lower() not in _COMPRESSED:
        return content
    import pyarrow

    kind = _COMPRESSED[path.suffix.lower()]
    try:
        with pyarrow.CompressedInputStream(pyarrow.BufferReader(content), kind) as stream:
            return stream.read()
    except (OSError, pyarrow.ArrowException) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise DataError(
            f"{path} cannot be read as {kind}: {reason}. Write the file again."
        ) from None


def _is_utf8(content: bytes) -> bool:
    """Let Arrow check all bytes as one text, without a copy of them."""
    import pyarrow

    ends = pyarrow.py_buffer(np.array([0, len(content)], np.int64))
    text = [None, ends, pyarrow.py_buffer(content)]
    try:
        pyarrow.Array.from_buffers(pyarrow.large_string(), 1, text).validate(full=True)
    except pyarrow.ArrowInvalid:
        return False
    return True


def _read_head(
    source: str, content: bytes, separator: str | None, header: Sequence[str] | None, skip: int
) -> Head:
    begin = 0
    for _ in range(skip):
        begin = _end_of_line(content, begin)
    while not (first := content[begin : (end := _end_of_line(content, begin))].decode()).strip():
        if end == len(content):
            raise DataError(f"{source} is empty. Expected a header line and one row per example.")
        begin, skip = end, skip + 1
    separator = separator or _sniff(first)
    if header:
        return Head(list(header), separator, begin, begin, skip)
    lines = _Lines(content, begin)
    names = clean(next(_number_rows(lines, separator, skip))[1], missing=())
    return Head(names, separator, begin, lines.place, skip)


def _end_of_line(content: bytes, begin: int) -> int:
    match = _LINE.match(content, begin)
    return len(content) if match is None else match.end()


class _Lines:
    """Lines of a file as Python's csv takes them, and the place after the last one."""

    def __init__(self, content: bytes, place: int) -> None:
        self.content, self.place = content, place

    def __iter__(self) -> Iterator[str]:
        while self.place < len(self.content):
            begin, self.place = self.place, _end_of_line(self.content, self.place)
            yield self.content[begin : self.place].decode()


def _number_rows(
    lines: "_Lines | io.StringIO", separator: str, skipped: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank, each with the line that it ends on."""
    # Strict: a quote that is never closed would swallow the rest of the file.
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
    try:
        yield from ((skipped + reader.line_num, row) for row in reader if row)
    except csv.Error as error:
        raise csv.Error(f"line {skipped + reader.line_num}: {error}") from None


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


def _read_by_arrow(content: bytes, head: Head, places: Sequence[int]) -> list[Any] | None:
    """Return columns of text; None if Arrow refuses the file or may read it otherwise."""
    import pyarrow
    from pyarrow import compute
    from pyarrow import csv as arrow_csv

    if len(head.separator.encode()) > 1 or _has_doubtful_quotes(content, head):
        return None
    names = [str(place) for place in range(len(head.names))]
    text = dict.fromkeys(names, pyarrow.string())
    try:
        table = arrow_csv.read_csv(
            pyarrow.BufferReader(pyarrow.py_buffer(content)[head.rows :]),
            arrow_csv.ReadOptions(column_names=names),
            arrow_csv.ParseOptions(delimiter=head.separator, newlines_in_values=b'"' in content),
            arrow_csv.ConvertOptions(
                check_utf8=False,
                column_types=text,
                include_columns=[str(place) for place in places],
                null_values=list(MISSING),
                strings_can_be_null=True,
            ),
        )
    except pyarrow.ArrowInvalid:
        return None
    longest = [compute.max(compute.binary_length(column)).as_py() or 0 for column in table.columns]
    return None if max(longest) > csv.field_size_limit() else list(table.columns)


def _has_doubtful_quotes(content: bytes, head: Head) -> bool:
    """Return whether quotes follow spaces, end inside a cell, or never end.

    Arrow takes spaces before a quote as part of the cell, and joins text behind a closing quote.
    Some of what this finds inside quoted cells is harmless, and is only read more slowly.
    """
    if content.find(b'"', head.rows) < 0:
        return False
    separator = re.escape(head.separator.encode())
    spaced = rb'(?:^|[\r\n%s]) +"' % separator
    closed_early = rb'(?:^|[\r\n%s])"(?:[^"]++|"")*+(?:"[^"\r\n%s]|\Z)' % (separator, separator)
    return any(
        re.compile(pattern).search(content, max(head.rows - 1, 0))
        for pattern in (spaced, closed_early)
    )


def _read_by_python(source: str, content: bytes, head: Head, places: Sequence[int]) -> list[Any]:
    """Read as Python's csv reads, row by row. An error names the line."""
    import pyarrow

    columns: list[list[str]] = [[] for _ in places]
    for line, row in _list_rows(content, head):
        if len(row) != len(head.names):
            raise DataError(
                f"{source}, line {line}: {len(row)} cells, expected {len(head.names)} as in the "
                "header. Correct the line (a separator inside a cell needs quotes) or name the "
                "separator."
            )
        for column, place in zip(columns, places, strict=True):
            column.append(row[place])
    return [pyarrow.chunked_array([pyarrow.array(cells, pyarrow.string())]) for cells in columns]


def _list_rows(content: bytes, head: Head) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines and cells of the rows below the header."""
    text = io.StringIO(content[head.begin :].decode(), newline="")
    rows = _number_rows(text, head.separator, head.skipped)
    return islice(rows, int(head.rows > head.begin), None)


def _find_lines(path: Path, head: Head, rows: Int[Array, " m"]) -> list[int]:
    """Return the line that each row ends on. The file is read again: few messages need lines."""
    ends = [line for line, _ in islice(_list_rows(_load(path), head), int(rows.max()) + 1)]
    return [ends[row] for row in rows.tolist()]


def _read_arrow(path: str | Path, form: str) -> Cells:
    """Read a Parquet file or a file of Arrow's own form."""
    import pyarrow
    from pyarrow import feather, parquet, types

    try:
        if form == "Parquet":
            # As one file: the folders above it may look like a partitioned data set.
            file = parquet.ParquetFile(path)
            check_names(str(path), clean_names(file.schema_arrow.names))
            table = file.read()
        else:
            table = feather.read_table(path)
        table.validate(full=True)
        cells = cells_of(str(path), table.column_names, table.columns)
        for column in cells.columns.values():
            if types.is_temporal(column.data.type):
                column.words  # noqa: B018 - a date that does not exist is an error of the file
        return cells
    except FileNotFoundError:
        raise DataError(
            f"there is no file {str(path)!r}. Check the path, as seen from {str(Path.cwd())!r}."
        ) from None
    # pyarrow raises ArrowException for damage that it detects. Values that are no text, dates or
    # numbers raise the others, and an impossible length raises MemoryError.
    except (OSError, pyarrow.ArrowException, MemoryError, *CHANGED) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise DataError(
            f"{path} cannot be read as {form}: {reason}. Write the file again."
        ) from None


def paths_of(pattern: str, test: str | None = None) -> list[Path | Database]:
    """Return the files of a path or pattern, sorted by name. ``test`` must not be among them."""
    if is_address(pattern):
        databases = databases_of(pattern)
        if test is not None and is_address(test) and set(databases) & set(databases_of(test)):
            raise ConfigError(
                "the test rows are also training rows: --test and --data name the same table. "
                "Name another table, or leave --test out."
            )
        return [*databases]
    if Path(pattern).is_dir():
        raise DataError(f"{pattern!r} is a folder. Write '{pattern.rstrip('/')}/*.csv'.")
    literal = [pattern] if Path(pattern).is_file() else glob.glob(pattern, recursive=True)
    paths = [Path(path) for path in literal if Path(path).is_file()]
    if not paths:
        raise DataError(
            f"no file matches {pattern!r}, as seen from {str(Path.cwd())!r}. Expected the path "
            "of a CSV or Parquet file, or a pattern such as 'clients/*.csv' in quotes."
        )
    if test is not None and Path(test).resolve() in [path.resolve() for path in paths]:
        raise ConfigError(
            f"the test file {test!r} is also a training file of {pattern!r}. Move it elsewhere."
        )
    return sorted(paths, key=lambda path: (path.stem, str(path)))


def notes_of(files: Collection[Cells]) -> tuple[str, ...]:
    """Return the notes of all files."""
    return tuple(note for file in files for note in file.notes)


def names_of(paths: Sequence[Path | Database]) -> tuple[str, ...]:
    """Name files by their stems, or by their paths where two have the same stem."""
    stems = [path.name.split(".csv.")[0] if ".csv." in path.name else path.stem for path in paths]
    return tuple(stems if len(set(stems)) == len(stems) else map(str, paths))
