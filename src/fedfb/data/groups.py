"""Groups of rows: the crossed values of the sensitive columns."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedfb.data.table import Table, Words
from fedfb.errors import DataError
from fedfb.shapes import Array, Int


@dataclass(frozen=True)
class Groups:
    """The sensitive columns, and the names of the groups that their crossed values form.

    The number of a group is its place in ``names``. The group ``merged[i]`` of the crossed values
    is part of the group ``into[i]``.

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

    def group_of(self, table: Table) -> Int[Array, " n"]:
        """Return each row's group number. A group that is not among ``names`` is an error."""
        index = {name: number for number, name in enumerate(self.names)}
        index |= {name: index[rest] for name, rest in zip(self.merged, self.into, strict=True)}
        crossed = _cross(table, self.columns)
        unknown = {name: n for name, n in crossed.counts().items() if name not in index}
        if unknown:
            most = [name for name, n in unknown.items() if n == max(unknown.values())]
            name = min(most, key=lambda name: int((crossed == name).argmax()))
            raise DataError(
                f"{table.places(np.flatnonzero(crossed == name))}: group {name!r} "
                f"({unknown[name]} rows) does not occur in training rows, whose groups are "
                f"{', '.join(self.names)}. A model cannot be judged on a group that training did "
                "not have: remove these rows, train with some of them, or merge the group into "
                "another by declaration, e.g. --merge 'race: Asian+Other=rest'."
            )
        return crossed.look_up([index.get(name, -1) for name in crossed.values], np.int64)


def merge_small(groups: Groups, rows: Int[Array, " a"], minimum: int, rest: str) -> Groups:
    """Merge the groups with fewer rows than a minimum into one group.

    Args:
        groups: groups of the rows.
        rows: training rows of each group, over all clients.
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


def groups_in(table: Table, columns: tuple[str, ...], order: tuple[str, ...] = ()) -> Groups:
    """Find the groups of a table.

    Args:
        table: the rows.
        columns: the sensitive columns.
        order: names that come first, in this order. All others follow, sorted.

    """
    present = set(_cross(table, columns).counts())
    declared = [name for name in order if name in present]
    return Groups(columns, (*declared, *sorted(present.difference(declared))))


def _cross(table: Table, columns: tuple[str, ...]) -> Words:
    """Return the name of each row's group."""
    parts = [table.text(name) for name in columns]
    for name, cells in zip(columns, parts, strict=True):
        missing = np.flatnonzero(cells == "")
        if len(missing):
            raise DataError(
                f"{table.places(missing)}: the sensitive column {name!r} is missing in "
                f"{len(missing)} of {len(table)} rows. Fill it in (a value such as 'unknown' makes "
                "them a group of their own) or remove these rows."
            )
    sizes = [len(part.values) for part in parts]
    combined = np.ravel_multi_index([part.codes for part in parts], sizes)
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
