"""What the tests of methods with one exchange per gradient step share."""

import numpy as np

from federations import make_clients
from fedfb.algorithms.tasks import confusion_task
from fedfb.runtime import make_ask, train
from scalar_logistic import START, as_clients


def biased_clients(seed, sizes=(60, 60), groups=2):
    """Clients on which the first feature tells both the label and the group."""
    clients = make_clients(seed, sizes=sizes, groups=groups)
    shifted = []
    for client in clients:
        x = client.x.copy()
        x[:, 0] += 1.2 * client.group + 0.8 * client.y
        shifted.append(client._replace(x=x))
    return tuple(shifted)


def run(algorithm, clients, engine, rounds=3, runs=1, seed=0):
    start = np.repeat(engine.model.init(seed)[None], runs, axis=0)
    return train(algorithm, clients, start, seed=seed, rounds=rounds, watch=confusion_task(engine))


def plain_descent(clients, engine, rounds, rate, seed=0):
    """FedSGD: the gradient of the mean loss, summed over clients."""
    w = engine.model.init(seed)[None]
    groups, rows = clients[0].groups, sum(len(c.y) for c in clients)
    for _ in range(rounds):
        w = w - rate * sum(engine.gradient(w, c, np.ones((1, 2, groups))) for c in clients) / rows
    return w


def by_hand(algorithm, rounds=2):
    """Run on the six rows of ``scalar_logistic`` from its start."""
    clients, memories = as_clients(), {0: {}, 1: {}}
    state = algorithm.setup(np.array([START]), make_ask(clients, memories, 0, 0))
    for number in range(1, rounds + 1):
        state, _ = algorithm.round(state, make_ask(clients, memories, 0, number))
    return state
