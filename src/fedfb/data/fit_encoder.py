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
    tables = {
        client: table.take(np.flatnonzero(silos.client == number))
        for number, client in enumerate(silos.owners)
    }

    def answers(task: str, broadcast: Arrays) -> Arrays:
        uploads = {
            name: silo_answer(task, broadcast, t, silos.schema) for name, t in tables.items()
        }
        return silos.add(task, broadcast, uploads)

    return answers


def fit_columns(table: Table, silos: Silos) -> tuple[Column, ...]:
    """Learn how to encode features from training rows, of which only sums are taken.

    Where no categories are declared those that occur are a public schema.
    """
    columns = columns_by(silos.schema, answers_of(table, silos))
    features = [column.name for column in silos.schema.of("feature")]
    return tuple(columns[name] if name in columns else fit_column(table, name) for name in features)


def columns_by(schema: Schema, ask: Answers) -> dict[str, Column]:
    """Learn how to encode features from sums over their owners.

    Means, spreads and quantiles come from sums, and so does which of the declared categories occur.
    Of a number whose range is declared nothing is asked.
    """
    return {
        **{column.name: by_range(column) for column in ranged(schema)},
        **_fit_numbers(schema, ask),
        **_fit_categories(schema, ask),
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


def _fit_numbers(schema: Schema, ask: Answers) -> dict[str, NumberColumn]:
    names = numeric(schema)
    if not names:
        return {}
    spread = spread_by(names, ask)
    parts = (spread.mean.tolist(), spread.sd.tolist(), (spread.missing > 0).tolist())
    standard = {
        name: NumberColumn(name, mean, sd, gaps)
        for name, mean, sd, gaps in zip(names, *parts, strict=True)
    }
    robust, clips = numeric(schema, "robust"), numeric(schema, "clip")
    places = {name: place for place, name in enumerate(names)}
    return {
        **standard,
        **_fit_robust(robust, _take_columns(spread, [places[name] for name in robust]), ask),
        **_fit_clipped(clips, _take_columns(spread, [places[name] for name in clips]), ask),
    }


def _take_columns(spread: Spread, places: Sequence[int]) -> Spread:
    return Spread(*(part[list(places)] for part in spread))


def _fit_robust(names: Sequence[str], spread: Spread, ask: Answers) -> dict[str, NumberColumn]:
    """Scale by median and quartiles; where these are one value, by the standard deviation."""
    if not names:
        return {}
    quartiles, width = quantiles_by("robust histograms", QUARTILES, spread, ask)
    error = width.max(axis=1)
    distance = quartiles[:, 2] - quartiles[:, 0]
    sd = np.where(distance > 2 * error, distance / NORMAL_QUARTILES, spread.sd)
    parts = (quartiles[:, 1].tolist(), sd.tolist(), (spread.missing > 0).tolist(), error.tolist())
    return {
        name: NumberColumn(name, median, scale, gaps, error=bound)
        for name, median, scale, gaps, bound in zip(names, *parts, strict=True)
    }


def _fit_clipped(names: Sequence[str], spread: Spread, ask: Answers) -> dict[str, NumberColumn]:
    """Clip to the tails' quantiles; mean and standard deviation are of what is left."""
    if not names:
        return {}
    tails, width = quantiles_by("clip histograms", TAILS, spread, ask)
    low, high = tails[:, 0], tails[:, 1]

    def ask_clipped(task: str, broadcast: Arrays) -> Arrays:
        return ask(task.replace(COLUMN, CLIP), {**broadcast, "low": low, "high": high})

    inner = spread_by(names, ask_clipped)
    parts = (inner.mean.tolist(), inner.sd.tolist(), (inner.missing > 0).tolist())
    ends = (low.tolist(), high.tolist(), width.max(axis=1).tolist())
    values = zip(names, *parts, *ends, strict=True)
    return {name: NumberColumn(name, *rest) for name, *rest in values}


def _fit_categories(schema: Schema, ask: Answers) -> dict[str, CategoryColumn]:
    """Keep the declared categories that some owner has, by summed counts."""
    pairs = listed_categories(schema)
    if not pairs:
        return {}
    counts = ask(CATEGORIES, {})["counts"].tolist()
    categories: dict[str, list[str]] = {name: [] for name, _ in pairs}
    for (name, category), count in zip(pairs, counts, strict=True):
        categories[name] += [category] * (count > 0)
    return {
        name: CategoryColumn(name, tuple(categories)) for name, categories in categories.items()
    }


ROWS, CATEGORIES = "row counts", "category counts"

HISTOGRAMS: Mapping[str, Scale] = {"robust histograms": "robust", "clip histograms": "clip"}
"""Questions for quantiles, and the scale of the columns that need them."""

COLUMN, CLIP = "column ", "clip "
"""How questions begin that are about all numbers, and about those that are clipped."""


def silo_answer(task: str, broadcast: Arrays, table: Table, schema: Schema) -> Arrays:
    """Return what a silo says of its rows, whose groups and label the schema's rules have made.

    Which columns a question is about follows from the schema, never from who asks.
    """
    if task == ROWS:
        return {"rows": _count_rows(table, schema)}
    if task == CATEGORIES:
        return {"counts": _count_categories(table, listed_categories(schema))}
    if task in HISTOGRAMS:
        names = numeric(schema, HISTOGRAMS[task])
        return counts_below([table.numbers(name) for name in names], **broadcast)
    if task in ANSWERS:
        return answer(task, broadcast, _stack_numbers(table, numeric(schema)))
    rest = dict(broadcast)
    ends = (rest.pop("low"), rest.pop("high"))
    clipped_values = np.clip(_stack_numbers(table, numeric(schema, "clip")), *ends)
    return answer(task.replace(CLIP, COLUMN), rest, clipped_values)


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


def _stack_numbers(table: Table, columns: Sequence[str]) -> Float[Array, "n k"]:
    return np.stack([table.numbers(column) for column in columns], axis=1)


def _count_rows(table: Table, schema: Schema) -> Int[Array, "2 a"]:
    """Count rows by label and group."""
    names = schema.group_names
    group = Groups(schema.crossed, names).group_of(table)
    y = labels(table, schema.label.name, schema.label.positive)
    return np.bincount(y * len(names) + group, minlength=2 * len(names)).reshape(2, len(names))


def _count_categories(table: Table, pairs: Sequence[tuple[str, str]]) -> Int[Array, " c"]:
    place = {pair: number for number, pair in enumerate(pairs)}
    counts = np.zeros(len(pairs), np.int64)
    for name in dict.fromkeys(name for name, _ in pairs):
        for cell, count in Counter(table.text(name).tolist()).items():
            counts[place[name, cell or MISSING_CATEGORY]] += count
    return counts
