"""From what users hand to an estimator (arrays, pandas or polars frames) to tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedfb.data.read import MISSING
from fedfb.data.table import Table
from fedfb.errors import DataError
from fedfb.shapes import Array

SOURCE = "the rows given"
"""What error messages call the table."""


def is_frame(data: Any) -> bool:
    """Tell whether data are a pandas or polars frame: columns with names."""
    return hasattr(data, "columns") and hasattr(data, "__getitem__")


def feature_table(X: Any) -> Table:
    """Return features as a table; the columns of an array are called x0, x1, ..."""
    if is_frame(X):
        return Table({str(name): cells_of(X[name]) for name in X.columns}, SOURCE)
    return Table({f"x{number}": cells_of(column) for number, column in enumerate(X.T)}, SOURCE)


def cells_of(column: Any) -> Array:
    """Return a column as tables hold it: numbers with NaN, or text with '' where missing.

    >>> cells_of([1, None, 2.5])
    array([1. , nan, 2.5])
    >>> cells_of(["a ", "?", None, True]).tolist()
    ['a', '', '', 'True']
    """
    values = np.asarray(column)
    if values.dtype.kind in "fiu":
        return values.astype(np.float64)
    cells = values.tolist()
    missing = [_is_missing(cell) for cell in cells]
    pairs = list(zip(cells, missing, strict=True))
    if not all(missing) and all(gone or _is_number(cell) for cell, gone in pairs):
        return np.array([np.nan if gone else float(cell) for cell, gone in pairs])
    return np.array(["" if gone else str(cell).strip() for cell, gone in pairs], object)


def _is_missing(cell: Any) -> bool:
    if isinstance(cell, str):
        return cell.strip() in MISSING
    # pandas has an NA of its own, which refuses to be compared.
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or bool(cell != cell)


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def sensitive_columns(given: Any, taken: Sequence[str]) -> dict[str, Array]:
    """Return sensitive features by name, as text; names that features have get a word in front.

    >>> {name: cells.tolist() for name, cells in sensitive_columns([0, 1], ()).items()}
    {'sensitive_feature': ['0', '1']}
    """
    named = _named(given)
    table = Table({(f"sensitive {n}" if n in taken else n): c for n, c in named.items()}, SOURCE)
    return {name: table.text(name) for name in table.columns}


def _named(given: Any) -> dict[str, Array]:
    if is_frame(given):
        return {str(name): cells_of(given[name]) for name in given.columns}
    values = np.asarray(given)
    if values.ndim == 1 or values.shape[1] == 1:
        name = getattr(given, "name", None) or "sensitive_feature"
        return {str(name): cells_of(given if values.ndim == 1 else values[:, 0])}
    return {f"sensitive_feature_{i}": cells_of(column) for i, column in enumerate(values.T)}


def same_columns(given: Any, names: Sequence[str]) -> dict[str, Array]:
    """Return sensitive features under the names they had in training, by name or else by place."""
    found = sensitive_columns(given, ())
    called = {name.removeprefix("sensitive "): name for name in names}
    if set(found) == set(called):
        return {called[name]: cells for name, cells in found.items()}
    if len(found) != len(names):
        raise DataError(
            f"{SOURCE}: sensitive_features has {len(found)} columns ({', '.join(found)}), in "
            f"training there were {len(names)}: {', '.join(called)}. Give the same ones."
        )
    return dict(zip(names, found.values(), strict=True))


def client_names(given: Any) -> Array:
    """Return the client of every row as text; every row needs one."""
    names = Table({"client": cells_of(given)}, SOURCE).text("client")
    missing = int((names == "").sum())
    if missing:
        raise DataError(
            f"{SOURCE}: the client is missing in {missing} of {len(names)} rows. Say whose these "
            "rows are, or leave them out."
        )
    return names
