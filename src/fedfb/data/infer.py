r"""Infer a schema from files: the role and type of each column, and doubts about it.

Identifiers, dates, free text and mixtures of numbers and text are doubtful as features. A rule
applies only where chance cannot explain the values: an income in whole dollars that never repeats
stays a feature.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import NamedTuple

import numpy as np

from fedfb.data.cells import Cells, SourceColumn
from fedfb.data.columns import MAX_CATEGORIES
from fedfb.data.declare import Merges, Wanted, parse_bins, parse_merge
from fedfb.data.marks import FEWEST, find_signs, name_sign
from fedfb.data.schema import ColumnSchema, Kind, Schema, check_declarations
from fedfb.data.table import all_numbers, check_same_columns, list_some, parse_number
from fedfb.errors import ConfigError, DataError, unknown_name
from fedfb.shapes import Array, Float

MAX_GROUP_VALUES = 20
"""The most values of a sensitive column without bins, merging or declaration."""


class Doubt(NamedTuple):
    """A column that should not be used undeclared: the reason, what to do, and where it shows."""

    column: str
    what: str
    remedy: str
    place: str = ""

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        return f"{place}column {self.column!r} {self.what}. {self.remedy}"


class Inferred(NamedTuple):
    """A schema, in which doubtful features are ignored, and the doubts."""

    schema: Schema
    doubts: tuple[Doubt, ...]


def infer(files: Sequence[Cells], wanted: Wanted) -> Inferred:
    """Infer the schema of files from their cells.

    Args:
        files: files with the same columns.
        wanted: declared roles of columns. A column without a role is a feature.

    """
    refuse_clashes(wanted)
    for file in files:
        for name in wanted.named:
            _refuse_absent(file.source, name, file.columns)
    sources = list_some([file.source for file in files], 3)
    for name in wanted.ignore:
        _refuse_absent(sources, name, set().union(*(file.columns for file in files)))
    bins, merge = parse_bins(wanted.bins), parse_merge(wanted.merge)
    _refuse_misplaced(bins, wanted.sensitive, "binned and is not sensitive")
    _refuse_misplaced(
        merge, (*wanted.sensitive, wanted.label), "merged and is neither sensitive nor the label"
    )
    parts = [without(file, wanted.ignore) for file in files]
    check_same_columns([(file.source, list(file.columns)) for file in parts])
    columns_and_doubts = [
        _infer_column(parts, name, wanted, bins, merge) for name in parts[0].columns
    ]
    ignored = [
        ColumnSchema(name, "ignored", "category", why="as declared") for name in wanted.ignore
    ]
    columns = (*(column for column, _ in columns_and_doubts), *ignored)
    schema = Schema(columns, wanted.sensitive, wanted.client_column, files[0].source)
    doubts = tuple(doubt for _, doubt in columns_and_doubts if doubt is not None)
    if not any(doubt.column in wanted.named for doubt in doubts):
        check_declarations(schema)
    return Inferred(schema, doubts)


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
) -> tuple[ColumnSchema, Doubt | None]:
    if name == wanted.client_column and name not in wanted.sensitive:
        return ColumnSchema(name, "client", "category"), None
    if name not in wanted.named:
        return _infer_feature(name, files)
    values = _list_values([file.columns[name] for file in files])
    if name == wanted.label:
        column = ColumnSchema(
            name,
            "label",
            _choose_kind(values),
            tuple(values),
            merge=merge.get(name, ()),
            positive=wanted.positive,
        )
        return column, _find_alike(name, column.group_values, files)
    return _infer_sensitive(name, values, bins.get(name, ()), merge.get(name, ()), files)


def _list_values(columns: Sequence[SourceColumn]) -> list[str]:
    return sorted({value for column in columns for value in column.words.counts()} - {""})


def _choose_kind(values: Sequence[str]) -> Kind:
    return "yes-no" if len(values) == 2 else "category"


def _infer_feature(name: str, files: Sequence[Cells]) -> tuple[ColumnSchema, Doubt | None]:
    columns = [file.columns[name] for file in files]
    why = suspicion(name, columns)
    numeric = _are_numbers(columns)
    values = [] if numeric else _list_values(columns)
    if why is None and not numeric and len(values) > MAX_CATEGORIES:
        why = (
            f"has {len(values)} different values, and at most {MAX_CATEGORIES} can be categories: "
            "an identifier or free text, it seems"
        )
    if why is not None:
        remedy = f"Leave it out (--ignore {name}), or declare what it is in a schema."
        return ColumnSchema(name, "ignored", "category", why=why), Doubt(
            name, why, remedy, _place_doubt(name, files)
        )
    if numeric:
        return ColumnSchema(name, "feature", "number", missing="mean"), None
    column = ColumnSchema(name, "feature", _choose_kind(values), tuple(values), missing="category")
    return column, None


def _place_doubt(name: str, files: Sequence[Cells]) -> str:
    """Return the first file whose column is doubtful by itself, else the first that differs."""
    columns = [file.columns[name] for file in files]
    for file, column in zip(files, columns, strict=True):
        if suspicion(name, [column]) is not None:
            return _place_text(file, column)
    numeric = [_are_numbers([column]) for column in columns]
    return _place_text(
        *min(zip(numeric, files, columns, strict=True), key=lambda part: part[0])[1:]
    )


def _place_text(file: Cells, column: SourceColumn) -> str:
    """Return a file, and the line of its first cell that is no number among some that are."""
    values = column.words.values
    is_text = [bool(cell) and parse_number(cell) is None for cell in values]
    if sum(is_text) in (0, sum(map(bool, values))):
        return file.source
    return file.place(int(column.words.look_up(is_text, bool).argmax()))


def _place_value(name: str, value: str, files: Sequence[Cells]) -> str:
    """Return the place of the first cell that has a value."""
    for file in files:
        rows = np.flatnonzero(file.columns[name].words == value)
        if len(rows):
            return file.place(int(rows[0]))
    return ""


def _infer_sensitive(
    name: str,
    values: Sequence[str],
    bins: tuple[float, ...],
    merge: Merges,
    files: Sequence[Cells],
) -> tuple[ColumnSchema, Doubt | None]:
    if bins:
        words = [value for value in values if parse_number(value) is None]
        if words:
            place = _place_value(name, words[0], files)
            raise DataError(
                f"{place}: column {name!r} is to be binned and holds {words[0]!r}, which is no "
                "number. Correct the cell, or merge the values instead (--merge)."
            )
        return ColumnSchema(name, "sensitive", "number", bins=bins, merge=merge), None
    column = ColumnSchema(name, "sensitive", _choose_kind(values), tuple(values), merge=merge)
    groups = column.group_values
    if len(groups) > MAX_GROUP_VALUES:
        reason = (
            f"is sensitive and has {len(groups)} different values, too many for groups (at most "
            f"{MAX_GROUP_VALUES})"
        )
        remedy = (
            f"Declare ranges, e.g. --bins '{name}: 25,40,65'."
            if all_numbers(values)
            else f"Merge values, e.g. --merge '{name}: {'+'.join(groups[:2])}=other'."
        )
        return column, Doubt(name, reason, remedy)
    return column, _find_alike(name, groups, files)


def _find_alike(name: str, values: Sequence[str], files: Sequence[Cells]) -> Doubt | None:
    """Doubt values that differ in case, spaces or a decimal point only: they make two groups."""
    spellings: dict[str, str] = {}
    for value in values:
        number = parse_number(value)
        bare = (
            "".join(unicodedata.normalize("NFKC", value).casefold().split())
            if number is None
            else repr(number)
        )
        if bare in spellings:
            reason = (
                f"has the values {spellings[bare]!r} and {value!r}, which are probably the same"
            )
            remedy = (
                "Write them alike, or declare them: --merge of a sensitive column, or a schema."
            )
            places = [_place_value(name, cell, files) for cell in (spellings[bare], value)]
            return Doubt(name, reason, remedy, " and ".join(filter(None, places)))
        spellings[bare] = value
    return None


def _refuse_absent(source: str, name: str, columns: Collection[str]) -> None:
    if name not in columns:
        has_numbers = any(parse_number(column) is not None for column in columns)
        hint = ". Some names are numbers: is the header line missing?" if has_numbers else ""
        raise DataError(f"{source}: {unknown_name('column', name, columns)}{hint}")


def _refuse_misplaced(declared: Collection[str], allowed: Sequence[str], use: str) -> None:
    for name in declared:
        if name not in allowed:
            raise ConfigError(f"column {name!r} is to be {use}. Name one of {', '.join(allowed)}.")


COINCIDENCES = 50
"""Numbers without a repetition are identifiers where chance would give this many."""

_ID_NAME = re.compile(
    r"(^|[\W_])(id|ids|uid|uuid|guid|ssn|iban|nr|no|key|pk|index|rowid|rownum)([\W_]|$)"
    r"|[a-z](Id|ID|Nr|Key)$|^unnamed: 0$",
)
_ISO = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})([T ]\d{1,2}:\d{2}.*)?$")
_DAY_FIRST = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4}|\d{2})([T ]\d{1,2}:\d{2}.*)?$")
_COMPACT = re.compile(r"((?:19|20)\d{2})(\d{2})(\d{2})(\.0)?$")


def suspicion(name: str, files: Sequence[SourceColumn]) -> str | None:
    """Return why a column should be no feature, None if there is no reason.

    Args:
        name: name of the column.
        files: the column in each file.

    >>> suspicion("customer", [SourceColumn.of([f"K{i}" for i in range(30)])])
    'looks like an identifier: its 30 values are all different'
    >>> suspicion("income", [SourceColumn.of([31000.0, 52000.0, 31000.0] * 10)]) is None
    True
    """
    if _are_numbers(files):
        parts = [column.numbers for column in files if column.numbers is not None]
        present = [numbers[~np.isnan(numbers)] for numbers in parts]
        enough = sum(map(len, present)) >= FEWEST
        return _suspect_numbers(name, present, files) if enough else None
    counts: Counter[str] = Counter()
    for column in files:
        counts.update(column.words.counts())
    counts.pop("", None)
    return _suspect_text(files, counts) if counts.total() >= FEWEST else None


def _are_numbers(files: Sequence[SourceColumn]) -> bool:
    """Return whether every cell is missing or a number, and not all are missing."""
    parts = [column.numbers for column in files]
    return all(part is not None for part in parts) and not all(
        np.isnan(part).all() for part in parts if part is not None
    )


def _suspect_numbers(
    name: str, present: Sequence[Array], files: Sequence[SourceColumn]
) -> str | None:
    if all(((part >= 19000101) & (part <= 20991231)).all() for part in present):
        values = [value for column in files for value in column.words.counts() if value]
        if all(map(_is_compact_date, values)):
            return f"looks like a date: {values[0]!r}"
    for numbers in present:
        whole = bool((np.isfinite(numbers) & (np.floor(numbers) == numbers)).all())
        # The last fractions decide nothing, and need not be sorted.
        if len(numbers) < FEWEST or (not whole and numbers is present[-1]):
            continue
        if not _all_differ(numbers):
            continue
        if not whole:
            return None
        if _ID_NAME.search(name) or _ID_NAME.search(name.lower()):
            return f"looks like an identifier: its name, and {len(numbers)} different whole numbers"
        low, high = float(numbers.min()), float(numbers.max())
        if len(numbers) * (len(numbers) - 1) / 2 > COINCIDENCES * (high - low + 1):
            return (
                f"looks like an identifier: {len(numbers)} whole numbers between {low:g} "
                f"and {high:g} without a repetition"
            )
    return None


def _all_differ(numbers: Float[Array, " n"]) -> bool:
    # Most columns repeat soon, and a sort of all rows takes time.
    parts = (numbers[:1000], numbers)
    return all(len(np.unique(part)) == len(part) for part in parts)


def _suspect_text(files: Sequence[SourceColumn], counts: Counter[str]) -> str | None:
    first, rows = next(iter(counts)), counts.total()
    if all(_is_date(cell) for cell in counts):
        return f"looks like a date: {first!r}"
    if len(counts) > FEWEST and (example := find_signs(counts)) is not None:
        sign = name_sign(example)
        return (
            f"looks like numbers with signs in them ({example!r}: {sign}): only bare ones are read"
        )
    parts = [counts, *(column.words.counts() for column in files if len(files) > 1)]
    if any(map(_are_mostly_numbers, parts)):
        words_only = [cell for cell in counts if parse_number(cell) is None]
        others = sum(counts[cell] for cell in words_only)
        return (
            f"holds {rows - others} numbers and {others} cells that are none, such as "
            f"{words_only[0]!r}"
        )
    words = sum(len(cell.split()) * count for cell, count in counts.items())
    if 2 * len(counts) > rows and words >= 5 * rows:
        return f"looks like free text: {_shorten(first)!r}"
    by_file = [Counter(column.words.counts()) for column in files]
    large = [part for part in by_file if part.total() - part.pop("", 0) >= FEWEST]
    if large and all(part.total() == len(part) for part in large):
        return f"looks like an identifier: its {len(large[0])} values are all different"
    return None


def _are_mostly_numbers(counts: Mapping[str, int]) -> bool:
    """Return whether most cells, of all files or of one, are numbers, and not just a few codes."""
    numbers = [n for cell, n in counts.items() if cell and parse_number(cell) is not None]
    present = sum(counts.values()) - counts.get("", 0)
    return 2 * sum(numbers) > present and len(numbers) > FEWEST


def _shorten(text: str) -> str:
    return text if len(text) <= 30 else text[:27] + "..."


def _is_date(cell: str) -> bool:
    if match := _ISO.match(cell):
        return _exists(match[1], match[2], match[3])
    if match := _DAY_FIRST.match(cell):
        year = match[3] if len(match[3]) == 4 else f"20{match[3]}"
        return _exists(year, match[2], match[1]) or _exists(year, match[1], match[2])
    return False


def _is_compact_date(cell: str) -> bool:
    match = _COMPACT.match(cell)
    return match is not None and _exists(match[1], match[2], match[3])


def _exists(year: str, month: str, day: str) -> bool:
    try:
        date(int(year), int(month), int(day))
    except ValueError:
        return False
    return True
