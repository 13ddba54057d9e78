"""Small federations that the tests share."""

import numpy as np

from fedfb.core import ClientData, LocalSolver
from fedfb.engine import NumpyEngine
from fedfb.models import Network

NOTIONS = ("dp", "eo", "eod", "cp")


def make_clients(
    seed: int, sizes=(30, 12, 24), groups: int = 2, features: int = 3, full: bool = True
) -> tuple[ClientData, ...]:
    """Random clients; with ``full`` every cell (label, group) has rows on some client."""
    rng = np.random.default_rng(seed)
    clients = []
    for number, rows in enumerate(sizes):
        group = rng.integers(0, groups, rows)
        x = rng.normal(size=(rows, features)) + 0.4 * group[:, None]
        y = (x[:, 0] + rng.logistic(size=rows) > 0).astype(np.int64)
        if full and number == 0:
            cells = np.arange(2 * groups)
            y[: 2 * groups], group[: 2 * groups] = cells // groups, cells % groups
        clients.append(ClientData(number, x, y, group, groups))
    return tuple(clients)


def merge(clients, number: int = 0) -> ClientData:
    """All rows on one client."""
    return ClientData(
        number,
        np.concatenate([client.x for client in clients]),
        np.concatenate([client.y for client in clients]),
        np.concatenate([client.group for client in clients]),
        clients[0].groups,
    )


def make_engine(features: int = 3, hidden=()) -> NumpyEngine:
    return NumpyEngine(Network(features, tuple(hidden)), np.float64)


def make_solver(runs: int = 1, lr: float = 0.05, **more) -> LocalSolver:
    settings = {"epochs": 2, "batch": 16, **more}
    return LocalSolver(np.full(runs, lr), **settings)


def make_rows(seed: int, rows: int, groups: int, features: int = 4) -> ClientData:
    """Rows of groups that differ in size, in base rate and in what predicts the label."""
    rng = np.random.default_rng(seed)
    group = rng.choice(groups, rows, p=rng.dirichlet(np.full(groups, 3.0)))
    x = rng.normal(size=(rows, features)) + 0.7 * group[:, None] / groups
    logit = x[:, 0] + rng.normal(size=groups)[group] * 0.7 + 0.5 * x[:, 1] * (group == 0)
    y = (logit + rng.logistic(size=rows) > 0).astype(np.int64)
    y[: 2 * groups], group[: 2 * groups] = np.divmod(np.arange(2 * groups), groups)
    return ClientData(0, x, y, group, groups)


def deal(data: ClientData, split: str, clients: int, seed: int) -> tuple[ClientData, ...]:
    """Distribute rows over clients; clients may be empty."""
    rng = np.random.default_rng(seed)
    if split == "iid":
        owner = rng.integers(clients, size=len(data.y))
    elif split == "dirichlet":
        shares = rng.dirichlet(np.full(clients, 0.1), size=data.groups)
        owner = np.array([rng.choice(clients, p=shares[group]) for group in data.group])
    else:
        owner = data.group + data.groups * rng.integers(
            max(clients // data.groups, 1), size=len(data.y)
        )
    return tuple(
        ClientData(number, data.x[rows], data.y[rows], data.group[rows], data.groups)
        for number, rows in ((i, owner == i) for i in range(max(clients, owner.max() + 1)))
    )
