"""Who belongs to which group: the sensitive columns, crossed."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from fedfb.data.table import Table
from fedfb.errors import DataError
from fedfb.shapes import Array, Int


@dataclass(frozen=True)
class Groups:
    """The sensitive columns and the groups their crossed values form, in the order of numbers.

    >>> sex, race = np.array(["F", "M", "F"], object), np.array(["B", "B", "W"], object)
    >>> table = Table({"sex": sex, "race": race})
    >>> groups = groups_in(table, ("sex", "race"))
    >>> groups.names, groups.group_of(table).tolist()
    (('F x B', 'F x W', 'M x B'), [0, 2, 1])
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]

    def group_of(self, table: Table) -> Int[Array, " n"]:
        """Return each row's group number; a group that is not among ``names`` is an error."""
        index = {name: number for number, name in enumerate(self.names)}
        crossed = _crossed(table, self.columns)
        unknown = Counter(name for name in crossed if name not in index)
        if unknown:
            name, rows = unknown.most_common(1)[0]
            raise DataError(
                f"{table.source}: group {name!r} ({rows} rows) does not occur in training rows, "
                f"whose groups are {', '.join(self.names)}. A model cannot be judged on a group it "
                "never saw: remove these rows, merge the group into another, or train with it."
            )
        return np.fromiter((index[name] for name in crossed), np.int64, len(crossed))


def groups_in(table: Table, columns: tuple[str, ...], order: tuple[str, ...] = ()) -> Groups:
    """Find the groups of a table, sorted by name; names in ``order`` come first, in that order."""
    present = set(_crossed(table, columns))
    declared = [name for name in order if name in present]
    return Groups(columns, (*declared, *sorted(present.difference(declared))))


def _crossed(table: Table, columns: tuple[str, ...]) -> list[str]:
    values = [table.text(name) for name in columns]
    for name, cells in zip(columns, values, strict=True):
        missing = int((cells == "").sum())
        if missing:
            raise DataError(
                f"{table.source}: the sensitive column {name!r} is missing in {missing} of "
                f"{len(table)} rows. Fill it in (a value such as 'unknown' makes them a group of "
                "their own) or remove these rows."
            )
    return [" x ".join(cells) for cells in zip(*values, strict=True)]
