"""Checks of labels, groups and clients: missing cells, absent values, words for yes and no."""

from collections import Counter
from collections.abc import Mapping, Sequence

from fedfb.data.cell_checks import NO, YES, fold, locate
from fedfb.data.schema import ColumnSchema, Role
from fedfb.tables.cells import Cells
from fedfb.tables.problems import Problem

MISSING_ROLES: Mapping[Role, tuple[str, str, str]] = {
    "label": (
        "missing label",
        "the label {name!r} is missing in {count} of {rows} rows",
        "Every row to train or test on needs one: fill it in, or remove these rows",
    ),
    "sensitive": (
        "missing group",
        "the sensitive column {name!r} is missing in {count} of {rows} rows",
        "Fill it in (a value such as 'unknown' makes them a group of their own), or remove these "
        "rows",
    ),
    "client": (
        "missing client",
        "column {name!r} decides the client and is missing in {count} rows",
        "Fill it in, or remove these rows",
    ),
}
"""Kind, sentence and remedy of missing cells, by the role of their column."""


def missing_cells(files: Sequence[Cells], name: str, role: Role) -> list[Problem]:
    """Return the missing cells of a label, a sensitive column or the column of clients."""
    kind, sentence, remedy = MISSING_ROLES[role]
    problems = []
    for file in files:
        column = file.columns[name]
        place = locate(column, lambda cell: not cell)
        if place.cells:
            what = sentence.format(name=name, count=place.cells, rows=file.rows)
            more = f'{remedy}, or have fedfb leave them out (in a schema: missing = "drop").'
            option = f'{name}: missing = "drop"'
            problems.append(Problem(file.source, kind, what, more, option, name, *place))
    return problems


def check_sizes(files: Mapping[str, Cells]) -> list[Problem]:
    """Return the files with too few rows to be a client, of files by the names of clients."""
    return [
        Problem(
            file.source,
            "few rows",
            f"client {name!r} has {file.rows} rows, and at least 2 are needed",
            "Is its file whole? Add rows, or leave the file out.",
            count=file.rows,
        )
        for name, file in files.items()
        if file.rows < 2
    ]


def check_labels(files: Sequence[Cells], column: ColumnSchema) -> list[Problem]:
    """Return whether the positive value never occurs, or no other value does."""
    name, positive = column.name, column.positive
    new_names = {value: new for new, values in column.merge for value in values}
    counts = [
        Counter({cell: n for cell, n in file.columns[name].words.counts().items() if cell})
        for file in files
    ]
    values: Counter[str] = Counter()
    for part in counts:
        for cell, n in part.items():
            values[new_names.get(cell, cell)] += n
    if not positive or not values:
        return []
    ordered = sorted(values)
    if positive not in values:
        first = ", ".join(ordered[:10]) + (", ..." if len(ordered) > 10 else "")
        kind = "absent positive"
        what = (
            f"the positive value {positive!r} never occurs in the label column {name!r}, whose "
            f"values are {first}"
        )
        remedy, option = "Choose one of these.", f"--positive {ordered[0]}"
    elif len(values) == 1:
        kind = "one label"
        what = f"all of the {values.total()} training rows have {name} = {positive!r}"
        remedy = "Two classes are needed: check the positive value, or add rows of the other class."
        option = ""
    else:
        return []
    return [
        Problem(file.source, kind, what, remedy, option, name, *locate(file.columns[name]))
        for file in files
    ]


def check_vocabulary(files: Sequence[Cells], column: ColumnSchema) -> list[Problem]:
    """Return the files whose labels are in other words than those of most: ja and nein for yes, no.

    Whatever is not the positive value would count as negative.
    """
    name, positive = column.name, column.positive
    merged = {value: new for new, values in column.merge for value in values}
    values = [{merged.get(v, v) for v in file.columns[name].words.counts() if v} for file in files]
    counts = Counter(value for part in values for value in part)
    foreign = set()
    for words in (YES, NO):
        alike = [value for value in counts if fold(value) in words]
        usual = max(alike, key=lambda v: (fold(v) == fold(positive), counts[v]), default="")
        if fold(positive) in YES:
            foreign |= {value for value in alike if fold(value) != fold(usual)}
    problems = []
    for number, (file, here) in enumerate(zip(files, values, strict=True)):
        others = set().union(*values[:number], *values[number + 1 :])
        folds = set(map(fold, others))
        apart = len(folds) > 1 and not folds & set(map(fold, here)) and positive not in here
        odd = here & foreign or (here if apart else set())
        if not odd:
            continue
        usual_values = sorted(set(counts) - odd)[:5]
        what = (
            f"the label {name!r} has the values {', '.join(map(repr, sorted(odd)))} here, beside "
            f"{', '.join(map(repr, usual_values))}"
        )
        option = _translate(name, odd, set(counts) - odd, positive)
        remedy = "Write labels alike in all files, or merge those that mean the same" + (
            f": {option}." if option else " (--merge)."
        )
        is_odd = {cell: merged.get(cell, cell) in odd for cell in (*merged, *counts, "")}
        place = locate(file.columns[name], is_odd.__getitem__)
        problems.append(Problem(file.source, "other values", what, remedy, option, name, *place))
    return problems


def _translate(name: str, odd: set[str], usual: set[str], positive: str) -> str:
    """Return a merge of words for yes and no; '' if the words are others."""
    negatives = sorted(value for value in usual if fold(value) in NO)
    if fold(positive) not in YES or not negatives or not all(fold(v) in YES | NO for v in odd):
        return ""
    yes, no = (sorted(v for v in odd if fold(v) in words) for words in (YES, NO))
    parts = [f"{'+'.join(yes)}={positive}"] * bool(yes)
    parts += [f"{'+'.join(no)}={negatives[0]}"] * bool(no)
    return f"--merge '{name}: {', '.join(parts)}'"
