"""Rows of files: how many each group, label and client has, and those that repeat.

Rows repeat within a file and across files, and a file may be a copy of another.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from io import StringIO
from typing import NamedTuple

import numpy as np

from fedfb.data.repeats import beyond_chance, mix_columns
from fedfb.data.schema import ColumnSchema, Schema
from fedfb.shapes import Array, Bool, Int, Num
from fedfb.tables.cells import Cells, SourceColumn
from fedfb.tables.problems import Problem, name_files
from fedfb.tables.table import Words

_FEW, _MANY = 10, 5
"""Of more names than _FEW + 2 * _MANY, those with the fewest and the most rows are shown."""

_WIDEST = 6
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
        rows, row_names = _shorten(self.counts, self.row_names, _FEW + 2 * _MANY, _MANY)
        cells, names = _shorten(rows.T, self.column_names, _WIDEST, 0)
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


def check_rows(files: Sequence[Cells], schema: Schema) -> list[Problem]:
    """Return rows that repeat within files and across them, where chance does not explain it."""
    used = [
        column
        for column in schema.used
        if all(column.name in f.columns and not f.columns[column.name].doubt for f in files)
    ]
    if not any(column.role == "feature" for column in used):
        return []
    parts, problems = [], []
    first_copies: dict[bytes, str] = {}
    for file in files:
        hashes = hash_rows(file, used)
        digest = blake2b(np.sort(hashes).tobytes()).digest()
        first = first_copies.setdefault(digest, file.source)
        if first == file.source:
            parts.append(_Rows(file, hashes))
        else:
            what = f"has the same rows as {first}"
            problems.append(_report_rows(file, "copy", what, np.ones(file.rows, bool)))
    return problems + _find_repeats(parts, used)


class _Rows(NamedTuple):
    """A file and the hash of each row."""

    file: Cells
    hashes: Num[Array, " n"]


def _find_repeats(parts: Sequence[_Rows], used: Sequence[ColumnSchema]) -> list[Problem]:
    """Return rows that repeat within files and across them, none of which is a copy of another."""
    _, times = np.unique(np.concatenate([part.hashes for part in parts]), return_counts=True)
    pairs = float((times * (times - 1.0) / 2).sum())
    files = [part.file for part in parts]
    if not pairs or not _is_beyond_chance(files, used, times, pairs):
        return []
    shared = _shared_hashes([part.hashes for part in parts])
    problems, first_files = [], dict[int, str]()
    for file, hashes in parts:
        _, first = np.unique(hashes, return_index=True)
        is_later = np.ones(file.rows, bool)
        is_later[first] = False
        what = f"has {int(is_later.sum())} rows that repeat an earlier one"
        problems.append(_report_rows(file, "repeated rows", what, is_later))
        in_others = set(hashes[np.isin(hashes, shared)].tolist())
        earlier = {h: first_files[h] for h in in_others if h in first_files}
        is_shared = np.isin(hashes, np.array([*earlier], np.uint64))
        names = name_files(sorted(set(earlier.values())))
        what = f"has {int(is_shared.sum())} rows that are also in {names}"
        problems.append(_report_rows(file, "shared rows", what, is_shared))
        first_files |= {h: file.source for h in in_others if h not in first_files}
    return [problem for problem in problems if problem.count]


def _report_rows(file: Cells, kind: str, what: str, rows: Bool[Array, " n"]) -> Problem:
    remedy = "Remove copies of the same people: they make results look too certain."
    count, row = int(rows.sum()), int(rows.argmax())
    return Problem(file.source, kind, what, remedy, "", "", count, row, stops=False)


def _shared_hashes(parts: Sequence[Num[Array, " _"]]) -> Num[Array, " m"]:
    """Return the hashes that are in two files or more."""
    distinct, files = np.unique(np.concatenate([np.unique(p) for p in parts]), return_counts=True)
    shared: Array = distinct[files > 1]
    return shared


def hash_rows(file: Cells, columns: Sequence[ColumnSchema]) -> Num[Array, " n"]:
    """Return a hash of 64 bits for each row, the same for the same cells in any file."""
    return mix_columns((_code_cells(file.columns[c.name], c.kind) for c in columns), file.rows)


def _code_cells(cells: SourceColumn, kind: str) -> Num[Array, " n"]:
    """Return a number for each cell, the same for the same cell in any file."""
    if kind == "number" and cells.numbers is not None:
        numbers: Array = np.where(np.isnan(cells.numbers), np.nan, cells.numbers)
        return numbers.view(np.uint64)
    return cells.words.look_up([_hash_text(value) for value in cells.words.values], np.uint64)


def _hash_text(value: str) -> int:
    return int.from_bytes(blake2b(value.encode(), digest_size=8).digest(), "little")


def _is_beyond_chance(
    files: Sequence[Cells],
    columns: Sequence[ColumnSchema],
    times: Int[Array, " m"],
    pairs: float,
) -> bool:
    """Return True if so many equal rows are no chance.

    If columns were independent, two rows would be equal with the product of the chances that two
    cells of a column are. Dependent columns are equal more often, hence the factor.
    """
    rows = sum(file.rows for file in files)
    if beyond_chance(np.bincount(times)):
        return True
    chance = 1.0
    for column in columns:
        counts = Counter[str]()
        for file in files[:5]:
            sample = SourceColumn(file.columns[column.name].data.slice(0, SAMPLE))
            counts.update(sample.words.counts())
        total = counts.total()
        equal = sum(n * (n - 1) for n in counts.values()) + 1
        chance *= equal / (total * (total - 1)) if total > 1 else 1
    return pairs > 100 * chance * rows * (rows - 1) / 2


SAMPLE = 1000
"""Rows of a file from which the chance of equal cells is estimated."""
