"""Read files of scores or decisions, by any classifier, as the subject of an audit."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedfb.audit.result import About
from fedfb.audit.rows import (
    AuditedRows,
    Subject,
    deal_rows,
    digest,
    find_clients,
    refuse_absent,
    stack_columns,
)
from fedfb.data.check import labels
from fedfb.data.groups import Groups, groups_in
from fedfb.data.partition import Clients
from fedfb.errors import ConfigError, DataError
from fedfb.shapes import Array, Float, Int
from fedfb.tables.address import hide
from fedfb.tables.cells import Cells
from fedfb.tables.dialect import DETECT, Dialect, Dialects
from fedfb.tables.read import notes_of, read_files, read_rows
from fedfb.tables.sources import find_files
from fedfb.tables.table import parse_number

DEFAULT_THRESHOLD = 0.5


class Columns(NamedTuple):
    """What each column of a file holds; ``score`` or ``decision`` is needed, or both."""

    label: str
    positive: str
    sensitive: tuple[str, ...]
    score: str | None = None
    decision: str | None = None
    threshold: float = DEFAULT_THRESHOLD
    client: str | None = None


class _Scored(NamedTuple):
    """The rows of some files together: labels, groups, clients, scores and decisions."""

    source: str
    y: Int[Array, " n"]
    group: Int[Array, " n"]
    groups: Groups
    clients: Clients
    score: Float[Array, " n"] | None
    decision: Float[Array, " n"]
    notes: tuple[str, ...] = ()


def scores_subject(
    pattern: str, columns: Columns, baseline: str | None = None, dialect: Dialect = DETECT
) -> Subject:
    """Read files of scores.

    Args:
        pattern: path of a file, or a pattern of several.
        columns: what each column holds.
        baseline: file of another classifier's scores, with the same rows in the same order.
        dialect: how the files are written, where it is not detected.

    """
    if baseline is not None and Path(baseline).is_dir():
        raise ConfigError(
            f"the baseline {baseline} is a folder, and a model needs features, which a scores file "
            "does not have. Give its scores on these rows as a file."
        )
    pattern = hide(pattern)
    scored = read_scores(pattern, columns, dialect)
    other = None if baseline is None else read_scores(baseline, columns, dialect)
    if other is not None:
        refuse_other_rows(scored, other)
    rows = AuditedRows(
        scored.y, scored.group, scored.decision, scored.score,
        None if other is None else other.decision,
    )  # fmt: skip
    paths = find_files(pattern).paths
    kind = "file" if isinstance(paths[0], Path) else "table"
    about = About(
        kind="scores",
        name=paths[0].name if len(paths) == 1 else pattern,
        notion=None,
        data=pattern,
        label=columns.label,
        positive=columns.positive,
        rows="; ".join((f"all rows of the {kind}" + "s" * (len(paths) > 1), *scored.notes)),
        decided_by=describe_decision(columns),
        baseline=None if baseline is None else Path(baseline).name,
        hashes={str(path): digest(path) for path in paths if isinstance(path, Path)},
    )
    return Subject(deal_rows(*scored.clients, rows), scored.groups.names, columns.sensitive, about)


def describe_decision(columns: Columns) -> str:
    """Say which column holds the decisions.

    >>> describe_decision(Columns("y", "1", ("sex",), score="score"))
    'score of at least 0.5'
    """
    if columns.decision is not None:
        return f"column {columns.decision}"
    return f"{columns.score} of at least {columns.threshold:g}"


def read_scores(pattern: str, columns: Columns, dialect: Dialect = DETECT) -> _Scored:
    """Read scores or decisions. A client is a file, or a value of a column."""
    if columns.score is None and columns.decision is None:
        raise ConfigError(
            "a scores file needs the column of its scores (--score) or decisions (--decision)."
        )
    if not 0 <= columns.threshold <= 1:
        raise ConfigError(f"--threshold is {columns.threshold:g}, expected 0 to 1.")
    by_name = read_files(pattern, Dialects(dialect))
    files = [*by_name.values()]
    tables = [file.as_text() for file in files]
    table = stack_columns(tables, (columns.label, *columns.sensitive))
    y = labels(table, columns.label, columns.positive)
    refuse_absent(table, columns.label, columns.positive)
    groups = groups_in(table, columns.sensitive)
    score, decision = (
        None
        if name is None
        else np.concatenate([_read_numbers(file, name, valid) for file in files])
        for name, valid in ((columns.score, _is_chance), (columns.decision, _is_decision))
    )
    if decision is None:
        assert score is not None  # the first check refuses neither
        decision = (score >= columns.threshold).astype(np.float64)
    clients = find_clients([*by_name], tables, columns.client)
    return _Scored(
        table.source, y, groups.group_of(table), groups, clients, score, decision, notes_of(files)
    )


def read_decisions(path: Path, rows: int, dialect: Dialect = DETECT) -> Float[Array, " n"]:
    """Read decisions as ``fedfb predict`` prints them: a column decision, or a column score.

    Args:
        path: the file.
        rows: number of rows that the file must have.
        dialect: how the file is written, where it is not detected.

    """
    cells = read_rows(path, dialect)
    if cells.rows != rows:
        raise DataError(
            f"the baseline {path} has {cells.rows} rows, and {rows} are audited. Give the "
            "same rows in the same order."
        )
    if "decision" in cells.columns:
        return _read_numbers(cells, "decision", _is_chance)
    return (_read_numbers(cells, "score", _is_chance) >= DEFAULT_THRESHOLD).astype(np.float64)


def refuse_other_rows(scored: _Scored, other: _Scored) -> None:
    """Refuse a baseline whose rows are not the same, in the same order."""
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


_EXPECTED: dict[Valid, str] = {
    _is_chance: "a score from 0 to 1, the estimated chance of the favourable label. Bring the "
    "scores to this range (of logits: 1 / (1 + exp(-z)))",
    _is_decision: "1 for a favourable decision or 0. Write decisions so, or name a column of "
    "scores: --score",
}


def _read_numbers(file: Cells, column: str, valid: Valid) -> Float[Array, " n"]:
    """Return a column of numbers. The error names the first one that is not valid."""
    cells = file.as_text().text(column)
    # A comparison with nan is False, so an unreadable cell is never valid.
    numbers = [parse_number(cell) if cell else None for cell in cells.values]
    values = cells.look_up([np.nan if n is None else n for n in numbers], np.float64)
    wrong = np.flatnonzero(~valid(values))
    if len(wrong):
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise DataError(
            f"{file.place(int(wrong[0]))}{more}, column {column!r}: "
            f"{cells.values[cells.codes[wrong[0]]]!r} is not {_EXPECTED[valid]}."
        )
    return values


def check_column_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of sensitive columns. No name, or a name twice, is refused."""
    if not names or len(set(names)) < len(names):
        raise ConfigError(
            "--sensitive takes different columns separated by commas, such as sex,race; got "
            f"{','.join(names) or 'none'}."
        )
    return tuple(names)
