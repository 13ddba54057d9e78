"""The rows that an audit is about, and the tables of counts that a client makes of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedfb.audit.result import About
from fedfb.core import Arrays
from fedfb.data.partition import Clients, by_column, rows_of_clients
from fedfb.data.statistics import AddUp
from fedfb.errors import DataError
from fedfb.experiments.evaluate import cross_entropy
from fedfb.files import read_bytes
from fedfb.shapes import Array, Float, Int
from fedfb.tables.sources import is_stream, load_bytes
from fedfb.tables.table import Table, concat


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


def deal_rows(
    client: Int[Array, " n"], names: Sequence[str], rows: AuditedRows
) -> dict[str, AuditedRows]:
    """Return the rows of every client. Clients without rows are left out.

    Args:
        client: number of each row's client.
        names: names of the clients.
        rows: all rows together.

    >>> y = np.array([0, 1, 1])
    >>> clients = deal_rows(np.array([1, 0, 1]), ["a", "b", "c"], AuditedRows(y, y * 0, y / 1.0))
    >>> {name: part.y.tolist() for name, part in clients.items()}
    {'a': [1], 'b': [0, 1]}
    """
    clients = {}
    for name, places in zip(names, rows_of_clients(client, len(names)), strict=True):
        if len(places):
            score, baseline = (None if part is None else part[places] for part in rows[3:])
            y, group, decision = (part[places] for part in rows[:3])
            clients[name] = AuditedRows(y, group, decision, score, baseline)
    return clients


def stack_columns(tables: Sequence[Table], names: Sequence[str]) -> Table:
    """Return some columns of all files as one table, file after file."""
    return concat([replace(t, columns={name: t.column(name) for name in names}) for t in tables])


def find_clients(names: Sequence[str], tables: Sequence[Table], column: str | None) -> Clients:
    """Return the client of every row.

    Args:
        names: names of the files.
        tables: rows of each file.
        column: column that names the client; None: every file is a client.

    """
    if column is not None:
        clients = stack_columns(tables, (column,))
        _refuse_missing(clients, column)
        return by_column(clients.text(column))
    sizes = [len(table) for table in tables]
    return Clients(np.repeat(np.arange(len(names)), sizes), tuple(names))


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
    missing = np.flatnonzero(table.text(column) == "")
    if len(missing):
        raise DataError(
            f"{table.places(missing)}: column {column!r} names the client and is missing in "
            f"{len(missing)} of {len(table)} rows. Fill it in or remove these rows."
        )


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    expected = "the file that was read just before"
    return sha256(load_bytes(path) if is_stream(path) else read_bytes(path, expected)).hexdigest()


SCORE_BINS = 10
"""Bins of scores, all of the same width."""


class Tables(NamedTuple):
    """Counts of one client, or of all clients together.

    ``confusion[label, decision, group]``; ``joint[label, decision, baseline, group]``;
    ``bins[label, group, bin]`` of scores and ``score_sums[group, bin]``; ``losses[0, group]`` sums
    up the cross-entropy and ``losses[1, group]`` its square.
    """

    confusion: Float[Array, "2 2 a"]
    joint: Float[Array, "2 2 2 a"] | None = None
    bins: Float[Array, "2 a b"] | None = None
    score_sums: Float[Array, "a b"] | None = None
    losses: Float[Array, "2 a"] | None = None


def make_table_upload(rows: AuditedRows, groups: int, randomised: bool) -> Arrays:
    """Return the upload of one client: tables of counts of its rows.

    Args:
        rows: rows of the client.
        groups: number of groups.
        randomised: whether some decisions are chances. Counts are whole numbers otherwise.

    >>> y = np.array([0, 1, 1])
    >>> make_table_upload(AuditedRows(y, y * 0, y / 1.0), 1, False)["confusion"][:, :, 0]
    array([[1, 0],
           [0, 2]])
    """
    counts = np.float64 if randomised else np.int64
    cell = rows.y * groups + rows.group
    upload: Arrays = {"confusion": _count(cell, groups, rows.decision).astype(counts)}
    if rows.baseline is not None:
        other = (1 - rows.baseline, rows.baseline)
        upload["joint"] = np.stack(
            [_count(cell, groups, rows.decision, weight) for weight in other], axis=2
        ).astype(counts)
    if rows.score is not None:
        place = np.minimum((rows.score * SCORE_BINS).astype(np.int64), SCORE_BINS - 1)
        of_bin = rows.group * SCORE_BINS + place
        upload["bins"] = np.bincount(
            rows.y * groups * SCORE_BINS + of_bin, minlength=2 * groups * SCORE_BINS
        ).reshape(2, groups, SCORE_BINS)
        upload["score_sums"] = _sum(of_bin, rows.score, groups * SCORE_BINS).reshape(
            groups, SCORE_BINS
        )
        loss = cross_entropy(rows.score, rows.y)
        upload["losses"] = np.stack([_sum(rows.group, w, groups) for w in (loss, loss**2)])
    return upload


def _count(
    cell: Array, groups: int, decision: Array, weight: Array | None = None
) -> Float[Array, "2 2 a"]:
    """Count rows, of this weight, by label, decision and group."""
    weight = np.ones(len(cell)) if weight is None else weight
    parts = [_sum(cell, weight * chance, 2 * groups) for chance in (1 - decision, decision)]
    return np.stack([part.reshape(2, groups) for part in parts], axis=1)


def _sum(place: Array, weight: Array, places: int) -> Float[Array, " k"]:
    # bincount of no rows returns integers even with weights.
    return np.bincount(place, weights=weight, minlength=places).astype(np.float64)


def make_uploads(subject: Subject) -> dict[str, Arrays]:
    """Return the upload of every client, each from the rows of this client alone."""
    randomised = subject.randomised  # it looks at the rows of all clients
    return {
        name: make_table_upload(rows, len(subject.groups), randomised)
        for name, rows in subject.clients.items()
    }


def read_tables(upload: Mapping[str, Array]) -> Tables:
    """Read an upload, or a sum of uploads."""
    return Tables(**{name: value.astype(np.float64) for name, value in upload.items()})


def add_uploads(uploads: Mapping[str, Arrays], add: AddUp) -> Tables:
    """Return the sum over all clients.

    Args:
        uploads: upload of each client, by name.
        add: adds uploads, masked or unmasked.

    """
    return read_tables(add("audit", {}, uploads))
