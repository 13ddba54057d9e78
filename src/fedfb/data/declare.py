"""Declarations about columns on the command line: ignored, binned and merged columns, and dates."""

from collections.abc import Iterable
from typing import NamedTuple

from fedfb.errors import ConfigError
from fedfb.tables.table import parse_number

Merges = tuple[tuple[str, tuple[str, ...]], ...]
"""New names, each with the values that it replaces."""


class Wanted(NamedTuple):
    """Roles of columns, as flags declare them. A column without a role is a feature."""

    label: str
    positive: str
    sensitive: tuple[str, ...]
    client_column: str | None = None
    ignore: tuple[str, ...] = ()
    bins: tuple[str, ...] = ()
    merge: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that are neither features nor ignored."""
        return tuple(filter(None, (self.label, *self.sensitive, self.client_column)))


def parse_bins(declared: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """Read the upper ends of ranges by column.

    >>> parse_bins(["age: 25, 40"])
    {'age': (25.0, 40.0)}
    """
    return {
        column: _read_numbers(column, rest) for column, rest in _split_by_column(declared, "bins")
    }


def parse_merge(declared: Iterable[str]) -> dict[str, Merges]:
    """Read the values to merge, by column.

    >>> parse_merge(["race: Asian+Other=rest, A+B=ab"])
    {'race': (('rest', ('Asian', 'Other')), ('ab', ('A', 'B')))}
    """
    return {
        column: tuple(_read_merge(column, part) for part in rest.split(","))
        for column, rest in _split_by_column(declared, "merge")
    }


def parse_dates(declared: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Read what is derived from dates and how they are written, by column.

    >>> parse_dates(["opened: age in days at 2024-01-31", "birth: year, 31.12.2024"])
    {'opened': ('age in days at 2024-01-31', ''), 'birth': ('year', '31.12.2024')}
    """
    parts = {
        column: [part.strip() for part in rest.split(",", 1)]
        for column, rest in _split_by_column(declared, "dates")
    }
    return {column: (part[0], part[1] if part[1:] else "") for column, part in parts.items()}


_FORMS = {
    "bins": "'age: 25,40,65', upper ends of ranges; several columns: 'age: 25,40; income: 1000'",
    "dates": "'opened: age in days at 2024-01-31', what a model reads of a date, and if need be "
    "how the last day of 2024 is written: 'birth: year, 31.12.2024'",
    "merge": "'race: Asian+Other=rest', values and their new name; several columns: "
    "'race: Asian+Other=rest; town: a+b=north, c+d=south'",
}


def _split_by_column(declared: Iterable[str], kind: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for text in declared:
        column, colon, rest = (part.strip() for part in text.partition(":"))
        if not (column and colon and rest):
            raise ConfigError(f"--{kind} {text!r}: expected {_FORMS[kind]}.")
        if column in dict(pairs):
            raise ConfigError(f"--{kind}: column {column!r} is declared twice. Declare it once.")
        pairs.append((column, rest))
    return pairs


def _read_numbers(column: str, text: str) -> tuple[float, ...]:
    cells = [parse_number(part.strip()) for part in text.split(",")]
    numbers = [number for number in cells if number is not None and abs(number) < float("inf")]
    if len(numbers) < len(cells) or numbers != sorted(set(numbers)):
        raise ConfigError(
            f"--bins: the ends for {column!r} are {text!r}, expected numbers that rise: "
            f"{_FORMS['bins']}."
        )
    return tuple(numbers)


def _read_merge(column: str, text: str) -> tuple[str, tuple[str, ...]]:
    values, equals, new = (part.strip() for part in text.rpartition("="))
    merged = tuple(value.strip() for value in values.split("+"))
    if not (equals and new and all(merged)):
        raise ConfigError(
            f"--merge: {text.strip()!r} for {column!r} cannot be read, expected "
            f"{_FORMS['merge']}. Values that hold one of + = , ; are merged in a schema file."
        )
    return new, merged
