"""Parse rows of CSV into columns. Arrow reads them.

Arrow is more lenient with quotes than this library, and its errors name no lines. Text that Arrow
refuses or may read otherwise is therefore read by Python's csv, which is slower: it names the line,
or gives the cells as they were meant.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from fedfb.errors import DataError
from fedfb.shapes import Array, Int
from fedfb.tables.cells import MISSING, SourceColumn


class Head(NamedTuple):
    """What precedes the rows of a CSV file: column names, separator, and where the rows begin.

    ``skipped`` is the number of lines before ``begin``, where Python's csv starts to count.
    """

    names: list[str]
    separator: str
    begin: int
    rows: int
    skipped: int


def read_columns(
    source: str,
    content: bytes,
    head: Head,
    places: Sequence[int],
    kinds: Mapping[int, str] | None = None,
) -> list[SourceColumn]:
    """Read columns of the rows below a header.

    Args:
        source: name of the file.
        content: some or all of its bytes.
        head: where the rows begin.
        places: numbers of the columns.
        kinds: "number", "words", "text" or "raw" (as written, never missing) by column; None: a
            sample of the rows suggests it.

    """
    columns = _read_by_arrow(content, head, places, kinds)
    return _read_by_python(source, content, head, places) if columns is None else columns


def _read_by_arrow(
    content: bytes, head: Head, places: Sequence[int], kinds: Mapping[int, str] | None
) -> list[SourceColumn] | None:
    """Return columns; None if Arrow refuses the file or may read it otherwise.

    Columns that do not hold the numbers that were expected are read as text.
    """
    if len(head.separator.encode()) > 1 or _has_doubtful_quotes(content, head):
        return None
    kinds = _suggest_kinds(content, head, places) if kinds is None else dict(kinds)
    columns = None
    for attempt in range(_ATTEMPTS):
        try:
            columns = _parse(content, head, kinds)
            break
        except ValueError as error:
            failed = _FAILED.match(str(error))
            if failed is None:
                return None
            kinds[int(failed[1])] = "text"
            if attempt == _ATTEMPTS - 2:
                kinds = dict.fromkeys(places, "text")
    if columns is None:
        return None
    longest = [_find_longest(c) for c in columns.values()]
    if max(longest) > csv.field_size_limit():
        return None
    numbers = [place for place, kind in kinds.items() if kind == "number"]
    # Few columns of numbers are needed as text. All are read again when the first is.
    read_text = cache(lambda: _parse(content, head, dict.fromkeys(numbers, "text")))
    return [
        SourceColumn(columns[place], read_text=partial(_pick, read_text, place))
        if kinds[place] == "number"
        else SourceColumn(columns[place])
        for place in places
    ]


def _pick(read_text: Callable[[], Mapping[int, Any]], place: int) -> Any:
    return read_text()[place]


_FAILED = re.compile(r"In CSV column #(\d+): ")
"""What Arrow says of a cell that is not of its column's type."""

_ATTEMPTS = 4
"""How often a file is parsed, until the types of its columns fit. The last time all is text."""

_SAMPLE = 1 << 18
"""Bytes from which the types of columns are guessed."""


def _suggest_kinds(content: bytes, head: Head, places: Sequence[int]) -> dict[int, str]:
    """Suggest how Arrow reads each column: as numbers, words that repeat, or text."""
    end = content.rfind(b"\n", head.rows, head.rows + _SAMPLE) + 1
    sample = content[head.rows : end] if end > head.rows else b""
    kinds = dict.fromkeys(places, "text")
    try:
        columns = _parse(sample, head._replace(rows=0), kinds) if sample else {}
    except ValueError:  # the sample ends inside a quoted cell, or Arrow refuses the file
        columns = {}
    for place, text in columns.items():
        different, present = len(text.unique()), len(text) - text.null_count
        column = SourceColumn(text)
        if 4 * different <= present:
            kinds[place] = "words"
        elif column.numbers is not None:
            kinds[place] = "number"
        elif 2 * different <= present:
            kinds[place] = "words"
    return kinds


def _parse(content: bytes, head: Head, kinds: Mapping[int, str]) -> dict[int, Any]:
    """Let Arrow read columns, each as the kind says."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    text = pyarrow.string()
    by_kind = {
        "number": pyarrow.float64(),
        "words": pyarrow.dictionary(pyarrow.int32(), text),
        "text": text,
        "raw": text,
    }
    is_raw = "raw" in kinds.values()
    body = pyarrow.py_buffer(content)[head.rows :]
    table = arrow_csv.read_csv(
        pyarrow.BufferReader(body),
        # On one thread: several use half as much again in all, to save a tenth of a second.
        # A thread that lets go of Python's bytes while Python ends aborts the process, too.
        arrow_csv.ReadOptions(
            column_names=[str(place) for place in range(len(head.names))], use_threads=False
        ),
        arrow_csv.ParseOptions(
            delimiter=head.separator, newlines_in_values=content.find(b'"', head.rows) >= 0
        ),
        arrow_csv.ConvertOptions(
            check_utf8=False,
            column_types={str(place): by_kind[kind] for place, kind in kinds.items()},
            include_columns=[str(place) for place in kinds],
            null_values=[] if is_raw else list(MISSING),
            strings_can_be_null=not is_raw,
        ),
    )
    return dict(zip(kinds, table.columns, strict=True))


def _find_longest(column: Any) -> int:
    """Return the length of the longest cell of text; 0 for numbers."""
    from pyarrow import compute, types

    if types.is_floating(column.type):
        return 0
    words = types.is_dictionary(column.type)
    parts = [chunk.dictionary if words else chunk for chunk in column.chunks]
    return max((compute.max(compute.binary_length(p)).as_py() or 0 for p in parts), default=0)


def _has_doubtful_quotes(content: bytes, head: Head) -> bool:
    """Return whether quotes follow spaces, end inside a cell, or never end.

    Arrow takes spaces before a quote as part of the cell, and joins text behind a closing quote.
    Some of what this finds inside quoted cells is harmless, and is only read more slowly.
    """
    if are_quotes_plain(content, head.rows, head.separator):
        return False
    separator = re.escape(head.separator.encode())
    spaced = rb'(?:^|[\r\n%s]) +"' % separator
    closed_early = rb'(?:^|[\r\n%s])"(?:[^"]++|"")*+(?:"[^"\r\n%s]|\Z)' % (separator, separator)
    return any(
        re.compile(pattern).search(content, max(head.rows - 1, 0))
        for pattern in (spaced, closed_early)
    )


def are_quotes_plain(content: bytes, begin: int, separator: str) -> bool:
    r"""Return whether each quote begins or ends a cell, or is one of two that stand for one.

    The first, third, ... quote begins a cell, and the others end it. This is faster than a search
    for the contrary, which rare files need.

    Args:
        content: rows of text.
        begin: where the first row begins.
        separator: separator of cells, one byte.

    >>> are_quotes_plain(b'"a",1\n"b ""c"" ",2', 0, ","), are_quotes_plain(b'5" disk,2"', 0, ",")
    (True, False)
    """
    if content.find(b'"', begin) < 0:
        return True
    text, count = np.frombuffer(content, np.uint8), 0
    is_mark = np.zeros(256, bool)
    is_mark[[*b'"\r\n', *separator.encode()]] = True
    for start in range(begin, len(text), _QUOTES):
        quotes = np.flatnonzero(text[start : start + _QUOTES] == ord('"')) + start
        first, last = quotes[count % 2 :: 2], quotes[1 - count % 2 :: 2]
        count += len(quotes)
        before, after = text[first[first > begin] - 1], text[last[last < len(text) - 1] + 1]
        if not (is_mark[before].all() and is_mark[after].all()):
            return False
    return count % 2 == 0


_QUOTES = 1 << 18
"""Bytes in which quotes are looked up together."""


def _read_by_python(
    source: str, content: bytes, head: Head, places: Sequence[int]
) -> list[SourceColumn]:
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
    return [
        SourceColumn(pyarrow.chunked_array([pyarrow.array(cells, pyarrow.string())]))
        for cells in columns
    ]


def _list_rows(content: bytes, head: Head) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines and cells of the rows below the header."""
    text = io.StringIO(content[head.begin :].decode(), newline="")
    rows = number_rows(text, head.separator, head.skipped)
    return islice(rows, int(head.rows > head.begin), None)


def number_rows(
    lines: Iterable[str], separator: str, skipped: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank, each with the line that it ends on."""
    # Strict: a quote that is never closed would swallow the rest of the file.
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
    try:
        yield from ((skipped + reader.line_num, row) for row in reader if row)
    except csv.Error as error:
        raise csv.Error(f"line {skipped + reader.line_num}: {error}") from None


def find_lines(content: bytes, head: Head, rows: Int[Array, " m"]) -> list[int]:
    """Return the line that each row ends on."""
    if b'"' not in content and b"\r" not in content.replace(b"\r\n", b""):
        lines: list[int] = _find_plain_lines(content, head)[rows].tolist()
        return lines
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


@contextmanager
def refusing_quotes(source: str) -> Iterator[None]:
    """Turn an error of Python's csv into one that names the file."""
    try:
        yield
    except csv.Error as error:
        raise DataError(f"{source}, {error}. Correct the quotes there.") from None
