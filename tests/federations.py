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
