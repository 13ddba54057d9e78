"""Common parts of built-in data sets: a table, its split, and the paper's clients."""

from dataclasses import dataclass, replace

import numpy as np

from fedfb.core import generator
from fedfb.data.derive import Derived
from fedfb.data.federation import Federation, federate
from fedfb.data.groups import groups_in
from fedfb.data.partition import (
    Clients,
    assign,
    deal_by_shares,
    parse_partition,
    seat,
    split_order,
)
from fedfb.shapes import Array, Float, Int
from fedfb.tables.table import Table


@dataclass(frozen=True)
class PaperClients:
    """The paper's clients: client ``i`` receives ``shares[v, i]`` of the rows with value ``v``."""

    names: tuple[str, ...]
    values: Int[Array, " n"]
    shares: Float[Array, "v i"]


@dataclass(frozen=True)
class Source:
    """A built-in data set, read and split into row numbers, not yet dealt to clients."""

    name: str
    table: Table
    train: Int[Array, " t"]
    test: Int[Array, " e"]
    label: str
    positive: str
    sensitive: tuple[str, ...]
    features: tuple[str, ...]
    paper: PaperClients
    derived: tuple[Derived, ...] = ()
    group_order: tuple[str, ...] = ()


def split_at_random(
    group: Int[Array, " n"], split_seed: int
) -> tuple[Int[Array, " t"], Int[Array, " e"]]:
    """Draw 70 % of the rows for training. Return their numbers, and those of the others, in order.

    >>> import numpy as np
    >>> train, test = split_at_random(np.zeros(10, int), split_seed=0)
    >>> len(train), sorted([*train, *test]) == list(range(10))
    (7, True)
    """
    return split_order(generator((split_seed, 14)).permutation(len(group)), group)


def deal(
    source: Source,
    partition: str,
    split_seed: int,
    sensitive_at_prediction: bool,
    resplit: bool = False,
    client_rows: int = 2,
) -> Federation:
    """Deal a built-in data set to clients. Test rows get clients by the same rule.

    Args:
        source: the data set.
        partition: how rows are dealt, as text; 'paper' for the paper's way.
        split_seed: seed of all random choices about the data.
        sensitive_at_prediction: whether the model reads the group.
        resplit: draw training and test rows again instead of the published split.
        client_rows: fewest rows of a client, with test rows; clients with fewer sit out.

    """
    if resplit:
        groups = groups_in(source.table, source.sensitive, source.group_order)
        train, test = split_at_random(groups.group_of(source.table), split_seed)
        source = replace(source, train=train, test=test)
    dealt, rows = _deal_clients(source, partition, split_seed), np.arange(len(source.table))
    (client, names), notes = seat(dealt, rows, source.train, client_rows)
    return federate(
        source.name,
        source.table,
        label=source.label,
        positive=source.positive,
        sensitive=source.sensitive,
        features=source.features,
        train=source.train,
        test=source.test,
        client=client,
        client_names=names,
        sensitive_at_prediction=sensitive_at_prediction,
        derived=source.derived,
        group_order=source.group_order,
        notes=notes,
    )


def _deal_clients(source: Source, partition: str, split_seed: int) -> Clients:
    rule, key = parse_partition(partition), (split_seed, 13)
    if rule.kind == "paper":
        paper = source.paper
        clients = deal_by_shares(paper.values, paper.shares, source.train, key)
        return Clients(clients.client, paper.names)
    groups = groups_in(source.table.take(source.train), source.sensitive, source.group_order)
    return assign(rule, source.table, groups, source.train, key)
