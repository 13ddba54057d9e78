"""Deal rows to clients: by declared or drawn shares, by a column, or one client per group."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from fedfb.core import Key, generator
from fedfb.data.groups import Groups
from fedfb.errors import ConfigError, DataError, unknown_name
from fedfb.shapes import Array, Float, Int
from fedfb.tables.table import Table, Words, parse_number

_FORMS = ("paper", "group", "column:NAME", "shares:0.5,0.5/0.2,0.8", "dirichlet:0.5,5")

_FEWEST = 10
"""Shares are drawn again until every client has this many training rows, if a draw has them."""

NAMED = 5
"""The most clients that sit out whom a note names."""

DRAWS = 1000
"""The most draws of shares."""


@dataclass(frozen=True)
class Partition:
    """How rows are dealt to clients, as read from the command line.

    ``shares`` has one row per group: the share of the group's rows that each client receives. For
    the kind ``dirichlet`` the shares of ``clients`` clients are drawn from a Dirichlet distribution
    with parameter ``alpha``.
    """

    kind: Literal["paper", "group", "column", "shares", "dirichlet"] = "paper"
    column: str = ""
    shares: tuple[tuple[float, ...], ...] = ()
    alpha: float = 0.0
    clients: int = 0


class Clients(NamedTuple):
    """The client number of each row (-1: none) and the clients' names."""

    client: Int[Array, " n"]
    names: tuple[str, ...]


def parse_partition(text: str) -> Partition:
    """Read a partition from its text form.

    >>> parse_partition("column:region").column
    'region'
    >>> parse_partition("shares:0.5,0.5/0.2,0.8").shares
    ((0.5, 0.5), (0.2, 0.8))
    >>> parse_partition("dirichlet:0.5,5").clients
    5
    """
    kind, _, detail = text.partition(":")
    if text in ("paper", "group"):
        return Partition("paper" if text == "paper" else "group")
    if kind == "column" and detail:
        return Partition("column", column=detail)
    if kind == "shares" and detail:
        return Partition("shares", shares=_parse_shares(detail))
    if kind == "dirichlet" and detail:
        return _parse_dirichlet(detail)
    raise ConfigError(unknown_name("partition", text, _FORMS))


class Participants(NamedTuple):
    """The clients that take part, and a sentence about those that sit out, if there are some."""

    clients: Clients
    notes: tuple[str, ...]


def seat(
    clients: Clients, rows: Int[Array, " m"], train: Int[Array, " t"], least: int
) -> Participants:
    """Let clients with too few rows sit out. Their rows belong to no client.

    The others keep their names and their order.

    Args:
        clients: the client of each row.
        rows: numbers of the rows that count.
        train: numbers of the rows to train on; a client without any sits out.
        least: fewest rows of a client that takes part.

    >>> dealt = Clients(np.array([0, 1, 1, 2, 2]), ("a", "b", "c"))
    >>> participants = seat(dealt, np.arange(5), np.arange(5), least=2)
    >>> participants.clients
    Clients(client=array([-1,  0,  0,  1,  1]), names=('b', 'c'))
    >>> participants.notes  # doctest: +NORMALIZE_WHITESPACE
    ('1 of 3 clients has fewer than 2 rows (--client-rows) and sits out; 1 training row is left
    out: a (1)',)
    """
    counts, training = (
        np.bincount(clients.client[part][clients.client[part] >= 0], minlength=len(clients.names))
        for part in (rows, train)
    )
    stays = (counts >= least) & (training > 0)
    if stays.all():
        return Participants(clients, ())
    if not stays.any():
        raise DataError(
            f"none of the {len(stays):,} clients has {least} rows, the least (--client-rows); the "
            f"most rows of a client are {counts.max()}. Choose a column or a partition with fewer "
            "clients."
        )
    numbers = np.append(np.where(stays, np.cumsum(stays) - 1, -1), -1)
    names = tuple(name for name, flag in zip(clients.names, stays.tolist(), strict=True) if flag)
    out, lost = np.flatnonzero(~stays), int(training[~stays].sum())
    largest = out[np.argsort(-counts[out], kind="stable")][:NAMED]
    first = ", ".join(f"{clients.names[i]} ({counts[i]})" for i in largest)
    verbs = ("has", "sits") if len(out) == 1 else ("have", "sit")
    note = (
        f"{len(out):,} of {len(stays):,} clients {verbs[0]} fewer than {least} rows "
        f"(--client-rows) and {verbs[1]} out; {lost:,} training "
        f"{'row is' if lost == 1 else 'rows are'} left out: {first}{', ...' * (len(out) > NAMED)}"
    )
    return Participants(Clients(numbers[clients.client], names), (note,))


def rows_of_clients(client: Int[Array, " n"], clients: int) -> list[Int[Array, " m"]]:
    """Return the row numbers of each client, in order.

    Args:
        client: client of each row, -1 for none.
        clients: number of clients.

    >>> [rows.tolist() for rows in rows_of_clients(np.array([1, 0, -1, 1]), 3)]
    [[1], [0, 3], []]
    """
    if clients < 2**15:
        client = client.astype(np.int16)  # numpy sorts short integers in linear time
    order = np.argsort(client, kind="stable")
    ends = np.searchsorted(client[order], np.arange(clients + 1))
    return [order[start:end] for start, end in pairwise(ends.tolist())]


def by_shares(
    values: Int[Array, " n"], shares: Float[Array, "v i"], rng: np.random.Generator
) -> Int[Array, " n"]:
    """Deal the rows of every value ``v`` at random, ``shares[v, i]`` of them to client ``i``.

    Cuts fall at the rounded cumulative shares, so no client is off by more than one row per value.

    Args:
        values: value of each row.
        shares: share of each client by value; every row of it sums to 1.
        rng: source of randomness.

    >>> values, shares = np.array([0, 0, 1, 1]), np.array([[1.0, 0.0], [0.5, 0.5]])
    >>> np.bincount(by_shares(values, shares, np.random.default_rng(0))).tolist()
    [3, 1]
    """
    client = np.full(len(values), -1)
    for value, row in enumerate(shares):
        rows = rng.permutation(np.flatnonzero(values == value))
        cuts = np.round(np.cumsum(row)[:-1] * len(rows)).astype(int)
        for number, part in enumerate(np.split(rows, cuts)):
            client[part] = number
    return client


def by_column(values: Words) -> Clients:
    """Make one client of every text value, sorted by name. Rows with '' belong to no client.

    >>> by_column(Words.of(["b", "a", ""]))
    Clients(client=array([ 1,  0, -1]), names=('a', 'b'))
    """
    names = tuple(sorted(values.counts().keys() - {""}))
    return Clients(_number_clients(values, names), names)


def by_group(group: Int[Array, " n"], names: tuple[str, ...]) -> Clients:
    """Make one client of every group."""
    return Clients(group, names)


def split_order(
    order: Int[Array, " n"], group: Int[Array, " n"]
) -> tuple[Int[Array, " t"], Int[Array, " e"]]:
    """Split rows 7:3 in a drawn order. Every group has at least one training row.

    A group that would have test rows only exchanges its first row for a training row of a group
    that has several. Where no group has several, the row moves without exchange.

    Args:
        order: row numbers in the drawn order.
        group: group of each row.

    >>> split_order(np.arange(10), np.array([0, 0, 0, 0, 0, 0, 0, 0, 0, 1]))
    (array([0, 1, 2, 3, 4, 5, 9]), array([6, 7, 8]))
    """
    cut = 7 * len(order) // 10
    is_training = np.zeros(len(order), dtype=bool)
    is_training[order[:cut]] = True
    group_rows = np.bincount(group)
    training_rows = np.bincount(group[is_training], minlength=len(group_rows))
    for number in np.flatnonzero((group_rows > 0) & (training_rows == 0)):
        is_training[order[group[order] == number][0]] = True
        rows = np.bincount(group[is_training])
        spare = order[:cut][is_training[order[:cut]] & (rows[group[order[:cut]]] > 1)]
        is_training[spare[-1:]] = False
    return np.flatnonzero(is_training), np.flatnonzero(~is_training)


def split_client(
    group: Int[Array, " n"], number: int, split_seed: int
) -> tuple[Int[Array, " t"], Int[Array, " e"]]:
    """Split one client's rows 7:3, in a random order. Every group has at least one training row.

    Args:
        group: group of each row.
        number: number of the client.
        split_seed: seed. The order depends on the seed and the client's number only.

    """
    order = generator((split_seed, 12, number)).permutation(len(group))
    return split_order(order, group)


def assign(
    partition: Partition, table: Table, groups: Groups, train: Int[Array, " t"], key: Key
) -> Clients:
    """Deal all rows of a table to clients, by any rule but the paper's.

    Training rows and all others are dealt apart, so that shares hold within both.

    Args:
        partition: the rule.
        table: all rows.
        groups: groups of the rows.
        train: numbers of the training rows. Clients are those that the training rows have.
        key: key of the random draws.

    """
    if partition.kind == "group":
        return by_group(groups.group_of(table), groups.names)
    if partition.kind == "column":
        values = table.text(partition.column)
        _refuse_missing(table, partition.column, train)
        names = by_column(values[train]).names
        return Clients(_number_clients(values, names), names)
    if partition.kind == "dirichlet":
        group = groups.group_of(table)
        shares_drawn = _draw_shares(partition, np.bincount(group[train]), (*key, 2))
        return deal_by_shares(group, shares_drawn, train, key)
    shares = np.array(partition.shares)
    if len(shares) != len(groups.names):
        raise ConfigError(
            f"the partition gives shares for {len(shares)} groups, but the data have "
            f"{len(groups.names)}: {', '.join(groups.names)}. Write one list per group, in this "
            "order, with '/' between them."
        )
    return deal_by_shares(groups.group_of(table), shares, train, key)


def deal_by_shares(
    values: Int[Array, " n"], shares: Float[Array, "v i"], train: Int[Array, " t"], key: Key
) -> Clients:
    """Deal training rows and all others apart, both by the same shares.

    Args:
        values: value of each row.
        shares: share of each client by value.
        train: numbers of the training rows.
        key: key of the random draws.

    """
    client = np.full(len(values), -1)
    other = np.ones(len(values), dtype=bool)
    other[train] = False
    for part, rows in enumerate((train, np.flatnonzero(other))):
        client[rows] = by_shares(values[rows], shares, generator((*key, part)))
    return Clients(client, tuple(f"client {number}" for number in range(shares.shape[1])))


def _draw_shares(partition: Partition, rows: Int[Array, " a"], key: Key) -> Float[Array, "a i"]:
    r"""Draw, for every group, its clients' shares from :math:`\mathrm{Dir}(\alpha,\dots,\alpha)`.

    The smaller alpha is, the larger is the part of a group at one client. Draws that leave a client
    almost without rows are repeated. If no draw leaves every client enough, the first counts.
    """
    rng, alphas = generator(key), np.full(partition.clients, partition.alpha)
    least = _FEWEST + len(rows)  # a cut is rounded once for each group
    first = shares = rng.dirichlet(alphas, size=len(rows))
    for _ in range(DRAWS if least * partition.clients <= rows.sum() else 0):
        if (rows @ shares).min() >= least:
            return shares
        shares = rng.dirichlet(alphas, size=len(rows))
    return first


def _refuse_missing(table: Table, column: str, rows: Int[Array, " t"]) -> None:
    """Refuse training rows without a client."""
    missing = rows[table.text(column)[rows] == ""]
    if len(missing):
        raise DataError(
            f"{table.places(missing)}: column {column!r} decides the client and is missing in "
            f"{len(missing)} rows. Fill it in or remove these rows."
        )


def _number_clients(values: Words, names: Sequence[str]) -> Int[Array, " n"]:
    index = {name: number for number, name in enumerate(names)}
    return values.look_up([index.get(value, -1) for value in values.values], np.int64)


def _parse_dirichlet(text: str) -> Partition:
    parameter, _, number = text.partition(",")
    alpha = parse_number(parameter.strip())
    clients = int(number) if number.strip().isdecimal() else 0
    # Far below this, shares are 0 and 1 up to the last bit, and numpy's draws are not numbers.
    if alpha is None or not 0.001 <= alpha < np.inf or clients < 2:
        raise ConfigError(
            f"dirichlet:{text}: expected a parameter of at least .001 and the number of clients, "
            f"at least 2, e.g. {_FORMS[4]}."
        )
    return Partition("dirichlet", alpha=alpha, clients=clients)


def _parse_shares(text: str) -> tuple[tuple[float, ...], ...]:
    try:
        shares = tuple(tuple(float(s) for s in row.split(",")) for row in text.split("/"))
    except ValueError:
        raise ConfigError(
            f"shares {text!r}: every share is a number. Write one list per group, e.g. {_FORMS[3]}."
        ) from None
    for number, row in enumerate(shares):
        if len(row) != len(shares[0]):
            raise ConfigError(
                f"shares {text!r}: group {number} has {len(row)} shares and group 0 has "
                f"{len(shares[0])}. Every group needs one share per client."
            )
        if min(row) < 0 or not abs(sum(row) - 1) <= 1e-6:
            raise ConfigError(
                f"shares {text!r}: those of group {number} are {list(row)} and sum to "
                f"{sum(row):g}. Shares are not negative and sum to 1 within each group."
            )
    return shares
