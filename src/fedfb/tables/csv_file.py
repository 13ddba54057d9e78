"""Read a CSV file as columns: encoding, header, and the rows below it. Errors name the line."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from fedfb.errors import DataError, unknown_name
from fedfb.shapes import Array, Int
from fedfb.tables.cells import Cells, SourceColumn, check_names, clean
from fedfb.tables.dialect import (
    DETECT,
    Decoded,
    Dialect,
    decode,
    detect_separator,
    refuse_remark,
    split_lines,
)
from fedfb.tables.marks import settle_numbers
from fedfb.tables.parse import Head, find_lines, number_rows, read_columns, refusing_quotes
from fedfb.tables.sources import decompress, form_of, load_bytes, name_source
from fedfb.tables.table import parse_number

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_SNIFFED = 50
"""The first lines of a file, from which its separator is detected."""


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
    with refusing_quotes(source):
        head = read_head(source, content, dialect.separator, header, skip)
        places = choose_columns(source, head.names, only)
        columns = read_columns(source, content, head, places)
    if not len(columns[0].data):
        raise DataError(f"{source} has a header but no rows. Expected one row per example.")
    lines_of = partial(_find_lines, Path(path), head, encoding)
    named = {head.names[i]: column for i, column in zip(places, columns, strict=True)}
    notes = [note] if note else []
    if header is None and only is None:
        notes += _check_columns(source, head.names, columns, lines_of)
        named.pop("", None)
    seen = Dialect(head.separator, dialect.decimal, dialect.thousands, encoding)
    file = Cells(source, named, len(columns[0].data), lines_of, "line", tuple(notes), seen)
    return settle_numbers(file, dialect, head.separator)


def _check_columns(
    source: str,
    names: Sequence[str],
    columns: Sequence[SourceColumn],
    lines_of: Callable[..., list[int]],
) -> list[str]:
    """Refuse last columns without a name that are not empty, and a header that is repeated."""
    notes = []
    filled = _count_named(names)
    for column in columns[filled:]:
        if column.words.counts().keys() - {""}:
            check_names(source, names)
    if filled < len(names):
        notes.append(f"{source}: the last column has no name and no cells, and is left out")
    rows = np.arange(len(columns[0].data))
    for name, column in zip(names[1:filled], columns[1:filled], strict=True):
        rows = _find_equal(column, name, rows) if len(rows) else rows
    # The first cell last, and cleaned: it may begin with the mark of the order of bytes.
    if filled > 1 and len(rows) and (columns[0].words[rows] == names[0]).any():
        line = lines_of(rows[:1])[0]
        raise DataError(f"{source}, line {line} repeats the header. Remove the line.")
    return notes + _note_alike(source, names[:filled])


def _find_equal(column: SourceColumn, name: str, rows: Int[Array, " n"]) -> Int[Array, " m"]:
    """Return the rows whose cell is the name of the column."""
    from pyarrow import compute, types

    if column.read_text is not None:
        number = parse_number(name)
        return rows[:0] if number is None else rows[np.asarray(column.cast == number)[rows]]
    if types.is_dictionary(column.data.type):
        return rows[(column.words == name)[rows]]
    equal = compute.equal(column.data, name)
    if compute.index(equal, True).as_py() < 0:
        return rows[:0]
    return rows[np.array(equal.fill_null(False).to_pylist())[rows]]


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
    refuse_nul(source, decoded.content)
    return decoded


def refuse_nul(source: str, content: bytes, lines: int = 0) -> None:
    """Refuse a NUL byte.

    Args:
        source: name of the file.
        content: some or all of its bytes.
        lines: number of lines before them.

    """
    if (place := content.find(b"\0")) >= 0:
        line = lines + count_lines(content[:place]) + 1
        raise DataError(f"{source}, line {line}: a NUL byte, so not text. Save the file as UTF-8.")


def count_lines(content: bytes) -> int:
    """Return the number of line ends, of all three kinds."""
    return content.count(b"\n") + content.count(b"\r") - content.count(b"\r\n")


def read_head(
    source: str,
    content: bytes,
    separator: str | None = None,
    header: Sequence[str] | None = None,
    skip: int = 0,
) -> Head:
    """Return what precedes the rows; see :func:`read_cells` for the arguments."""
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
    sample = list(islice(_Lines(content, begin), _SNIFFED))
    separator = separator or detect_separator(sample)
    refuse_remark(source, [(skip + line, row) for line, row in split_lines(sample, separator)])
    lines = _Lines(content, begin)
    names = clean(next(number_rows(lines, separator, skip))[1], missing=())
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


def choose_columns(source: str, names: Sequence[str], only: Sequence[str] | None) -> list[int]:
    """Return the numbers of the columns to read: the first of each name, or all."""
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


def _find_lines(path: Path, head: Head, encoding: str, rows: Int[Array, " m"]) -> list[int]:
    """Return the line that each row ends on. The file is read again: few messages need lines."""
    return find_lines(_load(path, encoding).content, head, rows)
