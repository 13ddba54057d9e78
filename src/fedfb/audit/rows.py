"""The rows that an audit is about: labels, groups and decisions by client, and their files."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedfb.audit.result import About
from fedfb.data.database import Database
from fedfb.data.partition import Clients, by_column
from fedfb.data.read import names_of
from fedfb.data.table import Table, concat
from fedfb.errors import DataError
from fedfb.files import read_bytes
from fedfb.shapes import Array, Float, Int


class AuditedRows(NamedTuple):
    """One client's rows. A decision is the chance of a favourable one: 0 or 1 unless randomised.

    ``score`` and ``baseline`` (another classifier's decisions) are None where there are none.
    """

    y: Int[Array, " n"]
    group: Int[Array, " n"]
    decision: Float[Array, " n"]
    score: Float[Array, " n"] | None = None
    baseline: Float[Array, " n"] | None = None


class Subject(NamedTuple):
    """What an audit is about: rows by client, the groups' names, the attributes that form them.

    ``about`` says which decisions these are, and on which rows.
    """

    clients: Mapping[str, AuditedRows]
    groups: tuple[str, ...]
    attributes: tuple[str, ...]
    about: About

    @property
    def has_scores(self) -> bool:
        """Whether every client has scores."""
        return all(rows.score is not None for rows in self.clients.values())

    @property
    def has_baseline(self) -> bool:
        """Whether there is another classifier to compare with."""
        return all(rows.baseline is not None for rows in self.clients.values())

    @property
    def randomised(self) -> bool:
        """Whether some decision is neither 0 nor 1; a property of the classifier, thus public."""
        return any(
            bool(((decision != 0) & (decision != 1)).any())
            for rows in self.clients.values()
            for decision in (rows.decision, rows.baseline)
            if decision is not None
        )


def check_subject(groups: Sequence[str], favourable: bool, about: About) -> None:
    """Refuse rows that an audit can say nothing about.

    Args:
        groups: names of the groups.
        favourable: whether some row has the favourable label.
        about: which rows these are.

    Raises:
        DataError: there is one group only, or no row has the favourable label.

    """
    if len(groups) < 2:
        raise DataError(
            f"all rows belong to one group ({', '.join(groups) or 'none'}), so there is "
            "nobody to compare it with. Name other columns with --sensitive, or add rows."
        )
    if not favourable:
        raise DataError(
            f"no row has the favourable label ({about.label} = {about.positive!r}"
            "). Check --label and --positive."
        )


def deal(
    client: Int[Array, " n"], names: Sequence[str], rows: AuditedRows
) -> dict[str, AuditedRows]:
    """Return the rows of every client. Clients without rows are left out.

    Args:
        client: number of each row's client.
        names: names of the clients.
        rows: all rows together.

    >>> y = np.array([0, 1, 1])
    >>> clients = deal(np.array([1, 0, 1]), ["a", "b", "c"], AuditedRows(y, y * 0, y / 1.0))
    >>> {name: part.y.tolist() for name, part in clients.items()}
    {'a': [1], 'b': [0, 1]}
    """
    clients = {}
    for number, name in enumerate(names):
        places = np.flatnonzero(client == number)
        if len(places):
            score, baseline = (None if part is None else part[places] for part in rows[3:])
            y, group, decision = (part[places] for part in rows[:3])
            clients[name] = AuditedRows(y, group, decision, score, baseline)
    return clients


def stack_columns(tables: Sequence[Table], names: Sequence[str]) -> Table:
    """Return some columns of all files as one table, file after file."""
    return concat([Table({name: t.column(name) for name in names}, t.source) for t in tables])


def find_clients(
    paths: Sequence[Path | Database], tables: Sequence[Table], column: str | None
) -> Clients:
    """Return the client of every row.

    Args:
        paths: files of the rows.
        tables: rows of each file.
        column: column that names the client; None: every file is a client.

    """
    if column is not None:
        clients = stack_columns(tables, (column,))
        _refuse_missing(clients, column)
        return by_column(clients.text(column))
    sizes = [len(table) for table in tables]
    return Clients(np.repeat(np.arange(len(paths)), sizes), names_of(paths))


def refuse_absent(table: Table, label: str, positive: str) -> None:
    """Refuse a favourable value that the label never has."""
    values = sorted(table.text(label).counts())
    if positive not in values:
        first = ", ".join(values[:10]) + (", ..." if len(values) > 10 else "")
        raise DataError(
            f"{table.source}: the favourable value {positive!r} never occurs in the label column "
            f"{label!r}, whose values are {first}. Choose one of these with --positive."
        )


def _refuse_missing(table: Table, column: str) -> None:
    """Refuse rows that do not name their client."""
    missing = int((table.text(column) == "").sum())
    if missing:
        raise DataError(
            f"{table.source}: column {column!r} names the client and is missing in {missing} of "
            f"{len(table)} rows. Fill it in or remove these rows."
        )


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return sha256(read_bytes(path, "the file that was read just before")).hexdigest()
