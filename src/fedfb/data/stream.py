"""Read a table in parts of some thousand rows: a file, a pipe, or standard input ('-').

Memory does not grow with the number of rows. CSV may be compressed. Arrow's own files are one part.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from fedfb.data.cells import Cells, check_names, clean_names
from fedfb.data.parse import Head, are_quotes_plain, find_lines, read_columns, refusing_quotes
from fedfb.data.read import (
    ARROW,
    COMPRESSED,
    MARK,
    PARQUET,
    check_cells,
    check_text,
    choose_columns,
    count_lines,
    open_parquet,
    read_head,
    read_rows,
    reading_arrow,
    reading_file,
)
from fedfb.errors import ConfigError, DataError, unknown_name

STDIN = "-"

_BYTES, _ROWS = 1 << 22, 1 << 15
"""The size of a part, of text and of Parquet."""

_LONGEST = 1 << 26
"""No row of text is longer."""

_TRIES = 3
"""Line ends that are tried as the end of a row, before all cells are looked at."""

_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"PAR1": "Parquet", b"ARRO": "Arrow"}


class Part(NamedTuple):
    """Some rows of a table: the needed columns, and the copied ones in Arrow, as written."""

    cells: Cells
    copies: dict[str, Any]


def read_parts(path: Path, needed: Mapping[str, bool], copied: Sequence[str]) -> Iterator[Part]:
    """Read a table in parts.

    Args:
        path: the file; '-' is standard input.
        needed: columns to read, and whether each holds numbers.
        copied: columns to copy.

    """
    suffix = path.suffix.lower()
    if suffix in PARQUET:
        return _read_parquet(path, needed, copied)
    if suffix in ARROW:
        cells = read_rows(path)
        _refuse_absent(cells.source, [*needed, *copied], list(cells.columns))
        return iter([Part(cells, {name: cells.columns[name].data for name in copied})])
    return _read_text(path, needed, copied)


def _refuse_absent(source: str, names: Sequence[str], present: Sequence[str]) -> None:
    for name in names:
        if name not in present:
            raise DataError(f"{source}: {unknown_name('column', name, present)}")


def _read_parquet(path: Path, needed: Mapping[str, bool], copied: Sequence[str]) -> Iterator[Part]:
    import pyarrow

    source, begin = str(path), 0
    with reading_arrow(path, "Parquet"):
        file = open_parquet(path)
        raw = dict(zip(clean_names(file.schema_arrow.names), file.schema_arrow.names, strict=True))
        _refuse_absent(source, [*needed, *copied], list(raw))
        names = [raw[name] for name in dict.fromkeys([*needed, *copied])]
        batches = file.iter_batches(_ROWS, columns=names, use_threads=False)
    while True:
        with reading_arrow(path, "Parquet"):
            batch = next(batches, None)
            if batch is None:
                break
            table = pyarrow.Table.from_batches([batch])
            cells = check_cells(source, table)._replace(lines_of=partial(_number_rows, begin))
        yield Part(cells, {name: table[raw[name]] for name in copied})
        begin += len(table)
    if not begin:
        raise DataError(f"{source} has columns but no rows. Expected one row per example.")


def _number_rows(begin: int, rows: Any) -> list[int]:
    numbers: list[int] = (rows + begin + 1).tolist()
    return numbers


def _read_text(path: Path, needed: Mapping[str, bool], copied: Sequence[str]) -> Iterator[Part]:
    source = "standard input" if str(path) == STDIN else str(path)
    with _open(path) as stream:
        rest = _read_block(path, stream).removeprefix(MARK)
        check_text(source, rest[: max(rest.rfind(b"\n"), rest.rfind(b"\r")) + 1] or rest)
        with refusing_quotes(source):
            head = read_head(source, rest)
        check_names(source, head.names)
        _refuse_absent(source, [*needed, *copied], head.names)
        pick = partial(choose_columns, source, head.names)
        places, kinds = pick([*needed]), {}
        for place, is_number in zip(places, needed.values(), strict=True):
            kinds[place] = "number" if is_number else "words"
        lines, rest, has_rows = count_lines(rest[: head.rows]), rest[head.rows :], False
        while True:
            block = _read_block(path, stream)
            end = len(rest) if not block else find_end(rest, head.separator)
            content, rest = rest[:end], rest[end:] + block
            if content.strip():
                check_text(source, content, lines)
                below = Head(head.names, head.separator, begin=0, rows=0, skipped=lines)
                with refusing_quotes(source):
                    columns = read_columns(source, content, below, places, kinds)
                    raw = dict.fromkeys(pick(copied), "raw")
                    written = read_columns(source, content, below, [*raw], raw) if raw else []
                cells = dict(zip(needed, columns, strict=True))
                copies = {n: column.data for n, column in zip(copied, written, strict=True)}
                size = len((columns or written)[0].data)
                yield Part(Cells(source, cells, size, partial(find_lines, content, below)), copies)
                has_rows = has_rows or bool(size)
                lines += count_lines(content)
            if not block:
                break
    if not has_rows:
        raise DataError(f"{source} has a header but no rows. Expected one row per example.")


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """Open a text file, a pipe or standard input, and decompress what it gives."""
    import pyarrow

    if str(path) == STDIN and (sys.stdin is None or sys.stdin.isatty()):
        raise ConfigError("'-' reads standard input, which is a terminal. Pipe a file into it.")
    with reading_file(path):
        file: Any = sys.stdin.buffer if str(path) == STDIN else path.open("rb")
    with file:
        with reading_file(path):
            first = file.peek(4)
        form = next((form for magic, form in _MAGIC.items() if first.startswith(magic)), None)
        form = form or COMPRESSED.get(path.suffix.lower())
        if form in ("Parquet", "Arrow"):
            raise DataError(
                f"{path} is a {form} file, which cannot be read from a pipe or under another name. "
                "Give the path of the file, which ends in .parquet or .arrow."
            )
        yield pyarrow.CompressedInputStream(pyarrow.PythonFile(file, "r"), form) if form else file


def _read_block(path: Path, stream: Any) -> bytes:
    with reading_arrow(path, "compressed text"):
        block: bytes = stream.read(_BYTES)
        return block


def find_end(content: bytes, separator: str) -> int:
    r"""Return where the last complete row of a text ends; 0 if there is none.

    >>> find_end(b'a,1\nb,"x\ny', ","), find_end(b"a,1\nb,2\r", ",")
    (4, 4)
    """
    if len(content) > _LONGEST:
        return len(content)  # what is wrong with it is found by whoever reads it
    end = len(content)
    for _ in range(_TRIES):
        # A last \r may be the first half of a line end.
        end = max(content.rfind(b"\n", 0, end), content.rfind(b"\r", 0, max(end - 1, 0))) + 1
        if end == 0 or are_quotes_plain(content[:end], 0, separator):
            return end
        end = max(content.rfind(b'"', 0, end), 0)  # the line end may be inside a quoted cell
    mark = re.escape(separator.encode())
    cell = rb' *+(?:"(?:[^"]++|"")*+"|(?!"))[^%s\r\n]*+' % mark
    row = rb"%s(?:%s%s)*+(?:\r\n|\n|\r(?!\n|\Z))" % (cell, mark, cell)
    rows = re.compile(rb"(?:%s)*+" % row).match(content)
    return 0 if rows is None else rows.end()
