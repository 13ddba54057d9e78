"""What the tests of LFT, FairFed and reweighing share."""

import math

import numpy as np

from federations import make_solver
from fedfb.algorithms.method import Problem
from fedfb.algorithms.tasks import confusion_task
from fedfb.core import ClientData
from fedfb.experiments.spec import Experiment
from fedfb.notions import make_notion
from fedfb.runtime import train

OPTIONS = Experiment(sensitive_at_prediction=True, outer="solve", rounds=2)


def run(algorithm, clients, engine, rounds=2, seed=0, runs=1, **more):
    start = np.repeat(engine.model.init(seed)[None], runs, axis=0)
    settings = {"seed": seed, "rounds": rounds, "watch": confusion_task(engine), **more}
    return train(algorithm, clients, start, **settings)


def build(method, engine, notion="dp", groups=2, runs=1, solver=None, variant=None, **knobs):
    """Build a method from its default knobs, or from given ones (one value, or one per run)."""
    usual = {name: knob.default for name, knob in method.knobs.items()}
    values = {name: np.broadcast_to(v, (runs,)).copy() for name, v in {**usual, **knobs}.items()}
    return method.make(
        Problem(
            engine=engine,
            solver=solver or make_solver(runs),
            notion=make_notion(notion, groups),
            knobs=values,
            variant=variant or method.variants[0],
            options=OPTIONS,
        )
    )


def client(number, rows, groups=2):
    """A client of rows (x, y, group) with one feature."""
    x, y, group = zip(*rows, strict=True)
    return ClientData(number, np.array(x)[:, None], np.array(y), np.array(group), groups)


def chance(w, b, x):
    return 1 / (1 + math.exp(-(w * x + b)))


def descend(w, b, rows, weights, total, lr):
    """One step of gradient descent on sum_j omega_j l_j / total, with plain numbers."""
    errors = [om * (chance(w, b, x) - y) for (x, y, _), om in zip(rows, weights, strict=True)]
    slope = sum(e * x for e, (x, _, _) in zip(errors, rows, strict=True))
    return w - lr * slope / total, b - lr * sum(errors) / total
