"""Columns derived from others by declared rules, which apply to later rows too."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from msgspec import convert

from fedfb.data.dates import Dates
from fedfb.tables.table import Table, Words, parse_number


@dataclass(frozen=True)
class Bins:
    """Replace a number by the name of its range: ``names[i]`` up to ``edges[i]``, the last above.

    >>> age = Table({"age": np.array([32.0, 33.0, np.nan])})
    >>> Bins("age", "age group", (32.0,), ("young", "old")).apply(age).text("age group").tolist()
    ['young', 'old', '']
    """

    source: str
    target: str
    edges: tuple[float, ...]
    names: tuple[str, ...]

    def apply(self, table: Table) -> Table:
        """Return the table with the column ``target``; a missing number stays missing."""
        numbers = table.numbers(self.source)
        codes = np.searchsorted(self.edges, numbers, side="left").astype(np.int32)
        codes[np.isnan(numbers)] = len(self.names)
        return table.with_column(self.target, Words((*self.names, ""), codes))


@dataclass(frozen=True)
class Keep:
    """Keep some values of a text column and replace all others by ``other``.

    >>> colour = Table({"colour": np.array(["red", "blue", ""], object)})
    >>> Keep("colour", "colour", ("red",), "Other").apply(colour).text("colour").tolist()
    ['red', 'Other', '']
    """

    source: str
    target: str
    values: tuple[str, ...]
    other: str

    def apply(self, table: Table) -> Table:
        """Return the table with the column ``target``; a missing value stays missing."""
        values = {"", *self.values}
        cells = table.text(self.source)
        reduced = cells.rename(lambda cell: cell if cell in values else self.other)
        return table.with_column(self.target, reduced)


@dataclass(frozen=True)
class Merge:
    """Replace ``values[i]`` of a text column by ``names[i]``. Other values stay as they are.

    >>> race = Table({"race": np.array(["Asian", "Other", "Black", ""], object)})
    >>> merge = Merge("race", "race", ("Asian", "Other"), ("rest", "rest"))
    >>> merge.apply(race).text("race").tolist()
    ['rest', 'rest', 'Black', '']
    """

    source: str
    target: str
    values: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def apply(self, table: Table) -> Table:
        """Return the table with the column ``target``; a missing value stays missing."""
        new_names = dict(zip(self.values, self.names, strict=True))
        merged = table.text(self.source).rename(lambda cell: new_names.get(cell, cell))
        return table.with_column(self.target, merged)


@dataclass(frozen=True)
class Blank:
    """Count some numbers of a column as missing: 999, say. In text they are words, such as 'k.A.'.

    >>> age = Table({"age": np.array(["31", "999", "k.A.", ""], object)})
    >>> Blank("age", "age", ("999", "k.A.")).apply(age).numbers("age").tolist()
    [31.0, nan, nan, nan]
    """

    source: str
    target: str
    values: tuple[str, ...]

    @property
    def numbers(self) -> tuple[float, ...]:
        """The values that are numbers."""
        return tuple(n for value in self.values if (n := parse_number(value)) is not None)

    def apply(self, table: Table) -> Table:
        """Return the table with the column ``target``."""
        cells = table.column(self.source)
        if isinstance(cells, Words):
            cells = cells.rename(lambda cell: "" if self.is_blank(cell) else cell)
        else:
            cells = np.where(np.isin(cells, self.numbers), np.nan, cells)
        return table.with_column(self.target, cells)

    def is_blank(self, cell: str) -> bool:
        """Return whether a cell counts as missing."""
        return cell in self.values or parse_number(cell) in self.numbers


Derived = Bins | Blank | Dates | Keep | Merge
"""A rule. A new kind is added here and to the table below."""

_KINDS: dict[str, type[Derived]] = {
    "bins": Bins,
    "blank": Blank,
    "dates": Dates,
    "keep": Keep,
    "merge": Merge,
}


def derive(table: Table, rules: Sequence[Derived]) -> Table:
    """Apply rules in order."""
    for rule in rules:
        table = rule.apply(table)
    return table


def rule_to_dict(rule: Derived) -> dict[str, Any]:
    """Return a rule as plain values, with its kind."""
    return {"kind": next(k for k, t in _KINDS.items() if t is type(rule)), **asdict(rule)}


def rule_from_dict(values: Mapping[str, Any]) -> Derived:
    """Rebuild a rule from :func:`rule_to_dict`, also after a round trip through JSON."""
    fields = {name: value for name, value in values.items() if name != "kind"}
    return convert(fields, _KINDS[values["kind"]])
