"""What one silo says of its rows before there are features: counts and sums, by question."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from fedfb.core import Arrays
from fedfb.data.check import labels
from fedfb.data.columns import MISSING_CATEGORY
from fedfb.data.derive import derive
from fedfb.data.groups import Groups
from fedfb.data.quantiles import counts_below
from fedfb.data.schema import ColumnSchema, Scale, Schema
from fedfb.data.statistics import ANSWERS, answer
from fedfb.data.table import Table
from fedfb.shapes import Array, Float, Int

ROWS, CATEGORIES = "row counts", "category counts"

HISTOGRAMS: Mapping[str, Scale] = {"robust histograms": "robust", "clip histograms": "clip"}
"""Questions for quantiles, and the scale of the columns that need them."""

COLUMN, CLIP = "column ", "clip "
"""How questions begin that are about all numbers, and about those that are clipped."""


def silo_answer(question: str, told: Arrays, table: Table, schema: Schema) -> Arrays:
    """Return what a silo says of its rows, whose groups and label the schema's rules have made.

    Which columns a question is about follows from the schema, never from who asks.
    """
    if question == ROWS:
        return {"rows": _row_counts(table, schema)}
    if question == CATEGORIES:
        return {"counts": _category_counts(table, listed_categories(schema))}
    if question in HISTOGRAMS:
        names = numeric(schema, HISTOGRAMS[question])
        return counts_below([table.numbers(name) for name in names], **told)
    if question in ANSWERS:
        return answer(question, told, _values(table, numeric(schema)))
    rest = dict(told)
    ends = (rest.pop("low"), rest.pop("high"))
    inside = np.clip(_values(table, numeric(schema, "clip")), *ends)
    return answer(question.replace(CLIP, COLUMN), rest, inside)


def no_rows(schema: Schema) -> Table:
    """Return a table of a schema's columns without any rows: answers on it have all shapes."""
    kinds = {c.name: np.float64 if c.kind == "number" else object for c in schema.used}
    empty = {name: np.zeros(0, kind) for name, kind in kinds.items()}
    return derive(Table(empty, schema.source), schema.derived)


def numeric(schema: Schema, scale: Scale | None = None) -> list[str]:
    """Return the names of the numbers that are asked about, or of those scaled in one way."""
    return [
        column.name
        for column in schema.of("feature")
        if column.kind == "number" and not column.range and scale in (None, column.scale)
    ]


def ranged(schema: Schema) -> list[ColumnSchema]:
    """Return the features whose range is declared: nothing is asked about them."""
    return [column for column in schema.of("feature") if column.range]


def listed_categories(schema: Schema) -> list[tuple[str, str]]:
    """Return all pairs of a column and a category that it may hold, where these are declared."""
    return [
        (column.name, category)
        for column in schema.of("feature")
        if column.kind != "number" and column.categories
        for category in sorted({*column.categories, MISSING_CATEGORY})
    ]


def _values(table: Table, columns: Sequence[str]) -> Float[Array, "n k"]:
    return np.stack([table.numbers(column) for column in columns], axis=1)


def _row_counts(table: Table, schema: Schema) -> Int[Array, "2 a"]:
    """Count rows by label and group."""
    names = schema.group_names
    group = Groups(schema.crossed, names).group_of(table)
    y = labels(table, schema.label.name, schema.label.positive)
    return np.bincount(y * len(names) + group, minlength=2 * len(names)).reshape(2, len(names))


def _category_counts(table: Table, listed: Sequence[tuple[str, str]]) -> Int[Array, " c"]:
    place = {pair: number for number, pair in enumerate(listed)}
    counts = np.zeros(len(listed), np.int64)
    for name in dict.fromkeys(name for name, _ in listed):
        for cell, count in Counter(table.text(name).tolist()).items():
            counts[place[name, cell or MISSING_CATEGORY]] += count
    return counts
