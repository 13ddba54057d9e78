"""Tiny federations: usual ones, such that lack something, and one with a client split in two."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedfb.core import ClientData, Examples

FEATURES = 3
Clients = tuple[ClientData, ...]


def make_clients(sizes: Sequence[int] = (30, 18, 24), groups: int = 2, seed: int = 0) -> Clients:
    """Draw clients on which features tell the label, and the second group is small and behind.

    The first client has rows of every cell (label, group).
    """
    rng = np.random.default_rng(seed)
    clients = []
    for number, rows in enumerate(sizes):
        group = np.minimum(rng.geometric(0.8, rows) - 1, groups - 1)
        if number == 0:
            cells = np.arange(2 * groups)
            group[: 2 * groups] = cells % groups
        x = rng.normal(size=(rows, FEATURES)) - 1.5 * group[:, None] * (np.arange(FEATURES) == 0)
        y = (x[:, 0] + rng.logistic(size=rows) > 0).astype(np.int64)
        if number == 0:
            y[: 2 * groups] = cells // groups
        clients.append(ClientData(number, x, y, group, groups))
    return tuple(clients)


def odd_federations() -> Mapping[str, Clients]:
    """Return federations that lack something, by what they lack."""
    first, second, third = make_clients()
    no_cell = second._replace(y=np.where(second.group == 1, 0, second.y))
    return {
        "a client without a group": (first, _all_of(second, 0), _all_of(third, 1)),
        "a client without a cell": (first, no_cell, third),
        "a single client": (first,),
        "one group only": make_clients(groups=1),
        "a group without rows": tuple(_all_of(c, 0) for c in (first, second, third)),
    }


def split(clients: Clients, which: int) -> Clients:
    """Return the federation in which a third of one client's rows lie on a new client."""
    whole = clients[which]
    cut = len(whole.y) // 3
    rest, new = (
        ClientData(number, whole.x[rows], whole.y[rows], whole.group[rows], whole.groups)
        for number, rows in ((whole.id, slice(cut, None)), (len(clients), slice(cut)))
    )
    return (*clients[:which], rest, *clients[which + 1 :], new)


def examples_of(clients: Clients) -> Examples:
    """Return the first ten rows of every client, to predict."""
    everyone, owners = (
        merge(clients),
        np.repeat([c.id for c in clients], [len(c.y) for c in clients]),
    )
    first = np.concatenate([np.arange(len(client.y)) < 10 for client in clients])
    return Examples(everyone.x[first], everyone.y[first], everyone.group[first], owners[first])


def merge(clients: Clients) -> ClientData:
    """Return one client that holds all rows."""
    return ClientData(
        0,
        np.concatenate([client.x for client in clients]),
        np.concatenate([client.y for client in clients]),
        np.concatenate([client.group for client in clients]),
        clients[0].groups,
    )


def _all_of(client: ClientData, group: int) -> ClientData:
    return client._replace(group=np.full_like(client.group, group))
