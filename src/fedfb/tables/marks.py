"""How the numbers of a file are written: decimal and thousands marks, from all cells together.

A column of text whose cells are numbers in one reading only is read so. A column with two readings
of different values ('1,234') follows what the other columns of its file show. If they show nothing,
the column stays undecided, and its numbers are an error that names the flag.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from fedfb.shapes import Array, Float
from fedfb.tables.cells import MISSING, Cells, SourceColumn
from fedfb.tables.dialect import DETECT, MARK_NAMES, Dialect

FEWEST = 20
"""Fewest cells that say something about a column."""

_SAMPLE = 1000
_SPACES = " \xa0\u2007\u2009\u202f"
_CLASSES = {"": "", " ": f"[{_SPACES}]", "'": "['\u2019]", ".": r"\.", ",": ","}
_DECIMALS, _THOUSANDS = (".", ","), (".", ",", " ", "'")
_SIGNS = re.compile(r"[€$£¥₩₹%‰]|\b(?:EUR|USD|GBP|CHF|JPY|KRW|SEK|NOK|DKK|PLN|CZK|kr)\b")

_UNIT = re.compile(
    r"(?<=[\d.,])\s*(?:[^\W\d_][^\W\d]{0,7}[²³]?|°[CF]?|[\"'])(?:/[^\W\d]{1,7}[²³]?)?$"
)
_TIME = re.compile(r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?")
MOST_UNITS = 3
"""Numbers with more different words behind them are codes."""


@cache
def _pattern(decimal: str, thousands: str) -> str:
    """Return the numbers of two marks, as an expression that both Python and Arrow read."""
    whole, mark = r"[0-9]+", re.escape(decimal)
    if thousands:
        between = _CLASSES[thousands]
        whole += rf"|[1-9][0-9]{{0,2}}(?:{between}[0-9]{{3}})+"
        if thousands == ",":  # 12,34,567 in India
            whole += r"|[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}"
    number = rf"(?:{whole})(?:{mark}[0-9]*)?|{mark}[0-9]+"
    return rf"^[-+\u2212]?(?:{number})(?:[eE][-+]?[0-9]+)?$".replace("\\u2212", "\u2212")


_PAIRS = tuple((d, t) for d in _DECIMALS for t in _THOUSANDS if d != t)
_ANY = "|".join(_pattern(*pair) for pair in _PAIRS)


class _Readings(NamedTuple):
    """The readings of a column: the thousands mark by decimal mark.

    ``neutral`` columns have neither points nor commas. ``plain`` cells are read by Arrow as they
    are. All cells of a ``whole`` column are numbers.
    """

    by_decimal: Mapping[str, str]
    neutral: bool = False
    plain: bool = False
    whole: bool = False


def settle_numbers(
    file: Cells, declared: Dialect, separator: str = ",", earlier: Dialect = DETECT
) -> Cells:
    """Rewrite numbers with marks as Arrow reads them, and note it; mark undecided columns.

    Args:
        file: cells as they are written.
        declared: marks that are declared; None: detected.
        separator: separator of the cells. A comma: a point is then the decimal mark.
        earlier: marks that earlier rows of the same file have shown.

    """
    if declared.decimal == "." and declared.thousands == "":
        return file
    texts = {name: column for name, column in file.columns.items() if column.is_text}
    marked = {}
    for name, column in texts.items():
        if column.cast is None and (readings := _find_readings(column)) is not None:
            marked[name] = readings
    is_comma = "," in (declared.decimal, earlier.decimal) or declared.thousands == "."
    if marked or separator != "," or is_comma:
        for name, column in texts.items():
            if column.cast is not None and (readings := _find_plain_readings(column)) is not None:
                marked[name] = readings
    return _decide(file, marked, declared, separator, earlier) if marked else file


def _find_readings(column: SourceColumn) -> _Readings | None:
    """Return the readings of a column that Arrow does not read; None if it is text."""
    from pyarrow import compute

    if not _may_hold_numbers(column):
        return None
    data = column.write()
    sample = _drop_missing(_trim(data.slice(0, _SAMPLE)))
    if not len(sample):
        sample = _drop_missing(_trim(data.drop_null().slice(0, _SAMPLE)))
    numbers = sample.filter(compute.match_substring_regex(sample, _ANY))
    if 2 * len(numbers) <= len(sample):
        return None
    cells, first = _trim(data).drop_null(), _list_readings(numbers)
    if first is not None and len(numbers) == len(sample):
        by_decimal = {d: t for d, t in first.by_decimal.items() if _matches(cells, _pattern(d, t))}
        if by_decimal:
            return _Readings(by_decimal, first.neutral and len(by_decimal) == 2, whole=True)
    counts = _drop_missing(cells).value_counts()  # slower: for columns that are not all alike
    values, rows = counts.field(0), counts.field(1)
    is_number = compute.match_substring_regex(values, _ANY)
    numbers = values.filter(is_number)
    if len(numbers) < len(values):
        by_numbers = compute.sum(rows.filter(is_number)).as_py() or 0
        if len(numbers) <= FEWEST or 2 * by_numbers <= compute.sum(rows).as_py():
            return None
    return _list_readings(numbers)


def _may_hold_numbers(column: SourceColumn) -> bool:
    """Return False if a column that repeats its values holds no number."""
    from pyarrow import types

    is_encoded = types.is_dictionary(column.data.type)
    return not is_encoded or _occurs(_trim(column.encoded[0]), _ANY)


def _list_readings(numbers: Any) -> _Readings | None:
    """Return the readings of cells that are all numbers; None if Arrow reads them as they are."""
    has = {mark: _occurs(numbers, _CLASSES[mark]) for mark in _THOUSANDS}
    if not any(has.values()):
        minus = _occurs(numbers, "\u2212")
        return _Readings(dict.fromkeys(_DECIMALS, ""), neutral=True) if minus else None
    by_decimal = {}
    for decimal in _DECIMALS:
        others = [mark for mark in _THOUSANDS if has[mark] and mark != decimal]
        if len(others) < 2:
            thousands = others[0] if others else ""
            if _matches(numbers, _pattern(decimal, thousands)):
                by_decimal[decimal] = thousands
    return _Readings(by_decimal, neutral=not (has["."] or has[","]))


def _drop_missing(cells: Any) -> Any:
    from pyarrow import compute

    cells = cells.drop_null()
    return cells.filter(compute.invert(compute.is_in(cells, _as_array(MISSING, cells.type))))


def _find_plain_readings(column: SourceColumn) -> _Readings | None:
    """Return the readings of a column that Arrow reads with a decimal point; None: has none."""
    if column.cast is not None and not _may_be_grouped(column.cast[:_SAMPLE]):
        return _Readings({".": ""}, plain=True)
    data = column.write()
    grouped = _pattern(",", ".")
    for part in (_trim(data.slice(0, _SAMPLE)).drop_null(), _trim(data).drop_null()):
        if not _matches(part, grouped):  # evidence is early in most columns
            return _Readings({".": ""}, plain=True)
    return _Readings({".": "", ",": "."}, plain=True) if _occurs(data, r"\.") else None


def _may_be_grouped(numbers: Float[Array, " n"]) -> bool:
    """Return whether no number shows that its point is a decimal mark: 1.5 does, 1.234 does not."""
    numbers = numbers[~np.isnan(numbers)]
    places = numbers * 1000
    return bool(((np.floor(numbers) == numbers) | (np.abs(places - np.round(places)) < 1e-6)).all())


def _decide(
    file: Cells,
    marked: Mapping[str, _Readings],
    declared: Dialect,
    separator: str,
    earlier: Dialect,
) -> Cells:
    allowed = {name: _restrict(readings, declared) for name, readings in marked.items()}
    shown = [r for r in allowed.values() if len(r.by_decimal) == 1 and not r.neutral]
    decimals = {decimal for readings in shown for decimal in readings.by_decimal}
    groups = {mark for r in allowed.values() for mark in [*r.by_decimal.values()][:1]
              if (r.neutral or len(r.by_decimal) == 1) and mark}  # fmt: skip
    decimals |= {earlier.decimal} if earlier.decimal else set()
    groups |= {earlier.thousands} if earlier.thousands else set()
    columns, notes = dict(file.columns), dict[tuple[str, str], list[str]]()
    for name, readings in allowed.items():
        choice = _choose(readings, decimals, groups, separator)
        if choice is None:
            doubt = _describe_doubt(file, name, marked[name], readings, declared)
            columns[name] = replace(columns[name], doubt=doubt)
        elif not (readings.plain and choice == "."):
            thousands = readings.by_decimal[choice]
            columns[name] = _rewrite(columns[name], choice, thousands, readings.whole)
            decimal = "" if readings.neutral or choice == "." else choice
            if (thousands or decimal) and not _is_declared(declared, decimal, thousands):
                notes.setdefault((decimal, thousands), []).append(name)
    sentences = [_describe_marks(file.source, *marks, names) for marks, names in notes.items()]
    dialect = replace(
        file.dialect,
        decimal=declared.decimal or (min(decimals) if len(decimals) == 1 else None),
        thousands=declared.thousands or (min(groups) if len(groups) == 1 else None),
    )
    return file._replace(columns=columns, notes=(*file.notes, *sentences), dialect=dialect)


def _restrict(readings: _Readings, declared: Dialect) -> _Readings:
    """Return the readings that declared marks allow."""
    by_decimal = {
        decimal: thousands
        for decimal, thousands in readings.by_decimal.items()
        if (readings.neutral or declared.decimal in (None, decimal))
        and (not thousands or declared.thousands in (None, thousands))
        and (readings.neutral or decimal != declared.thousands)
    }
    return readings._replace(by_decimal=by_decimal)


def _choose(
    readings: _Readings, decimals: Collection[str], groups: Collection[str], separator: str
) -> str | None:
    """Return the decimal mark of a column; None where nothing decides."""
    choices = readings.by_decimal
    if readings.neutral or len(choices) == 1:
        return next(iter(choices), None)
    fitting = [decimal for decimal in choices if decimal in decimals]
    if not decimals and groups:
        fitting = [decimal for decimal, mark in choices.items() if not mark or mark in groups]
    if len(fitting) == 1:
        return fitting[0]
    only_points = readings.by_decimal.get(".") == ""
    return "." if only_points and not decimals and separator == "," else None


def _is_declared(declared: Dialect, decimal: str, thousands: str) -> bool:
    return decimal in ("", declared.decimal) and thousands in ("", declared.thousands)


def _rewrite(column: SourceColumn, decimal: str, thousands: str, whole: bool) -> SourceColumn:
    """Write numbers without thousands marks and with a decimal point. Other cells stay."""
    from pyarrow import compute

    data = column.write()
    cells = numbers = _trim(data)
    if thousands in (".", ","):
        numbers = compute.replace_substring(numbers, thousands, "")
    elif thousands:
        numbers = compute.replace_substring_regex(numbers, _CLASSES[thousands], "")
    if decimal == ",":
        numbers = compute.replace_substring(numbers, ",", ".")
    numbers = compute.replace_substring(numbers, "\u2212", "-")
    if whole:
        return SourceColumn(numbers)
    is_number = compute.match_substring_regex(cells, _pattern(decimal, thousands))
    return SourceColumn(compute.if_else(is_number, numbers, data))


def _describe_marks(source: str, decimal: str, thousands: str, names: Collection[str]) -> str:
    marks = [f"{kind} {MARK_NAMES[mark]}" for kind, mark in
             (("decimal", decimal), ("thousands", thousands)) if mark]  # fmt: skip
    columns = "columns" if len(names) > 1 else "column"
    return f"{source}: {' and '.join(marks)}, detected in {columns} {', '.join(names)}"


def _describe_doubt(
    file: Cells, name: str, found: _Readings, allowed: _Readings, declared: Dialect
) -> str:
    """Say why the numbers of a column are undecided, with the line of a cell."""
    if not found.by_decimal:
        lines = [_find_cell(file, name, r"[0-9]\.[0-9]"), _find_cell(file, name, "[0-9],[0-9]")]
        cells = " and ".join(f"{cell!r} ({file.unit} {line})" for line, cell in lines if line)
        return (
            f"{file.source}, column {name!r}: the cells {cells} are numbers, but not with the same "
            "decimal and thousands marks. Write all cells of the column alike."
        )
    line, cell = _find_cell(file, name, "[.,]")
    place = f"{file.source}, {file.unit} {line}, column {name!r}"
    if not allowed.by_decimal:
        marks = " and ".join(
            f"--{kind} {mark!r}"
            for kind, mark in (("decimal", declared.decimal), ("thousands", declared.thousands))
            if mark is not None
        )
        return (
            f"{place}: {cell!r} is not a number with {marks}. "
            "Correct the declaration, or the cells."
        )
    values = " or ".join(_read(cell, d, t) for d, t in allowed.by_decimal.items())
    mark = "," if "," in cell else "."
    return (
        f"{place}: {cell!r} is {values}, and no other cell of "
        f"the file decides it. Say what the {MARK_NAMES[mark]} is: --decimal '{mark}' or "
        f"--thousands '{mark}' (of one file: [files.\"NAME\"] in a schema)."
    )


def _find_cell(file: Cells, name: str, pattern: str) -> tuple[int, str]:
    """Return the line and text of the first cell that holds a pattern; line 0 if none does."""
    from pyarrow import compute

    data = _trim(file.columns[name].write())
    row = compute.index(compute.match_substring_regex(data, pattern), True).as_py()
    return (0, "") if row < 0 else (file.lines_of(np.array([row]))[0], data[row].as_py())


def _read(cell: str, decimal: str, thousands: str) -> str:
    bare = re.sub(_CLASSES[thousands], "", cell) if thousands else cell
    return bare.replace(decimal, ".")


def _trim(data: Any) -> Any:
    from pyarrow import compute

    return compute.utf8_trim(data, characters=f"{_SPACES}\t\r\n\ufeff\u200b\u200e\u200f\u2060")


def _occurs(data: Any, pattern: str) -> bool:
    from pyarrow import compute

    return bool(compute.any(compute.match_substring_regex(data, pattern)).as_py())


def _matches(data: Any, pattern: str) -> bool:
    from pyarrow import compute

    return bool(compute.all(compute.match_substring_regex(data, pattern)).as_py())


def _as_array(values: Collection[str], kind: Any) -> Any:
    import pyarrow

    return pyarrow.array(sorted(values), kind)


def find_signs(cells: Collection[str]) -> str | None:
    """Describe a cell if all are numbers, and most have a sign or a unit; or if all are times.

    >>> find_signs(["7%", "12.5 %", "3"]), find_signs(["7%", "low"]), find_signs(["5 kg", "6 kg"])
    ("'7%': a percent sign", None, "'5 kg': a unit")
    """
    if cells and all(map(_TIME.fullmatch, cells)):
        return f"{next(iter(cells))!r}: a time of day"
    for pattern, limit in ((_SIGNS, len(cells)), (_UNIT, MOST_UNITS)):
        signs = {cell: match[0].strip() for cell in cells if (match := pattern.search(cell))}
        bare = (pattern.sub("", cell).strip() for cell in cells)
        is_meant = 2 * len(signs) > len(cells) and len(set(signs.values())) <= limit
        if is_meant and all(re.match(_ANY, cell) for cell in bare):
            cell, sign = next(iter(signs.items()))
            name = "a unit" if pattern is _UNIT else "a currency"
            return f"{cell!r}: {'a percent sign' if sign in '%‰' else name}"
    return None
