"""A file of scores or decisions, by whatever classifier, as the subject of an audit."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedfb.audit.rows import SiloRows, Subject, deal
from fedfb.data.check import labels
from fedfb.data.groups import Groups, groups_in
from fedfb.data.partition import by_column
from fedfb.data.read import Cells, read_cells
from fedfb.data.table import Table, parse_number
from fedfb.errors import ConfigError, DataError
from fedfb.shapes import Array, Float, Int


class Columns(NamedTuple):
    """Which columns of a file say what; of ``score`` and ``decision`` one is needed at least."""

    label: str
    positive: str
    sensitive: tuple[str, ...]
    score: str | None = None
    decision: str | None = None
    threshold: float = 0.5
    silo: str | None = None


class Scored(NamedTuple):
    """The rows of a file: where they came from, and what it says of them."""

    source: str
    y: Int[Array, " n"]
    group: Int[Array, " n"]
    groups: Groups
    silo: Array
    score: Float[Array, " n"] | None
    decision: Float[Array, " n"]


def scores_subject(path: Path, columns: Columns, baseline: Path | None = None) -> Subject:
    """Read a file of scores; a baseline is another file, of the same rows in the same order."""
    scored = read_scores(path, columns)
    other = None if baseline is None else read_scores(baseline, columns)
    if other is not None:
        refuse_other_rows(scored, other)
    owner, names = by_column(scored.silo)
    rows = SiloRows(
        scored.y, scored.group, scored.decision, scored.score,
        None if other is None else other.decision,
    )  # fmt: skip
    about = {
        "kind": "scores",
        "name": path.name,
        "data": str(path),
        "label": columns.label,
        "positive": columns.positive,
        "rows": "all rows of the file",
        "decided_by": decided_by(columns),
        "baseline": None if baseline is None else baseline.name,
        "hashes": {path.name: digest(path)},
    }
    return Subject(deal(owner, names, rows), scored.groups.names, columns.sensitive, about)


def decided_by(columns: Columns) -> str:
    """Say where decisions come from.

    >>> decided_by(Columns("y", "1", ("sex",), score="score"))
    'score of at least 0.5'
    """
    if columns.decision is not None:
        return f"column {columns.decision}"
    return f"{columns.score} of at least {columns.threshold:g}"


def read_scores(path: Path, columns: Columns) -> Scored:
    """Read one file of scores or decisions."""
    if columns.score is None and columns.decision is None:
        raise ConfigError(
            "a scores file needs the column of its scores (--score) or decisions (--decision)."
        )
    if not 0 <= columns.threshold <= 1:
        raise ConfigError(f"--threshold is {columns.threshold:g}, expected 0 to 1.")
    cells = read_cells(path)
    table = Table({name: np.array(c, object) for name, c in cells.columns.items()}, cells.source)
    y = labels(table, columns.label, columns.positive)
    refuse_absent(table, columns.label, columns.positive)
    groups = groups_in(table, columns.sensitive)
    group = groups.group_of(table)
    score = None if columns.score is None else _numbers(table, cells, columns.score, _is_chance)
    if columns.decision is not None:
        decision = _numbers(table, cells, columns.decision, _is_decision)
    else:
        assert score is not None  # one of both was given
        decision = (score >= columns.threshold).astype(np.float64)
    silo = np.full(len(table), path.stem, object)
    if columns.silo is not None:
        silo = table.text(columns.silo)
        refuse_missing(table, columns.silo)
    return Scored(cells.source, y, group, groups, silo, score, decision)


def refuse_absent(table: Table, label: str, positive: str) -> None:
    """Refuse a favourable value that the label never has."""
    values = sorted(set(table.text(label).tolist()))
    if positive not in values:
        shown = ", ".join(values[:10]) + (", ..." if len(values) > 10 else "")
        raise DataError(
            f"{table.source}: the favourable value {positive!r} never occurs in the label column "
            f"{label!r}, whose values are {shown}. Choose one of these with --positive."
        )


def refuse_missing(table: Table, column: str) -> None:
    """Refuse rows that do not say which silo they belong to."""
    missing = int((table.text(column) == "").sum())
    if missing:
        raise DataError(
            f"{table.source}: column {column!r} names the silo and is missing in {missing} of "
            f"{len(table)} rows. Fill it in or remove these rows."
        )


def refuse_other_rows(scored: Scored, other: Scored) -> None:
    """Refuse a baseline that does not speak of the same rows in the same order."""
    same_groups = scored.groups == other.groups and np.array_equal(scored.group, other.group)
    if not (same_groups and np.array_equal(scored.y, other.y)):
        raise DataError(
            f"the baseline {other.source} ({len(other.y)} rows) is not about the rows of "
            f"{scored.source} ({len(scored.y)} rows): labels or groups differ. Give the same rows "
            "in the same order."
        )


Valid = Callable[[Array], Array]


def _is_chance(values: Float[Array, " n"]) -> Array:
    return (values >= 0) & (values <= 1)


def _is_decision(values: Float[Array, " n"]) -> Array:
    return (values == 0) | (values == 1)


EXPECTED: dict[Valid, str] = {
    _is_chance: "a score from 0 to 1, the estimated chance of the favourable label. Bring the "
    "scores to this range (of logits: 1 / (1 + exp(-z)))",
    _is_decision: "1 for a favourable decision or 0. Write decisions so, or name a column of "
    "scores: --score",
}


def _numbers(table: Table, cells: Cells, column: str, valid: Valid) -> Float[Array, " n"]:
    """Return a column of numbers that are all valid; the first that is not is told."""
    given = table.column(column).tolist()
    found = [parse_number(cell) if cell else None for cell in given]
    values = np.array([np.nan if number is None else number for number in found])
    wrong = np.flatnonzero(~valid(values))
    if len(wrong):
        row = int(wrong[0])
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise DataError(
            f"{table.source}, line {cells.lines[row]}{more}, column {column!r}: {given[row]!r} is "
            f"not {EXPECTED[valid]}."
        )
    return values


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return sha256(path.read_bytes()).hexdigest()


def checked_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of sensitive columns, refusing none and repetitions."""
    if not names or len(set(names)) < len(names):
        raise ConfigError(
            "--sensitive takes different columns separated by commas, such as sex,race; got "
            f"{','.join(names) or 'none'}."
        )
    return tuple(names)
