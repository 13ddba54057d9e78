"""Counts of rows by two properties: group and label, or client and group."""

from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING

import numpy as np

from fedfb.shapes import Array, Int
from fedfb.tables.table import Words

if TYPE_CHECKING:  # a federation is made of much that counts of words do not need
    from fedfb.data.federation import Federation

FEWEST, MOST = 10, 5
"""Of more names than FEWEST + 2 * MOST, those with the fewest and the most rows are shown."""

WIDEST = 6
"""Of more columns than this, those with the fewest rows are shown."""


@dataclass(frozen=True)
class CrossedCounts:
    """The number of rows of each pair of values of two properties.

    ``row_names`` and ``column_names`` are in the order of groups and clients.

    >>> counts = cross("sex", Words.of(["F", "M", "F"]), "paid", Words.of(["1", "1", "0"]))
    >>> print(counts.text())
    sex    paid=1  paid=0  total
    F           1       1      2
    M           1       0      1
    total       2       1      3
    """

    rows_of: str
    columns_of: str
    row_names: tuple[str, ...]
    column_names: tuple[str, ...]
    counts: Int[Array, "r c"]

    def table(self) -> tuple[tuple[str, ...], ...]:
        """Return heading and rows as text, with totals. Many names are summed up in one."""
        rows, row_names = _shorten(self.counts, self.row_names, FEWEST + 2 * MOST, MOST)
        cells, names = _shorten(rows.T, self.column_names, WIDEST, 0)
        head = (self.rows_of, *(self._name_column(name) for name in names), "total")
        table = np.column_stack([cells.T, cells.sum(axis=0)])
        table = np.vstack([table, table.sum(axis=0)]).tolist()
        named = zip((*row_names, "total"), table, strict=True)
        return (head, *((name, *map(str, counts)) for name, counts in named))

    def _name_column(self, name: str) -> str:
        return f"{self.columns_of}={name}" if name in self.column_names else name

    def text(self, width: int = 80) -> str:
        """Return the table as lines for a terminal of a width."""
        from rich.console import Console
        from rich.table import Table

        head, *rows = self.table()
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for place, heading in enumerate(head):
            table.add_column(heading, justify="right" if place else "left", overflow="fold")
        for row in rows:
            table.add_row(*row)
        lines = StringIO()
        Console(file=lines, width=width, color_system=None, markup=False, emoji=False).print(table)
        return "\n".join(line.rstrip() for line in lines.getvalue().splitlines())


def cross(rows_of: str, rows: Words, columns_of: str, columns: Words) -> CrossedCounts:
    """Count rows by the values of two columns. The values are in their order, without absent ones.

    Args:
        rows_of: what the values of ``rows`` are, as a heading.
        rows: one value per row; they become the lines of the table.
        columns_of: what the values of ``columns`` are.
        columns: one value per row.

    """
    shape = (len(rows.values), len(columns.values))
    cells = rows.codes.astype(np.int64) * shape[1] + columns.codes
    counts = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)
    lines, places = np.flatnonzero(counts.any(axis=1)), np.flatnonzero(counts.any(axis=0))
    return CrossedCounts(
        rows_of,
        columns_of,
        tuple(rows.values[line] for line in lines),
        tuple(columns.values[place] for place in places),
        counts[np.ix_(lines, places)],
    )


def count_groups_by_label(federation: "Federation") -> CrossedCounts:
    """Count the training rows of each group by label, over all clients."""
    groups = federation.group_names
    cells = [np.bincount(c.cell, minlength=2 * len(groups)) for c in federation.clients]
    counts = np.sum(cells, axis=0).reshape(2, len(groups)).T
    return CrossedCounts("group", "label", groups, ("0", "1"), counts)


def count_clients_by_group(federation: "Federation") -> CrossedCounts:
    """Count the training rows of each client by group."""
    groups = federation.group_names
    counts = [np.bincount(c.group, minlength=len(groups)) for c in federation.clients]
    names = federation.client_names
    return CrossedCounts("client", "group", names, groups, np.array(counts))


def _shorten(
    counts: Int[Array, "r c"], names: tuple[str, ...], limit: int, most: int
) -> tuple[Int[Array, "s c"], tuple[str, ...]]:
    """Sum up all but the fewest and the most in one line, where there are more than a limit.

    Args:
        counts: rows of each name.
        names: names of the lines.
        limit: most lines that are not shortened.
        most: number of lines with the most rows that are shown.

    """
    if len(names) <= limit:
        return counts, names
    order = np.argsort(counts.sum(axis=1), kind="stable")
    few, many = order[: limit - 2 * most], order[len(order) - most :]
    others = order[limit - 2 * most : len(order) - most]
    summed = counts[others].sum(axis=0, keepdims=True)
    parts = [counts[few], summed, counts[many]]
    label = f"{len(others)} others"
    return np.concatenate(parts), (
        *(names[i] for i in few),
        label,
        *(names[i] for i in many),
    )
