"""What is checked, once, where a table becomes a federation."""

import numpy as np

from fedfb.data.columns import MISSING_CATEGORY, CategoryColumn, Column, NumberColumn
from fedfb.data.table import Table
from fedfb.errors import DataError
from fedfb.shapes import Array, Float, Int


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


def refuse_infinite(x: Float[Array, "n d"], names: tuple[str, ...], table: Table) -> None:
    """Refuse features that are not finite, as numbers near the end of the float range become."""
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        row, column = bad[0].tolist()
        raise DataError(
            f"{table.source}, row {row + 1}: feature {names[column]!r} is not finite once scaled. "
            "Its values are too large to average: express the column in another unit."
        )


def missing_notes(columns: tuple[Column, ...], test: Table) -> tuple[str, ...]:
    """Say what was done with missing values and with categories that only test rows have."""
    numbers = [c.name for c in columns if isinstance(c, NumberColumn) and c.indicator]
    categories = [c for c in columns if isinstance(c, CategoryColumn)]
    gaps = [c.name for c in categories if MISSING_CATEGORY in c.categories]
    unseen = [c.name for c in categories if _has_unseen(c, test)]
    late = [c.name for c in columns if isinstance(c, NumberColumn) and _lacks_only_here(c, test)]
    sentences = (
        (numbers, "missing numbers became the training mean, with an indicator column"),
        (late, "numbers missing in test rows only became the training mean"),
        (gaps, "missing categories became a category of their own"),
        (unseen, "categories that training rows do not have became zeros in test rows"),
    )
    return tuple(f"{text}: {', '.join(names)}" for names, text in sentences if names)


def _lacks_only_here(column: NumberColumn, test: Table) -> bool:
    return not column.indicator and bool(np.isnan(test.numbers(column.name)).any())


def _has_unseen(column: CategoryColumn, test: Table) -> bool:
    values = {cell or MISSING_CATEGORY for cell in test.text(column.name)}
    return not values <= set(column.categories)
