"""A table: named columns of equal length, of numbers or text, and their source."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fedfb.errors import DataError, unknown_name
from fedfb.shapes import Array, Bool, Float, Int


@dataclass(frozen=True, eq=False)
class Words:
    """A column of text: its different values ('' = missing), and the value of each row by number.

    It behaves as an array of text: compared with a text it gives one truth per row. A value that
    no row has may be among ``values``.

    >>> sex = Words.of(["F", "M", "F"])
    >>> sex.values, sex.codes.tolist(), (sex == "F").tolist(), sex.counts()
    (('F', 'M'), [0, 1, 0], [True, False, True], {'F': 2, 'M': 1})
    """

    values: tuple[str, ...]
    codes: Int[Array, " n"]

    @classmethod
    def of(cls, cells: Iterable[str]) -> "Words":
        """Return cells as words, with values in the order in which they occur."""
        index: dict[str, int] = {}
        codes = np.fromiter((index.setdefault(cell, len(index)) for cell in cells), np.int32)
        return cls(tuple(index), codes)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> "Words":
        return Words(self.values, self.codes[rows])

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        cells = np.array([*self.values, ""], object)[self.codes]
        return cells if dtype is None else cells.astype(dtype)

    def __eq__(self, value: object) -> Bool[Array, " n"]:  # type: ignore[override]
        return self.look_up([cell == value for cell in self.values], bool)

    def __ne__(self, value: object) -> Bool[Array, " n"]:  # type: ignore[override]
        return ~(self == value)

    def tolist(self) -> list[str]:
        """Return the cells, row by row."""
        return [self.values[code] for code in self.codes.tolist()]

    def look_up(self, answers: Sequence[Any], dtype: Any) -> Array:
        """Return for each row the answer of its value; ``answers`` has one for each value."""
        return np.array([*answers], dtype)[self.codes] if len(self) else np.zeros(0, dtype)

    def rename(self, new_name: Callable[[str], str]) -> "Words":
        """Replace every value. Values that get the same name become one."""
        renamed = Words.of(map(new_name, self.values))
        return Words(renamed.values, renamed.codes[self.codes])

    def counts(self) -> dict[str, int]:
        """Return the number of rows of each value that occurs."""
        return dict(self._counts)

    @cached_property
    def _counts(self) -> dict[str, int]:
        counts = np.bincount(self.codes, minlength=len(self.values)).tolist()
        return {value: n for value, n in zip(self.values, counts, strict=True) if n}


class Part(NamedTuple):
    """The rows of one source in a table, for messages.

    ``lines_of`` is computed only where a message needs it; ``unit`` is what it counts.
    """

    source: str
    rows: int
    lines_of: Callable[[Int[Array, " m"]], list[int]]
    unit: str = "row"

    def place(self, row: int) -> str:
        """Return the place of a row as messages name it."""
        return f"{self.source}, {self.unit} {self.lines_of(np.array([row]))[0]}"


@dataclass(frozen=True)
class Table:
    """Columns by name: float64 with NaN where missing, or text with '' where missing.

    An array of text becomes :class:`Words`. ``source`` is the file the rows came from; error
    messages name it. ``parts`` are the sources of the rows, one after the other; ``rows`` are the
    rows of all parts that the table has, None for all of them.

    >>> table = Table({"age": np.array([31.0, 52.0]), "sex": np.array(["F", "M"], object)})
    >>> len(table), table.take(np.array([1])).text("sex").tolist()
    (2, ['M'])
    """

    columns: Mapping[str, Any]
    source: str = "the table"
    parts: tuple[Part, ...] = ()
    rows: Int[Array, " n"] | None = None

    def __post_init__(self) -> None:
        columns = {
            name: values if isinstance(values, Words) or values.dtype.kind == "f"
            else Words.of(values.tolist())
            for name, values in self.columns.items()
        }  # fmt: skip
        object.__setattr__(self, "columns", columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def take(self, rows: Int[Array, " n"] | slice, names: Iterable[str] | None = None) -> "Table":
        """Return some rows by number, in this order.

        Args:
            rows: the rows.
            names: the columns to take; None: all.

        """
        columns = self.columns if names is None else dict.fromkeys(names)
        rows = _as_slice(rows)
        taken = {name: self.column(name)[rows] for name in columns}
        if not self.parts:
            return Table(taken, self.source)
        if self.rows is not None:
            rows = self.rows[rows]
        elif isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        return Table(taken, self.source, self.parts, rows)

    def with_column(self, name: str, values: Any) -> "Table":
        """Return the table with one column added or replaced."""
        return replace(self, columns={**self.columns, name: values})

    def place(self, row: int) -> str:
        """Return source and line of a row, for messages."""
        return self.places(np.array([row])) if self.parts else f"{self.source}, row {row + 1}"

    def places(self, rows: Int[Array, " m"]) -> str:
        """Return the sources of some rows, each with its first line and number of rows."""
        if not self.parts:
            return self.source
        rows = rows if self.rows is None else self.rows[rows]
        ends = np.cumsum([0, *(part.rows for part in self.parts)])
        named = []
        for part, begin, end in zip(self.parts, ends[:-1], ends[1:], strict=True):
            inside = rows[(rows >= begin) & (rows < end)] - begin
            if len(inside):
                more = f" (and {len(inside) - 1} more)" if len(inside) > 1 else ""
                named.append(part.place(int(inside.min())) + more)
        return list_some(named, 5, "; ")

    def column(self, name: str) -> Any:
        """Return one column. The error about an unknown name suggests the nearest one."""
        if name not in self.columns:
            raise DataError(f"{self.source}: {unknown_name('column', name, self.columns)}")
        return self.columns[name]

    def text(self, name: str) -> Words:
        """Return one column as text. Whole numbers lose their decimal point.

        >>> Table({"code": np.array([1.0, 2.5, np.nan])}).text("code").tolist()
        ['1', '2.5', '']
        """
        values = self.column(name)
        if isinstance(values, Words):
            return values
        numbers, codes = np.unique(values, return_inverse=True)
        return Words(tuple(map(number_as_text, numbers.tolist())), codes.astype(np.int32))

    def numbers(self, name: str) -> Float[Array, " n"]:
        """Return one column as numbers, NaN where missing. Other text is an error."""
        values = self.column(name)
        if not isinstance(values, Words):
            return values
        numbers = [parse_number(cell) if cell else np.nan for cell in values.values]
        wrong = values.look_up([n is None or np.isinf(n) for n in numbers], bool)
        if wrong.any():
            row = int(wrong.argmax())
            raise DataError(
                f"{self.place(row)}, column {name!r}: "
                f"{values.values[values.codes[row]]!r} is not a finite number, and the column held "
                "numbers in training. Correct the cell or leave it empty."
            )
        return values.look_up(numbers, np.float64)


def _as_slice(rows: Int[Array, " n"] | slice) -> Int[Array, " n"] | slice:
    """Return rows that follow each other as a slice, which copies nothing."""
    if isinstance(rows, slice) or not len(rows):
        return rows
    first, end = int(rows[0]), int(rows[-1]) + 1
    follow = end - first == len(rows) and bool((rows[1:] - rows[:-1] == 1).all())
    return slice(first, end) if follow else rows


def parse_number(cell: str) -> float | None:
    """Read a cell as a number; None where it is not a number.

    >>> parse_number("1e3"), parse_number("1_000"), parse_number("red")
    (1000.0, None, None)
    """
    try:
        # Python reads 1_000 as a number; in a data file it is a code.
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def all_numbers(cells: Collection[str]) -> bool:
    """Return whether :func:`parse_number` reads every cell."""
    return all(parse_number(cell) is not None for cell in cells)


def concat(tables: Sequence[Table]) -> Table:
    """Stack tables with the same columns, in the column order of the first."""
    first = tables[0]
    check_same_columns([(table.source, list(table.columns)) for table in tables])
    columns = {}
    for name in first.columns:
        parts = [table.columns[name] for table in tables]
        for table, part in zip(tables, parts, strict=True):
            if isinstance(part, Words) != isinstance(parts[0], Words):
                raise DataError(
                    f"column {name!r} holds numbers in one of {first.source} and {table.source} "
                    "and text in the other. Read both files together with read_csvs."
                )
        is_text = isinstance(parts[0], Words)
        if len(parts) == 1:
            columns[name] = parts[0]
        else:
            columns[name] = _concat_words(parts) if is_text else np.concatenate(parts)
    source = list_some([table.source for table in tables], 3)
    if not all(table.parts for table in tables):
        return Table(columns, source)
    rows = None
    if any(table.rows is not None for table in tables):
        sizes = [sum(part.rows for part in table.parts) for table in tables]
        begins = np.cumsum([0, *sizes[:-1]])
        rows = np.concatenate(
            [
                begin + (np.arange(len(table)) if table.rows is None else table.rows)
                for begin, table in zip(begins, tables, strict=True)
            ]
        )
    return Table(columns, source, tuple(part for t in tables for part in t.parts), rows)


def list_some(names: Sequence[str], limit: int, between: str = ", ") -> str:
    """Write the first names, and the number of others.

    >>> list_some(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return between.join(names[:limit]) + more


def _concat_words(parts: Sequence[Words]) -> Words:
    values = Words.of(value for part in parts for value in part.values)
    ends = np.cumsum([len(part.values) for part in parts])[:-1]
    numbers = np.split(values.codes, ends)
    codes = [new[part.codes] for new, part in zip(numbers, parts, strict=True)]
    return Words(values.values, np.concatenate(codes))


def check_same_columns(headers: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Refuse files whose columns differ. Their order may differ.

    Args:
        headers: source and column names of each file.

    """
    first_source, first = headers[0]
    for source, names in headers[1:]:
        for absent, present, extra in (
            (source, first_source, set(first) - set(names)),
            (first_source, source, set(names) - set(first)),
        ):
            if extra:
                raise DataError(
                    f"{absent} has no column {min(extra)!r}, but {present} has. "
                    "All files need the same columns: add or remove it."
                )


def number_as_text(value: float) -> str:
    """Write a number so that reading returns the same number; whole ones without a point."""
    if value != value:
        return ""
    return str(int(value)) if value.is_integer() else repr(value)
