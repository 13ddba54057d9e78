"""Read CSV, Parquet and Arrow files as columns, and find files by a pattern."""

import csv
import glob
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedfb.data.cells import (
    Cells,
    cells_of,
    check_names,
    clean,
    clean_names,
    typed,
)
from fedfb.data.parse import Head, find_lines, number_rows, read_columns, refusing_quotes
from fedfb.data.table import Table
from fedfb.errors import ConfigError, DataError, unknown_name
from fedfb.files import CHANGED
from fedfb.shapes import Array, Int

_SEPARATORS = (",", ";", "\t", "|")
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
COMPRESSED = {".gz": "gzip", ".zst": "zstd"}


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


def read_rows(path: str | Path, separator: str | None = None) -> Cells:
    """Read a file: Parquet and Arrow by the suffix, everything else as CSV."""
    suffix = Path(path).suffix.lower()
    if suffix in (*PARQUET, *ARROW):
        return _read_arrow(path, "Parquet" if suffix in PARQUET else "Arrow")
    return read_cells(path, separator)


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
    with refusing_quotes(source):
        head = read_head(source, content, separator, header, skip)
        places = choose_columns(source, head.names, only)
        columns = read_columns(source, content, head, places)
    if not len(columns[0].data):
        raise DataError(f"{source} has a header but no rows. Expected one row per example.")
    named = {head.names[i]: column for i, column in zip(places, columns, strict=True)}
    return Cells(source, named, len(columns[0].data), partial(_find_lines, Path(path), head))


def _load(path: Path) -> bytes:
    with reading_file(path):
        content = path.read_bytes()
    content = _decompress(path, content).removeprefix(MARK)
    check_text(str(path), content)
    return content


MARK = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8, which some programs write first."""


def count_lines(content: bytes) -> int:
    """Return the number of line ends, of all three kinds."""
    return content.count(b"\n") + content.count(b"\r") - content.count(b"\r\n")


@contextmanager
def reading_file(path: Path) -> Iterator[None]:
    """Turn a failure to read a file into an error that names it."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(
            f"there is no file {str(path)!r}. Check the path, as seen from {str(Path.cwd())!r}."
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}. Expected a CSV file.") from None


def check_text(source: str, content: bytes, lines: int = 0) -> None:
    """Refuse bytes that are not UTF-8, or hold a NUL.

    Args:
        source: name of the file.
        content: some or all of its bytes.
        lines: number of lines before them.

    """
    if not _is_utf8(content):
        try:
            content.decode()
        except UnicodeDecodeError as error:
            line = lines + count_lines(content[: error.start]) + 1
            raise DataError(f"{source}, line {line}: not UTF-8. Save the file as UTF-8.") from None
    if (place := content.find(b"\0")) >= 0:
        line = lines + count_lines(content[:place]) + 1
        raise DataError(f"{source}, line {line}: a NUL byte, so not text. Save the file as UTF-8.")


def _decompress(path: Path, content: bytes) -> bytes:
    if path.suffix.lower() not in COMPRESSED:
        return content
    import pyarrow

    kind = COMPRESSED[path.suffix.lower()]
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


def read_head(
    source: str,
    content: bytes,
    separator: str | None = None,
    header: Sequence[str] | None = None,
    skip: int = 0,
) -> Head:
    """Return the header of a file; see :func:`read_cells` for the arguments."""
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
    names = clean(next(number_rows(lines, separator, skip))[1], missing=())
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


def _sniff(line: str) -> str:
    return max(_SEPARATORS, key=lambda s: len(next(csv.reader([line], delimiter=s), [])))


def choose_columns(source: str, names: Sequence[str], only: Sequence[str] | None) -> list[int]:
    """Return the numbers of the columns to read: the first of each name, or all."""
    if only is not None:
        for name in only:
            if name not in names:
                raise DataError(f"{source}: {unknown_name('column', name, set(names))}")
        return [names.index(name) for name in only]
    check_names(source, names)
    return list(range(len(names)))


def _find_lines(path: Path, head: Head, rows: Int[Array, " m"]) -> list[int]:
    """Return the line that each row ends on. The file is read again: few messages need lines."""
    return find_lines(_load(path), head, rows)


def _read_arrow(path: str | Path, form: str) -> Cells:
    """Read a Parquet file or a file of Arrow's own form."""
    from pyarrow import feather

    with reading_arrow(path, form):
        if form == "Parquet":
            return check_cells(str(path), open_parquet(path).read(use_threads=False))
        return check_cells(str(path), feather.read_table(path))


def open_parquet(path: str | Path) -> Any:
    """Open a Parquet file. Its text is read as the dictionaries that the file holds."""
    from pyarrow import parquet

    # As one file: the folders above it may look like a partitioned data set.
    schema = parquet.read_schema(path)
    check_names(str(path), clean_names(schema.names))
    return parquet.ParquetFile(path, read_dictionary=schema.names)


def check_cells(source: str, table: Any) -> Cells:
    """Return the columns of an Arrow table, and find damage in it."""
    from pyarrow import types

    table.validate(full=True)
    cells = cells_of(source, table.column_names, table.columns)
    for column in cells.columns.values():
        if types.is_temporal(column.data.type):
            column.words  # noqa: B018 - a date that does not exist is an error of the file
    return cells


@contextmanager
def reading_arrow(path: str | Path, form: str) -> Iterator[None]:
    """Turn damage that Arrow detects into an error that names the file."""
    import pyarrow

    try:
        yield
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


def paths_of(pattern: str, test: str | None = None) -> list[Path]:
    """Return the files of a path or pattern, sorted by name. ``test`` must not be among them."""
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


def names_of(paths: list[Path]) -> tuple[str, ...]:
    """Name files by their stems, or by their paths where two have the same stem."""
    stems = [path.name.split(".csv.")[0] if ".csv." in path.name else path.stem for path in paths]
    return tuple(stems if len(set(stems)) == len(stems) else map(str, paths))
