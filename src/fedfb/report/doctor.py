"""What ``fedfb doctor`` prints: files, problems by file, the details of each, and counts."""

import json
from collections.abc import Sequence
from io import StringIO
from itertools import groupby
from os.path import commonpath
from pathlib import Path
from string import ascii_uppercase

import msgspec

from fedfb.doctor.diagnose import Diagnosis, FileSummary
from fedfb.tables.problems import KINDS, Problem

WIDTH = 80
DOCTOR_SCHEMA = 1
"""The version of the JSON."""

MOST_COLUMNS = 8
"""The most files that have a column each in the table of problems."""

MOST_FILES = 20
"""The most files that are listed one by one."""

MOST_PLACES = 5
"""The most files whose first cells the details of a problem name."""


def print_diagnosis(diagnosis: Diagnosis) -> str:
    """Return a diagnosis as text for a terminal of 80 columns."""
    rows = group_problems(diagnosis.problems)
    summary = _summarise(diagnosis)
    if not rows:
        return "\n".join([f"{summary}: no problems.", *_describe_candidates(diagnosis)]) + "\n"
    sources = _list_sources(diagnosis)
    names = _shorten(sources)
    parts = [f"{summary}.", _file_table(diagnosis.files, names)]
    for stops, title in ((True, "STOPS A RUN"), (False, "WORTH A LOOK (stops no run)")):
        chosen = [
            (number, row) for number, row in enumerate(rows, start=1) if row[0].stops == stops
        ]
        if chosen:
            parts += [title, _problem_table(chosen, names)]
    parts += ["\n".join(_details(number, row, names)) for number, row in enumerate(rows, start=1)]
    parts += [table.text(WIDTH) for table in diagnosis.tables]
    parts += ["\n".join(lines) for lines in [_describe_candidates(diagnosis)] if lines]
    return "\n\n".join(parts) + "\n"


def group_problems(problems: Sequence[Problem]) -> list[list[Problem]]:
    """Return problems of the same kind and column together, one for each file."""
    grouped: dict[tuple[bool, str, str], list[Problem]] = {}
    for problem in problems:
        key = (problem.stops, problem.kind, problem.column)
        grouped.setdefault(key, []).append(problem)
    return list(grouped.values())


def _summarise(diagnosis: Diagnosis) -> str:
    files, problems = diagnosis.files, diagnosis.problems
    rows = sum(file.rows for file in files)
    unreadable = sum(problem.kind == "unreadable" for problem in problems)
    total = len(files) + unreadable
    text = f"{total} file{'s' * (total != 1)}, {rows:,} row{'s' * (rows != 1)}"
    if unreadable:
        text += f", {unreadable} not readable"
    kinds = group_problems(problems)
    stops = sum(row[0].stops for row in kinds)
    if kinds:
        text += f": {len(kinds)} problem{'s' * (len(kinds) != 1)}, of which {stops} stop"
        text += f"{'s' * (stops == 1)} a run"
    return text


def _list_sources(diagnosis: Diagnosis) -> list[str]:
    sources = [file.name for file in diagnosis.files]
    return sorted({*sources, *(problem.source for problem in diagnosis.problems)})


def _shorten(sources: Sequence[str]) -> dict[str, str]:
    """Return the names of files without the folder that they share."""
    folders = {str(Path(source).parent) for source in sources}
    shared = "" if len(folders) > 1 and not _have_common(folders) else commonpath(folders)
    return {
        source: str(Path(source).relative_to(shared)) if shared not in ("", ".") else source
        for source in sources
    }


def _have_common(folders: set[str]) -> bool:
    return len({Path(folder).is_absolute() for folder in folders}) == 1


def _file_table(files: Sequence[FileSummary], names: dict[str, str]) -> str:
    if len(names) > MOST_FILES:
        return _count_dialects(files)
    by_name = {file.name: file for file in files}
    rows = []
    for letter, source in zip(ascii_uppercase, names, strict=False):
        file = by_name.get(source)
        cells = ("not readable", *[""] * 4) if file is None else _file_cells(file)
        rows.append((letter, names[source], *cells))
    return _table(
        ("", "file", "rows", "columns", "separator", "decimal", "encoding"), rows, "llrrlll"
    )


def _file_cells(file: FileSummary) -> tuple[str, ...]:
    separator = {"\t": "tab", None: ""}.get(file.separator, file.separator) or ""
    decimal = " ".join(filter(None, (file.decimal, file.thousands and f"({file.thousands})")))
    return (f"{file.rows:,}", str(file.columns), separator, decimal, file.encoding or "")


def _count_dialects(files: Sequence[FileSummary]) -> str:
    """Return how many files have the same separator, decimal mark and encoding."""
    ordered = sorted(_file_cells(file)[1:] for file in files)
    rows = [(str(len([*group])), *cells) for cells, group in groupby(ordered)]
    return _table(("files", "columns", "separator", "decimal", "encoding"), rows, "rrlll")


def _problem_table(rows: Sequence[tuple[int, list[Problem]]], names: dict[str, str]) -> str:
    if len(names) > MOST_COLUMNS:
        cells = [
            (str(number), _title(row[0]), str(len(row)), _count(sum(p.count for p in row)))
            for number, row in rows
        ]
        return _table(("", "problem", "files", "cells"), cells, "rlrr")
    lines = []
    for number, row in rows:
        counts = {problem.source: 0 for problem in row}
        for problem in row:
            counts[problem.source] += problem.count
        shown = [_count(counts[s]) if s in counts else "\u00b7" for s in names]
        lines.append((str(number), _title(row[0]), *shown))
    letters = [letter for letter, _ in zip(ascii_uppercase, names, strict=False)]
    return _table(("", "problem", *letters), lines, "rl" + "r" * len(letters))


def _title(problem: Problem) -> str:
    title = KINDS[problem.kind].title
    return f"{problem.column}: {title}" if problem.column else title


def _count(number: int) -> str:
    """Write a count in at most five letters.

    >>> _count(0), _count(980), _count(25_000)
    ('x', '980', '25k')
    """
    if number < 10_000:
        return str(number) if number else "x"
    return f"{number // 1000}k" if number < 10_000_000 else f"{number // 1_000_000}M"


def _details(number: int, row: Sequence[Problem], names: dict[str, str]) -> list[str]:
    """Return what a problem is in each file, where it begins, and what settles it."""
    by_sentence: dict[str, list[Problem]] = {}
    for problem in row:
        by_sentence.setdefault(_sentence(problem, names), []).append(problem)
    lines: list[str] = []
    for problems in by_sentence.values():
        sentence = _sentence(problems[0], names)
        begin = f"{number:>2} " if not lines else "   "
        lines += _wrap(sentence, begin, "   ")
        places = [text for problem in problems if (text := _place(problem, names))]
        more = len(places) - MOST_PLACES
        if places:
            others = f", and {more} more files" if more > 0 else ""
            lines += _wrap(f"first: {'; '.join(places[:MOST_PLACES])}{others}", "   ", "   ")
    options = list(dict.fromkeys(p.option for p in row if p.option))
    if options:
        shown = "; ".join(options[:MOST_PLACES]) + ("; ..." if len(options) > MOST_PLACES else "")
        return [*lines, *_wrap(shown, "   -> ", "      ")]
    remedies = dict.fromkeys(problem.remedy for problem in row if problem.remedy)
    return [*lines, *(line for text in remedies for line in _wrap(text, "   -> ", "      "))]


def _sentence(problem: Problem, names: dict[str, str]) -> str:
    about_file = KINDS[problem.kind].place == "file"
    text = problem.sentence() if about_file else problem.what
    for source, name in names.items():
        text = text.replace(source, name)
    return text


def _place(problem: Problem, names: dict[str, str]) -> str:
    where = names[problem.source]
    if len(names) <= MOST_COLUMNS:
        where = ascii_uppercase[[*names].index(problem.source)]
    if not problem.line:
        return "" if KINDS[problem.kind].place == "file" else where
    example = problem.example if len(problem.example) <= 20 else problem.example[:17] + "..."
    cell = f" {example!r}" if problem.example else ""
    return f"{where} {problem.unit} {problem.line}{cell}"


def _describe_candidates(diagnosis: Diagnosis) -> list[str]:
    if diagnosis.candidates is None:
        return []
    lines = []
    for flag, candidates in (
        ("--label", diagnosis.candidates.label),
        ("--sensitive", diagnosis.candidates.sensitive),
    ):
        shown = [
            f"{name} ({', '.join(values)})" if 0 < len(values) <= 4 else name
            for name, values in candidates
        ]
        if shown:
            lines += _wrap(f"{flag}: candidates are {', '.join(shown)}", "", "  ")
    return lines or ["Name the label (--label) and the sensitive columns (--sensitive)."]


def _wrap(text: str, first: str, other: str) -> list[str]:
    from textwrap import wrap

    return wrap(text, WIDTH, initial_indent=first, subsequent_indent=other)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], sides: str) -> str:
    """Return a table as text; ``sides`` has l or r for each column."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title, side in zip(head, sides, strict=True):
        table.add_column(title, justify="right" if side == "r" else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    lines = StringIO()
    Console(file=lines, width=WIDTH, color_system=None, markup=False, emoji=False).print(table)
    return "\n".join(line.rstrip() for line in lines.getvalue().splitlines())


def survey_values(diagnosis: Diagnosis) -> str:
    """Return a diagnosis as JSON. The types are those of :mod:`fedfb.doctor.diagnose`."""
    tables = [
        {
            "rows_of": table.rows_of,
            "columns_of": table.columns_of,
            "row_names": table.row_names,
            "column_names": table.column_names,
            "counts": table.counts.tolist(),
        }
        for table in diagnosis.tables
    ]
    values = {
        "schema": DOCTOR_SCHEMA,
        "stops": diagnosis.stops,
        "files": diagnosis.files,
        "problems": diagnosis.problems,
        "tables": tables,
        "candidates": diagnosis.candidates,
    }
    return json.dumps(msgspec.to_builtins(values), indent=1, allow_nan=False)
