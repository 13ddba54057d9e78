"""Checks of cells that every command makes: columns, missing cells, labels, spellings, wrong cells.

Each returns problems, of all files at once.
"""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedfb.data.dates import explain_cell, read_date, read_format
from fedfb.data.derive import Blank
from fedfb.data.schema import ColumnSchema, Schema
from fedfb.shapes import Array, Bool
from fedfb.tables.cells import Cells, SourceColumn, as_text
from fedfb.tables.problems import Problem
from fedfb.tables.table import parse_number


class Place(NamedTuple):
    """Some cells of a column: how many, the first row (-1: none), and its cell."""

    cells: int
    row: int = -1
    line: int = 0
    example: str = ""


def locate(column: SourceColumn, is_meant: Callable[[str], bool] | None = None) -> Place:
    """Return the cells that are meant; None: all that are not missing.

    >>> locate(SourceColumn.of(["a", "", "b"]), lambda cell: cell != "a")
    Place(cells=2, row=1, line=0, example='')
    """
    if is_meant is None and not column.doubt and column.numbers is not None:
        return place_of(column, ~np.isnan(column.numbers))
    words = column.words
    meant = [bool(cell) if is_meant is None else is_meant(cell) for cell in words.values]
    return place_of(column, words.look_up(meant, bool))


def place_of(column: SourceColumn, rows: Bool[Array, " n"]) -> Place:
    """Return the cells of the rows where ``rows`` is True."""
    count = int(np.count_nonzero(rows))
    if not count:
        return Place(0)
    row = int(np.argmax(rows))
    cells = column.data if column.read_text is None else column.read_text()
    return Place(count, row, 0, as_text(cells[row].as_py()) or "")


def fold(name: str) -> str:
    """Return what is left of a name without case, spaces, marks and widths of letters.

    >>> fold("Loan Amount") == fold("loan_amount") == fold("LoanAmount")
    True
    """
    plain = unicodedata.normalize("NFKC", name).casefold()
    return "".join(letter for letter in plain if letter.isalnum()) or plain


Names = Mapping[str, Mapping[str, str]]
"""By file: the names of columns in the file, and the names that they stand for."""


def match_columns(files: Sequence[Cells], roles: Collection[str]) -> tuple[Names, list[Problem]]:
    """Compare the columns of files, and find columns that have other names in some files.

    Args:
        files: the files.
        roles: columns whose names are declared.

    """
    holders: Counter[str] = Counter(name for file in files for name in file.columns)
    alike: dict[str, list[str]] = defaultdict(list)
    for name in holders:
        alike[fold(name)].append(name)
    names: dict[str, dict[str, str]] = {}
    problems = []
    for file in files:
        by_fold = Counter(map(fold, file.columns))
        for name in file.columns:
            variants = alike[fold(name)]
            usual = max(variants, key=lambda v: (v in roles, holders[v]))
            if name == usual or by_fold[fold(name)] > 1:
                continue
            names.setdefault(file.source, {})[name] = usual
            option = file_option(file.source, f'columns = {{ "{name}" = "{usual}" }}')
            problems.append(
                Problem(
                    file.source,
                    "other name",
                    f"has a column {name!r}, which is {usual!r} in {_other(files, usual)}",
                    f"Rename the column, or declare its name in a schema: {option}.",
                    option,
                    usual,
                    count=1,
                )
            )
    present = {
        file.source: {names.get(file.source, {}).get(name, name) for name in file.columns}
        for file in files
    }
    total = Counter(name for columns in present.values() for name in columns)
    for name, count in total.items():
        if count < len(files):
            is_usual = 2 * count >= len(files) or name in roles
            problems += _compare(files, present, name, is_usual, name in roles)
    return names, problems


def _other(files: Sequence[Cells], name: str) -> str:
    return next((file.source for file in files if name in file.columns), "the declaration")


def _compare(
    files: Sequence[Cells],
    present: Mapping[str, Collection[str]],
    name: str,
    is_usual: bool,
    has_role: bool,
) -> Iterator[Problem]:
    """Yield the files without a column that most have, or else the files with it."""
    having = next(file.source for file in files if name in present[file.source])
    lacking = next(file.source for file in files if name not in present[file.source])
    remedy = (
        f"All files need the same columns: add or remove it, or leave it out (--ignore {name})."
    )
    option = f"--ignore {name}"
    if has_role:
        option, remedy = "", "All files need this column: add it, or leave the file out."
    for file in files:
        if is_usual and name not in present[file.source]:
            what, kind = f"has no column {name!r}, but {having} has", "absent column"
        elif not is_usual and name in present[file.source]:
            what, kind = f"has a column {name!r}, and {lacking} has none", "extra column"
        else:
            continue
        yield Problem(file.source, kind, what, remedy, option, name, count=1)


def keys_of(files: Sequence[Cells]) -> dict[str, str]:
    """Return what a schema calls each file: its name, or its path where two have the same name."""
    names = Counter(Path(file.source).name for file in files)
    keys = {file.source: Path(file.source).name for file in files}
    return {source: key if names[key] == 1 else source for source, key in keys.items()}


def file_option(source: str, line: str) -> str:
    """Return the line of a schema file about one file."""
    return f'[files."{Path(source).name}"] {line}'


def undecided_numbers(files: Sequence[Cells], name: str) -> list[Problem]:
    """Return the files in which the numbers of a column have two readings."""
    problems = []
    for file in files:
        column = file.columns[name]
        if column.doubt:
            place = place_of(column, ~column.data.is_null().to_numpy())
            what, _, remedy = column.doubt.partition(". ")
            option = file_option(file.source, 'decimal = ","')
            problems.append(
                Problem(file.source, "undecided number", what, remedy, option, name, *place)
            )
    return problems


YES = frozenset(
    [
        *("yes", "y", "ja", "j", "oui", "o", "si", "sí", "sim", "s", "true", "t", "wahr", "vrai"),
        *("1", "да", "是", "はい", "예", "네"),
    ]
)
NO = frozenset(
    [
        *("no", "n", "nein", "non", "não", "nao", "false", "f", "falsch", "faux"),
        *("0", "нет", "否", "いいえ", "아니요"),
    ]
)
"""Words for yes and no, by which labels in other words are recognised."""


def spelt_alike(values: Collection[str]) -> list[list[str]]:
    """Return the values that differ in case, spaces, width of letters or a decimal point only.

    Where all values mean yes or no, in more than one language or way, those that mean the same are
    alike.

    >>> spelt_alike(["Yes", "no", "yes", "1", "1.0"]), spelt_alike(["ja", "nein", "0", "true"])
    ([['Yes', 'yes'], ['1', '1.0']], [['ja', 'true'], ['nein', '0']])
    """
    if len(values) > 2 and all(fold(value) in YES | NO for value in values):
        parts = [[value for value in values if fold(value) in words] for words in (YES, NO)]
        return [alike for alike in parts if len(alike) > 1]
    spellings: dict[str, list[str]] = defaultdict(list)
    for value in values:
        number = parse_number(value)
        plain = "".join(unicodedata.normalize("NFKC", value).casefold().split())
        spellings[plain if number is None else repr(number)].append(value)
    return [alike for alike in spellings.values() if len(alike) > 1]


def check_spellings(files: Sequence[Cells], column: ColumnSchema, stops: bool) -> list[Problem]:
    """Return values that are probably the same, in the files with a spelling that is not usual."""
    name = column.name
    new_names = {value: new for new, values in column.merge for value in values}
    counts: Counter[str] = Counter()
    problems = []
    alike_values = spelt_alike(column.group_values)
    for file in files if alike_values else ():
        counts.update(file.columns[name].words.counts())
    for alike in alike_values:
        usual = usual_spelling(alike, counts, column.positive)
        others = [value for value in alike if value != usual]
        is_other = {cell: new_names.get(cell, cell) in others for cell in (*counts, "")}
        what = (
            f"column {name!r} has the values {', '.join(map(repr, alike[:-1]))} and {alike[-1]!r}, "
            "which are probably the same"
        )
        option = f"--merge '{name}: {'+'.join(others)}={usual}'"
        remedy = "Write them alike, or declare them: --merge of a sensitive column, or a schema."
        for file in files:
            place = locate(file.columns[name], is_other.__getitem__)
            if place.cells:
                problems.append(
                    Problem(
                        file.source, "spelling", what, remedy, option, name, *place, stops=stops
                    )
                )
    return problems


def usual_spelling(alike: Sequence[str], counts: Mapping[str, int], positive: str) -> str:
    """Return the declared spelling, or else the most frequent one."""
    return max(alike, key=lambda value: (value == positive, counts.get(value, 0)))


def check_cells(
    files: Sequence[Cells], column: ColumnSchema, allowed: Collection[str] = ()
) -> list[Problem]:
    """Return the cells of a column that do not fit its declaration, by file and kind.

    Args:
        files: files with the column.
        column: declarations about the column.
        allowed: kinds of problems that are not reported.

    """
    categories = frozenset(column.categories)
    problems = []
    for file in files:
        cells = file.columns[column.name]
        if column.kind == "number" and cells.doubt:
            problems += undecided_numbers([file], column.name)
            continue
        if column.kind == "number" and cells.numbers is not None:
            gaps_fit = column.missing != "refuse" or "missing cell" in allowed
            if not (np.isinf if gaps_fit else _is_not_finite)(cells.numbers).any():
                continue
        kinds = [_judge(cell, column, categories) for cell in cells.words.values]
        for kind in dict.fromkeys(filter(None, kinds)):
            rows = cells.words.look_up([other == kind for other in kinds], bool)
            if kind in allowed or not rows.any():
                continue
            place = place_of(cells, rows)
            values = cells.words[rows].counts()
            first = next(iter(values))
            sentence = _SENTENCES.get(kind, "").format(cell=first)
            what = f"column {column.name!r}: {sentence or explain_cell(first, column.format)}"
            if len(values) > 1:
                listed = ", ".join(map(repr, list(values)[1:MOST_VALUES]))
                more = ", ..." if len(values) > MOST_VALUES else ""
                what += f" (as are {listed}{more})"
            if place.cells > 1:
                what += f": {place.cells} cells in all"
            problems.append(
                Problem(
                    file.source,
                    kind,
                    what,
                    "Correct the cell (leave it empty if it is missing), or change the schema: "
                    "fedfb schema check lists all such cells.",
                    "",
                    column.name,
                    *place,
                )
            )
    return problems


MOST_VALUES = 5
"""The most wrong values of a column that a sentence names."""

_SENTENCES = {
    "missing cell": "the cell is empty",
    "undeclared value": "{cell!r} is not among the declared categories",
    "not a number": "{cell!r} is not a number",
    "not finite": "{cell!r} is not finite",
}


def _is_not_finite(numbers: Array) -> Array:
    return ~np.isfinite(numbers)


def _judge(cell: str, column: ColumnSchema, categories: frozenset[str]) -> str | None:
    """Return the kind of problem that a cell is, None if it fits."""
    if not cell:
        return "missing cell" if column.missing == "refuse" else None
    if column.kind == "date":
        return None if read_date(cell, read_format(column.format)) else "not a date"
    if column.kind != "number":
        return "undeclared value" if categories and cell not in categories else None
    number = parse_number(cell)
    if number is None:
        return "not a number"
    return "not finite" if abs(number) == float("inf") else None


def blank_cells(file: Cells, schema: Schema) -> Cells:
    """Return a file without the cells that the schema counts as missing."""
    columns = dict(file.columns)
    for column in schema.used:
        cells = columns.get(column.name)
        if not column.blank or cells is None:
            continue
        rule = Blank(column.name, column.name, column.blank)
        if cells.numbers is not None:
            rows = np.isin(cells.numbers, rule.numbers)
        else:
            rows = cells.words.look_up([rule.is_blank(c) for c in cells.words.values], bool)
        columns[column.name] = cells.blank(rows)
    return file._replace(columns=columns)


def rename(file: Cells, names: Mapping[str, str]) -> Cells:
    """Return a file with other names of columns."""
    if not names:
        return file
    return file._replace(columns={names.get(k, k): v for k, v in file.columns.items()})


def check_against(file: Cells, schema: Schema) -> list[Problem]:
    """Return the columns that the schema does not declare, and those that the file lacks."""
    declared, problems = schema.named, []
    for name in file.columns:
        if name not in declared:
            what = f"column {name!r} is not in {schema.source}"
            remedy = (
                "All files need the same columns: add or remove it, or declare it in the schema."
            )
            option = f'[columns."{name}"] role = "ignored"'
            problems.append(
                Problem(file.source, "undeclared column", what, remedy, option, name, file.rows)
            )
    for column in schema.used:
        if column.name not in file.columns:
            what = f"has no column {column.name!r}, but {schema.source} has"
            remedy = (
                "All files need the same columns: add or remove it, or declare it in the schema."
            )
            problems.append(
                Problem(file.source, "absent column", what, remedy, "", column.name, file.rows)
            )
    return problems
