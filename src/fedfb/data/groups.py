"""Groups of rows: the crossed values of the sensitive columns."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fedfb.errors import DataError
from fedfb.shapes import Array, Int
from fedfb.tables.table import Table, Words, parse_number


@dataclass(frozen=True)
class Groups:
    """The sensitive columns, and the names of the groups that their crossed values form.

    The number of a group is its place in ``names``. The group ``merged[i]`` of the crossed values
    is part of the group ``into[i]``. Where small groups were merged, a group that training rows do
    not have is part of the same group: it is smaller still.

    >>> sex, race = np.array(["F", "M", "F"], object), np.array(["B", "B", "W"], object)
    >>> table = Table({"sex": sex, "race": race})
    >>> groups = groups_in(table, ("sex", "race"))
    >>> groups.names, groups.group_of(table).tolist()
    (('sex=F, race=B', 'sex=F, race=W', 'sex=M, race=B'), [0, 2, 1])
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    merged: tuple[str, ...] = ()
    into: tuple[str, ...] = ()

    def unseen(self, table: Table) -> dict[str, int]:
        """Return the numbers of rows of groups that training rows do not have."""
        names = {*self.names, *self.merged}
        counts = _cross(table, self.columns).counts()
        return {name: n for name, n in counts.items() if name not in names}

    def group_of(self, table: Table) -> Int[Array, " n"]:
        """Return each row's group number. An unseen group is an error where none were merged."""
        _refuse_missing(table, self.columns)
        group, unknown = self.look_up(table)
        if unknown and not self.into:
            crossed = _cross(table, self.columns)
            most = [name for name, n in unknown.items() if n == max(unknown.values())]
            name = min(most, key=lambda name: int((crossed == name).argmax()))
            raise DataError(
                f"{table.places(np.flatnonzero(crossed == name))}: group {name!r} "
                f"({unknown[name]} rows) does not occur in training rows, whose groups are "
                f"{', '.join(self.names)}. A model cannot be judged on a group that training did "
                "not have: remove these rows, train with some of them, or merge the group into "
                "another, e.g. by --merge 'race: Asian+Other=rest' or, with all small groups, by "
                "--rest NAME."
            )
        return group

    def look_up(self, table: Table) -> "GroupNumbers":
        """Return each row's group number. A group that training did not have is of the rest, or -1.

        It is of the rest where small groups were merged into one.
        """
        index = {name: number for number, name in enumerate(self.names)}
        index |= {name: index[rest] for name, rest in zip(self.merged, self.into, strict=True)}
        crossed = _cross(table, self.columns)
        rest = index[self.into[-1]] if self.into else -1
        numbers = [index.get(name, rest) for name in crossed.values]
        unknown = {name: n for name, n in crossed.counts().items() if name not in index}
        return GroupNumbers(crossed.look_up(numbers, np.int64), unknown)


class GroupNumbers(NamedTuple):
    """The group number of each row, and the rows of each group that training did not have."""

    group: Int[Array, " n"]
    unknown: dict[str, int]


def merge_small(groups: Groups, rows: Int[Array, " a"], minimum: int, rest: str) -> Groups:
    """Merge the groups with fewer rows than a minimum into one group.

    Args:
        groups: groups of the rows; of several sensitive columns, each crossed cell is a group.
        rows: training rows of each group, over all clients; where a notion compares rates of one
            label, the rows of that label.
        minimum: fewest rows of a group that is not merged.
        rest: name of the group that the small ones become part of; it may exist already.

    >>> merge_small(Groups(("race",), ("A", "B", "C")), np.array([50, 3, 4]), 10, "rest")
    Groups(columns=('race',), names=('A', 'rest'), merged=('B', 'C'), into=('rest', 'rest'))
    """
    names = zip(groups.names, rows.tolist(), strict=True)
    small = tuple(name for name, count in names if count < minimum and name != rest)
    if not small:
        return groups
    large = tuple(name for name in groups.names if name not in small)
    return Groups(
        groups.columns,
        large if rest in large else (*large, rest),
        (*groups.merged, *small),
        (*groups.into, *(rest for _ in small)),
    )


def compared_rows(cells: Int[Array, "2 a"], labels: tuple[int, ...]) -> Int[Array, " a"]:
    """Return the rows that decide if a group is small: all, or those of its rarest label.

    Args:
        cells: training rows by label and group.
        labels: labels among whose rows a notion compares rates; empty: all rows.

    """
    return cells[list(labels)].min(axis=0) if labels else cells.sum(axis=0)


def groups_in(table: Table, columns: tuple[str, ...], order: tuple[str, ...] = ()) -> Groups:
    """Find the groups of a table.

    Args:
        table: the rows.
        columns: the sensitive columns.
        order: names that come first, in this order. All others follow, sorted.

    """
    _refuse_missing(table, columns)
    present = set(_cross(table, columns).counts())
    declared = [name for name in order if name in present]
    others = sorted(present.difference(declared), key=lambda name: _place_name(columns, name))
    return Groups(columns, (*declared, *others))


_RANGE = re.compile(
    r"(?P<low>up to|under|below|less than|<=?|≤)?(?P<high>over|above|more than|greater than|>=?|≥)?"
    r"\s*(?P<number>[-+]?\d+(\.\d+)?)(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)


def place_value(value: str) -> tuple[Any, ...]:
    """Return what values of a sensitive column are sorted by: numbers and ranges, then text.

    >>> sorted(["over 100", "up to 25", "over 25 to 100", "x", "10", "2"], key=place_value)
    ['2', '10', 'up to 25', 'over 25 to 100', 'over 100', 'x']
    """
    match = _RANGE.fullmatch(value)
    if match is None:
        return (1, value)
    number = parse_number(value)
    start = float(match["number"]) if number is None else number
    return (0, start, bool(match["high"]) - bool(match["low"]), match["rest"], value)


def _place_name(columns: tuple[str, ...], name: str) -> tuple[Any, ...]:
    """Return what names of groups are sorted by: value by value, then names without values."""
    values = values_of(columns, name)
    return (1, name) if values is None else (0, *map(place_value, values))


def _refuse_missing(table: Table, columns: tuple[str, ...]) -> None:
    for name in columns:
        cells = table.text(name)
        if cells.counts().get("", 0):
            missing = np.flatnonzero(cells == "")
            raise DataError(
                f"{table.places(missing)}: the sensitive column {name!r} is missing in "
                f"{len(missing)} of {len(table)} rows. Fill it in (a value such as 'unknown' makes "
                "them a group of their own) or remove these rows."
            )


def _cross(table: Table, columns: tuple[str, ...]) -> Words:
    """Return the name of each row's group."""
    parts = [table.text(name) for name in columns]
    sizes = [len(part.values) for part in parts]
    combined, codes = np.ravel_multi_index([part.codes for part in parts], sizes), None
    if np.prod(sizes, dtype=float) <= len(table):  # counting is faster than sorting
        occurs = np.bincount(combined, minlength=int(np.prod(sizes))) > 0
        different, codes = np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[combined]
    else:
        different, codes = np.unique(combined, return_inverse=True)
    places = zip(*(part.tolist() for part in np.unravel_index(different, sizes)), strict=True)
    values = [tuple(p.values[i] for p, i in zip(parts, row, strict=True)) for row in places]
    names = Words(tuple(group_name(columns, cells) for cells in values), codes)
    return names.rename(lambda name: name)  # names of different values may be equal


def group_name(columns: tuple[str, ...], values: tuple[str, ...]) -> str:
    """Return the name of the group with these values; of a single column, the value.

    >>> group_name(("sex",), ("F",)), group_name(("sex", "race"), ("F", "Black"))
    ('F', 'sex=F, race=Black')
    """
    if len(columns) == 1:
        return values[0]
    return ", ".join(f"{name}={value}" for name, value in zip(columns, values, strict=True))


def values_of(columns: Sequence[str], name: str) -> tuple[str, ...] | None:
    """Return the values that a group's name holds, None where it holds none.

    >>> values_of(("sex", "race"), "sex=F, race=Black"), values_of(("sex", "race"), "others")
    (('F', 'Black'), None)
    """
    if len(columns) == 1:
        return (name,)
    pattern = ", ".join(f"{re.escape(column)}=(.*)" for column in columns)
    match = re.fullmatch(pattern, name, re.DOTALL)
    return None if match is None else match.groups()
