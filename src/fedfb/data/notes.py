"""Notes of a report about its data: one sentence for each treatment that applied."""

from collections.abc import Sequence

import numpy as np

from fedfb.core import MINIMUM_ROWS
from fedfb.data.columns import MISSING_CATEGORY, CategoryColumn, Column, NumberColumn
from fedfb.data.encode import Encoder
from fedfb.shapes import Array, Int
from fedfb.tables.table import Table

MOST_NAMED = 20
"""The most small groups or clients that one sentence names."""

ON_TRAINING_ROWS = "figures are of the training rows"
"""The note of a report without test rows."""


MERGE_ALL = "Merge them into one group by --rest NAME."
MERGE_MORE = "Merge them with larger groups by --merge, or raise --minimum-group."
"""What to do about small groups: where none were merged yet, and where some were."""


def sensitive_note(encoder: Encoder) -> str:
    """Say whether the sensitive attributes are features of the model."""
    names = ", ".join(encoder.groups.columns)
    if encoder.sensitive_at_prediction:
        return f"the sensitive attributes are features of the model, by group: {names}"
    return f"the sensitive attributes are not features of the model: {names}"


def small_group_notes(
    names: tuple[str, ...],
    train: Int[Array, " a"],
    test: Int[Array, " a"],
    minimum: int,
    labels: tuple[int, ...] = (),
    remedy: str = MERGE_ALL,
) -> tuple[str, ...]:
    """Return sentences about groups that are too small to be compared.

    Args:
        names: the groups' names.
        train: training rows of each group, over all clients; of its rarest label among ``labels``.
        test: test rows of each group; all 0 where there are no test rows.
        minimum: least training rows of a group that is compared.
        labels: labels whose rows are counted apart; empty: all rows count.
        remedy: a sentence that says what to do about small groups.
    """
    of_label = {(): "", (1,): " with the favourable label", (0, 1): " of each label"}[labels]
    rows = [*zip(names, train.tolist(), test.tolist(), strict=True)]
    small = [f"{name} ({trained})" for name, trained, _ in rows if trained < minimum]
    untested = [
        f"{name} ({tested})"
        for name, trained, tested in rows
        if test.any() and trained >= minimum and tested < MINIMUM_ROWS
    ]
    return (
        *small_note("groups", small, minimum, of_label, remedy),
        *(
            f"groups with fewer than {MINIMUM_ROWS} test rows have no reported rate, so they are "
            f"not in the disparity: {', '.join(untested)}."
            for _ in untested[:1]
        ),
    )


def small_note(
    subject: str, small: Sequence[str], minimum: int, of_label: str, remedy: str
) -> tuple[str, ...]:
    """Return a sentence about groups or clients that have too few training rows to be compared.

    Args:
        subject: "groups" or "clients".
        small: their names, with numbers of rows.
        minimum: fewest training rows of those that are compared.
        of_label: which training rows count; empty: all.
        remedy: a sentence that says what to do.

    >>> small_note("groups", ["typo (1)"], 10, "", "Merge them.")  # doctest: +NORMALIZE_WHITESPACE
    ('groups with fewer than 10 training rows are not compared: their rows have weight 1, and they
    are not in the target or the disparity (--minimum-group): typo (1). Merge them.',)
    """
    if not small:
        return ()
    names = ", ".join(small[:MOST_NAMED]) + (
        f", ... ({len(small)} in all)" * (len(small) > MOST_NAMED)
    )
    return (
        f"{subject} with fewer than {minimum} training rows{of_label} are not compared: their rows "
        "have weight 1, and they are not in the target or the disparity (--minimum-group): "
        f"{names}. {remedy}",
    )


def encoding_notes(
    columns: tuple[Column, ...], table: Table, test: Int[Array, " e"]
) -> tuple[str, ...]:
    """Return sentences about missing values, tails, and categories that only test rows have.

    Args:
        columns: encoding of the features.
        table: all rows.
        test: numbers of the test rows.

    """
    numbers = [c.name for c in columns if isinstance(c, NumberColumn) and c.indicator]
    categories = [c for c in columns if isinstance(c, CategoryColumn)]
    gaps = [c.name for c in categories if MISSING_CATEGORY in c.categories]
    unknown = [c.name for c in categories if _has_unseen(c, table.take(test, [c.name]))]
    gaps_in_test = [
        c.name
        for c in columns
        if isinstance(c, NumberColumn) and _lacks_in_test_only(c, table.take(test, [c.name]))
    ]
    clips = [
        _name_with_error(c) for c in columns if isinstance(c, NumberColumn) and c.low is not None
    ]
    quartiles = [
        _name_with_error(c)
        for c in columns
        if isinstance(c, NumberColumn) and c.error and c.low is None
    ]
    sentences = (
        (clips, "numbers were clipped to their 1% and 99% quantiles"),
        (quartiles, "numbers were scaled by median and quartiles"),
        (numbers, "missing numbers became the training mean, with an indicator column"),
        (gaps_in_test, "numbers missing in test rows only became the training mean"),
        (gaps, "missing categories became a category of their own"),
        (unknown, "categories that training rows do not have became zeros in test rows"),
    )
    return tuple(f"{text}: {', '.join(names)}" for names, text in sentences if names)


def _lacks_in_test_only(column: NumberColumn, test: Table) -> bool:
    return not column.indicator and bool(np.isnan(test.numbers(column.name)).any())


def _has_unseen(column: CategoryColumn, test: Table) -> bool:
    values = {cell or MISSING_CATEGORY for cell in test.text(column.name).counts()}
    return not values <= set(column.categories)


def _name_with_error(column: NumberColumn) -> str:
    return f"{column.name} (known to {column.error:.2g})"
