"""Examine files as ``fedfb doctor`` does: problems, counts of crossed groups, and candidates."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedfb.core import MINIMUM_ROWS
from fedfb.data.cell_checks import Names, file_option, fold, match_columns, rename
from fedfb.data.conform import examine, rows_to_drop, tables_of
from fedfb.data.declare import Wanted
from fedfb.data.derive import derive
from fedfb.data.groups import groups_in
from fedfb.data.infer import MAX_GROUP_VALUES
from fedfb.data.label_checks import check_sizes
from fedfb.data.schema import ColumnSchema, Schema
from fedfb.doctor.rows import CrossedCounts, cross
from fedfb.doctor.survey import survey
from fedfb.shapes import Array, Int
from fedfb.tables.cells import Cells, SourceColumn
from fedfb.tables.dialect import Dialect, Dialects
from fedfb.tables.problems import KINDS, Problem, number_lines
from fedfb.tables.read import try_files
from fedfb.tables.table import Words, concat


@dataclass(frozen=True)
class FileSummary:
    """A file as it was read."""

    name: str
    rows: int
    columns: int
    separator: str | None
    decimal: str | None
    thousands: str | None
    encoding: str | None


@dataclass(frozen=True)
class Candidates:
    """Columns that may be the label, or sensitive, with their values."""

    label: tuple[tuple[str, tuple[str, ...]], ...]
    sensitive: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Diagnosis:
    """What ``fedfb doctor`` knows of files.

    Attributes:
        files: the files that can be read.
        problems: all problems, those that stop a run first.
        schema: the declared or inferred schema, in which doubtful columns are ignored.
        tables: rows by group and label, and by client and group.
        candidates: columns that may be the label, or sensitive; None where they are declared.
        cells: the contents of the files, with the names of columns as in the schema.
        names: by file, names of columns that other files write otherwise.
    """

    files: tuple[FileSummary, ...]
    problems: tuple[Problem, ...]
    schema: Schema
    tables: tuple[CrossedCounts, ...]
    candidates: Candidates | None
    cells: tuple[Cells, ...]
    names: Names

    @property
    def stops(self) -> bool:
        """Whether no run can use the files as they are."""
        return any(problem.stops for problem in self.problems)


def diagnose(
    data: str,
    wanted: Wanted,
    dialect: Dialect,
    declared: Schema | None = None,
    minimum: int = MINIMUM_ROWS,
) -> Diagnosis:
    """Read files and examine them. What cannot be read is reported, and the rest is examined.

    Args:
        data: paths, patterns and folders.
        wanted: declared roles of columns; label and sensitive columns may be empty.
        dialect: what is declared about how text files are written.
        declared: the schema; None: infer it.
        minimum: fewest rows of a group that is compared.

    """
    by_client, unreadable = try_files(data, Dialects(dialect, declared.files if declared else ()))
    files = [*by_client.values()]
    if not files:
        problems = tuple(unreadable)
        return Diagnosis((), problems, Schema((), ()), (), None, (), {})
    schema, problems = examine(files, wanted, declared)
    names, _ = match_columns(files, wanted.named)
    cells = [rename(file, names.get(file.source, {})) for file in files]
    small = [] if schema.client else check_sizes(by_client)
    found = [*unreadable, *small, *_describe_dialects(files), *problems]
    more = survey(cells, schema, minimum)
    counted, tables = _count_groups(by_client, cells, schema, minimum)
    seen = {(p.source, p.column, p.kind) for p in found}
    found += [p for p in (*more, *counted) if (p.source, p.column, p.kind) not in seen]
    order = [*KINDS]
    ordered = sorted(
        number_lines(found, files), key=lambda p: (not p.stops, order.index(p.kind), p.column)
    )
    summaries = tuple(_summarise(file) for file in files)
    is_declared = declared is not None or bool(wanted.label and wanted.sensitive)
    candidates = None if is_declared else find_candidates(cells, schema, wanted)
    return Diagnosis(summaries, tuple(ordered), schema, tables, candidates, tuple(cells), names)


def _summarise(file: Cells) -> FileSummary:
    dialect = file.dialect
    return FileSummary(
        file.source,
        file.rows,
        len(file.columns),
        dialect.separator,
        dialect.decimal,
        dialect.thousands,
        dialect.encoding,
    )


def _describe_dialects(files: Sequence[Cells]) -> list[Problem]:
    """Return how files were read, where this was detected and may be wrong."""
    problems = []
    for file in files:
        notes = [note.removeprefix(file.source).lstrip(" :,") for note in file.notes]
        if notes:
            what = "; ".join(notes)
            line = "; ".join(f"{k} = {v!r}" for k, v in marks_of(file).items())
            remedy = "Check that it is right" + (", and declare it in a schema." if line else ".")
            option = file_option(file.source, line) if line else ""
            problems.append(
                Problem(file.source, "dialect", what, remedy, option, count=1, stops=False)
            )
    return problems


def marks_of(file: Cells) -> dict[str, str]:
    """Return what a file has in place of comma, decimal point and UTF-8."""
    usual = {"separator": ",", "decimal": ".", "thousands": "", "encoding": "utf-8"}
    marks = {key: getattr(file.dialect, key) for key in usual}
    return {key: mark for key, mark in marks.items() if mark not in (None, usual[key])}


def _count_groups(
    by_client: Mapping[str, Cells], cells: Sequence[Cells], schema: Schema, minimum: int
) -> tuple[list[Problem], tuple[CrossedCounts, ...]]:
    """Count rows of groups, labels and clients; report small groups, and clients of one label."""
    roles = [column for column in schema.used if column.role != "feature"]
    names = [column.name for column in roles]
    whole = [
        (client, file)
        for client, file in zip(by_client, cells, strict=True)
        if all(name in file.columns for name in names)
    ]
    cells = [file for _, file in whole]
    by_client = dict(whole)
    is_readable = all(
        file.columns[column.name].numbers is not None
        for column in roles
        for file in cells
        if column.kind == "number"
    )
    if not schema.crossed or not cells or not is_readable:
        return [], ()
    part = replace(schema, columns=tuple(replace(column, missing="drop") for column in roles))
    tables = tables_of(cells, part)
    table = derive(concat(tables), part.derived)
    if not len(table):
        return [], ()
    groups = groups_in(table, schema.crossed)
    group = Words(groups.names, groups.group_of(table))
    file_numbers = np.repeat(np.arange(len(cells)), [len(t) for t in tables])
    by_file = Words(tuple(by_client), file_numbers)
    client = table.text(schema.client) if schema.client else by_file
    counts = [cross("client", client, "group", group)]
    problems = _small_groups(cells, part, group, file_numbers, minimum)
    for label in schema.of("label"):
        words = table.text(label.name)
        counts = [cross("group", group, label.name, words), *counts]
        problems += _clients_of_one_label(cells, client, words, label, file_numbers)
    return problems, tuple(counts)


def _small_groups(
    cells: Sequence[Cells], schema: Schema, group: Words, files: Int[Array, " n"], minimum: int
) -> list[Problem]:
    counts = group.counts()
    small = {name: n for name, n in counts.items() if n < minimum}
    if not small or len(counts) > MOST_GROUPS:
        return []
    ordered = sorted(small, key=lambda name: (small[name], name))
    listed = ", ".join(f"{name} ({small[name]})" for name in ordered[:5])
    what = (
        f"groups of fewer than {minimum} rows are not compared: {listed}"
        f"{', ...' if len(small) > 5 else ''}"
    )
    remedy = "Merge them into one group (--rest other), or by name (--merge)."
    is_small = group.look_up([name in small for name in group.values], bool)
    problems = []
    for number, file in enumerate(cells):
        hits = is_small[files == number]
        if hits.any():
            row = int(np.flatnonzero(~rows_to_drop(file, schema))[hits.argmax()])
            example = group.values[group.codes[files == number][hits.argmax()]]
            problems.append(
                Problem(
                    file.source, "small group", what, remedy, "--rest other", schema.crossed[0],
                    int(hits.sum()), row, 0, example, stops=False,
                )
            )  # fmt: skip
    return problems


def _clients_of_one_label(
    cells: Sequence[Cells],
    client: Words,
    words: Words,
    label: ColumnSchema,
    files: Int[Array, " n"],
) -> list[Problem]:
    if not label.positive:
        return []
    positive = words == label.positive
    remedy = "Its rows say nothing about the other label. Check that the file is whole."
    problems = []
    for number, name in enumerate(client.values):
        rows = client.codes == number
        total, hits = int(rows.sum()), int(positive[rows].sum())
        if 0 < total < FEWEST_ROWS:
            source = cells[int(files[rows.argmax()])].source
            what = f"client {name!r} has {total} row and sits out of a run"
            few = "Add rows, or merge it with another client."
            problems.append(Problem(source, "few rows", what, few, "", "", total, stops=False))
        elif total and hits in (0, total):
            quantity = "all" if hits else "none"
            what = (
                f"client {name!r}: {quantity} of its {total} rows have {label.name} = "
                f"{label.positive!r}"
            )
            source = cells[int(files[rows.argmax()])].source
            problems.append(
                Problem(source, "one label", what, remedy, "", label.name, total, stops=False)
            )
    return problems


FEWEST_ROWS = 2
"""Fewest rows of a client that takes part in a run, if --client-rows does not say otherwise."""

MOST_GROUPS = 200
"""The most groups of which small ones are reported: more are values that need ranges."""

_LABEL = re.compile(
    r"label|target|class|outcome|approv|decision|hired|granted|risk|paid|default|readmi|recid|"
    r"accept|admit|churn|fraud|result|^y$"
)
_SENSITIVE = re.compile(
    r"sex|gender|geschlecht|genre|sexo|race|ethni|origin|migra|religion|national|citizen|foreign|"
    r"disab|marital|(^|[\W_])(age|alter|edad|birth)"
)


def find_candidates(cells: Sequence[Cells], schema: Schema, wanted: Wanted) -> Candidates:
    """Return columns whose names sound like a label or an attribute, where none is declared."""
    label: list[tuple[str, tuple[str, ...]]] = []
    pairs, sensitive = label.copy(), label.copy()
    for column in schema.used:
        if column.role != "feature":
            continue
        values = _few_values(cells, column.name)
        name = column.name.casefold()
        if _SENSITIVE.search(name):
            sensitive.append((column.name, values))
        elif len(set(map(fold, values))) == 2:
            (label if _LABEL.search(name) else pairs).append((column.name, values))
    return Candidates(
        () if wanted.label else tuple(label or pairs), () if wanted.sensitive else tuple(sensitive)
    )


def _few_values(cells: Sequence[Cells], name: str) -> tuple[str, ...]:
    """Return the values of a column if there are few, by the first rows of each file."""
    values: set[str] = set()
    for file in cells:
        if name in file.columns:
            first = SourceColumn(file.columns[name].data.slice(0, 1000))
            values |= first.words.counts().keys() - {""}
    return tuple(sorted(values)) if len(values) <= MAX_GROUP_VALUES else ()
