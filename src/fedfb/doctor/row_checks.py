"""Find rows that repeat within files and across them, and files that are copies of others."""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from fedfb.data.repeats import beyond_chance, mix_columns
from fedfb.data.schema import ColumnSchema, Schema
from fedfb.shapes import Array, Bool, Int, Num
from fedfb.tables.cells import Cells, SourceColumn
from fedfb.tables.problems import Problem, name_files


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
