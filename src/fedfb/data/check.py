"""What is checked, once, where a table becomes a federation."""

from collections.abc import Sequence

import numpy as np

from fedfb.data.columns import Column
from fedfb.data.table import Table
from fedfb.errors import DataError
from fedfb.shapes import Array, Float, Int

MOST_NUMBERS = 10**9
"""So many numbers a table may become, 8 GB of them."""


def labels(table: Table, label: str, positive: str) -> Int[Array, " n"]:
    """Return 1 where the label is the positive value, 0 elsewhere; a missing label is an error."""
    values = table.text(label)
    missing = int((values == "").sum())
    if missing:
        raise DataError(
            f"{table.source}: the label {label!r} is missing in {missing} of {len(table)} rows. "
            "Every row to train or test on needs one: fill it in or remove these rows."
        )
    return np.array(values == positive, np.int64)


def refuse_one_class(y: Int[Array, " t"], table: Table, label: str, positive: str) -> None:
    """Refuse training rows whose labels are all the same."""
    if len(set(y.tolist())) < 2:
        share = "all" if y.any() else "none"
        raise DataError(
            f"{table.source}: {share} of the {len(y)} training rows have {label} = {positive!r}. "
            "Two classes are needed: check the positive value, or add rows of the other class."
        )


def refuse_empty_clients(client: Int[Array, " t"], names: tuple[str, ...]) -> None:
    """Refuse clients without training rows."""
    counts = np.bincount(client[client >= 0], minlength=len(names))
    for name, count in zip(names, counts.tolist(), strict=True):
        if not count:
            raise DataError(
                f"client {name!r} has no training rows (rows per client: {counts.tolist()}). "
                "Give it rows, or choose a partition with fewer clients."
            )


def refuse_vast(table: Table, columns: Sequence[Column]) -> None:
    """Refuse features that would not fit into memory, and name the column that makes most."""
    features = {column.name: len(column.feature_names) for column in columns}
    if sum(features.values()) * len(table) > MOST_NUMBERS:
        widest = max(features, key=lambda name: features[name])
        raise DataError(
            f"{table.source}: {len(table)} rows of {sum(features.values())} features are more than "
            f"{MOST_NUMBERS:g} numbers, the most that are held. Column {widest!r} alone makes "
            f"{features[widest]} features: merge its values, or leave it out (--ignore)."
        )


def refuse_infinite(x: Float[Array, "n d"], names: tuple[str, ...], table: Table) -> None:
    """Refuse features that are not finite, as numbers near the end of the float range become."""
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        row, column = bad[0].tolist()
        raise DataError(
            f"{table.source}, row {row + 1}: feature {names[column]!r} is not finite once scaled. "
            "Its values are too large to average: express the column in another unit."
        )
