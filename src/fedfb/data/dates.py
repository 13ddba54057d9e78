"""Dates as numbers: how a file writes them, and what a model reads of them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime

import numpy as np

from fedfb.errors import ConfigError, DataError
from fedfb.tables.table import Table

EXAMPLES = ("31.12.2024", "12/31/2024", "20241231", "31 Dec 2024")
"""Some ways to write the last day of 2024, as formats of a schema."""

QUANTITIES = ("year", "month", "weekday", "age in days at 2024-01-31", "age in years at 2024-01-31")
"""What can be derived from a date, with examples of a day to count to."""

LOOKS_LIKE = "looks like a date"
"""How the reason begins why an undeclared date is left out."""

_TIME = re.compile(r"[T ]\d{1,2}:\d{2}.*$", re.DOTALL)
_YEAR_FIRST = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})")
_YEAR_LAST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})[-/.](\d{4})")
_SHORT_YEAR = re.compile(r"\d{1,2}[-/.]\d{1,2}[-/.]\d\d")
_AGE = re.compile(r"age in (days|years) at (\d{4}-\d\d-\d\d)")
_PARTS = (("2024", "%Y"), ("December", "%B"), ("Dec", "%b"), ("31", "%d"), ("12", "%m"))


@dataclass(frozen=True)
class Dates:
    """Replace a date by a number: its year, month (1 to 12), weekday (Monday is 1), or an age.

    Ages in years are completed years, as people count them. ``format`` is the last day of 2024 as
    the files write it; dates that begin with a year of four digits and a mark are read in any case.

    >>> born = Table({"born": np.array(["1990-02-28", "01.03.1990", ""], object)})
    >>> rule = Dates("born", "age", "age in years at 2024-02-29", "31.12.2024")
    >>> rule.apply(born).numbers("age").tolist()
    [34.0, 33.0, nan]
    """

    source: str
    target: str
    quantity: str
    format: str = ""

    def apply(self, table: Table) -> Table:
        """Return the table with the column ``target``; a missing date stays missing."""
        cells, code = table.text(self.source), read_format(self.format)
        days = [read_date(cell, code) if cell else None for cell in cells.values]
        pairs = zip(cells.values, days, strict=True)
        wrong = cells.look_up([bool(cell) and day is None for cell, day in pairs], bool)
        if wrong.any():
            row = int(wrong.argmax())
            problem = explain_cell(cells.values[cells.codes[row]], self.format)
            raise DataError(f"{table.source}, row {row + 1}, column {self.source!r}: {problem}.")
        numbers = [np.nan if day is None else derive_number(day, self.quantity) for day in days]
        return table.with_column(self.target, cells.look_up(numbers, np.float64))


def check_quantity(quantity: str) -> None:
    """Refuse what cannot be derived from a date.

    >>> check_quantity("age in days at 2024-01-31")
    """
    match = _AGE.fullmatch(quantity)
    if quantity in QUANTITIES[:3] or (match and read_date(match[2], "")):
        return
    raise ConfigError(
        f"as is {quantity!r}, expected what to derive from the date: "
        f"{', '.join(map(repr, QUANTITIES[:-1]))} or {QUANTITIES[-1]!r}."
    )


def derive_number(day: date, quantity: str) -> float:
    """Return what is derived from a day.

    >>> derive_number(date(2024, 1, 1), "weekday"), derive_number(date(2023, 12, 31), QUANTITIES[3])
    (1.0, 31.0)
    """
    if match := _AGE.fullmatch(quantity):
        end = date.fromisoformat(match[2])
        if match[1] == "days":
            return float((end - day).days)
        return float(end.year - day.year - ((end.month, end.day) < (day.month, day.day)))
    numbers = {"year": day.year, "month": day.month, "weekday": day.isoweekday()}
    return float(numbers[quantity])


def read_format(example: str) -> str:
    """Return the code of a format, for ``strptime``, from the last day of 2024 in this format.

    >>> read_format("31.12.2024"), read_format("12/31/2024"), read_format("")
    ('%d.%m.%Y', '%m/%d/%Y', '')
    """
    code = example
    for part, sign in _PARTS:
        code = code.replace(part, sign, 1) if sign[-1] not in "bm" or "%B" not in code else code
    signs = sorted(re.findall("%[YBbdm]", code))
    if example and ("%" in example or signs not in _COMPLETE or re.search(r"\d", code)):
        raise ConfigError(
            f"format is {example!r}, expected the 31st of December 2024 as the files write it, "
            f"with a year of four digits: {', '.join(map(repr, EXAMPLES))}."
        )
    return code


_COMPLETE = [sorted(("%Y", "%d", month)) for month in ("%m", "%b", "%B")]


def read_date(cell: str, code: str) -> date | None:
    """Return the date that a cell holds, without the time of day; None where it holds none.

    >>> read_date("2024-01-31T10:00:00", ""), read_date("31.02.2024", "%d.%m.%Y")
    (datetime.date(2024, 1, 31), None)
    """
    text = _TIME.sub("", cell)
    try:
        if match := _YEAR_FIRST.fullmatch(text):
            return date(*map(int, match.groups()))
        day = datetime.strptime(text, code).date() if code else None
    except ValueError:
        return None
    # Without marks, 1112024 would be the 11th of January or the 1st of November.
    is_bare = day is not None and re.search("%.%", code)
    return None if is_bare and day and day.strftime(code) != text else day


def explain_cell(cell: str, example: str) -> str:
    """Say why a cell is no date, and how to declare the format if that may be the reason.

    Args:
        cell: a cell that :func:`read_date` does not read.
        example: the declared format; empty: none.

    >>> explain_cell("3.4.2024", "")  # doctest: +NORMALIZE_WHITESPACE
    "'3.4.2024' is 3 April 2024 or 4 March 2024: declare which, by format = '31.12.2024' or
    format = '12.31.2024'"
    >>> explain_cell("31.02.2024", "31.12.2024")
    "'31.02.2024' is not a date that exists, written as '31.12.2024'"
    """
    if _SHORT_YEAR.fullmatch(_TIME.sub("", cell)):
        short = cell[-2:]
        return f"{cell!r} may be of 19{short} or of 20{short}: write years with four digits"
    if example:
        return f"{cell!r} is not a date that exists, written as {example!r}"
    readings = dict(_list_readings(_TIME.sub("", cell)))
    formats = " or ".join(f"format = {form!r}" for form in readings)
    days = [f"{day.day} {day:%B %Y}" for day in readings.values()]
    if len(set(days)) == 2:
        return f"{cell!r} is {days[0]} or {days[1]}: declare which, by {formats}"
    if days:
        return f"{cell!r} seems to be {days[0]}: declare how dates are written, by {formats}"
    return f"{cell!r} is not a date that exists, written as '2024-12-31'"


def _list_readings(text: str) -> Iterator[tuple[str, date]]:
    """Yield the formats in which a text is a date, and the date."""
    forms = list(EXAMPLES)
    if match := _YEAR_LAST.fullmatch(text):
        forms = [match[2].join(("31", "12", "2024")), match[2].join(("12", "31", "2024"))]
    for form in forms:
        if day := read_date(text, read_format(form)):
            yield form, day
