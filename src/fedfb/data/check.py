"""Checks of a table before it becomes a federation. Each is made once, here."""

from collections.abc import Sequence

import numpy as np

from fedfb.data.columns import Column
from fedfb.errors import DataError
from fedfb.shapes import Array, Float, Int
from fedfb.tables.table import Table

MOST_NUMBERS = 10**9
"""The most numbers that an encoded table may have: 8 GB."""


def labels(table: Table, label: str, positive: str) -> Int[Array, " n"]:
    """Return 1 where the label is the positive value, 0 elsewhere.

    Args:
        table: the rows.
        label: column to predict.
        positive: its favourable value.

    Raises:
        DataError: the label is missing in some row.

    """
    values = table.text(label)
    missing = np.flatnonzero(values == "")
    if len(missing):
        raise DataError(
            f"{table.places(missing)}: the label {label!r} is missing in {len(missing)} of "
            f"{len(table)} rows. "
            "Every row to train or test on needs one: fill it in or remove these rows."
        )
    return (values == positive).astype(np.int64)


def refuse_one_class(y: Int[Array, " t"], table: Table, label: str, positive: str) -> None:
    """Refuse training rows whose labels are all the same.

    Args:
        y: labels of the training rows, 0 or 1.
        table: names the source of the rows in the message.
        label: column to predict.
        positive: its favourable value.

    """
    if y.all() or not y.any():
        share = "all" if y.any() else "none"
        raise DataError(
            f"{table.source}: {share} of the {len(y)} training rows have {label} = {positive!r}. "
            "Two classes are needed: check the positive value, or add rows of the other class."
        )


def refuse_vast(table: Table, columns: Sequence[Column]) -> None:
    """Refuse features that would not fit into memory, and name the column with the most of them."""
    features = {column.name: len(column.feature_names) for column in columns}
    if sum(features.values()) * len(table) > MOST_NUMBERS:
        widest = max(features, key=lambda name: features[name])
        raise DataError(
            f"{table.source}: {len(table)} rows of {sum(features.values())} features are more than "
            f"{MOST_NUMBERS:g} numbers, the limit. Column {widest!r} alone makes "
            f"{features[widest]} features: merge its values, or leave it out (--ignore)."
        )


def refuse_infinite(
    x: Float[Array, "n d"],
    names: tuple[str, ...],
    table: Table,
    rows: Int[Array, " n"] | None = None,
) -> None:
    """Refuse features that are not finite. Numbers near the end of the float range become so.

    Args:
        x: encoded rows.
        names: names of the features.
        table: names the source of the rows in the message.
        rows: number of each encoded row in the table; None: they are in its order.

    """
    with np.errstate(all="ignore"):  # a sum is fast, and finite only where all numbers are
        finite = [bool(np.isfinite(part.sum())) for part in np.array_split(x, len(x) // 8192 + 1)]
    if not all(finite) and not np.isfinite(x).all():
        bad = np.argwhere(~np.isfinite(x))
        numbers = bad[:, 0] if rows is None else rows[bad[:, 0]]
        row, column = int(numbers.min()), int(bad[numbers.argmin(), 1])
        raise DataError(
            f"{table.place(row)}: feature {names[column]!r} is not finite once scaled. "
            "Its values are too large to average: express the column in another unit."
        )
