"""Values that are no text yet (a frame's, a Parquet file's) as the cells a CSV file would hold.

Everything that is read goes one way from here on, so that the same values give the same bits
whatever they were kept in.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import numpy as np

from fedfb.data.read import Cells, check_names, clean
from fedfb.data.table import number_as_text
from fedfb.errors import ConfigError, DataError


def cells_of(source: str, names: Sequence[Any], columns: Iterable[Sequence[Any]]) -> Cells:
    """Return named columns of values as cells; the first row is on line 1.

    >>> cells_of("rows", ["age", "sex"], [[31, 52.5], ["F", None]]).columns
    {'age': ['31', '52.5'], 'sex': ['F', '']}
    """
    titles = clean_names(names)
    check_names(source, titles)
    written = {
        title: clean(_written(source, title, row, value) for row, value in enumerate(values))
        for title, values in zip(titles, columns, strict=True)
    }
    rows = len(next(iter(written.values()), ()))
    if not rows:
        raise DataError(f"{source} has columns but no rows. Expected one row per example.")
    for title, cells in written.items():
        if len(cells) != rows:
            raise DataError(
                f"{source}: column {title!r} has {len(cells)} cells and others have {rows}. "
                "All columns need one cell per row."
            )
    return Cells(source, written, list(range(1, rows + 1)))


def clean_names(names: Iterable[Any]) -> list[str]:
    """Return column names as text; what is no text yet (a number, say) is written down."""
    return clean(map(str, names), missing=())


def as_text(value: Any) -> str | None:
    """Write one value as a cell; None where it is no single value.

    Whole numbers lose their decimal point, so that a label kept as 1.0 is the label 1.

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


def columns_of(source: str, frame: Any) -> Cells:
    """Return a frame of pandas or polars, or a mapping of columns, as cells."""
    if hasattr(frame, "collect"):  # what polars has not computed yet
        frame = frame.collect()
    if not is_frame(frame):
        raise ConfigError(
            f"{source} is a {type(frame).__name__}. Expected a frame of pandas or polars, or a "
            "mapping of column names to lists."
        )
    names = list(frame) if isinstance(frame, Mapping) else list(frame.columns)
    check_names(source, clean_names(names))  # before a name that stands twice is looked up
    return cells_of(source, names, (_listed(frame[name]) for name in names))


def is_frame(value: Any) -> bool:
    """Return whether a value has named columns, or will have once polars computes it."""
    return isinstance(value, Mapping) or hasattr(value, "collect") or hasattr(value, "columns")


def _listed(column: Any) -> Sequence[Any]:
    for method in ("tolist", "to_list"):  # numpy and pandas; polars
        if hasattr(column, method):
            found: Sequence[Any] = getattr(column, method)()
            return found
    if isinstance(column, str) or not isinstance(column, Iterable):
        raise ConfigError(f"a column is a {type(column).__name__}. Expected a list or an array.")
    return list(column)


def _written(source: str, name: str, row: int, value: Any) -> str:
    text = as_text(value)
    if text is None:
        raise DataError(
            f"{source}, row {row + 1}, column {name!r}: a {type(value).__name__} is not a single "
            "value. Expected numbers, text, yes or no, or nothing: spread it over columns, or "
            "remove the column."
        )
    return text
