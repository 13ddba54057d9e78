"""Columns as a source has them, in Arrow, with two readings: as numbers and as text.

Each reading is computed when it is first needed. What the cells of a CSV file would say is the
reference, so that the same values give the same bits from any source. Only different values, and
values that Arrow has no type for, are looked at in Python.
"""

import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from fedfb.errors import DataError
from fedfb.shapes import Array, Bool, Float, Int
from fedfb.tables.dialect import DETECT, Dialect
from fedfb.tables.table import Part, Table, Words, check_same_columns, number_as_text, parse_number

MISSING = frozenset(
    {"", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "\\N"}
)
"""Cells that count as missing."""

MAX_COLUMNS = 5000
"""The most columns of a file: every column becomes one feature or several."""

_SPACES = " \t\r\n\xa0\u2007\u2009\u202f"
_INVISIBLE = dict.fromkeys(map(ord, "\xad\ufeff\u200b\u200e\u200f\u2060\u061c"))
_INVISIBLE |= dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)])
"""Characters without width that programs leave in cells: marks of direction, of order, of breaks.

Those that join letters stay: they have a meaning in some scripts.
"""


@dataclass(frozen=True, eq=False)
class SourceColumn:
    """A column of a source: text, numbers, truths, decimals, dates or times, in Arrow.

    Text may be encoded as a dictionary. ``read_text`` returns the cells as they are written, where
    ``data`` are the numbers that a text file holds. ``doubt`` is the reason why its numbers are
    undecided: reading them is an error.
    """

    data: Any
    doubt: str = ""
    read_text: Callable[[], Any] | None = None

    @classmethod
    def of(cls, cells: Iterable[str | float]) -> "SourceColumn":
        """Return a column of cells that are all text, or all numbers."""
        import pyarrow

        return cls(pyarrow.chunked_array([pyarrow.array(cells)]))

    @cached_property
    def words(self) -> Words:
        """The column as cleaned text."""
        raw, codes = self.encoded if self.read_text is None else _encode(self.read_text())
        cells = (as_text(value) or "" for value in raw.to_pylist())
        words = Words.of(clean([*cells, ""]))
        are_same = len(words.values) == len(words.codes)
        return Words(words.values, codes if are_same else words.codes[codes])

    @cached_property
    def encoded(self) -> tuple[Any, Int[Array, " n"]]:
        """The different values, in Arrow, and the number of each row's value, last: none."""
        return _encode(self.data)

    @cached_property
    def numbers(self) -> Float[Array, " n"] | None:
        """The column as numbers, NaN where missing; None if some cell is no number."""
        if self.doubt:
            raise DataError(self.doubt)
        if self.cast is not None:
            return self.cast
        parsed = [parse_number(cell) if cell else np.nan for cell in self.words.values]
        if any(number is None for number in parsed):
            return None
        return self.words.look_up(parsed, np.float64) + 0.0

    @cached_property
    def cast(self) -> Float[Array, " n"] | None:
        """The numbers as Arrow reads them, which knows fewer spellings than Python; None: fails."""
        from pyarrow import types

        if not types.is_dictionary(self.data.type):
            return _cast(self.data, is_written=self.read_text is not None)
        values, codes = self.encoded
        numbers = _cast(values)
        return None if numbers is None else np.append(numbers, np.nan)[codes]

    @property
    def is_text(self) -> bool:
        """Whether the cells are text, of a text file or of any other source."""
        from pyarrow import types

        kind = self.data.type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        is_text = types.is_string(kind) or types.is_large_string(kind)
        return is_text or self.read_text is not None

    def write(self) -> Any:
        """Return the cells as they are written, in Arrow; only columns of text are text."""
        from pyarrow import types

        if self.read_text is not None:
            return self.read_text()
        is_encoded = types.is_dictionary(self.data.type)
        return self.data.cast(self.data.type.value_type) if is_encoded else self.data

    def blank(self, rows: Bool[Array, " n"]) -> "SourceColumn":
        """Return the column without the cells of some rows."""
        import pyarrow
        from pyarrow import compute

        mask, data = pyarrow.array(rows), self.data
        if self.read_text is None:
            data = self.write()  # Arrow cannot blank the rows of a dictionary

        def hide(cells: Any) -> Any:
            return compute.if_else(mask, pyarrow.scalar(None, cells.type), cells)

        read_text = self.read_text and (lambda: hide(self.write()))
        return SourceColumn(hide(data), self.doubt, read_text)


def _encode(data: Any) -> tuple[Any, Int[Array, " n"]]:
    """Return the different values of a column, and the number of each row's value, last: none."""
    import pyarrow
    from pyarrow import types

    if types.is_null(data.type):
        data = data.cast(pyarrow.string())
    encoded = data if types.is_dictionary(data.type) else data.dictionary_encode()
    encoded = encoded.unify_dictionaries()
    if not encoded.num_chunks:
        return pyarrow.array([], encoded.type.value_type), np.zeros(0, np.int32)
    values = encoded.chunk(0).dictionary
    codes = _join([chunk.indices for chunk in encoded.chunks], len(values))
    codes = codes.astype(np.int32, copy=False)
    occurs = np.bincount(codes, minlength=len(values) + 1)[:-1] > 0
    if occurs.all():
        return values, codes
    # Categories of a frame that no row has would decide what the column is.
    places = np.append(np.cumsum(occurs) - 1, occurs.sum()).astype(np.int32)
    return values.take(np.flatnonzero(occurs)), places[codes]


def _join(chunks: Sequence[Any], missing: float | int) -> Array:
    """Return chunks of numbers as one array. Arrow's own way of doing this imports pandas."""
    parts = [chunk.fill_null(missing) if chunk.null_count else chunk for chunk in chunks]
    return np.concatenate([np.from_dlpack(part) for part in parts] or [np.zeros(0)])


def _cast(data: Any, is_written: bool = False) -> Float[Array, " n"] | None:
    """Let Arrow read the numbers. It reads fewer spellings than Python: None if it fails."""
    import pyarrow
    from pyarrow import types

    if types.is_boolean(data.type) or types.is_temporal(data.type):
        return None
    if types.is_decimal(data.type):
        data = data.cast(pyarrow.string())  # Arrow rounds decimals twice
    try:
        cast = data.cast(pyarrow.float64(), safe=False)
    except pyarrow.ArrowException:
        return None
    numbers = _join(getattr(cast, "chunks", [cast]), np.nan)
    numbers += 0.0  # -0.0 is 0, as in text
    if not is_written and (types.is_floating(data.type) or types.is_integer(data.type)):
        return numbers
    # Arrow alone reads nan(1), and what is not finite needs the cell for its message.
    finite = np.isfinite(numbers).sum() == len(numbers) - data.null_count
    return numbers if finite else None


class Cells(NamedTuple):
    """A source: its columns, its number of rows, and a function from rows to their lines.

    Lines are computed only where a message needs them. Rows of a frame count from 1, and ``unit``
    says which of both is counted. ``notes`` are sentences about how the source was read,
    ``dialect`` is what was declared or detected.
    """

    source: str
    columns: dict[str, SourceColumn]
    rows: int
    lines_of: Callable[[Int[Array, " m"]], list[int]] = lambda rows: (rows + 1).tolist()
    unit: str = "row"
    notes: tuple[str, ...] = ()
    dialect: Dialect = DETECT

    def as_text(self) -> Table:
        """Return all columns as they are written."""
        return self.make_table({name: column.words for name, column in self.columns.items()})

    def make_table(self, columns: Mapping[str, Any]) -> Table:
        """Return a table of readings of the columns, which knows the places of its rows."""
        part = Part(self.source, self.rows, self.lines_of, self.unit)
        return Table(columns, self.source, (part,))

    def place(self, row: int) -> str:
        """Return the place of a row as messages name it."""
        return Part(self.source, self.rows, self.lines_of, self.unit).place(row)


def typed(files: Sequence[Cells], text: Collection[str] = ()) -> tuple[Table, ...]:
    """Make a table of each file. A column is numeric if it is in all; ``text`` never is."""
    check_same_columns([(file.source, list(file.columns)) for file in files])
    columns: list[dict[str, Any]] = [{} for _ in files]
    for name in files[0].columns:
        parts = None if name in text else _read_numbers(name, files)
        for number, file in enumerate(files):
            columns[number][name] = file.columns[name].words if parts is None else parts[number]
    return tuple(file.make_table(c) for c, file in zip(columns, files, strict=True))


def _read_numbers(name: str, files: Sequence[Cells]) -> list[Array] | None:
    """Return one float array per file; None if some cell is no number, or all are missing."""
    parts = []
    for file in files:
        numbers = file.columns[name].numbers
        if numbers is None:
            return None
        parts.append(numbers)
    if all(np.isnan(part).all() for part in parts):
        return None
    for file, part in zip(files, parts, strict=True):
        infinite = np.flatnonzero(np.isinf(part))
        if len(infinite):
            words = file.columns[name].words
            raise DataError(
                f"{file.place(int(infinite[0]))}, column {name!r}: "
                f"{words.values[words.codes[infinite[0]]]!r} is not finite. Write a number, or "
                "leave the cell empty if the value is missing."
            )
    return parts


def clean(cells: Iterable[str], missing: Collection[str] = MISSING) -> list[str]:
    """Strip spaces, normalize letters (NFC), and replace marks of missing cells by ''.

    >>> clean([" a", "e\u0301", "NA"])
    ['a', 'é', '']
    """
    stripped = (
        cell
        if cell.isascii()
        else unicodedata.normalize("NFC", cell.translate(_INVISIBLE)).strip(_SPACES)
        for cell in map(str.strip, cells)
    )
    return ["" if cell in missing else cell for cell in stripped]


def check_names(source: str, names: Sequence[str]) -> None:
    """Refuse too many columns, columns without a name, and names that occur twice."""
    if len(names) > MAX_COLUMNS:
        raise DataError(
            f"{source} has {len(names)} columns, and at most {MAX_COLUMNS} can be read. Keep those "
            "that a model should know, and check that each line is one row, not one column."
        )
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
    if isinstance(value, np.float32 | np.float16):
        value = float(str(value))  # .1, and not the number of 64 bits that is nearest to it
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
