"""Learning how to encode columns from rows that lie with several owners: by sums over them.

What one silo says of its rows before there are features: counts and sums, by question.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedfb.core import Arrays
from fedfb.data.check import labels
from fedfb.data.columns import MISSING_CATEGORY, CategoryColumn, Column, NumberColumn, fit_column
from fedfb.data.derive import derive
from fedfb.data.federation import LearnFromSilos, Learnt
from fedfb.data.groups import Groups
from fedfb.data.schema import ColumnSchema, Scale, Schema
from fedfb.data.statistics import (
    ANSWERS,
    AddUp,
    Answers,
    Spread,
    answer,
    counts_below,
    quantiles_by,
    spread_by,
)
from fedfb.data.table import Table
from fedfb.errors import DataError
from fedfb.shapes import Array, Float, Int

QUARTILES = (0.25, 0.5, 0.75)
TAILS = (0.01, 0.99)
NORMAL_QUARTILES = 1.349
"""How many standard deviations the quartiles of a normal law are apart."""


class Silos(NamedTuple):
    """Whose the rows of a table are, by number; the owners' names; who adds up their sums.

    ``schema`` is what all know of the columns beforehand.
    """

    client: Int[Array, " n"]
    owners: tuple[str, ...]
    add: AddUp
    schema: Schema


def by_sums(add: AddUp, schema: Schema) -> LearnFromSilos:
    """Return a way to learn from sums over the clients, and by what the schema declares."""

    def learn(table: Table, client: Int[Array, " n"], owners: tuple[str, ...]) -> Learnt:
        silos = Silos(client, owners, add, schema)
        groups = None
        if schema.group_names:
            groups = groups_by(schema, answers_of(table, silos)(ROWS, {})["rows"])
        return Learnt(fit_columns(table, silos), groups)

    return learn


def answers_of(table: Table, silos: Silos) -> Answers:
    """Return what owners whose rows lie in this process answer together."""
    owned = {
        owner: table.take(np.flatnonzero(silos.client == number))
        for number, owner in enumerate(silos.owners)
    }

    def answers(question: str, told: Arrays) -> Arrays:
        said = {name: silo_answer(question, told, t, silos.schema) for name, t in owned.items()}
        return silos.add(question, told, said)

    return answers


def fit_columns(table: Table, silos: Silos) -> tuple[Column, ...]:
    """Learn how to encode features from training rows, of which only sums are taken.

    Where no categories are declared those that occur are a public schema.
    """
    found = columns_by(silos.schema, answers_of(table, silos))
    features = [column.name for column in silos.schema.of("feature")]
    return tuple(found[name] if name in found else fit_column(table, name) for name in features)


def columns_by(schema: Schema, answers: Answers) -> dict[str, Column]:
    """Learn how to encode features from sums over their owners.

    Means, spreads and quantiles come from sums, and so does which of the declared categories occur.
    Of a number whose range is declared nothing is asked.
    """
    return {
        **{column.name: by_range(column) for column in ranged(schema)},
        **_numbers(schema, answers),
        **_categories(schema, answers),
    }


def by_range(column: ColumnSchema) -> NumberColumn:
    """Scale by a declared range: by mean and standard deviation of a number anywhere within.

    >>> by_range(ColumnSchema("age", "feature", "number", range=(0.0, 12.0))).mean
    6.0
    """
    low, high = column.range
    sd = (high - low) / 12**0.5
    return NumberColumn(column.name, (low + high) / 2, sd, indicator=column.missing == "mean")


def groups_by(schema: Schema, rows: Int[Array, "2 a"]) -> Groups:
    """Tell which of the declared groups occur, by summed counts; one label only is refused.

    ``rows`` is the sum of what the silos answer to the question ``ROWS``.
    """
    by_label = rows.sum(axis=1)
    if not by_label.all():
        label, share = schema.label, "none" if by_label[0] else "all"
        raise DataError(
            f"{share} of the {by_label.sum()} training rows have {label.name} = "
            f"{label.positive!r}. Two classes are needed: check the positive value, or add rows of "
            "the other class."
        )
    present = rows.sum(axis=0) > 0
    names = zip(schema.group_names, present.tolist(), strict=True)
    return Groups(schema.crossed, tuple(name for name, occurs in names if occurs))


def _numbers(schema: Schema, answers: Answers) -> dict[str, NumberColumn]:
    names = numeric(schema)
    if not names:
        return {}
    spread = spread_by(names, answers)
    parts = (spread.mean.tolist(), spread.sd.tolist(), (spread.missing > 0).tolist())
    standard = {
        name: NumberColumn(name, mean, sd, gaps)
        for name, mean, sd, gaps in zip(names, *parts, strict=True)
    }
    robust, clipped = numeric(schema, "robust"), numeric(schema, "clip")
    of = {name: place for place, name in enumerate(names)}
    return {
        **standard,
        **_robust(robust, _some(spread, [of[name] for name in robust]), answers),
        **_clipped(clipped, _some(spread, [of[name] for name in clipped]), answers),
    }


def _some(spread: Spread, places: Sequence[int]) -> Spread:
    return Spread(*(part[list(places)] for part in spread))


def _robust(names: Sequence[str], spread: Spread, answers: Answers) -> dict[str, NumberColumn]:
    """Scale by median and quartiles; where these are one value, by the standard deviation."""
    if not names:
        return {}
    quartiles, width = quantiles_by("robust histograms", QUARTILES, spread, answers)
    error = width.max(axis=1)
    apart = quartiles[:, 2] - quartiles[:, 0]
    sd = np.where(apart > 2 * error, apart / NORMAL_QUARTILES, spread.sd)
    parts = (quartiles[:, 1].tolist(), sd.tolist(), (spread.missing > 0).tolist(), error.tolist())
    return {
        name: NumberColumn(name, median, scale, gaps, error=known_to)
        for name, median, scale, gaps, known_to in zip(names, *parts, strict=True)
    }


def _clipped(names: Sequence[str], spread: Spread, answers: Answers) -> dict[str, NumberColumn]:
    """Clip to the tails' quantiles; mean and standard deviation are of what is left."""
    if not names:
        return {}
    tails, width = quantiles_by("clip histograms", TAILS, spread, answers)
    low, high = tails[:, 0], tails[:, 1]

    def of_clipped(question: str, told: Arrays) -> Arrays:
        return answers(question.replace(COLUMN, CLIP), {**told, "low": low, "high": high})

    left = spread_by(names, of_clipped)
    parts = (left.mean.tolist(), left.sd.tolist(), (left.missing > 0).tolist())
    ends = (low.tolist(), high.tolist(), width.max(axis=1).tolist())
    values = zip(names, *parts, *ends, strict=True)
    return {name: NumberColumn(name, *rest) for name, *rest in values}


def _categories(schema: Schema, answers: Answers) -> dict[str, CategoryColumn]:
    """Keep the declared categories that some owner has, by summed counts."""
    listed = listed_categories(schema)
    if not listed:
        return {}
    counts = answers(CATEGORIES, {})["counts"].tolist()
    found: dict[str, list[str]] = {name: [] for name, _ in listed}
    for (name, category), count in zip(listed, counts, strict=True):
        found[name] += [category] * (count > 0)
    return {name: CategoryColumn(name, tuple(present)) for name, present in found.items()}


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
