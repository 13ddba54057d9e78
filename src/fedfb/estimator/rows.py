"""From what users hand to an estimator (arrays, pandas or polars frames) to tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedfb.data.read import check_names, typed
from fedfb.data.suspects import suspicion
from fedfb.data.table import Table
from fedfb.data.values import clean_names, columns_of
from fedfb.errors import DataError
from fedfb.shapes import Array

SOURCE = "the rows given"
"""What error messages call the table."""


def is_frame(data: Any) -> bool:
    """Tell whether data are a pandas or polars frame: columns with names."""
    return hasattr(data, "columns") and hasattr(data, "__getitem__")


def feature_table(X: Any, training: bool) -> Table:
    """Return features as a table; the columns of an array are called x0, x1, ...

    Columns of text take the way of files: in training all their cells together decide whether they
    hold numbers, later the encoder knows.
    """
    if not is_frame(X):
        columns = {f"x{number}": column for number, column in enumerate(X.T)}
        return Table({name: column.astype(np.float64) for name, column in columns.items()}, SOURCE)
    names = clean_names(X.columns)
    check_names(SOURCE, names)
    found = {name: _numbers(X[given]) for name, given in zip(names, X.columns, strict=True)}
    text = {n: X[given] for n, given in zip(names, X.columns, strict=True) if found[n] is None}
    if text:
        cells = columns_of(SOURCE, text)
        found |= typed([cells])[0].columns if training else _as_text(cells.columns)
    table = Table({name: cells for name, cells in found.items() if cells is not None}, SOURCE)
    if training:
        _refuse_suspects(table)
    return table


def _refuse_suspects(table: Table) -> None:
    """Refuse columns that are no features, as for files: identifiers, dates, free text."""
    for name, cells in table.columns.items():
        measured = cells.dtype.kind == "f" and bool(np.any(cells % 1 > 0))
        found = None if measured else suspicion(name, [table.text(name).tolist()])
        if found:
            raise DataError(f"{SOURCE}: column {name!r} {found}. Leave it out of X.")


def _numbers(column: Any) -> Array | None:
    """Return a column of numbers as tables hold it; None for any other: no text is needed here."""
    values = np.asarray(column)
    return values.astype(np.float64) if values.dtype.kind in "fiu" else None


def _as_text(columns: dict[str, list[str]]) -> dict[str, Array]:
    return {name: np.array(cells, object) for name, cells in columns.items()}


def sensitive_columns(given: Any, taken: Sequence[str] = ()) -> dict[str, Array]:
    """Return sensitive features by name, as text; names that features have get a word in front.

    >>> {name: cells.tolist() for name, cells in sensitive_columns([0, 1]).items()}
    {'sensitive_feature': ['0', '1']}
    """
    found = _as_text(columns_of(SOURCE, given if is_frame(given) else _named(given)).columns)
    return {f"sensitive {n}" if n in taken else n: cells for n, cells in found.items()}


def _named(given: Any) -> dict[str, Any]:
    values = np.asarray(given)
    if values.ndim == 1:
        return {getattr(given, "name", None) or "sensitive_feature": given}
    if values.shape[1] == 1:
        return {"sensitive_feature": values[:, 0]}
    return {f"sensitive_feature_{i}": column for i, column in enumerate(values.T)}


def same_columns(given: Any, names: Sequence[str]) -> dict[str, Array]:
    """Return sensitive features under the names they had in training, by name or else by place."""
    found = sensitive_columns(given)
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
    names = _as_text(columns_of(SOURCE, {"client": given}).columns)["client"]
    missing = int((names == "").sum())
    if missing:
        raise DataError(
            f"{SOURCE}: the client is missing in {missing} of {len(names)} rows. Say whose these "
            "rows are, or leave them out."
        )
    return names
