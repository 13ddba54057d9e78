"""Logistic regression of one feature in plain Python: what two rounds by hand are worked out with.

Nothing of the library is used: rows are tuples, a model is (w, b), z = w x + b.
"""

from math import exp, log
from typing import NamedTuple

import numpy as np

from fedfb.core import ClientData


class Row(NamedTuple):
    client: int
    x: float
    y: int
    group: int


ROWS = (
    Row(0, -1.0, 0, 0),
    Row(0, 0.5, 1, 0),
    Row(0, 2.0, 1, 1),
    Row(1, 1.5, 1, 1),
    Row(1, -0.5, 0, 1),
    Row(1, -2.0, 1, 0),
)
START = (0.4, -0.2)


def p(model, row):
    return 1 / (1 + exp(-logit(model, row)))


def logit(model, row):
    return model[0] * row.x + model[1]


def cross_entropy(model, row):
    return -log(p(model, row)) if row.y else -log(1 - p(model, row))


def slope_of_cross_entropy(model, row):
    return p(model, row) - row.y


def mean(rows, value):
    return sum(value(row) for row in rows) / len(rows)


def gradient_of_mean(rows, slope):
    """Of the mean of a statistic whose derivative in z is ``slope``."""
    return (mean(rows, lambda row: slope(row) * row.x), mean(rows, slope))


def minus(one, other, times=1.0):
    return (one[0] - times * other[0], one[1] - times * other[1])


def dot(one, other):
    return one[0] * other[0] + one[1] * other[1]


def as_clients(rows=ROWS):
    found = []
    for number in sorted({row.client for row in rows}):
        own = [row for row in rows if row.client == number]
        columns = [np.array([getattr(row, name) for row in own]) for name in ("x", "y", "group")]
        found.append(ClientData(number, columns[0][:, None], columns[1], columns[2], groups=2))
    return tuple(found)
