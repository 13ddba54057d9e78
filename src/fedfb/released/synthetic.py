"""The synthetic data as released: numpy's legacy generator, one row after another, seed 123."""

import random
from typing import NamedTuple

import numpy as np

from fedfb.data.datasets.synthetic import COVARIANCES, MEANS
from fedfb.released.rows import ReleasedData, Rows, in_shares, with_group
from fedfb.shapes import Array, Float

SEED = 123
INVERSES = np.linalg.inv(COVARIANCES[:2])
SCALES = 1 / np.sqrt(np.linalg.det(COVARIANCES[:2]))


class Split(NamedTuple):
    """Training and test rows, and each client's share of group 0 and of group 1."""

    train: int
    test: int
    group_0: tuple[float, ...]
    group_1: tuple[float, ...]


SPLITS = {
    "synthetic": Split(3500, 1500, (0.2, 0.4, 0.4), (0.5, 0.3, 0.2)),
    "synthetic-low": Split(3500, 1500, (0.33, 0.33, 0.34), (0.33, 0.33, 0.34)),
    "synthetic-high": Split(3500, 1500, (0.1, 0.8, 0.1), (0.7, 0.1, 0.2)),
    # A slip of the pen, 1. for .1: the third client has no group 1. It gives the printed digits.
    "synthetic-high-slip": Split(3500, 1500, (0.1, 0.8, 0.1), (0.7, 1.0, 0.2)),
    "synthetic-2": Split(2333, 1000, (0.6, 0.4), (0.2, 0.8)),
    "synthetic-4": Split(4667, 2000, (0.2, 0.2, 0.2, 0.4), (0.2, 0.2, 0.2, 0.4)),
}
"""The paper states the shares of ``synthetic`` the other way round."""


def load_synthetic(name: str) -> ReleasedData:
    """Draw the rows; the first train. A client's rows are those of group 1, then 0, shuffled."""
    split = SPLITS[name]
    drawn = draw(split.train + split.test)
    train = drawn.take(slice(split.train))
    shuffler = random.Random(SEED)
    parts = [
        in_shares(np.flatnonzero(train.group == group), shares)
        for group, shares in ((1, split.group_1), (0, split.group_0))
    ]
    clients = []
    for of_group_1, of_group_0 in zip(*parts, strict=True):
        numbers = np.concatenate([of_group_1, of_group_0]).tolist()
        shuffler.shuffle(numbers)
        clients.append(train.take(np.array(numbers, int)))
    return ReleasedData(name, 2, tuple(clients), drawn.take(slice(split.train, None)))


def draw(rows: int) -> Rows:
    r"""Draw all labels, then row by row the point and its group.

    .. math:: y \sim \mathrm{Bern}(0.6),\quad x \mid y \sim N(\mu_y, \Sigma_y),\quad
              P(a = 1 \mid x) = \frac{p_1(x')}{p_0(x') + p_1(x')},\quad x' = R(+\pi/4)\, x
    """
    rng = np.random.RandomState(SEED)
    y = rng.binomial(1, 0.6, rows)
    x, group = np.empty((rows, 2)), np.empty(rows, int)
    factors = _factors()
    for row, label in enumerate(y):
        x[row] = rng.standard_normal(2) @ factors[label] + MEANS[label]
        group[row] = rng.binomial(1, _share_of_group_1(x[row]))
    return with_group(x, y, group)


def _factors() -> Float[Array, "3 2 2"]:
    """Return the roots of the covariances that ``multivariate_normal`` takes, once for all rows."""
    _, squares, directions = np.linalg.svd(COVARIANCES)
    roots: Array = np.sqrt(squares)[:, :, None] * directions
    return roots


def _share_of_group_1(x: Float[Array, " 2"]) -> float:
    cosine, sine = np.cos(np.pi / 4), np.sin(np.pi / 4)
    centred = np.array([cosine * x[0] - sine * x[1], sine * x[0] + cosine * x[1]]) - MEANS[:2]
    distances = np.einsum("ki,kij,kj->k", centred, INVERSES, centred)
    densities = np.exp(-0.5 * distances) * SCALES
    return float(densities[1] / densities.sum())
