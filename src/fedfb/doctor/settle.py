"""Write a schema that settles the problems of files, with the reason above each decision.

A person reads it before a run. What a schema cannot settle is left to that person.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

import numpy as np

from fedfb.data.cell_checks import keys_of, spelt_alike, usual_spelling
from fedfb.data.conform import examine
from fedfb.data.declare import Merges, Wanted, parse_merge
from fedfb.data.schema import ColumnSchema, Schema
from fedfb.data.schema_file import write_schema
from fedfb.data.suspicion import are_numbers
from fedfb.doctor.diagnose import Diagnosis, marks_of
from fedfb.tables.cells import Cells
from fedfb.tables.dialect import Dialect
from fedfb.tables.problems import Problem, name_files
from fedfb.tables.table import parse_number

MOST_WORDS = 5
"""The most different words in a column of numbers that are taken for missing values."""

USELESS = ("constant", "label copy", "client copy")
"""Kinds of problems of features that are left out."""

UNDECIDED = ("undecided number", "other values")
"""Kinds of problems that only a person can decide, where they have no option."""

DROPPED = ("missing label", "missing group", "missing client")


Comments = dict[tuple[str, str], list[str]]
"""Reasons of decisions about a column, ("columns", its name), or a file, ("files", its name)."""


class Settlement(NamedTuple):
    """A schema, comments by column and file, and the problems that it leaves."""

    schema: Schema
    comments: Comments
    left: tuple[Problem, ...]

    def text(self) -> str:
        """Return the schema as TOML."""
        return write_schema(self.schema, {k: _wrap(v) for k, v in self.comments.items()})


def settle(diagnosis: Diagnosis) -> Settlement:
    """Settle what a schema can settle."""
    by_column: dict[str, list[Problem]] = defaultdict(list)
    for problem in diagnosis.problems:
        if problem.column:
            by_column[problem.column].append(problem)
    cells, comments = diagnosis.cells, Comments()
    columns = []
    for column in diagnosis.schema.columns:
        holders = [file for file in cells if column.name in file.columns]
        settled, reasons = _settle_column(column, by_column[column.name], holders, len(cells))
        columns.append(settled)
        if reasons:
            comments["columns", column.name] = reasons
    files = _settle_files(diagnosis, comments)
    schema = replace(diagnosis.schema, columns=tuple(columns), files=files, source="the schema")
    unreadable = [p for p in diagnosis.problems if p.kind == "unreadable"]
    left = [p for p in examine(cells, Wanted("", "", ()), schema).problems if p.stops]
    doubtful = [p for p in diagnosis.problems if p.kind in UNDECIDED and not p.option]
    return Settlement(schema, comments, (*unreadable, *left, *doubtful))


def _settle_column(
    column: ColumnSchema, problems: Sequence[Problem], files: Sequence[Cells], total: int
) -> tuple[ColumnSchema, list[str]]:
    # Another name of a column in one file is settled, and said, where the schema names the file.
    kinds = {problem.kind: problem for problem in problems if problem.kind != "other name"}
    reasons = []
    if "mixture" in kinds and (blank := _words_among_numbers(files, column.name)):
        problem = kinds.pop("mixture")
        words = ", ".join(map(repr, blank))
        reasons.append(
            f"{_cite(problems, 'mixture', problem.what)}: cells such as {words} count as missing."
        )
        column = ColumnSchema(column.name, "feature", "number", missing="mean", blank=blank)
    if column.role == "ignored":
        return column, [
            *(f"LEFT OUT: {_cite(problems, k, p.what)}." for k, p in kinds.items()),
            *(["LEFT OUT, as declared."] if column.why == "as declared" else []),
        ]
    useless = [kind for kind in USELESS if kind in kinds]
    is_empty = sum(problem.kind == "empty" for problem in problems) == total
    if column.role == "feature" and (useless or is_empty):
        kind = useless[0] if useless else "empty"
        why = kinds[kind].what.partition(repr(column.name))[2].strip()
        return ColumnSchema(column.name, "ignored", "category", why=why), [
            f"LEFT OUT: {_cite(problems, kind, kinds[kind].what)}."
        ]
    for problem in problems:
        if problem.kind == "other values" and problem.option:
            column = replace(column, merge=_join_merges(column, problem.option))
            reasons.append(f"{_cite([problem], problem.kind, problem.what)}: CHECK the merge.")
    if "spelling" in kinds:
        merges = _merge_spellings(files, column)
        column = replace(column, merge=(*column.merge, *merges))
        reasons.append(f"{_cite(problems, 'spelling', kinds['spelling'].what)}: they become one.")
    for kind in DROPPED:
        if kind in kinds:
            counts = ", ".join(
                f"{p.count} in {Path(p.source).name} (first {p.unit} {p.line})"
                for p in problems
                if p.kind == kind
            )
            column = replace(column, missing="drop")
            reasons.append(f"Rows without a value are left out of training and test: {counts}.")
    if "code" in kinds:
        codes = tuple(dict.fromkeys(p.option.split('"')[1] for p in problems if p.kind == "code"))
        column = replace(column, blank=codes)
        whats = dict.fromkeys(p.what for p in problems if p.kind == "code")
        reasons += [f"{_cite(problems, 'code', what)}. It counts as missing." for what in whats]
    if "many groups" in kinds:
        column, reason = _choose_ranges(column, files)
        reasons.append(f"{_cite(problems, 'many groups', kinds['many groups'].what)}. {reason}")
    if "kinds differ" in kinds:
        reasons.append(_cite(problems, "kinds differ", kinds["kinds differ"].what) + ".")
    return column, reasons


def _join_merges(column: ColumnSchema, option: str) -> Merges:
    """Return the merges of a column and those of an option --merge '..'."""
    merges = {new: list(values) for new, values in column.merge}
    text = option.partition(f"'{column.name}: ")[2][:-1]
    for new, values in parse_merge([f"column: {text}"])["column"]:
        merges[new] = list(dict.fromkeys([*merges.get(new, []), *values]))
    return tuple((new, tuple(values)) for new, values in merges.items())


def _cite(problems: Sequence[Problem], kind: str, what: str) -> str:
    """Return what a problem is, and the files that have it."""
    names = list(dict.fromkeys(Path(p.source).name for p in problems if p.kind == kind))
    text = what[:1].upper() + what[1:]
    return f"{text} ({name_files(names)})"


def _words_among_numbers(files: Sequence[Cells], name: str) -> tuple[str, ...]:
    """Return the words in a column of numbers, if they are few; empty if they are many."""
    words = {
        value
        for file in files
        for value in file.columns[name].words.counts()
        if value and parse_number(value) is None
    }
    return tuple(sorted(words)) if len(words) <= MOST_WORDS else ()


def _merge_spellings(
    files: Sequence[Cells], column: ColumnSchema
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    counts: Counter[str] = Counter()
    for file in files:
        counts.update(file.columns[column.name].words.counts())
    merged = {value for _, values in column.merge for value in values}
    merges = []
    for alike in spelt_alike([v for v in column.categories if v not in merged]):
        usual = usual_spelling(alike, counts, column.positive)
        merges.append((usual, tuple(value for value in alike if value != usual)))
    return tuple(merges)


def _choose_ranges(column: ColumnSchema, files: Sequence[Cells]) -> tuple[ColumnSchema, str]:
    """Return a sensitive column with four ranges, where it holds numbers."""
    columns = [file.columns[column.name] for file in files]
    if not are_numbers(columns):
        return column, f"They stay {len(column.categories)} groups: MERGE them (merge = ...)."
    parts = [numbers for part in columns if (numbers := part.numbers) is not None]
    quartiles = np.nanquantile(np.concatenate(parts), (0.25, 0.5, 0.75))
    bins = tuple(sorted({float(f"{edge:.2g}") for edge in quartiles.tolist()}))
    ranges = ColumnSchema(column.name, "sensitive", "number", missing=column.missing, bins=bins)
    return ranges, "The quarters of the rows are ranges: CHOOSE your own."


def _settle_files(diagnosis: Diagnosis, comments: Comments) -> tuple[tuple[str, Dialect], ...]:
    """Return how each file is written, where that is unusual, and its names of columns."""
    by_source = defaultdict(list)
    for problem in diagnosis.problems:
        if problem.kind in ("other name", "dialect"):
            by_source[problem.source].append(problem)
    keys, declared = keys_of(diagnosis.cells), dict(diagnosis.schema.files)
    for file in diagnosis.cells:
        marks = marks_of(file)
        names = dict(diagnosis.names.get(file.source, {}))
        if not (marks or names):
            continue
        key = keys[file.source]
        declared[key] = Dialect(**marks, columns=tuple(names.items()) or None)
        comments["files", key] = [f"{p.sentence()}." for p in by_source[file.source]] or [
            "As it was read."
        ]
    return tuple(declared.items())


def _wrap(reasons: Sequence[str]) -> list[str]:
    """Return reasons as lines of comments. A line break in a cell must not end the comment."""
    plain = (" ".join(reason.split()) for reason in reasons)
    return [
        line
        for reason in plain
        for line in wrap(reason, 100, initial_indent="# ", subsequent_indent="#   ")
    ]
