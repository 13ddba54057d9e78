r"""Columns that are no features, whatever they hold: identifiers, dates, free text, mixtures.

A rule speaks only where chance is out of the question, so that an income in whole dollars that
never repeats stays a feature.
"""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import date

from fedfb.data.table import all_numbers, parse_number

FEWEST = 20
"""Rows below which nothing is said of a column."""

COINCIDENCES = 50
"""So many repetitions chance would have brought: without any, numbers were given, not measured."""

_ID_NAME = re.compile(
    r"(^|[\W_])(id|ids|uid|uuid|guid|ssn|iban|nr|no|key|pk|index|rowid|rownum)([\W_]|$)"
    r"|[a-z](Id|ID|Nr|Key)$|^unnamed: 0$",
)
_ISO = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})([T ]\d{1,2}:\d{2}.*)?$")
_DAY_FIRST = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4}|\d{2})([T ]\d{1,2}:\d{2}.*)?$")
_COMPACT = re.compile(r"((?:19|20)\d{2})(\d{2})(\d{2})(\.0)?$")
_DECORATION = re.compile(r"[\s'\u2019_,%€$£]")
_DECIMAL_COMMA = re.compile(r"[-+]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?$")


def suspicion(name: str, silos: Sequence[Sequence[str]]) -> str | None:
    """Say what a column looks like that should be no feature, or None.

    ``silos`` are its cells in each file, '' where missing.

    >>> suspicion("customer", [[f"K{i}" for i in range(30)]])
    'looks like an identifier: its 30 values are all different'
    >>> suspicion("income", [["31000", "52000", "31000"] * 10]) is None
    True
    """
    present = [[cell for cell in cells if cell] for cells in silos]
    counts = Counter(cell for silo in present for cell in silo)
    if counts.total() < FEWEST:
        return None
    if all_numbers(counts):
        return _of_numbers(name, present, counts)
    return _of_text(present, counts)


def _of_numbers(name: str, present: Sequence[Sequence[str]], counts: Counter[str]) -> str | None:
    if all(_is_compact_date(cell) for cell in counts):
        return f"looks like a date: {next(iter(counts))!r}"
    for silo in present:
        if len(silo) < FEWEST or len(set(silo)) < len(silo):
            continue
        numbers = set(map(float, silo))
        if len(numbers) < len(silo):
            continue
        if not all(number.is_integer() for number in numbers):
            return None
        if _ID_NAME.search(name) or _ID_NAME.search(name.lower()):
            return f"looks like an identifier: its name, and {len(silo)} different whole numbers"
        if len(silo) * (len(silo) - 1) / 2 > COINCIDENCES * (max(numbers) - min(numbers) + 1):
            return (
                f"looks like an identifier: {len(silo)} whole numbers between {min(numbers):g} and "
                f"{max(numbers):g} without a repetition"
            )
    return None


def _of_text(present: Sequence[Sequence[str]], counts: Counter[str]) -> str | None:
    first, rows = next(iter(counts)), counts.total()
    if all(_is_date(cell) for cell in counts):
        return f"looks like a date: {first!r}"
    if all(map(_DECIMAL_COMMA.match, counts)):
        shown = next(cell for cell in counts if parse_number(cell) is None)
        return f"looks like numbers with a comma ({shown!r}), which are read with a point only"
    if len(counts) > FEWEST and all(_is_decorated(cell) for cell in counts):
        shown = next(cell for cell in counts if parse_number(cell) is None)
        return f"looks like numbers with signs in them ({shown!r}), which are read bare only"
    strange = [cell for cell in counts if parse_number(cell) is None]
    numbers = rows - sum(counts[cell] for cell in strange)
    if 2 * numbers > rows and len(counts) - len(strange) > FEWEST:
        return (
            f"holds {numbers} numbers and {rows - numbers} cells that are none, such as "
            f"{strange[0]!r}"
        )
    words = sum(len(cell.split()) * count for cell, count in counts.items())
    if 2 * len(counts) > rows and words >= 5 * rows:
        return f"looks like free text: {_shortened(first)!r}"
    large = [silo for silo in present if len(silo) >= FEWEST]
    if large and all(len(set(silo)) == len(silo) for silo in large):
        return f"looks like an identifier: its {len(large[0])} values are all different"
    return None


def _is_decorated(cell: str) -> bool:
    """Return whether a cell is a number but for thousands marks, a currency or a percent sign."""
    return parse_number(_DECORATION.sub("", cell)) is not None


def _shortened(text: str) -> str:
    return text if len(text) <= 30 else text[:27] + "..."


def _is_date(cell: str) -> bool:
    if found := _ISO.match(cell):
        return _exists(found[1], found[2], found[3])
    if found := _DAY_FIRST.match(cell):
        year = found[3] if len(found[3]) == 4 else f"20{found[3]}"
        return _exists(year, found[2], found[1]) or _exists(year, found[1], found[2])
    return False


def _is_compact_date(cell: str) -> bool:
    found = _COMPACT.match(cell)
    return found is not None and _exists(found[1], found[2], found[3])


def _exists(year: str, month: str, day: str) -> bool:
    try:
        date(int(year), int(month), int(day))
    except ValueError:
        return False
    return True
