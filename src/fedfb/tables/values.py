"""Make Arrow columns of frames, tables, arrays and lists.

Values keep their types where Arrow reads them as the cells of a CSV file would be read. All others
are written as text.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedfb.errors import ConfigError, DataError
from fedfb.tables.cells import Cells, SourceColumn, as_text, check_names, clean_names


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
        *(types.is_timestamp, types.is_null, types.is_dictionary),
    )


def _plain_types(data: Any) -> Any:
    """Decode categories, and bring text and fractions to one type each."""
    import pyarrow
    from pyarrow import types

    if data is not None and types.is_dictionary(data.type):
        return _plain_dictionary(data)
    if data is not None and types.is_string_view(data.type):
        return data.cast(pyarrow.large_string())
    if data is not None and types.is_float32(data.type):
        # As text 0.1 in 32 bits is 0.1, and not the number of 64 bits nearest to it.
        return data.cast(pyarrow.string()).cast(pyarrow.float64())
    if data is not None and types.is_floating(data.type):
        return data.cast(pyarrow.float64())
    return data


def _plain_dictionary(data: Any) -> Any:
    """Keep categories that are text, and decode all others."""
    import pyarrow
    from pyarrow import types

    # Arrow cannot decode or unify categories of polars, whose text is of another type.
    chunks = [(_plain_types(c.dictionary), c.indices) for c in data.chunks]
    kinds = {values.type for values, _ in chunks}
    text = all(types.is_string(kind) or types.is_large_string(kind) for kind in kinds)
    if len(kinds) != 1 or not text or any(values.null_count for values, _ in chunks):
        return _plain_types(pyarrow.chunked_array([v.take(codes) for v, codes in chunks]))
    make = pyarrow.DictionaryArray.from_arrays
    return pyarrow.chunked_array([make(codes.cast(pyarrow.int32()), v) for v, codes in chunks])


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
