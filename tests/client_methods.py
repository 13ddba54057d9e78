"""What the tests of the methods that compare clients share, and scalar formulas of their own."""

import math

import numpy as np

from fedfb.algorithms import find_method
from fedfb.algorithms.method import Problem
from fedfb.algorithms.tasks import confusion_task
from fedfb.core import ClientData
from fedfb.experiments.spec import Experiment
from fedfb.notions import ClientParity
from fedfb.runtime import make_ask, train

NAMES = ("q-ffl", "ditto", "gifair", "afl", "term", "fedprox", "fedfb-sums")
METHODS = {name: find_method(name) for name in NAMES}


def build(name, engine, solver, variant=None, options=None, **knobs):
    """Build a method with its default knobs, except for those given."""
    method, runs = METHODS[name], len(solver.learning_rate)
    values = {
        knob: np.broadcast_to(np.asarray(knobs.get(knob, declared.default), float), (runs,)).copy()
        for knob, declared in method.knobs.items()
    }
    variant = variant or method.variants[0]
    return method.make(
        Problem(engine, solver, ClientParity(), values, variant, Experiment(**(options or {})))
    )


def run(algorithm, clients, engine, rounds=3, seed=0, runs=1, **more):
    start = np.repeat(engine.model.init(seed)[None], runs, axis=0)
    watch = confusion_task(engine)
    return train(algorithm, clients, start, seed=seed, rounds=rounds, watch=watch, **more)


def one_round(algorithm, state, clients, memories, number=1, seed=0):
    return algorithm.round(state, make_ask(clients, memories, seed, number))[0]


def line_client(number, rows):
    """One client whose rows are (x, y) pairs with one feature."""
    x, y = zip(*rows, strict=True)
    group = np.zeros(len(rows), dtype=np.int64)
    return ClientData(number, np.array(x, float)[:, None], np.array(y), group, 1)


def loss(w, b, rows):
    """Mean cross-entropy of logistic regression, in scalars."""
    return sum(math.log(1 + math.exp(w * x + b)) - y * (w * x + b) for x, y in rows) / len(rows)


def slope(w, b, rows):
    """Its gradient (d/dw, d/db), in scalars."""
    errors = [(1 / (1 + math.exp(-(w * x + b))) - y, x) for x, y in rows]
    return sum(e * x for e, x in errors) / len(rows), sum(e for e, _ in errors) / len(rows)
