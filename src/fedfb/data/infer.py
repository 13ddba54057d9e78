"""Infer a schema from files: the role and type of each column, and doubts about it.

Identifiers, dates, free text and mixtures of numbers and text are doubtful as features. A rule
applies only where chance cannot explain the values: an income in whole dollars that never repeats
stays a feature.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from fedfb.data.cell_checks import (
    check_cells,
    check_spellings,
    keys_of,
    locate,
    match_columns,
    rename,
    undecided_numbers,
)
from fedfb.data.columns import MAX_CATEGORIES
from fedfb.data.declare import Merges, Wanted, parse_bins, parse_dates, parse_merge
from fedfb.data.label_checks import check_labels, check_vocabulary, missing_cells
from fedfb.data.schema import ColumnSchema, Kind, Schema, check_column, check_declarations
from fedfb.data.suspicion import Suspicion, are_numbers, suspicion
from fedfb.errors import ConfigError, DataError, unknown_name
from fedfb.tables.cells import Cells
from fedfb.tables.dialect import Dialect
from fedfb.tables.problems import LEAVE_OUT, Problem
from fedfb.tables.table import all_numbers, list_some, parse_number

MAX_GROUP_VALUES = 20
"""The most values of a sensitive column without bins, merging or declaration."""


class Inferred(NamedTuple):
    """A schema, in which doubtful features are ignored, and the problems of the files."""

    schema: Schema
    problems: tuple[Problem, ...]


def infer(files: Sequence[Cells], wanted: Wanted) -> Inferred:
    """Infer the schema of files from their cells.

    Args:
        files: the files; columns that are not in all of them are problems, and are ignored.
        wanted: declared roles of columns. A column without a role is a feature.

    """
    refuse_clashes(wanted)
    for name in (*wanted.named, *wanted.ignore):
        _refuse_absent(files, name)
    bins, merge = parse_bins(wanted.bins), parse_merge(wanted.merge)
    _refuse_misplaced(bins, wanted.sensitive, "binned and is not sensitive")
    _refuse_misplaced(
        merge, (*wanted.sensitive, wanted.label), "merged and is neither sensitive nor the label"
    )
    dates = parse_dates(wanted.dates)
    for name in dates:
        _refuse_absent(files, name)
    _refuse_roles(dates, (wanted.label, wanted.client_column, *wanted.ignore))
    parts = [without(file, wanted.ignore) for file in files]
    names, problems = match_columns(parts, wanted.named)
    parts = [rename(file, names.get(file.source, {})) for file in parts]
    columns = []
    for name in dict.fromkeys(name for part in parts for name in part.columns):
        holders = [part for part in parts if name in part.columns]
        column, more = _infer_column(holders, name, wanted, bins, merge, dates)
        if len(holders) < len(parts) and column.role == "feature":
            why = f"in {len(holders)} of {len(parts)} files only"
            column, more = ColumnSchema(name, "ignored", "category", why=why), []
        columns.append(column)
        problems += more
    ignored = [
        ColumnSchema(name, "ignored", "category", why="as declared") for name in wanted.ignore
    ]
    schema = Schema(
        (*columns, *ignored),
        wanted.sensitive,
        wanted.client_column,
        files[0].source,
        files=tuple(
            (key, Dialect(columns=tuple(names[source].items())))
            for source, key in keys_of(files).items()
            if source in names
        ),
    )
    is_whole = wanted.label and wanted.sensitive
    if is_whole and not any(problem.column in wanted.named for problem in problems):
        check_declarations(schema)
    return Inferred(schema, tuple(problems))


def refuse_clashes(wanted: Wanted) -> None:
    """Refuse columns with two roles that exclude each other."""
    label, sensitive, client = wanted.label, wanted.sensitive, wanted.client_column
    if label in (*sensitive, client) or len(set(sensitive)) < len(sensitive):
        raise ConfigError(
            f"the label {label!r}, the sensitive columns {list(sensitive)} and the client column "
            f"{client!r}: the label must not be one of the others, and no sensitive column "
            "can be named twice."
        )
    for name in wanted.ignore:
        if name in wanted.named:
            raise ConfigError(f"column {name!r} is both named and left out by --ignore.")


def without(file: Cells, names: Sequence[str]) -> Cells:
    """Return a file without some columns. Absent ones are ignored."""
    return file._replace(columns={k: v for k, v in file.columns.items() if k not in names})


def _infer_column(
    files: Sequence[Cells],
    name: str,
    wanted: Wanted,
    bins: Mapping[str, tuple[float, ...]],
    merge: Mapping[str, Merges],
    dates: Mapping[str, tuple[str, str]],
) -> tuple[ColumnSchema, list[Problem]]:
    if name == wanted.client_column and name not in wanted.sensitive:
        return ColumnSchema(name, "client", "category"), missing_cells(files, name, "client")
    if name in dates:
        return _declare_date(files, name, dates[name], bins.get(name, ()), name in wanted.sensitive)
    if name not in wanted.named:
        return _infer_feature(name, files)
    values = _list_values(files, name)
    rules = merge.get(name, ())
    if name == wanted.label:
        kind = _choose_kind(values)
        label = ColumnSchema(
            name, "label", kind, tuple(values), merge=rules, positive=wanted.positive
        )
        problems = [*missing_cells(files, name, "label"), *check_labels(files, label)]
        problems += check_vocabulary(files, label)
        return label, [*check_spellings(files, label, stops=True), *problems]
    column, problems = _infer_sensitive(files, name, values, bins.get(name, ()), rules)
    return column, [*missing_cells(files, name, "sensitive"), *problems]


def _list_values(files: Sequence[Cells], name: str) -> list[str]:
    return sorted({v for file in files for v in file.columns[name].words.counts()} - {""})


def _choose_kind(values: Sequence[str]) -> Kind:
    return "yes-no" if len(values) == 2 else "category"


def _declare_date(
    files: Sequence[Cells],
    name: str,
    declared: tuple[str, str],
    bins: tuple[float, ...],
    is_sensitive: bool,
) -> tuple[ColumnSchema, list[Problem]]:
    quantity, example = declared
    column = ColumnSchema(
        name, "feature", "date", missing="mean", quantity=quantity, format=example
    )
    if is_sensitive:
        column = replace(column, role="sensitive", missing="refuse", bins=bins)
    check_column(column)
    return column, check_cells(files, column, allowed={"missing cell"})


def _infer_feature(name: str, files: Sequence[Cells]) -> tuple[ColumnSchema, list[Problem]]:
    columns = [file.columns[name] for file in files]
    undecided = undecided_numbers(files, name)
    if undecided:
        why = "numbers with marks of two meanings"
        return ColumnSchema(name, "ignored", "category", why=why), undecided
    doubt = suspicion(name, columns)
    numeric = are_numbers(columns)
    values = [] if numeric else _list_values(files, name)
    if doubt is None and not numeric and len(values) > MAX_CATEGORIES:
        what = (
            f"has {len(values)} different values, and at most {MAX_CATEGORIES} can be categories: "
            "an identifier or free text, it seems"
        )
        doubt = Suspicion("many values", what)
    if doubt is not None:
        remedy = f"Leave it out (--ignore {name}), or declare what it is in a schema."
        hint = f"; --dates '{name}: year' makes a number of it" if doubt.kind == "date" else ""
        sentence, option = f"column {name!r} {doubt.what}{hint}", f"{LEAVE_OUT}{name}"
        problems = [
            Problem(file.source, doubt.kind, sentence, remedy, option, name, *cells)
            for file in files
            if (cells := locate(file.columns[name], doubt.is_doubtful)).cells
        ]
        return ColumnSchema(name, "ignored", "category", why=doubt.what), problems
    if numeric:
        column = ColumnSchema(name, "feature", "number", missing="mean")
        return column, check_cells(files, column)
    kind = _choose_kind(values)
    return ColumnSchema(name, "feature", kind, tuple(values), missing="category"), []


def _infer_sensitive(
    files: Sequence[Cells],
    name: str,
    values: Sequence[str],
    bins: tuple[float, ...],
    merge: Merges,
) -> tuple[ColumnSchema, list[Problem]]:
    if bins:
        column = ColumnSchema(name, "sensitive", "number", bins=bins, merge=merge)
        return column, [
            replace(
                problem,
                what=f"column {name!r} is to be binned and holds {problem.example!r}, which is no "
                "finite number",
                remedy="Correct the cell, or merge the values instead (--merge).",
            )
            for problem in check_cells(files, column, allowed={"missing cell"})
        ]
    column = ColumnSchema(name, "sensitive", _choose_kind(values), tuple(values), merge=merge)
    groups = column.group_values
    if len(groups) <= MAX_GROUP_VALUES:
        return column, check_spellings(files, column, stops=True)
    reason = (
        f"column {name!r} is sensitive and has {len(groups)} different values, too many for groups "
        f"(at most {MAX_GROUP_VALUES})"
    )
    option = (
        f"--bins '{name}: 25,40,65'"
        if all_numbers(values)
        else f"--merge '{name}: {'+'.join(groups[:2])}=other'"
    )
    remedy = f"{'Declare ranges' if all_numbers(values) else 'Merge values'}, e.g. {option}."
    return column, [
        Problem(file.source, "many groups", reason, remedy, option, name, *cells)
        for file in files
        if (cells := locate(file.columns[name])).cells
    ]


def _refuse_absent(files: Sequence[Cells], name: str) -> None:
    if not any(name in file.columns for file in files):
        columns = {column for file in files for column in file.columns}
        has_numbers = any(parse_number(column) is not None for column in columns)
        hint = ". Some names are numbers: is the header line missing?" if has_numbers else ""
        sources = list_some([file.source for file in files], 3)
        raise DataError(f"{sources}: {unknown_name('column', name, columns)}{hint}")


def _refuse_roles(dates: Collection[str], others: Collection[str | None]) -> None:
    for name in dates:
        if name in others:
            raise ConfigError(
                f"column {name!r} is declared as a date (--dates), and is left out, the label or "
                "the client too. Dates are features, or sensitive with --bins."
            )


def _refuse_misplaced(declared: Collection[str], allowed: Sequence[str], use: str) -> None:
    for name in declared:
        if name not in allowed:
            raise ConfigError(f"column {name!r} is to be {use}. Name one of {', '.join(allowed)}.")
