"""Read a table in parts of some thousand rows: a file, a pipe, standard input ('-'), a database.

Memory does not grow with the number of rows. Text may be compressed, and its dialect is detected in
the first part. Arrow's own files and workbooks are one part.
"""

import codecs
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedfb.errors import DataError, unknown_name
from fedfb.tables.address import Database, find_source
from fedfb.tables.cells import Cells, clean_names
from fedfb.tables.csv_file import choose_columns, count_lines, read_head, refuse_nul
from fedfb.tables.database import cells_of_table, open_database
from fedfb.tables.dialect import (
    DETECT,
    OTHER_ENCODING,
    Dialect,
    detect_encoding,
    find_no_utf8,
    is_western,
)
from fedfb.tables.marks import settle_numbers
from fedfb.tables.parse import Head, are_quotes_plain, find_lines, read_columns, refusing_quotes
from fedfb.tables.read import (
    check_table,
    open_parquet,
    read_rows,
    reading_arrow,
    rename_columns,
)
from fedfb.tables.sources import (
    ARROW,
    PARQUET,
    compression_of,
    is_stream,
    load_bytes,
    name_source,
    opening,
    reading_file,
    recognise,
)

_BYTES, _ROWS = 1 << 22, 1 << 15
"""The size of a part, of text and of Parquet."""

_LONGEST = 1 << 26
"""No row of text is longer."""

_TRIES = 3
"""Line ends that are tried as the end of a row, before all cells are looked at."""


class Rows(NamedTuple):
    """Some rows of a table: the needed columns, and the copied ones in Arrow, as written."""

    cells: Cells
    copies: dict[str, Any]


def read_parts(
    source: str | Path | Database,
    needed: Mapping[str, bool],
    copied: Sequence[str],
    dialect: Dialect = DETECT,
) -> Iterator[Rows]:
    """Read a table in parts.

    Args:
        source: a file, or a table of a database; '-' is standard input.
        needed: columns to read, and whether each holds numbers.
        copied: columns to copy.
        dialect: what is declared about a text file; the rest is detected.

    """
    path = find_source(source)
    if isinstance(path, Database):
        with open_database(path) as rows:
            table = _Batches(str(path), rows.columns, rows.reader, _make_rows, rows.notes)
            yield from _read_batches(table, needed, copied, dialect)
        return
    with opening(path) as file:
        with reading_file(path):
            form = recognise(path, file.peek(16)[:16])
        named_binary = form is None and path.suffix.lower() in (*PARQUET, *ARROW)
        if form == "Parquet" and not is_stream(path):
            yield from _read_parquet(path, needed, copied, dialect)
        elif form in ("Parquet", "Arrow", "Excel") or named_binary:
            if is_stream(path):
                load_bytes(path, file)
            yield _read_whole(path, needed, copied, dialect)
        else:
            yield from _read_text(
                _Text(path, file, form, dialect.encoding), needed, copied, dialect
            )


def _read_whole(
    source: Path, needed: Mapping[str, bool], copied: Sequence[str], dialect: Dialect
) -> Rows:
    cells = read_rows(source, dialect)
    _refuse_absent(cells.source, [*needed, *copied], list(cells.columns))
    return Rows(cells, {name: cells.columns[name].write() for name in copied})


def _refuse_absent(source: str, names: Sequence[str], present: Sequence[str]) -> None:
    for name in names:
        if name not in present:
            raise DataError(f"{source}: {unknown_name('column', name, present)}")


class _Marks:
    """The marks in numbers that parts of one file have shown. A part must not contradict others."""

    def __init__(self, declared: Dialect, separator: str = ",") -> None:
        self.declared, self.separator = declared, separator
        self.earlier = DETECT
        self.with_points: set[str] = set()

    def settle(self, cells: Cells) -> Cells:
        """Read the numbers of a part as those of earlier parts."""
        settled = settle_numbers(cells, self.declared, self.separator, self.earlier)
        decimal, thousands = settled.dialect.decimal, settled.dialect.thousands
        for name, column in cells.columns.items():
            is_rewritten = settled.columns[name] is not column
            if is_rewritten and name in self.with_points and decimal != ".":
                raise DataError(
                    f"{cells.place(0)}, column {name!r}: in these rows the decimal mark is a "
                    "comma, and it was a point in earlier rows. Name the marks: --decimal ',' "
                    "--thousands '.', or --decimal '.'."
                )
            numbers = None if is_rewritten or not column.is_text else column.cast
            if numbers is not None and (np.floor(numbers) < numbers).any():
                self.with_points.add(name)
        self.earlier = replace(
            self.earlier,
            decimal=decimal or self.earlier.decimal,
            thousands=thousands or self.earlier.thousands,
        )
        return settled


def _read_parquet(
    path: Path, needed: Mapping[str, bool], copied: Sequence[str], dialect: Dialect
) -> Iterator[Rows]:
    source, wanted = str(path), {*needed, *copied}
    with reading_arrow(source, "Parquet"):
        file = open_parquet(source, path)
        titles = file.schema_arrow.names
        columns = rename_columns(source, clean_names(titles), dialect)
        names = [title for title, name in zip(titles, columns, strict=True) if name in wanted]
        batches = file.iter_batches(_ROWS, columns=names, use_threads=False)
    table = _Batches(source, clean_names(titles), _refuse_damage(source, batches), _make_parquet)
    yield from _read_batches(table, needed, copied, dialect)


def _refuse_damage(source: str, batches: Iterator[Any]) -> Iterator[Any]:
    while True:
        with reading_arrow(source, "Parquet"):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _make_parquet(source: str, table: Any, copied: Sequence[str]) -> Rows:
    with reading_arrow(source, "Parquet"):
        return Rows(check_table(source, table), {name: table[name] for name in copied})


def _make_rows(source: str, table: Any, copied: Sequence[str]) -> Rows:
    cells = cells_of_table(source, table)
    return Rows(cells, {name: cells.columns[name].write() for name in copied})


class _Batches(NamedTuple):
    """Batches of Arrow: their source, all of its columns, and how rows are made of a batch."""

    source: str
    columns: list[str]
    batches: Iterator[Any]
    make_rows: Callable[[str, Any, Sequence[str]], Rows]
    notes: tuple[str, ...] = ()


def _read_batches(
    table: _Batches, needed: Mapping[str, bool], copied: Sequence[str], dialect: Dialect
) -> Iterator[Rows]:
    import pyarrow

    source, begin, marks = table.source, 0, _Marks(dialect)
    wanted = list(dict.fromkeys([*needed, *copied]))
    _refuse_absent(source, wanted, rename_columns(source, table.columns, dialect))
    for batch in table.batches:
        if not len(batch):
            continue
        part = pyarrow.Table.from_batches([batch])
        names = rename_columns(source, clean_names(part.column_names), dialect)
        rows = table.make_rows(source, part.rename_columns(names).select(wanted), copied)
        lines_of, notes = partial(_number_rows, begin), () if begin else table.notes
        cells = rows.cells._replace(lines_of=lines_of, notes=notes)
        yield rows._replace(cells=marks.settle(cells))
        begin += len(batch)
    if not begin:
        raise DataError(f"{source} has columns but no rows. Expected one row per example.")


def _number_rows(begin: int, rows: Any) -> list[int]:
    numbers: list[int] = (rows + begin + 1).tolist()
    return numbers


class _Text:
    """A text that is read in blocks, as UTF-8. ``notes`` say what was detected."""

    def __init__(self, path: Path, file: Any, form: str | None, declared: str | None) -> None:
        import pyarrow

        self.source, self.form = name_source(path), compression_of(path, form)
        self.stream, self.declared, self.is_open = file, declared, declared is None
        if self.form:
            self.stream = pyarrow.CompressedInputStream(pyarrow.PythonFile(file, "r"), self.form)
        self.encoding, self.notes, self.lines, self.tail = "", list[str](), 0, b""
        self.decoder: Any = None

    def read_block(self) -> bytes:
        """Return the next block; none is left where it is empty."""
        block = self._read_lines()
        if not self.encoding or (self.is_open and self.encoding == "ascii" and not block.isascii()):
            self._detect(block)
        elif self.is_open and self.encoding == "cp1252" and not is_western(block):
            raise DataError(
                f"{self.source}, line {self.lines + 1} or later: not cp1252, as which earlier rows "
                f"were read. {OTHER_ENCODING}"
            )
        content = block if self.decoder is None else self._decode(block)
        self.lines += count_lines(content)
        return content

    def _read_lines(self) -> bytes:
        """Return whole lines, by which encodings are recognised."""
        content = self.tail
        while len(content) < _LONGEST:
            with reading_arrow(self.source, self.form or "text"):
                block: bytes = self.stream.read(_BYTES)
            content += block
            end = max(content.rfind(b"\n"), content.rfind(b"\r", 0, -1)) + 1
            if not block or b"\0" in content:  # a text of two bytes a letter has other line ends
                break
            if end:
                self.tail = content[end:]
                return content[:end]
        self.tail = b""
        return content

    def _detect(self, block: bytes) -> None:
        before = b"\n" * self.lines  # for the line in messages
        name, note = detect_encoding(self.source, before + block, self.declared)
        self.notes += [note] if note else []
        if name != "utf-8":
            self.decoder = codecs.getincrementaldecoder(name)()
        self.encoding = "ascii" if name == "utf-8" and block.isascii() else name

    def _decode(self, block: bytes) -> bytes:
        try:
            text: str = self.decoder.decode(block, final=not block)
        except UnicodeError as error:
            line = self.lines + block.count(b"\n", 0, getattr(error, "start", 0)) + 1
            raise DataError(
                f"{self.source}, line {line}: not {self.encoding}. {OTHER_ENCODING}"
            ) from None
        return text.encode()


def _read_text(
    text: _Text, needed: Mapping[str, bool], copied: Sequence[str], dialect: Dialect
) -> Iterator[Rows]:
    source = text.source
    rest = text.read_block().removeprefix(codecs.BOM_UTF8)
    refuse_nul(source, rest)
    with refusing_quotes(source):
        head = read_head(source, rest, dialect.separator)
    head = head._replace(names=rename_columns(source, head.names, dialect))
    pick = partial(choose_columns, source, head.names)
    all_places, places = pick(None), pick([*needed])
    kinds = {place: "number" if needed[head.names[place]] else "words" for place in places}
    raw, marks = dict.fromkeys(pick(copied), "raw"), _Marks(dialect, head.separator)
    lines, rest, has_rows = count_lines(rest[: head.rows]), rest[head.rows :], False
    while True:
        block = text.read_block()
        end = len(rest) if not block else find_end(rest, head.separator)
        content, rest = rest[:end], rest[end:] + block
        if content.strip():
            refuse_nul(source, content, lines)
            if (place := find_no_utf8(content)) is not None:
                line = lines + count_lines(content[:place]) + 1
                raise DataError(f"{source}, line {line}: not UTF-8. {OTHER_ENCODING}")
            below = Head(head.names, head.separator, begin=0, rows=0, skipped=lines)
            with refusing_quotes(source):
                if has_rows:
                    columns = read_columns(source, content, below, places, kinds)
                else:  # all columns of the first part show how numbers are written
                    columns = read_columns(source, content, below, all_places)
                written = read_columns(source, content, below, [*raw], raw) if raw else []
            names = [head.names[place] for place in (places if has_rows else all_places)]
            size = len((columns or written)[0].data)
            cells = Cells(
                source,
                dict(zip(names, columns, strict=True)),
                size,
                partial(find_lines, content, below),
                "line",
                tuple(text.notes),
            )
            copies = {n: column.data for n, column in zip(copied, written, strict=True)}
            yield Rows(marks.settle(cells), copies)
            text.notes.clear()
            has_rows = has_rows or bool(size)
            lines += count_lines(content)
        if not block:
            break
    if not has_rows:
        raise DataError(f"{source} has a header but no rows. Expected one row per example.")


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
