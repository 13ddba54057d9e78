"""Problems of files: what is wrong, where, how often, what settles it. All are reported at once.

Checks return problems. A command that cannot go on raises one error with all that stop it;
``fedfb doctor`` shows all of them.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fedfb.errors import DataError
from fedfb.tables.cells import Cells


class Kind(NamedTuple):
    """What problems of one kind have in common.

    ``title`` is short, for a table. ``place`` is what the sentence is about: a file (it continues
    the file's name), a column, some cells of a column, or a cell (these begin with the line).
    """

    title: str
    place: str = "column"


KINDS = {
    "unreadable": Kind("cannot be read", "file"),
    "dialect": Kind("decimals or encoding detected"),
    "few rows": Kind("too few rows"),
    "absent column": Kind("column is missing", "file"),
    "other name": Kind("name in other letters", "file"),
    "extra column": Kind("in few files only", "file"),
    "undeclared column": Kind("not in the schema"),
    "absent positive": Kind("positive value never occurs"),
    "one label": Kind("labels are all the same"),
    "missing label": Kind("label is missing", "cells"),
    "missing group": Kind("group is missing", "cells"),
    "missing client": Kind("client is missing", "cells"),
    "missing cell": Kind("cell is empty", "cell"),
    "many groups": Kind("too many groups"),
    "spelling": Kind("spelt in several ways", "cells"),
    "other values": Kind("labels in other words", "cells"),
    "not a number": Kind("no number", "cell"),
    "not a date": Kind("no date", "cell"),
    "not finite": Kind("not finite", "cell"),
    "undeclared value": Kind("value not in the schema", "cell"),
    "undecided number": Kind("numbers of two readings", "file"),
    "decorated number": Kind("numbers with signs", "cells"),
    "mixture": Kind("numbers and text mixed", "cells"),
    "date": Kind("dates"),
    "identifier": Kind("identifier"),
    "free text": Kind("free text"),
    "many values": Kind("too many values"),
    "label copy": Kind("tells the label"),
    "client copy": Kind("tells the file"),
    "kinds differ": Kind("number here, text elsewhere"),
    "code": Kind("a code among numbers"),
    "constant": Kind("constant"),
    "empty": Kind("empty"),
    "rare values": Kind("rare values"),
    "small group": Kind("small group"),
    "copy": Kind("copy of another file", "file"),
    "repeated rows": Kind("repeated rows", "file"),
    "shared rows": Kind("rows of other files", "file"),
}
"""All kinds, in the order in which they are shown."""


@dataclass(frozen=True)
class Problem:
    """What is wrong in one file.

    Attributes:
        source: the file.
        kind: one of ``KINDS``.
        what: a sentence without the file and without a full stop.
        remedy: sentences that say what to do.
        option: the flag or the schema line that settles it; empty where only a person can.
        column: the column; empty where the file is concerned.
        count: cells or rows that are concerned.
        row: the first of them, from 0; -1: none.
        line: its line in the file, from :func:`number_lines`; 0: none.
        unit: what ``line`` counts, "line" or "row".
        example: its cell.
        stops: whether no run can use the file as it is.
    """

    source: str
    kind: str
    what: str
    remedy: str
    option: str = ""
    column: str = ""
    count: int = 0
    row: int = -1
    line: int = 0
    example: str = ""
    unit: str = "line"
    stops: bool = True

    def sentence(self, with_source: bool = True) -> str:
        """Return the problem as a sentence without a full stop.

        Args:
            with_source: begin with the file, also where the sentence is not about the file.
        """
        place = KINDS[self.kind].place
        if self.kind in ("unreadable", "undecided number"):
            return self.what
        if place == "file":
            return f"{self.source} {self.what}"
        if place == "column" or not self.line:
            return f"{self.source}: {self.what}" if with_source else self.what
        at = f"{self.unit} {self.line}{',' if place == 'cell' else ':'} {self.what}"
        return f"{self.source}, {at}" if with_source else at


def number_lines(problems: Iterable[Problem], files: Sequence[Cells]) -> list[Problem]:
    """Look up the lines of all problems. Each file is looked into once, as that takes time."""
    problems, by_source = list(problems), {file.source: file for file in files}
    rows: dict[str, set[int]] = defaultdict(set)
    for problem in problems:
        if problem.row >= 0:
            rows[problem.source].add(problem.row)
    lines: dict[tuple[str, int], int] = {}
    for source, numbers in rows.items():
        ordered = np.array(sorted(numbers))
        ends = by_source[source].lines_of(ordered)
        lines |= {(source, row): end for row, end in zip(ordered.tolist(), ends, strict=True)}
    return [
        replace(p, line=lines[p.source, p.row], unit=by_source[p.source].unit) if p.row >= 0 else p
        for p in problems
    ]


def refuse(problems: Iterable[Problem], files: Sequence[Cells]) -> None:
    """Raise one error with all problems that stop a run, each under its file."""
    reasons = [problem for problem in problems if problem.stops]
    if reasons:
        raise DataError(describe(number_lines(reasons, files)))


def describe(problems: Sequence[Problem]) -> str:
    """Return one problem as a sentence, several as a list by file. The remedies follow."""
    files_of: dict[str, dict[str, None]] = defaultdict(dict)
    for problem in problems:
        files_of[problem.sentence(with_source=False)][problem.source] = None
    remedies = list(dict.fromkeys(filter(None, (_leave_out(problems), *_others(problems)))))
    if len(problems) == 1:
        return " ".join([f"{problems[0].sentence()}.", *remedies])
    if len(files_of) == 1 and KINDS[problems[0].kind].place != "file":
        [(sentence, names)] = files_of.items()
        return " ".join([f"{name_files(tuple(names))}: {sentence}.", *remedies])
    about_files = {p.sentence() for p in problems if KINDS[p.kind].place == "file"}
    sentences_of: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for sentence, names in files_of.items():
        if sentence not in about_files:
            sentences_of[tuple(names)].append(sentence)
    lines = [f"{len(files_of)} problems of the files:", *_shorten(sorted(about_files))]
    for files, sentences in sentences_of.items():
        lines += [name_files(files), *(f"  {text}" for text in _shorten(sentences))]
    if any(problem.kind != "unreadable" for problem in problems):
        remedies.append(
            "fedfb doctor counts each, and with --fix writes a schema that settles them."
        )
    return "\n".join([*lines, "What to do:", *(f"  {remedy}" for remedy in remedies)])


MOST = 20
"""The most problems of a file, and of whole files, in an error message."""


def _shorten(sentences: Sequence[str]) -> list[str]:
    more = [f"... and {len(sentences) - MOST} more"] if len(sentences) > MOST else []
    return [*sentences[:MOST], *more]


def name_files(names: Sequence[str]) -> str:
    """Name up to three files; of more, the first two.

    >>> name_files(["a.csv", "b.csv"]), name_files(list("abcdef"))
    ('a.csv, b.csv', 'a, b and 4 more files')
    """
    if len(names) <= 3:
        return ", ".join(names)
    return f"{', '.join(names[:2])} and {len(names) - 2} more files"


LEAVE_OUT = "--ignore "
"""What the option of a problem begins with, where a column can be left out."""


def _leave_out(problems: Sequence[Problem]) -> str:
    names = dict.fromkeys(p.column for p in problems if p.option.startswith(LEAVE_OUT))
    if not names:
        return ""
    listed = ",".join(names)
    return (
        f"Leave out what is no feature ({LEAVE_OUT}{listed!r}), or declare it in a schema "
        "(fedfb schema infer)."
    )


def _others(problems: Sequence[Problem]) -> list[str]:
    return [p.remedy for p in problems if not p.option.startswith(LEAVE_OUT)]
