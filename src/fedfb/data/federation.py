"""A federation: clients with their rows, the test rows, and the encoder of both."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedfb.core import ClientData, Examples, generator
from fedfb.data.check import (
    labels,
    refuse_infinite,
    refuse_one_class,
    refuse_vast,
)
from fedfb.data.columns import Column, NumberColumn, fit_column
from fedfb.data.derive import Derived
from fedfb.data.encode import Encoder
from fedfb.data.groups import Groups, compared_rows, groups_in, merge_small
from fedfb.data.notes import (
    MERGE_ALL,
    MERGE_MORE,
    encoding_notes,
    sensitive_note,
    small_group_notes,
)
from fedfb.data.partition import Clients, rows_of_clients
from fedfb.errors import ConfigError, DataError
from fedfb.shapes import Array, Bool, Float, Int
from fedfb.tables.table import Table

if TYPE_CHECKING:  # numpy.typing takes longer to import than the rest of this file
    from numpy.typing import DTypeLike


class Learnt(NamedTuple):
    """How features become numbers, and the groups; None: the groups of the rows."""

    columns: tuple[Column, ...]
    groups: Groups | None


LearnFromClients = Callable[[Table, Int[Array, " t"], tuple[str, ...]], Learnt]
"""Learns an encoder from clients: rows, the client of each (-1: none), the clients' names."""

ONE_GROUP = "only one group: group fairness is void, every fair method returns plain FedAvg"


@dataclass(frozen=True)
class Federation:
    """All that training and evaluation read. Client ids are 0..I-1, the order of ``client_names``.

    The clients' rows are read-only. ``notes`` are sentences about how these data were treated.
    """

    name: str
    clients: tuple[ClientData, ...]
    test: Examples
    group_names: tuple[str, ...]
    client_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    encoder: Encoder
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for client in self.clients:
            client.read_only()


@dataclass(frozen=True)
class Source:
    """A table, the roles of its columns, and the numbers of its training and test rows.

    ``features`` are the columns that the model reads, ``sensitive`` those whose crossed values form
    the groups; the groups of ``group_order`` come first. ``derived`` are the rules that made
    columns of the table, kept for later rows. ``notes`` are sentences about the rows. With
    ``steps`` the numbers of a public table get steps at their quantiles.
    """

    name: str
    table: Table
    train: Int[Array, " t"]
    test: Int[Array, " e"]
    label: str
    positive: str
    sensitive: tuple[str, ...]
    features: tuple[str, ...]
    derived: tuple[Derived, ...] = ()
    group_order: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    steps: bool = False


def federate(
    source: Source,
    clients: Clients,
    *,
    sensitive_at_prediction: bool = False,
    learn: LearnFromClients | None = None,
    precision: str = "float64",
    rest: str | None = None,
) -> Federation:
    """Encode a table and deal its rows to clients. The encoder learns from training rows only.

    Args:
        source: the rows.
        clients: the client of each row; every client has a training row. Training rows of no
            client are left out.
        sensitive_at_prediction: whether the model reads the group too.
        learn: learns the encoder from sums over clients; None: the table is public, and the
            encoder learns from the rows themselves.
        precision: type of the numbers of the features.
        rest: name of the group that small groups will become part of. With it, groups that only
            test rows have are no error.

    """
    table, (client, names), test = source.table, clients, source.test
    train = source.train[client[source.train] >= 0]
    y = labels(table, source.label, source.positive)
    refuse_one_class(y[train], table, source.label, source.positive)
    learnt = learn(table, _without_test(client, train), names) if learn else None
    groups = learnt.groups if learnt else None
    sensitive = source.sensitive
    groups = groups or groups_in(table.take(train, sensitive), sensitive, source.group_order)
    if rest is not None:
        groups = replace(groups, names=(*groups.names, *sorted(groups.unseen(table))))
    group = groups.group_of(table)
    encoder = Encoder(
        learnt.columns
        if learnt
        else tuple(
            fit_column(table.take(train, [name]), name, source.steps) for name in source.features
        ),
        groups,
        source.label,
        source.positive,
        sensitive_at_prediction,
        source.derived,
    )
    refuse_vast(table, encoder.columns)
    rows = [train[places] for places in rows_of_clients(client[train], len(names))]
    # The matrix is written once, in the order in which clients and test rows are parts of it.
    order = np.concatenate([*rows, test])
    x = encoder.encode(table, group, order, precision)
    refuse_infinite(x, encoder.feature_names, table, order)
    parts = np.split(x, np.cumsum([len(places) for places in rows]))
    return Federation(
        name=source.name,
        clients=tuple(
            ClientData(number, parts[number], y[places], group[places], len(groups.names))
            for number, places in enumerate(rows)
        ),
        test=Examples(parts[-1], y[test], group[test], client[test].astype(np.int64)),
        group_names=groups.names,
        client_names=names,
        feature_names=encoder.feature_names,
        encoder=encoder,
        notes=(
            *source.notes,
            sensitive_note(encoder),
            *((ONE_GROUP,) if len(groups.names) == 1 else ()),
            *encoding_notes(encoder.columns, table, test),
        ),
    )


def _without_test(client: Int[Array, " n"], train: Int[Array, " t"]) -> Int[Array, " n"]:
    """Return the client of each training row, -1 for other rows."""
    clients = np.full(len(client), -1)
    clients[train] = client[train]
    return clients


def settle_small_groups(
    federation: Federation, minimum: int, rest: str | None = None, labels: tuple[int, ...] = ()
) -> Federation:
    """Merge the groups with few training rows, or say that they are not compared.

    Args:
        federation: clients with the groups of their rows.
        minimum: fewest training rows of a group, over all clients.
        rest: name of the group that the small groups become part of; None: they stay.
        labels: labels whose rows are counted apart, since the notion compares rates among them; a
            group is small if it has few rows of one of them. Empty: all rows count.
    """
    names, rows = federation.group_names, compared_rows(training_cells(federation), labels)
    groups = federation.encoder.groups
    if rest is not None:
        groups = merge_small(groups, rows, minimum, rest)
    if groups.names != names:
        federation = _regroup(federation, groups, small=rows < minimum)
        names, rows = federation.group_names, compared_rows(training_cells(federation), labels)
        _refuse_untrained(federation)
    tested = np.bincount(federation.test.group, minlength=len(names))
    remedy = MERGE_ALL if rest is None else MERGE_MORE
    notes = small_group_notes(names, rows, tested, minimum, labels, remedy)
    return replace(federation, notes=(*federation.notes, *notes))


def _refuse_untrained(federation: Federation) -> None:
    """Refuse a merged group of which only test rows exist."""
    rows = training_cells(federation).sum(axis=0).tolist()
    for name, count in zip(federation.group_names, rows, strict=True):
        if not count:
            groups = federation.encoder.groups
            merged = [n for n, into in zip(groups.merged, groups.into, strict=True) if into == name]
            raise DataError(
                f"the groups {', '.join(merged)} occur in test rows only, and no group of the "
                f"training rows is small enough to be merged with them into {name!r} (--rest). "
                "Raise --minimum-group, remove these rows, or merge the groups by --merge."
            )


def training_cells(federation: Federation) -> Int[Array, "2 a"]:
    """Return the training rows by label and group, over all clients."""
    groups = len(federation.group_names)
    rows: Int[Array, "2 a"] = np.sum(
        [np.bincount(client.cell, minlength=2 * groups) for client in federation.clients], axis=0
    ).reshape(2, groups)
    return rows


def _regroup(federation: Federation, groups: Groups, small: Bool[Array, " a"]) -> Federation:
    """Return the federation with other groups. ``x`` changes where the model reads the group."""
    before, encoder = federation.group_names, replace(federation.encoder, groups=groups)
    into = dict(zip(groups.merged, groups.into, strict=True))
    number = {name: place for place, name in enumerate(groups.names)}
    new = np.array([number[into.get(name, name)] for name in before])
    reads_group = encoder.sensitive_at_prediction

    def encode(x: Float[Array, "n d"], group: Int[Array, " n"]) -> Float[Array, "n e"]:
        if not reads_group:
            return x
        ones = np.eye(len(groups.names), dtype=x.dtype)[group]
        return np.concatenate([x[:, : -len(before)], ones], axis=1)

    clients = [
        client._replace(
            x=encode(client.x, new[client.group]),
            group=new[client.group],
            groups=len(groups.names),
        )
        for client in federation.clients
    ]
    test = federation.test
    group = new[test.group]
    merged = ", ".join(
        name for name, is_small in zip(before, small.tolist(), strict=True) if is_small
    )
    note = f"small groups were merged into {groups.into[-1]!r} (--rest): {merged}"
    return replace(
        federation,
        clients=tuple(clients),
        test=test._replace(x=encode(test.x, group), group=group),
        group_names=groups.names,
        feature_names=encoder.feature_names,
        encoder=encoder,
        notes=(*federation.notes, note, *((ONE_GROUP,) if len(groups.names) == 1 else ())),
    )


def without_steps(federation: Federation) -> Federation:
    """Return the federation with numbers as they are, without columns of steps."""
    encoder = federation.encoder
    columns = tuple(
        replace(column, steps=()) if isinstance(column, NumberColumn) else column
        for column in encoder.columns
    )
    plain = replace(encoder, columns=columns)
    starts = np.cumsum([0, *(len(column.feature_names) for column in encoder.columns)])
    kept = [
        np.arange(start, start + len(column.feature_names))
        for start, column in zip(starts, columns, strict=False)
    ]
    of_groups = np.arange(starts[-1], len(encoder.feature_names))
    places = np.concatenate([*kept, of_groups])
    return replace(
        federation,
        clients=tuple(client._replace(x=client.x[:, places]) for client in federation.clients),
        test=federation.test._replace(x=federation.test.x[:, places]),
        encoder=plain,
        feature_names=plain.feature_names,
    )


def pooled(federation: Federation) -> Federation:
    """Return all clients' rows as one client, in the order of ids: centralised training."""
    clients = federation.clients
    client = ClientData(
        0,
        np.concatenate([client.x for client in clients]),
        np.concatenate([client.y for client in clients]),
        np.concatenate([client.group for client in clients]),
        clients[0].groups,
    )
    test = federation.test._replace(client=np.minimum(federation.test.client, 0))
    return replace(federation, clients=(client,), test=test, client_names=("pooled",))


def hold_out(federation: Federation, fraction: float, seed: int) -> tuple[Federation, Examples]:
    """Set a fraction of every client's rows aside for validation. At least one row stays.

    The choice of rows depends on the seed and the client's id only, never on other clients.

    Args:
        federation: the clients.
        fraction: at least 0 and below 1.
        seed: seed of the choice.

    """
    if not 0 <= fraction < 1:
        raise ConfigError(
            f"the held-out fraction is {fraction}, expected at least 0 and below 1. "
            "0.1 sets a tenth of every client's rows aside."
        )
    training, validation_parts = zip(
        *(hold_out_of(client, fraction, seed) for client in federation.clients), strict=True
    )
    validation = Examples(*(np.concatenate(parts) for parts in zip(*validation_parts, strict=True)))
    return replace(federation, clients=training), validation


def hold_out_of(client: ClientData, fraction: float, seed: int) -> tuple[ClientData, Examples]:
    """Set a fraction of one client's rows aside; see :func:`hold_out`."""
    order = generator((seed, 10, client.id)).permutation(len(client.y))
    count = min(round(fraction * len(order)), len(order) - 1)
    places = np.sort(order[:count])
    validation = Examples(
        client.x[places], client.y[places], client.group[places], places * 0 + client.id
    )
    return _take_rows(client, np.sort(order[count:])), validation


def astype(federation: Federation, dtype: "DTypeLike") -> Federation:
    """Return the federation with ``x`` of clients and test rows in another precision."""
    clients = tuple(c._replace(x=c.x.astype(dtype, copy=False)) for c in federation.clients)
    test = federation.test._replace(x=federation.test.x.astype(dtype, copy=False))
    return replace(federation, clients=clients, test=test)


def _take_rows(client: ClientData, rows: Int[Array, " m"]) -> ClientData:
    return client._replace(x=client.x[rows], y=client.y[rows], group=client.group[rows])
