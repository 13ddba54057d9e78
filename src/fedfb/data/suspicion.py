"""Doubt a column that should be no feature: identifiers, dates, free text, mixtures of both kinds.

A rule applies only where chance cannot explain the values: an income in whole dollars that never
repeats stays a feature.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import NamedTuple

import numpy as np

from fedfb.data.dates import LOOKS_LIKE
from fedfb.shapes import Array, Float
from fedfb.tables.cells import SourceColumn
from fedfb.tables.marks import FEWEST, find_signs
from fedfb.tables.table import parse_number

COINCIDENCES = 50
"""Numbers without a repetition are identifiers where chance would give this many."""

_ID_NAME = re.compile(
    r"(^|[\W_])(id|ids|uid|uuid|guid|ssn|iban|nr|no|key|pk|index|rowid|rownum)([\W_]|$)"
    r"|[a-z](Id|ID|Nr|Key)$|^unnamed: 0$",
)
_ISO = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})([T ]\d{1,2}:\d{2}.*)?$")
_DAY_FIRST = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4}|\d{2})([T ]\d{1,2}:\d{2}.*)?$")
_COMPACT = re.compile(r"((?:19|20)\d{2})(\d{2})(\d{2})(\.0)?$")


class Suspicion(NamedTuple):
    """Why a column should be no feature: the kind of problem, a predicate, and the cells it is of.

    ``is_doubtful`` returns True of the cells that show it; None: all cells that are not missing.
    """

    kind: str
    what: str
    is_doubtful: Callable[[str], bool] | None = None


def suspicion(name: str, files: Sequence[SourceColumn]) -> Suspicion | None:
    """Return why a column should be no feature, None if there is no reason.

    Args:
        name: name of the column.
        files: the column in each file.

    >>> suspicion("customer", [SourceColumn.of([f"K{i}" for i in range(30)])]).what
    'looks like an identifier: its 30 values are all different'
    >>> suspicion("income", [SourceColumn.of([31000.0, 52000.0, 31000.0] * 10)]) is None
    True
    """
    if are_numbers(files):
        parts = [column.numbers for column in files if column.numbers is not None]
        return _suspect_numbers(name, [_drop_missing(numbers) for numbers in parts], files)
    counts: Counter[str] = Counter()
    for column in files:
        counts.update(column.words.counts())
    counts.pop("", None)
    return _suspect_text(files, counts) if counts.total() >= FEWEST else None


def _drop_missing(numbers: Float[Array, " n"]) -> Float[Array, " m"]:
    missing = np.isnan(numbers)
    return numbers[~missing] if missing.any() else numbers


def are_numbers(files: Sequence[SourceColumn]) -> bool:
    """Return whether every cell is missing or a number, and not all are missing."""
    parts = [column.numbers for column in files if column.numbers is not None]
    return len(parts) == len(files) and any(
        not (np.isnan(part[:_FIRST]).all() and np.isnan(part).all()) for part in parts
    )


def _suspect_numbers(
    name: str, present: Sequence[Array], files: Sequence[SourceColumn]
) -> Suspicion | None:
    if sum(map(len, present)) < FEWEST:
        return None
    if all(_lie_between(part, 19000101.0, 20991231.0) for part in present):
        values = [value for column in files for value in column.words.counts() if value]
        if all(map(_is_compact_date, values)):
            return Suspicion("date", f"{LOOKS_LIKE}: {values[0]!r}")
    for place, numbers in enumerate(present):
        if len(numbers) < FEWEST or not _are_whole(numbers) or not _all_differ(numbers):
            continue
        # Fractions that never repeat in an earlier file show that the column is measured.
        earlier = [part for part in present[:place] if len(part) >= FEWEST]
        if any(not _are_whole(part) and _all_differ(part) for part in earlier):
            return None
        if _ID_NAME.search(name) or _ID_NAME.search(name.lower()):
            what = f"looks like an identifier: its name, and {len(numbers)} different whole numbers"
            return Suspicion("identifier", what)
        low, high = float(numbers.min()), float(numbers.max())
        if len(numbers) * (len(numbers) - 1) / 2 > COINCIDENCES * (high - low + 1):
            return Suspicion(
                "identifier",
                f"looks like an identifier: {len(numbers)} whole numbers between {low:g} "
                f"and {high:g} without a repetition",
            )
    return None


# Most columns are decided by their first rows, and a look at all rows takes time.
_FIRST = 1000


def _lie_between(numbers: Float[Array, " n"], low: float, high: float) -> bool:
    return all(bool(((part >= low) & (part <= high)).all()) for part in (numbers[:_FIRST], numbers))


def _are_whole(numbers: Float[Array, " n"]) -> bool:
    return all(
        bool((np.isfinite(part) & (np.floor(part) == part)).all())
        for part in (numbers[:_FIRST], numbers)
    )


def _all_differ(numbers: Float[Array, " n"]) -> bool:
    return all(len(np.unique(part)) == len(part) for part in (numbers[:_FIRST], numbers))


def _suspect_text(files: Sequence[SourceColumn], counts: Counter[str]) -> Suspicion | None:
    first, rows = next(iter(counts)), counts.total()
    if all(_is_date(cell) for cell in counts):
        return Suspicion("date", f"{LOOKS_LIKE}: {first!r}")
    words_only = [cell for cell in counts if parse_number(cell) is None]
    if len(counts) > FEWEST and (example := find_signs(counts)) is not None:
        what = f"looks like numbers with signs in them ({example}): only bare ones are read"
        return Suspicion("decorated number", what, _is_no_number)
    numbers = rows - sum(counts[cell] for cell in words_only)
    parts = [counts, *(column.words.counts() for column in files if len(files) > 1)]
    if any(map(_are_mostly_numbers, parts)):
        what = (
            f"holds {numbers} numbers and {rows - numbers} cells that are none, such as "
            f"{words_only[0]!r}"
        )
        return Suspicion("mixture", what, _is_no_number)
    words = sum(len(cell.split()) * count for cell, count in counts.items())
    if 2 * len(counts) > rows and words >= 5 * rows:
        return Suspicion("free text", f"looks like free text: {_shorten(first)!r}")
    by_file = [Counter(column.words.counts()) for column in files]
    large = [part for part in by_file if part.total() - part.pop("", 0) >= FEWEST]
    if large and all(part.total() == len(part) for part in large):
        what = f"looks like an identifier: its {len(large[0])} values are all different"
        return Suspicion("identifier", what)
    return None


def _is_no_number(cell: str) -> bool:
    return bool(cell) and parse_number(cell) is None


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
