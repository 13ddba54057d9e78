"""Learning how to encode columns from rows that lie with several owners: by sums over them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedfb.core import Arrays
from fedfb.data.columns import (
    MISSING_CATEGORY,
    CategoryColumn,
    Column,
    NumberColumn,
    fit_column,
)
from fedfb.data.federation import LearnFromSilos
from fedfb.data.quantiles import quantiles_of
from fedfb.data.schema import ColumnSchema
from fedfb.data.statistics import AddUp, Spread, spread_of
from fedfb.data.table import Table
from fedfb.shapes import Array, Int

QUARTILES = (0.25, 0.5, 0.75)
TAILS = (0.01, 0.99)
NORMAL_QUARTILES = 1.349
"""How many standard deviations the quartiles of a normal law are apart."""

Owned = Mapping[str, Table]
"""The rows of every owner."""


class Silos(NamedTuple):
    """Whose the rows of a table are, by number; the owners' names; who adds up their sums.

    ``declared`` is what the schema says of columns.
    """

    client: Int[Array, " n"]
    owners: tuple[str, ...]
    add: AddUp
    declared: Mapping[str, ColumnSchema] = {}


def by_sums(add: AddUp, declared: Mapping[str, ColumnSchema] | None = None) -> LearnFromSilos:
    """Return a way to learn columns from sums over the clients, and by what is declared of them."""

    def learn(
        table: Table, names: tuple[str, ...], client: Int[Array, " n"], owners: tuple[str, ...]
    ) -> tuple[Column, ...]:
        return fit_columns(table, names, Silos(client, owners, add, declared or {}))

    return learn


def fit_columns(table: Table, names: Sequence[str], silos: Silos) -> tuple[Column, ...]:
    """Learn how to encode columns from training rows, of which only sums are taken.

    Of a number whose range is declared nothing is asked: it is scaled as if spread over it evenly.

    Means, spreads and quantiles come from sums over the owners, and so does which of the declared
    categories occur. Where none are declared the categories that occur are a public schema.
    """
    owned = {
        owner: table.take(np.flatnonzero(silos.client == number))
        for number, owner in enumerate(silos.owners)
    }
    numeric = [name for name in names if table.column(name).dtype.kind == "f"]
    declared = [
        column
        for name in names
        if name not in numeric and (column := silos.declared.get(name)) and column.categories
    ]
    ranged = [name for name in numeric if (c := silos.declared.get(name)) and c.range]
    learnt = [name for name in numeric if name not in ranged]
    found: dict[str, Column] = {
        **{name: by_range(silos.declared[name]) for name in ranged},
        **_numbers(owned, learnt, silos),
        **(_categories(owned, declared, silos.add) if declared else {}),
    }
    return tuple(found[name] if name in found else fit_column(table, name) for name in names)


def by_range(column: ColumnSchema) -> NumberColumn:
    """Scale by a declared range: by mean and standard deviation of a number anywhere within.

    >>> by_range(ColumnSchema("age", "feature", "number", range=(0.0, 12.0))).mean
    6.0
    """
    low, high = column.range
    sd = (high - low) / 12**0.5
    return NumberColumn(column.name, (low + high) / 2, sd, indicator=column.missing == "mean")


def _numbers(owned: Owned, names: Sequence[str], silos: Silos) -> dict[str, NumberColumn]:
    if not names:
        return {}
    spread = spread_of(owned, names, silos.add)
    parts = (spread.mean.tolist(), spread.sd.tolist(), (spread.missing > 0).tolist())
    standard = {
        name: NumberColumn(name, mean, sd, gaps)
        for name, mean, sd, gaps in zip(names, *parts, strict=True)
    }
    scale = {name: silos.declared[name].scale for name in names if name in silos.declared}
    robust = [name for name in names if scale.get(name) == "robust"]
    clipped = [name for name in names if scale.get(name) == "clip"]
    of = {name: place for place, name in enumerate(names)}
    return {
        **standard,
        **_robust(owned, robust, _some(spread, [of[name] for name in robust]), silos.add),
        **_clipped(owned, clipped, _some(spread, [of[name] for name in clipped]), silos.add),
    }


def _some(spread: Spread, places: Sequence[int]) -> Spread:
    return Spread(*(part[list(places)] for part in spread))


def _robust(
    owned: Owned, names: Sequence[str], spread: Spread, add: AddUp
) -> dict[str, NumberColumn]:
    """Scale by median and quartiles; where these are one value, by the standard deviation."""
    if not names:
        return {}
    quartiles, width = quantiles_of(owned, names, QUARTILES, spread, add)
    error = width.max(axis=1)
    apart = quartiles[:, 2] - quartiles[:, 0]
    sd = np.where(apart > 2 * error, apart / NORMAL_QUARTILES, spread.sd)
    parts = (quartiles[:, 1].tolist(), sd.tolist(), (spread.missing > 0).tolist(), error.tolist())
    return {
        name: NumberColumn(name, median, scale, gaps, error=known_to)
        for name, median, scale, gaps, known_to in zip(names, *parts, strict=True)
    }


def _clipped(
    owned: Owned, names: Sequence[str], spread: Spread, add: AddUp
) -> dict[str, NumberColumn]:
    """Clip to the tails' quantiles; mean and standard deviation are of what is left."""
    if not names:
        return {}
    tails, width = quantiles_of(owned, names, TAILS, spread, add)
    inside = {owner: _clip(table, names, tails) for owner, table in owned.items()}
    left = spread_of(inside, names, add)
    parts = (left.mean.tolist(), left.sd.tolist(), (left.missing > 0).tolist())
    ends = (tails[:, 0].tolist(), tails[:, 1].tolist(), width.max(axis=1).tolist())
    values = zip(names, *parts, *ends, strict=True)
    return {name: NumberColumn(name, *rest) for name, *rest in values}


def _clip(table: Table, names: Sequence[str], tails: Array) -> Table:
    for name, (low, high) in zip(names, tails, strict=True):
        table = table.with_column(name, np.clip(table.numbers(name), low, high))
    return table


def _categories(
    owned: Owned, declared: Sequence[ColumnSchema], add: AddUp
) -> dict[str, CategoryColumn]:
    """Keep the declared categories that some owner has, by summed counts."""
    listed = [
        (column.name, category)
        for column in declared
        for category in sorted({*column.categories, MISSING_CATEGORY})
    ]
    answers: dict[str, Arrays] = {
        owner: {"counts": _counts(table, declared, listed)} for owner, table in owned.items()
    }
    counts = add("category counts", {}, answers)["counts"].tolist()
    present = [place for place, count in zip(listed, counts, strict=True) if count]
    return {
        column.name: CategoryColumn(
            column.name, tuple(category for name, category in present if name == column.name)
        )
        for column in declared
    }


def _counts(
    table: Table, declared: Sequence[ColumnSchema], listed: Sequence[tuple[str, str]]
) -> Int[Array, " c"]:
    place = {pair: number for number, pair in enumerate(listed)}
    counts = np.zeros(len(listed), np.int64)
    for column in declared:
        for cell, count in Counter(table.text(column.name).tolist()).items():
            counts[place[column.name, cell or MISSING_CATEGORY]] += count
    return counts
