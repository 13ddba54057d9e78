"""A table: named columns of equal length, of numbers or text, and their source."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from fedfb.errors import DataError, unknown_name
from fedfb.shapes import Array, Float, Int


@dataclass(frozen=True)
class Table:
    """Columns by name: float64 with NaN where missing, or text (object) with '' where missing.

    ``source`` is the file the rows came from; error messages name it.

    >>> table = Table({"age": np.array([31.0, 52.0]), "sex": np.array(["F", "M"], object)})
    >>> len(table), table.take(np.array([1])).text("sex").tolist()
    (2, ['M'])
    """

    columns: dict[str, Array]
    source: str = "the table"

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def take(self, rows: Int[Array, " n"]) -> "Table":
        """Return some rows by number, in this order."""
        return Table({name: values[rows] for name, values in self.columns.items()}, self.source)

    def with_column(self, name: str, values: Array) -> "Table":
        """Return the table with one column added or replaced."""
        return Table({**self.columns, name: values}, self.source)

    def column(self, name: str) -> Array:
        """Return one column. The error about an unknown name suggests the nearest one."""
        if name not in self.columns:
            raise DataError(f"{self.source}: {unknown_name('column', name, self.columns)}")
        return self.columns[name]

    def text(self, name: str) -> Array:
        """Return one column as text. Whole numbers lose their decimal point.

        >>> Table({"code": np.array([1.0, 2.5, np.nan])}).text("code").tolist()
        ['1', '2.5', '']
        """
        values = self.column(name)
        if values.dtype.kind != "f":
            return values
        return np.array([number_as_text(value) for value in values.tolist()], object)

    def numbers(self, name: str) -> Float[Array, " n"]:
        """Return one column as numbers, NaN where missing. Other text is an error."""
        values = self.column(name)
        if values.dtype.kind == "f":
            return values
        return np.array([self._read_number(name, i, cell) for i, cell in enumerate(values)], float)

    def _read_number(self, name: str, row: int, cell: str) -> float:
        number = parse_number(cell) if cell else np.nan
        if number is None or np.isinf(number):
            raise DataError(
                f"{self.source}, row {row + 1}, column {name!r}: {cell!r} is not a finite number, "
                "and the column held numbers in training. Correct the cell or leave it empty."
            )
        return number


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
    try:
        list(map(float, cells))
    except ValueError:
        return False
    return not any("_" in cell for cell in cells)


def concat(tables: Sequence[Table]) -> Table:
    """Stack tables with the same columns, in the column order of the first."""
    first = tables[0]
    check_same_columns([(table.source, list(table.columns)) for table in tables])
    for table in tables[1:]:
        for name, values in table.columns.items():
            if values.dtype.kind != first.columns[name].dtype.kind:
                raise DataError(
                    f"column {name!r} holds numbers in one of {first.source} and {table.source} "
                    "and text in the other. Read both files together with read_csvs."
                )
    columns = {name: np.concatenate([t.columns[name] for t in tables]) for name in first.columns}
    return Table(columns, ", ".join(table.source for table in tables[:3]))


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
    if np.isnan(value):
        return ""
    return str(int(value)) if value.is_integer() else repr(value)
