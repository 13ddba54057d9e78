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

from fedfb.data.dialect import DETECT, Dialect
from fedfb.data.table import Part, Table, Words, check_same_columns, number_as_text, parse_number
from fedfb.errors import ConfigError, DataError
from fedfb.shapes import Array, Float, Int

MISSING = frozenset({"", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null"})
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

    ``doubt`` is the reason why its numbers are undecided: reading them is an error.
    """

    data: Any
    doubt: str = ""

    @classmethod
    def of(cls, cells: Iterable[str | float]) -> "SourceColumn":
        """Return a column of cells that are all text, or all numbers."""
        import pyarrow

        return cls(pyarrow.chunked_array([pyarrow.array(cells)]))

    @cached_property
    def words(self) -> Words:
        """The column as cleaned text. Its values are in the order in which they occur."""
        encoded = self.data.dictionary_encode().unify_dictionaries()
        raw = encoded.chunk(0).dictionary.to_pylist() if encoded.num_chunks else []
        values = Words.of(clean([*(as_text(value) or "" for value in raw), ""]))
        indices = [chunk.indices.fill_null(len(raw)).to_numpy() for chunk in encoded.chunks]
        return Words(values.values, values.codes[np.concatenate(indices)])

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
        return self.words.look_up(parsed, np.float64)

    @cached_property
    def cast(self) -> Float[Array, " n"] | None:
        """The numbers as Arrow reads them, which knows fewer spellings than Python; None: fails."""
        import pyarrow
        from pyarrow import types

        try:
            numbers = self.data.cast(pyarrow.float64(), safe=False).to_numpy()
        except pyarrow.ArrowException:
            return None
        if types.is_floating(self.data.type) or types.is_integer(self.data.type):
            return numbers + 0.0  # as text, -0.0 is 0
        if types.is_boolean(self.data.type) or types.is_temporal(self.data.type):
            return None
        # Arrow alone reads nan(1), and what is not finite needs the cell for its message.
        finite = np.isfinite(numbers).sum() == len(numbers) - self.data.null_count
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


def cells_of(source: str, names: Iterable[Any], columns: Iterable[Any]) -> Cells:
    """Return named columns as cells: of Arrow, numpy, pandas or polars, or lists of values.

    >>> cells = cells_of("rows", ["age", "sex"], [[31, 52.5], ["F", None]])
    >>> {name: column.words.tolist() for name, column in cells.columns.items()}
    {'age': ['31', '52.5'], 'sex': ['F', '']}
    """
    titles = clean_names(names)
    check_names(source, titles)
    by_title = {
        title: _make_column(source, title, values)
        for title, values in zip(titles, columns, strict=True)
    }
    sizes = {title: len(column.data) for title, column in by_title.items()}
    rows = next(iter(sizes.values()), 0)
    if not rows:
        raise DataError(f"{source} has columns but no rows. Expected one row per example.")
    for title, size in sizes.items():
        if size != rows:
            raise DataError(
                f"{source}: column {title!r} has {size} cells and others have {rows}. "
                "All columns need one cell per row."
            )
    return Cells(source, by_title, rows)


def columns_of(source: str, frame: Any) -> Cells:
    """Return a frame of pandas or polars, anything of Arrow, or a mapping of columns as cells."""
    import pyarrow

    if hasattr(frame, "collect"):  # a lazy frame of polars
        frame = frame.collect()
    if not is_frame(frame):
        raise ConfigError(
            f"{source} is a {type(frame).__name__}. Expected a frame of pandas or polars, or a "
            "mapping of column names to lists."
        )
    if not isinstance(frame, Mapping) and type(frame).__module__.split(".")[0] not in _BY_COLUMN:
        frame = pyarrow.table(frame) if hasattr(frame, "__arrow_c_stream__") else frame
    if isinstance(frame, pyarrow.Table):
        return cells_of(source, frame.column_names, frame.columns)
    names = list(frame) if isinstance(frame, Mapping) else list(frame.columns)
    check_names(source, clean_names(names))  # first: a name that occurs twice cannot be looked up
    return cells_of(source, names, (frame[name] for name in names))


_BY_COLUMN = ("pandas", "polars")
"""Libraries whose frames may hold columns that Arrow refuses: they are read column by column."""


def is_frame(value: Any) -> bool:
    """Return whether a value has named columns, or is a lazy frame."""
    if isinstance(value, Mapping) or hasattr(value, "collect") or hasattr(value, "columns"):
        return True
    # A single column speaks Arrow too, and has a type of its own.
    is_column = hasattr(value, "dtype") or hasattr(value, "type")
    return hasattr(value, "__arrow_c_stream__") and not is_column


def _make_column(source: str, name: str, values: Any) -> SourceColumn:
    """Return a column in Arrow. Values that Arrow would change or refuse are written as text."""
    import pyarrow
    from pyarrow import types

    try:
        data = _plain_types(_make_array(values))
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError, AttributeError):
        data = None
    if data is not None and any(is_type(data.type) for is_type in _single_values(types)):
        return SourceColumn(data)
    values = _list_values(values)
    cells = [_write_cell(source, name, row, value) for row, value in enumerate(values)]
    return SourceColumn(pyarrow.chunked_array([pyarrow.array(cells, pyarrow.large_string())]))


def _single_values(types: Any) -> tuple[Callable[[Any], bool], ...]:
    """Return the types whose values are single ones, and are the same in every source."""
    return (
        *(types.is_string, types.is_large_string, types.is_integer, types.is_floating),
        *(types.is_boolean, types.is_decimal, types.is_date, types.is_time),
        *(types.is_timestamp, types.is_null),
    )


def _plain_types(data: Any) -> Any:
    """Decode categories, and bring text and fractions to one type each."""
    import pyarrow
    from pyarrow import types

    if data is not None and types.is_dictionary(data.type):
        # Arrow cannot decode categories of polars, whose text is of another type.
        chunks = [(_plain_types(c.dictionary), c.indices) for c in data.chunks]
        data = pyarrow.chunked_array([values.take(codes) for values, codes in chunks])
    if data is not None and types.is_string_view(data.type):
        return data.cast(pyarrow.large_string())
    if data is not None and types.is_floating(data.type):
        return data.cast(pyarrow.float64())
    return data


def _make_array(values: Any) -> Any:
    """Return what Arrow makes of a column as it is; None where only its values can tell."""
    import pyarrow

    if isinstance(values, pyarrow.ChunkedArray):
        return values
    if isinstance(values, list | tuple):
        kinds = set(map(type, values))
        plain = kinds <= {str, type(None)} or kinds <= {int, float, type(None)}
        return pyarrow.chunked_array([pyarrow.array(values)]) if plain else None
    if isinstance(values, np.ndarray):
        plain = values.dtype.kind in "fiub"
        return pyarrow.chunked_array([pyarrow.array(values)]) if plain else None
    if str(getattr(values, "dtype", "object")).lower() == "object":
        return None
    return pyarrow.chunked_array(values)


def _list_values(column: Any) -> Sequence[Any]:
    for method in ("to_pylist", "tolist", "to_list"):  # Arrow; numpy and pandas; polars
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
