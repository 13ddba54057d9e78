"""Checks that ``fedfb doctor`` alone makes: what stops no run, and may spoil its result.

They look at features that can be used: what is ignored has been reported already.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import log

import numpy as np

from fedfb.core import MINIMUM_ROWS
from fedfb.data.cell_checks import YES, Place, blank_cells, check_spellings, fold, locate, place_of
from fedfb.data.schema import ColumnSchema, Schema
from fedfb.doctor.rows import check_rows
from fedfb.shapes import Array, Float, Int
from fedfb.tables.cells import Cells, SourceColumn
from fedfb.tables.problems import LEAVE_OUT, Problem
from fedfb.tables.table import Words, number_as_text

CHANCE = log(1e-9)
"""A column determines the label where chance would do so less often than this."""

CODES = (-1.0, *(sign * (10.0**n - 1) for n in range(1, 7) for sign in (-1, 1)))
"""Numbers that often stand for a missing value: -1, 9, 99, 999 ..."""

FEWEST_CODES = 3
"""Fewest cells of a code."""


def survey(files: Sequence[Cells], schema: Schema, minimum: int = MINIMUM_ROWS) -> list[Problem]:
    """Return what may spoil a result.

    Args:
        files: files with the names of columns as in the schema.
        schema: the declared or inferred schema.
        minimum: fewest rows of a group that is compared, and of a category that is not rare.

    """
    files = [blank_cells(file, schema) for file in files]
    features = [c for c in schema.of("feature") if c.kind != "date" and _is_whole(files, c)]
    codes = _code_labels(files, schema)
    problems = []
    for column in features:
        problems += _check_feature(files, column, codes, minimum)
    return [*problems, *check_rows(files, schema)]


def _is_whole(files: Sequence[Cells], column: ColumnSchema) -> bool:
    """Return whether all files have a column, and numbers in it where they are declared."""
    if not all(column.name in file.columns for file in files):
        return False
    cells = [file.columns[column.name] for file in files]
    is_number = column.kind == "number"
    return not is_number or all(not c.doubt and c.numbers is not None for c in cells)


def _check_feature(
    files: Sequence[Cells],
    column: ColumnSchema,
    codes: Sequence[Int[Array, " _"]] | None,
    minimum: int,
) -> list[Problem]:
    name = column.name
    fixed = _find_fixed(files, name, is_number=column.kind == "number")
    if fixed is not None:
        return fixed
    problems = _find_gaps(files, name)
    copies = [] if codes is None else _find_label_copy(files, column, codes)
    if copies:
        return problems + copies
    if column.kind == "number":
        return problems + _find_vast(files, name) + _find_codes(files, name)
    problems += check_spellings(files, column, stops=False)
    return problems + _find_kinds(files, name) + _find_rare(files, name, minimum)


def _report(
    files: Sequence[Cells],
    name: str,
    kind: str,
    what: str,
    remedy: str,
    option: str,
    places: Callable[[SourceColumn], Place] = locate,
) -> list[Problem]:
    """Return one problem for each file that has such cells. It stops no run."""
    return [
        Problem(file.source, kind, what, remedy, option, name, *place, stops=False)
        for file in files
        if (place := places(file.columns[name])).cells
    ]


def _find_fixed(files: Sequence[Cells], name: str, is_number: bool) -> list[Problem] | None:
    """Return whether a column is empty, constant, or constant within each file."""
    values = [_single_value(file.columns[name], is_number) for file in files]
    ignore = f"{LEAVE_OUT}{name}"
    if all(value == "" for value in values):
        return _report_empty(files, name, "is empty in all files", "Leave it out.")
    present = [value for value in values if value != ""]
    if None in present:
        return None
    if len(set(present)) == 1:
        what = f"column {name!r} has the value {present[0]!r} in all rows"
        remedy = "It tells a model nothing: leave it out."
        return _report(files, name, "constant", what, remedy, ignore)
    if len(present) == len(files):
        what = f"column {name!r} has one value in each file, and others in other files"
        remedy = f"It names the client: leave it out, or --client-column {name}."
        return _report(files, name, "client copy", what, remedy, ignore)
    return None


def _single_value(column: SourceColumn, is_number: bool) -> str | None:
    """Return the only value of a column, '' if it is empty, None if it has several."""
    if is_number and column.numbers is not None:
        present = column.numbers[~np.isnan(column.numbers)]
        if len(present) and present.min() != present.max():
            return None
        return number_as_text(float(present[0])) if len(present) else ""
    values = [value for value in column.words.counts() if value]
    return None if len(values) > 1 else values[0] if values else ""


def _find_gaps(files: Sequence[Cells], name: str) -> list[Problem]:
    """Return the files in which a column is empty."""
    gaps = [file for file in files if not locate(file.columns[name]).cells]
    remedy = "Its cells count as missing. Fill it in, or leave the column out."
    return _report_empty(gaps, name, "is empty in this file, and is not in others", remedy)


def _report_empty(files: Sequence[Cells], name: str, what: str, remedy: str) -> list[Problem]:
    return _report(
        files,
        name,
        "empty",
        f"column {name!r} {what}",
        remedy,
        f"{LEAVE_OUT}{name}",
        lambda column: Place(len(column.data), 0),
    )


def _find_kinds(files: Sequence[Cells], name: str) -> list[Problem]:
    """Return the files that differ from most: numbers in some, text in others."""
    numeric = [file.columns[name].numbers is not None for file in files]
    filled = [bool(locate(file.columns[name]).cells) for file in files]
    by_kind = {
        kind: [f for f, n, full in zip(files, numeric, filled, strict=True) if full and n == kind]
        for kind in (True, False)
    }
    if not (by_kind[True] and by_kind[False]):
        return []
    fewer = len(by_kind[True]) < len(by_kind[False])
    here, there = ("numbers", "text") if fewer else ("text", "numbers")
    other = by_kind[not fewer][0].source
    what = f"column {name!r} holds {here} here and {there} in {other}: it is read as categories"
    remedy = "Write it alike in all files, or declare it a category in a schema."
    option = f'{name}: type = "category"'
    return [
        problem
        for file in by_kind[fewer]
        for problem in _report([file], name, "kinds differ", what, remedy, option, _locate_words)
    ]


def _locate_words(column: SourceColumn) -> Place:
    """Return the cells that are no numbers, or all cells if there are none."""
    if column.numbers is not None:
        return locate(column)
    single = {value: SourceColumn.of([value]).numbers is None for value in column.words.values}
    return locate(column, lambda cell: bool(cell) and single[cell])


def _find_rare(files: Sequence[Cells], name: str, minimum: int) -> list[Problem]:
    """Return categories with few rows over all files."""
    counts: Counter[str] = Counter()
    for file in files:
        counts.update(file.columns[name].words.counts())
    counts.pop("", None)
    rare = {value for value, count in counts.items() if count < minimum}
    if not rare or counts.total() < minimum:
        return []
    named = sorted(rare, key=lambda value: (counts[value], value))
    listed = ", ".join(f"{value} ({counts[value]})" for value in named[:5])
    more = ", ..." if len(rare) > 5 else ""
    values = "value is" if len(rare) == 1 else "values are"
    what = f"column {name!r}: {len(rare)} {values} in fewer than {minimum} rows: {listed}{more}"
    remedy = "A model learns little from them: merge them in a schema, or leave them."
    option = f'{name}: merge = {{ other = ["{named[0]}", ..] }}'
    return _report(
        files, name, "rare values", what, remedy, option, lambda c: locate(c, rare.__contains__)
    )


def _find_vast(files: Sequence[Cells], name: str) -> list[Problem]:
    """Return numbers that are too large to be added up, which a run refuses."""
    parts = [np.abs(part) for f in files if (part := f.columns[name].numbers) is not None]
    with np.errstate(over="ignore"):
        if np.isfinite(sum(np.nansum(part) for part in parts)):
            return []
    largest = max(float(np.nanmax(part)) for part in parts if not np.isnan(part).all())
    what = f"column {name!r}: numbers as large as {largest:g} cannot be averaged"
    remedy = "Correct the cells, or express the column in another unit."
    at = partial(_at_number, number=largest)
    return [
        replace(problem, stops=True)
        for problem in _report(files, name, "not finite", what, remedy, "", at)
    ]


def _find_codes(files: Sequence[Cells], name: str) -> list[Problem]:
    """Return a number that is far from all others, and occurs often: 999 for a missing value."""
    parts = [part for f in files if (part := f.columns[name].numbers) is not None]
    numbers = np.concatenate(parts)
    low, high = np.nanmin(numbers), np.nanmax(numbers)
    problems = []
    for code in {float(low), float(high)} & set(CODES):
        is_code = numbers == code
        rest = numbers[~is_code & ~np.isnan(numbers)]
        count = int(is_code.sum())
        if count < FEWEST_CODES or not len(rest):
            continue
        span = float(rest.max() - rest.min())
        is_far = (
            rest.min() >= 0 if code < 0 else code > rest.max() + max(span, 1)
        ) and code not in (float(rest.min()), float(rest.max()))
        if is_far:
            text = number_as_text(code)
            what = (
                f"column {name!r} has the number {text} in {count} rows, and else numbers from "
                f"{rest.min():g} to {rest.max():g}: a code for a missing value, it seems"
            )
            remedy = "Declare what counts as missing in a schema, or empty these cells."
            option = f'{name}: blank = ["{text}"]'
            problems += _report(
                files, name, "code", what, remedy, option, partial(_at_number, number=code)
            )
    return problems


def _at_number(column: SourceColumn, number: float) -> Place:
    return Place(0) if column.numbers is None else place_of(column, column.numbers == number)


def _code_labels(files: Sequence[Cells], schema: Schema) -> list[Int[Array, " _"]] | None:
    """Return the label of each row as a number, -1 where missing; None if it is not declared.

    Other spellings of the positive value, and other words for yes, are positive too.
    """
    labels = schema.of("label")
    if not labels or not all(labels[0].name in file.columns for file in files):
        return None
    label, numbers = labels[0], dict[str, int]()
    merged = {value: new for new, values in label.merge for value in values}
    codes = []
    for file in files:
        words = file.columns[label.name].words
        of_values = []
        for value in words.values:
            name, positive = fold(merged.get(value, value)), fold(label.positive)
            if label.positive:
                is_yes = name in YES and positive in YES
                name = "1" if name == positive or is_yes else "0"
            of_values.append(numbers.setdefault(name, len(numbers)) if value else -1)
        codes.append(words.look_up(of_values, np.int64))
    return codes


def _find_label_copy(
    files: Sequence[Cells], column: ColumnSchema, codes: Sequence[Int[Array, " _"]]
) -> list[Problem]:
    """Return whether a feature determines the label, also renamed, negated or rounded."""
    name, y = column.name, np.concatenate(codes)
    cells = [file.columns[name] for file in files]
    classes = np.bincount(y[y >= 0])
    if np.count_nonzero(classes) < 2:
        return []
    if column.kind == "number":
        numbers = np.concatenate([c.numbers for c in cells if c.numbers is not None])
        how = _determines_by_number(numbers, y)
    else:
        how = _determines_by_value([c.words for c in cells], y)
    if not how:
        return []
    what = f"column {name!r} determines the label: {how}"
    remedy = "It would not be known when a model decides, it seems: leave it out."
    return _report(files, name, "label copy", what, remedy, f"{LEAVE_OUT}{name}")


def _determines_by_number(numbers: Float[Array, " n"], y: Int[Array, " n"]) -> str:
    present = (y >= 0) & ~np.isnan(numbers)
    numbers, y = numbers[present], y[present]
    values = np.unique(y)
    if len(values) == 2:
        one, other = numbers[y == values[0]], numbers[y == values[1]]
        if one.min() > other.min():
            one, other = other, one
        # Chance puts all of one class below all of the other in 2 of binom(n, k) orders.
        if min(len(one), len(other)) > 1 and len(y) >= 20 and one.max() < other.min():
            return f"it is at most {one.max():g} for one value, and at least {other.min():g} else"
    sample = np.unique(numbers[:1000])
    if len(sample) > 50:
        return ""
    distinct, places = np.unique(numbers, return_inverse=True)
    return _describe_purity(np.asarray(places), len(distinct), y)


def _determines_by_value(parts: Sequence[Words], y: Int[Array, " n"]) -> str:
    index: dict[str, int] = {}
    numbers = [
        np.array([index.setdefault(value, len(index)) for value in part.values], np.int64)[
            part.codes
        ]
        for part in parts
    ]
    return _describe_purity(np.concatenate(numbers), len(index), y)


def _describe_purity(value: Int[Array, " n"], values: int, y: Int[Array, " n"]) -> str:
    r"""Return how a column determines the label, '' if chance could explain that.

    If a share :math:`p_c` of rows has label c, independent rows with equal cells, n of a value,
    have one label with probability :math:`\prod_v\sum_c p_c^{n_v}`.
    """
    present = y >= 0
    value, y = value[present], y[present]
    labels = int(y.max()) + 1
    table = np.bincount(value * labels + y, minlength=values * labels).reshape(values, labels)
    table = table[table.any(axis=1)]
    rows = table.sum(axis=1)
    wrong = int(rows.sum() - table.max(axis=1).sum())
    share = table.sum(axis=0) / rows.sum()
    rarer = int(rows.sum() * (1 - share.max()))
    if wrong * 100 > rarer:
        return ""
    with np.errstate(divide="ignore"):
        by_label = np.log(share)[None] * rows[:, None]
    chance = float(np.logaddexp.reduce(by_label, axis=1).sum())
    if chance + wrong * log(max(len(y), 2)) > CHANCE:
        return ""
    if wrong:
        return f"each of its values has one label, in all but {wrong} of {len(y)} rows"
    return "each of its values has one label"
