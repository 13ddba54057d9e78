"""Learn how to encode columns from the rows of several clients, by sums over the clients.

``make_column_upload`` computes the upload of one client: counts and sums of its raw rows, by task.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fedfb.core import Arrays
from fedfb.data.check import labels
from fedfb.data.columns import MISSING_CATEGORY, CategoryColumn, Column, NumberColumn, fit_column
from fedfb.data.derive import derive
from fedfb.data.federation import LearnFromClients, Learnt
from fedfb.data.groups import Groups
from fedfb.data.partition import rows_of_clients
from fedfb.data.schema import ColumnSchema, Scale, Schema
from fedfb.data.statistics import (
    STEP_SHARES,
    TASKS,
    AddUp,
    Ask,
    Spread,
    compute_upload,
    counts_below,
    quantiles_by,
    spread_by,
    steps_by,
)
from fedfb.errors import DataError
from fedfb.shapes import Array, Int
from fedfb.tables.table import Table

QUARTILES = (0.25, 0.5, 0.75)
TAILS = (0.01, 0.99)
NORMAL_QUARTILES = 1.349
"""Distance of the quartiles of a normal distribution, in standard deviations."""


class ClientRows(NamedTuple):
    """The client of each row of a table, by number, -1 for none, and what uploads need.

    ``add`` adds the uploads. ``schema`` describes the columns; all clients know it beforehand.
    """

    client: Int[Array, " n"]
    names: tuple[str, ...]
    add: AddUp
    schema: Schema


def by_sums(add: AddUp, schema: Schema) -> LearnFromClients:
    """Return a function that learns an encoder from sums over clients.

    Args:
        add: adds the uploads, masked or unmasked.
        schema: declarations about the columns.

    """

    def learn(table: Table, client: Int[Array, " n"], names: tuple[str, ...]) -> Learnt:
        clients = ClientRows(client, names, add, schema)
        groups = None
        if schema.group_names:
            groups = groups_by(schema, make_ask(table, clients)(ROWS, {})["rows"])
        return Learnt(fit_columns(table, clients), groups)

    return learn


def make_ask(table: Table, clients: ClientRows) -> Ask:
    """Return a function that runs a task on clients in this process and adds their uploads."""
    rows = rows_of_clients(clients.client, len(clients.names))

    def ask(task: str, broadcast: Arrays) -> Arrays:
        names = [name for name in _columns_read(task, clients.schema) if name in table.columns]
        uploads = {
            name: make_column_upload(task, broadcast, table.take(places, names), clients.schema)
            for name, places in zip(clients.names, rows, strict=True)
        }
        return clients.add(task, broadcast, uploads)

    return ask


def fit_columns(table: Table, clients: ClientRows) -> tuple[Column, ...]:
    """Learn how to encode features from sums over the clients' training rows.

    Where the schema declares no categories, the categories that occur count as public.
    """
    columns = columns_by(clients.schema, make_ask(table, clients))
    features = [column.name for column in clients.schema.of("feature")]
    training = np.flatnonzero(clients.client >= 0)
    return tuple(
        columns[name] if name in columns else fit_column(table.take(training, [name]), name)
        for name in features
    )


def columns_by(schema: Schema, ask: Ask) -> dict[str, Column]:
    """Learn how to encode features from sums over clients.

    Means, spreads, quantiles and the declared categories that occur come from sums. A number with
    a declared range needs no sum.

    Args:
        schema: declarations about the columns.
        ask: returns the sum of the clients' uploads to a task.

    """
    return {
        **{column.name: by_range(column, schema.steps) for column in ranged(schema)},
        **_fit_numbers(schema, ask),
        **_fit_categories(schema, ask),
    }


def by_range(column: ColumnSchema, with_steps: bool = False) -> NumberColumn:
    """Scale by a declared range: by mean and standard deviation of the uniform distribution on it.

    Args:
        column: has a range.
        with_steps: whether steps divide the range into equal parts.

    >>> by_range(ColumnSchema("age", "feature", "number", range=(0.0, 12.0))).mean
    6.0
    """
    low, high = column.range
    sd = (high - low) / 12**0.5
    steps = tuple(low + share * (high - low) for share in STEP_SHARES) if with_steps else ()
    gaps = column.missing == "mean"
    return NumberColumn(column.name, (low + high) / 2, sd, indicator=gaps, steps=steps)


def groups_by(schema: Schema, rows: Int[Array, "2 a"]) -> Groups:
    """Return the declared groups that occur. Rows of one label only are refused.

    Args:
        schema: declares the groups.
        rows: training rows by label and group, the sum of the uploads to the task ``ROWS``.

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


def _fit_numbers(schema: Schema, ask: Ask) -> dict[str, NumberColumn]:
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
    columns = {
        **standard,
        **_fit_robust(robust, _take_columns(spread, [places[name] for name in robust]), ask),
        **_fit_clipped(clips, _take_columns(spread, [places[name] for name in clips]), ask),
    }
    if not schema.steps:
        return columns
    steps = dict(zip(names, steps_by(STEPS, spread, ask), strict=True))
    return {name: replace(column, steps=steps[name]) for name, column in columns.items()}


def _take_columns(spread: Spread, places: Sequence[int]) -> Spread:
    return Spread(*(part[list(places)] for part in spread))


def _fit_robust(names: Sequence[str], spread: Spread, ask: Ask) -> dict[str, NumberColumn]:
    """Scale by median and quartiles; where the quartiles are equal, by the standard deviation."""
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


def _fit_clipped(names: Sequence[str], spread: Spread, ask: Ask) -> dict[str, NumberColumn]:
    """Clip to the quantiles of the tails, then take mean and standard deviation."""
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


def _fit_categories(schema: Schema, ask: Ask) -> dict[str, CategoryColumn]:
    """Keep the declared categories that some client has, by summed counts."""
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


ROWS, CATEGORIES, STEPS = "row counts", "category counts", "step histograms"

_SCALE_BY_TASK: Mapping[str, Scale] = {"robust histograms": "robust", "clip histograms": "clip"}
"""Tasks for quantiles, and the scale of the columns that need them."""

COLUMN, CLIP = "column ", "clip "
"""First words of the tasks about all numbers, and about clipped numbers."""


def make_column_upload(task: str, broadcast: Arrays, table: Table, schema: Schema) -> Arrays:
    """Return the upload of one client to a task.

    The schema decides which columns a task reads, never the server.

    Args:
        task: name of the task.
        broadcast: arrays that the server sent along.
        table: rows of the client, with the derived columns of the schema.
        schema: declarations about the columns.

    """
    if task == ROWS:
        return {"rows": _count_rows(table, schema)}
    if task == CATEGORIES:
        return {"counts": _count_categories(table, listed_categories(schema))}
    if task == STEPS and schema.steps:
        return counts_below([table.numbers(name) for name in numeric(schema)], **broadcast)
    if task in _SCALE_BY_TASK:
        names = numeric(schema, _SCALE_BY_TASK[task])
        return counts_below([table.numbers(name) for name in names], **broadcast)
    if task in TASKS:
        columns = [table.numbers(name) for name in numeric(schema)]
        return compute_upload(task, broadcast, columns)
    rest = dict(broadcast)
    ends = (rest.pop("low"), rest.pop("high"))
    clipped = [
        np.clip(table.numbers(name), *places)
        for name, *places in zip(numeric(schema, "clip"), *ends, strict=True)
    ]
    return compute_upload(task.replace(CLIP, COLUMN), rest, clipped)


def _columns_read(task: str, schema: Schema) -> list[str]:
    """Return the columns that the upload to a task is computed from."""
    if task == ROWS:
        return [*schema.crossed, schema.label.name]
    if task == CATEGORIES:
        return [*dict.fromkeys(name for name, _ in listed_categories(schema))]
    return numeric(schema)


def no_rows(schema: Schema) -> Table:
    """Return a table without rows. Uploads computed on it have the shapes of all others."""
    kinds = {c.name: np.float64 if c.kind == "number" else object for c in schema.used}
    empty = {name: np.zeros(0, kind) for name, kind in kinds.items()}
    return derive(Table(empty, schema.source), schema.derived)


def numeric(schema: Schema, scale: Scale | None = None) -> list[str]:
    """Return the names of the numeric features that tasks read.

    Args:
        schema: declarations about the columns.
        scale: only columns of this scale; None: all.

    """
    return [
        column.name
        for column in schema.of("feature")
        if column.is_number and not column.range and scale in (None, column.scale)
    ]


def ranged(schema: Schema) -> list[ColumnSchema]:
    """Return the features with a declared range. No task reads them."""
    return [column for column in schema.of("feature") if column.range]


def listed_categories(schema: Schema) -> list[tuple[str, str]]:
    """Return all pairs of a column and one of its declared categories."""
    return [
        (column.name, category)
        for column in schema.of("feature")
        if not column.is_number and column.categories
        for category in sorted({*column.group_values, MISSING_CATEGORY})
    ]


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
        for cell, count in table.text(name).counts().items():
            counts[place[name, cell or MISSING_CATEGORY]] += count
    return counts
