"""Read a CSV file as columns of text. Errors name the line.

Arrow reads CSV. It is more lenient with quotes than this library, and its errors name no lines. A
file that Arrow refuses or may read otherwise is therefore read by Python's csv, which is slower: it
names the line, or gives the cells as they were meant.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedfb.data.cells import MISSING, Cells, SourceColumn, check_names, clean
from fedfb.data.dialect import DETECT, Decoded, Dialect, decode, detect_separator
from fedfb.data.marks import settle_numbers
from fedfb.data.sources import decompress, form_of, load_bytes, name_source
from fedfb.errors import DataError, unknown_name
from fedfb.shapes import Array, Int

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_SNIFFED = 50
"""The first lines of a file, from which its separator is detected."""


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
    dialect: Dialect = DETECT,
    *,
    header: Sequence[str] | None = None,
    skip: int = 0,
    only: Sequence[str] | None = None,
) -> Cells:
    """Read a CSV file, which may be compressed (.gz, .zst, .bz2).

    Args:
        path: the file.
        dialect: what is declared about it; the rest is detected.
        header: names of the columns of a file without a header line.
        skip: number of lines before the first.
        only: columns to store, the first of each name; None: all.

    """
    source, (content, encoding, note) = name_source(Path(path)), _load(Path(path), dialect.encoding)
    try:
        head = _read_head(source, content, dialect.separator, header, skip)
        places = _choose_columns(source, head.names, only)
        columns = _read_by_arrow(content, head, places)
        if columns is None:
            columns = _read_by_python(source, content, head, places)
    except csv.Error as error:
        raise DataError(f"{source}, {error}. Correct the quotes there.") from None
    if not len(columns[0]):
        raise DataError(f"{source} has a header but no rows. Expected one row per example.")
    lines_of = partial(_find_lines, Path(path), head, encoding)
    named = {head.names[i]: SourceColumn(c) for i, c in zip(places, columns, strict=True)}
    notes = [note] if note else []
    if header is None and only is None:
        notes += _check_columns(source, head.names, columns, lines_of)
        named.pop("", None)
    seen = Dialect(head.separator, dialect.decimal, dialect.thousands, encoding)
    file = Cells(source, named, len(columns[0]), lines_of, "line", tuple(notes), seen)
    return settle_numbers(file, dialect, head.separator)


def _check_columns(
    source: str, names: Sequence[str], columns: Sequence[Any], lines_of: Callable[..., list[int]]
) -> list[str]:
    """Refuse last columns without a name that are not empty, and a header that is repeated."""
    from pyarrow import compute

    notes = []
    filled = _count_named(names)
    for column in columns[filled:]:
        if compute.any(compute.not_equal(column, "")).as_py():
            check_names(source, names)
    if filled < len(names):
        notes.append(f"{source}: the last column has no name and no cells, and is left out")
    repeated = compute.equal(columns[0], names[0])
    for name, column in zip(names[1:filled], columns[1:filled], strict=True):
        if not compute.any(repeated).as_py():
            break
        repeated = compute.and_(repeated, compute.equal(column, name))
    row = compute.index(repeated, True).as_py()
    if row >= 0 and filled > 1:
        raise DataError(
            f"{source}, line {lines_of(np.array([row]))[0]} repeats the header. Remove the line."
        )
    return notes + _note_alike(source, names[:filled])


def _note_alike(source: str, names: Sequence[str]) -> list[str]:
    first: dict[str, str] = {}
    pairs = [(first.setdefault(name.casefold(), name), name) for name in names]
    return [
        f"{source}: columns {one!r} and {other!r} differ in capital letters only"
        for one, other in pairs
        if one != other
    ]


def _load(path: Path, encoding: str | None = None) -> Decoded:
    """Return a text file as UTF-8."""
    source, form = name_source(path), form_of(path)
    decoded = decode(source, decompress(path, load_bytes(path), form), encoding)
    if (place := decoded.content.find(b"\0")) >= 0:
        line = decoded.content.count(b"\n", 0, place) + 1
        raise DataError(f"{source}, line {line}: a NUL byte, so not text. Save the file as UTF-8.")
    return decoded


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
    if header:
        return Head(list(header), separator or detect_separator([first]), begin, begin, skip)
    if match := re.fullmatch(r"sep=(.)\s*", first):  # Excel's own line
        begin, skip = end, skip + 1
        separator = _check_declared(source, content, separator or match[1], begin, skip)
    separator = separator or detect_separator(list(islice(_Lines(content, begin), _SNIFFED)))
    lines = _Lines(content, begin)
    names = clean(next(_number_rows(lines, separator, skip))[1], missing=())
    return Head(names, separator, begin, lines.place, skip)


def _check_declared(source: str, content: bytes, separator: str, begin: int, skip: int) -> str:
    line = content[begin : _end_of_line(content, begin)].decode()
    if separator not in line:
        raise DataError(
            f"{source}, line {skip + 1}: 1 cells, expected several separated by {separator!r}, as "
            f"line {skip} (sep=) says. Remove line {skip}."
        )
    return separator


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


def _choose_columns(source: str, names: Sequence[str], only: Sequence[str] | None) -> list[int]:
    if only is not None:
        for name in only:
            if name not in names:
                raise DataError(f"{source}: {unknown_name('column', name, set(names))}")
        return [names.index(name) for name in only]
    check_names(source, names[: _count_named(names)])
    return list(range(len(names)))


def _count_named(names: Sequence[str]) -> int:
    """Return the number of columns without the last ones that have no name."""
    return max((place for place, name in enumerate(names, 1) if name), default=1)


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
            # A thread of Arrow that lets go of Python's bytes while Python ends aborts the process.
            arrow_csv.ReadOptions(column_names=names, use_threads=False),
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


def _find_lines(path: Path, head: Head, encoding: str, rows: Int[Array, " m"]) -> list[int]:
    """Return the line that each row ends on. The file is read again: few messages need lines."""
    content = _load(path, encoding).content
    if b'"' not in content and b"\r" not in content.replace(b"\r\n", b""):
        return _find_plain_lines(content, head)[rows].tolist()
    ends = [line for line, _ in islice(_list_rows(content, head), int(rows.max()) + 1)]
    return [ends[row] for row in rows.tolist()]


def _find_plain_lines(content: bytes, head: Head) -> Int[Array, " n"]:
    """Return the lines of all rows where every row is a line, and blank lines are none."""
    part = np.frombuffer(content, np.uint8)[head.begin :]
    ends = np.flatnonzero(part == ord("\n"))
    if not len(ends) or ends[-1] != len(part) - 1:
        ends = np.append(ends, len(part))
    begins = np.append(0, ends[:-1] + 1)
    length = ends - begins
    first = part[np.minimum(begins, len(part) - 1)]
    is_row = (length > 0) & ~((length == 1) & (first == ord("\r")))
    rows: Array = np.flatnonzero(is_row)[int(head.rows > head.begin) :]
    return rows + head.skipped + 1
