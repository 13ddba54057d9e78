"""What a report says of the data: one plain sentence for each declared behaviour that applied."""

import numpy as np

from fedfb.data.columns import MISSING_CATEGORY, CategoryColumn, Column, NumberColumn
from fedfb.data.encode import Encoder
from fedfb.data.table import Table
from fedfb.shapes import Array, Int

ON_TRAINING_ROWS = "figures are of the training rows"
"""The note of a report that was made of no other rows."""

FEW_ROWS = 10
"""Groups with fewer rows are called small: their rates are left out of disparities."""


def sensitive_note(encoder: Encoder) -> str:
    """Say whether the sensitive attributes are features of the model."""
    names = ", ".join(encoder.groups.columns)
    if encoder.sensitive_at_prediction:
        return f"the sensitive attributes are features of the model, by group: {names}"
    return f"the sensitive attributes are not features of the model: {names}"


def small_group_notes(
    names: tuple[str, ...], train: Int[Array, " t"], test: Int[Array, " e"]
) -> tuple[str, ...]:
    """Name groups that are too small to train on or to be judged, and what to do about them."""
    small = []
    for number, name in enumerate(names):
        trained, tested = int((train == number).sum()), int((test == number).sum())
        if trained < FEW_ROWS or (len(test) and tested < FEW_ROWS):
            small.append(f"{name} ({trained} to train, {tested} to test)")
    if not small:
        return ()
    return (
        f"groups of fewer than {FEW_ROWS} rows are too small to train on or to be judged, merge "
        f"them by declaration (--merge): {'; '.join(small)}",
    )


def encoding_notes(columns: tuple[Column, ...], test: Table) -> tuple[str, ...]:
    """Say what was done with missing values, tails, and categories that only test rows have."""
    numbers = [c.name for c in columns if isinstance(c, NumberColumn) and c.indicator]
    categories = [c for c in columns if isinstance(c, CategoryColumn)]
    gaps = [c.name for c in categories if MISSING_CATEGORY in c.categories]
    unseen = [c.name for c in categories if _has_unseen(c, test)]
    late = [c.name for c in columns if isinstance(c, NumberColumn) and _lacks_only_here(c, test)]
    clipped = [_told_to(c) for c in columns if isinstance(c, NumberColumn) and c.low is not None]
    robust = [
        _told_to(c) for c in columns if isinstance(c, NumberColumn) and c.error and c.low is None
    ]
    sentences = (
        (clipped, "numbers were clipped to their 1% and 99% quantiles"),
        (robust, "numbers were scaled by median and quartiles"),
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


def _told_to(column: NumberColumn) -> str:
    return f"{column.name} (known to {column.error:.2g})"
