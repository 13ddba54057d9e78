"""Load a federation: a built-in data set by name, or the user's files (:mod:`fedfb.data.own`)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import NamedTuple

import numpy as np

from fedfb.core import generator
from fedfb.data.federation import Federation, Source, federate, settle_small_groups
from fedfb.data.groups import groups_in
from fedfb.data.partition import assign, deal_by_shares, parse_partition, seat, split_order
from fedfb.data.request import BUILT_IN, POPULATIONS, DataRequest, check_request
from fedfb.data.statistics import AddUp, add_in_clear
from fedfb.errors import ConfigError
from fedfb.shapes import Array, Float, Int


def load(
    request: DataRequest,
    split_seed: int,
    add: AddUp = add_in_clear,
    precision: str = "float64",
    labels: tuple[int, ...] = (),
) -> Federation:
    """Load the data of a request. Small groups are merged if the request names a group for them.

    Args:
        request: which data, and how to read them.
        split_seed: seed of all random choices about the data.
        add: adds the clients' uploads about the columns of the user's files. Built-in data need
            no sums: they are encoded as one public table.
        precision: type of the numbers of the features of the user's files.
        labels: labels among whose rows a notion compares rates: a group with few rows of one of
            them is small. Empty: all rows count.

    >>> federation = load(DataRequest("synthetic", rows=100, test_rows=50), split_seed=0)
    >>> len(federation.clients), sum(len(client.y) for client in federation.clients)
    (3, 100)
    """
    check_request(request)
    # A run needs one reader only, so each is imported where it is used.
    if request.data not in BUILT_IN:
        from fedfb.data.own import load_own

        return load_own(request, split_seed, add=add, precision=precision, labels=labels)
    home = "gaussians" if request.data in POPULATIONS else request.data
    public: PublicData = import_module(f"fedfb.data.datasets.{home}").read(request, split_seed)
    federation = deal(public, request, split_seed)
    return settle_small_groups(federation, request.minimum_group, request.rest, labels)


@dataclass(frozen=True)
class PaperClients:
    """The paper's clients: client ``i`` receives ``shares[v, i]`` of the rows with value ``v``."""

    names: tuple[str, ...]
    values: Int[Array, " n"]
    shares: Float[Array, "v i"]


class PublicData(NamedTuple):
    """A built-in data set, read and split into row numbers, not yet dealt to clients."""

    source: Source
    paper: PaperClients


def choose_attributes(request: DataRequest, choices: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the attributes that form the groups; the first choice if the request names none."""
    for attributes in choices:
        if sorted(attributes) == sorted(request.sensitive or choices[0]):
            return attributes
    raise ConfigError(
        f"the groups of {request.data} can be formed by "
        f"{' or '.join(','.join(columns) for columns in choices)}, "
        f"not by {','.join(request.sensitive)!r}."
    )


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


def deal(public: PublicData, request: DataRequest, split_seed: int) -> Federation:
    """Deal a built-in data set to clients. Test rows get clients by the same rule."""
    source, paper = public
    if request.resplit:
        groups = groups_in(source.table, source.sensitive, source.group_order)
        train, test = split_at_random(groups.group_of(source.table), split_seed)
        source = replace(source, train=train, test=test)
    rule, key = parse_partition(request.partition), (split_seed, 13)
    if rule.kind == "paper":
        dealt = deal_by_shares(paper.values, paper.shares, source.train, key)
        dealt = dealt._replace(names=paper.names)
    else:
        groups = groups_in(source.table.take(source.train), source.sensitive, source.group_order)
        dealt = assign(rule, source.table, groups, source.train, key)
    rows = np.arange(len(source.table))
    clients, notes = seat(dealt, rows, source.train, request.client_rows)
    reads_group = request.sensitive_at_prediction
    source = replace(source, notes=notes, steps=request.features != "plain")
    return federate(source, clients, sensitive_at_prediction=reads_group)
