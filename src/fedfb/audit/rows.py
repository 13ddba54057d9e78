"""What is audited: every silo's rows with their decisions, which stay where they are.

The files of an audit: who owns which row, and what cannot be used.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedfb.data.partition import Clients, by_column
from fedfb.data.read import Cells, names_of
from fedfb.data.table import Table, concat
from fedfb.errors import DataError
from fedfb.files import read_bytes
from fedfb.shapes import Array, Float, Int


class SiloRows(NamedTuple):
    """One silo's rows. A decision is the chance of a favourable one: 0 or 1 unless randomised.

    ``score`` and ``baseline`` (another classifier's decisions) are None where there are none.
    """

    y: Int[Array, " n"]
    group: Int[Array, " n"]
    decision: Float[Array, " n"]
    score: Float[Array, " n"] | None = None
    baseline: Float[Array, " n"] | None = None


class Subject(NamedTuple):
    """What an audit is about: rows by silo, the groups' names, the attributes that form them.

    ``about`` says in plain values what was decided by whom, on which rows.
    """

    silos: Mapping[str, SiloRows]
    groups: tuple[str, ...]
    attributes: tuple[str, ...]
    about: Mapping[str, Any]

    @property
    def has_scores(self) -> bool:
        """Whether every silo has scores."""
        return all(rows.score is not None for rows in self.silos.values())

    @property
    def has_baseline(self) -> bool:
        """Whether there is another classifier to compare with."""
        return all(rows.baseline is not None for rows in self.silos.values())

    @property
    def randomised(self) -> bool:
        """Whether some decision is neither 0 nor 1; a property of the classifier, thus public."""
        return any(
            bool(((given != 0) & (given != 1)).any())
            for rows in self.silos.values()
            for given in (rows.decision, rows.baseline)
            if given is not None
        )


def check_subject(groups: Sequence[str], favourable: bool, about: Mapping[str, Any]) -> None:
    """Refuse rows that nothing can be said of: one group only, or labels that are all negative."""
    if len(groups) < 2:
        raise DataError(
            f"all rows are of one group ({', '.join(groups) or 'none'}), so there is "
            "nobody to compare it with. Name other columns with --sensitive, or add rows."
        )
    if not favourable:
        raise DataError(
            f"no row has the favourable label ({about.get('label')} = "
            f"{about.get('positive')!r}). Check --label and --positive."
        )


def deal(owner: Int[Array, " n"], names: Sequence[str], rows: SiloRows) -> dict[str, SiloRows]:
    """Give every silo its own rows; silos without any are left out.

    >>> y = np.array([0, 1, 1])
    >>> silos = deal(np.array([1, 0, 1]), ["a", "b", "c"], SiloRows(y, y * 0, y / 1.0))
    >>> {name: silo.y.tolist() for name, silo in silos.items()}
    {'a': [1], 'b': [0, 1]}
    """
    found = {}
    for number, name in enumerate(names):
        own = np.flatnonzero(owner == number)
        if len(own):
            score, baseline = (None if p is None else p[own] for p in rows[3:])
            y, group, decision = (part[own] for part in rows[:3])
            found[name] = SiloRows(y, group, decision, score, baseline)
    return found


def as_text(cells: Cells) -> Table:
    """Return a file's columns as they are written."""
    columns = {name: np.array(column, object) for name, column in cells.columns.items()}
    return Table(columns, cells.source)


def under_each_other(tables: Sequence[Table], names: Sequence[str]) -> Table:
    """Return some columns of all files as one table."""
    return concat([Table({name: t.column(name) for name in names}, t.source) for t in tables])


def owner_of(paths: Sequence[Path], tables: Sequence[Table], column: str | None) -> Clients:
    """Return the silo of every row: by a column, or else its file."""
    if column is not None:
        whose = under_each_other(tables, (column,))
        refuse_missing(whose, column)
        return by_column(whose.text(column))
    sizes = [len(table) for table in tables]
    return Clients(np.repeat(np.arange(len(paths)), sizes), names_of(list(paths)))


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


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return sha256(read_bytes(path, "the file that was read just before")).hexdigest()
