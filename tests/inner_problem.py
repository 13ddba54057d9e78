"""An inner problem that is solved exactly: a ridge-regularised logistic regression, few rows."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from fedfb.notions import (
    ClientParity,
    DemographicParity,
    EqualizedOdds,
    EqualOpportunity,
    Notion,
    PooledClientParity,
)
from fedfb.shapes import Array, Float, Int

RIDGE = 1e-2

NOTIONS = {
    "dp": DemographicParity,
    "eo": EqualOpportunity,
    "eod": EqualizedOdds,
    "cp": lambda groups, symmetric=False: ClientParity(symmetric),
    "pooled_cp": PooledClientParity,
}


@dataclass(frozen=True)
class Problem:
    """Rows and the notion whose lambda weighs them. For client parity, group a is client a."""

    notion: Notion
    x: Float[Array, "n d"]
    label: Int[Array, " n"]
    group: Int[Array, " n"]

    @property
    def groups(self) -> int:
        return int(self.group.max()) + 1

    @property
    def counts(self):
        cells = self.cell_sums(np.ones((len(self.x), 1)))[0].astype(int)
        return cells.sum(axis=0) if self.notion.reduce == "gather" else cells

    @property
    def start(self):
        return self.notion.init(self.counts)[None]

    def cell_sums(self, values: Float[Array, "n r"]) -> Float[Array, "r 2 a"]:
        sums = np.zeros((2, self.groups, values.shape[1]))
        np.add.at(sums, (self.label, self.group), values)
        return np.moveaxis(sums, 2, 0)

    def row_weights(self, lam) -> Float[Array, " n"]:
        weights = self.notion.weights(lam, self.counts)
        if self.notion.reduce == "gather":
            each = [self.notion.cell_weights(weights, a, 1) for a in range(self.groups)]
            return np.concatenate(each, axis=2)[0, self.label, self.group]
        return self.notion.cell_weights(weights, 0, self.groups)[0, self.label, self.group]

    def signal(self, loss_sums: Float[Array, "r 2 a"]):
        share = self.notion.share
        if self.notion.reduce == "gather":
            each = [share(loss_sums[:, :, [a]], self.counts, a) for a in range(self.groups)]
            return self.notion.signal(np.stack(each), self.counts)
        return self.notion.signal(share(loss_sums, self.counts, 0), self.counts)

    def unfairness(self, mu) -> Float[Array, "r u"]:
        against_reference = self.notion.name == "demographic_parity" and not self.notion.symmetric
        return mu[:, 1:] if against_reference else mu.reshape(len(mu), -1)

    def move(self, lam, mu, by: float):
        return self.notion.step(lam, mu, self.counts, np.array([by]))


def losses(problem, w, surrogate) -> Float[Array, "n 1"]:
    z, y = problem.x @ w, problem.label
    return (np.logaddexp(0, z) - y * z if surrogate == "ce" else np.abs(y - expit(z)))[:, None]


def loss_gradients(problem, w, surrogate) -> Float[Array, "n d"]:
    p, y = expit(problem.x @ w), problem.label
    return (p - y if surrogate == "ce" else (1 - 2 * y) * p * (1 - p))[:, None] * problem.x


def inner_gradient(problem, w, omega) -> Float[Array, " d"]:
    return omega @ loss_gradients(problem, w, "ce") / len(omega) + RIDGE * w


def inner_hessian(problem, w, omega) -> Float[Array, "d d"]:
    p = expit(problem.x @ w)
    curvature = (problem.x.T * (omega * p * (1 - p))) @ problem.x / len(omega)
    return curvature + RIDGE * np.eye(len(w))


def solve(problem, lam) -> Float[Array, " d"]:
    """Return w(lambda): Newton, halving steps until the gradient shrinks, to 1e-11 and once more.

    Newton's direction always lowers the length of the gradient of a strictly convex function. The
    step after 1e-11 squares what is left, so that only rounding remains.
    """
    omega = problem.row_weights(lam)
    w = np.zeros(problem.x.shape[1])
    while True:
        gradient = inner_gradient(problem, w, omega)
        newton = -np.linalg.solve(inner_hessian(problem, w, omega), gradient)
        length, size = np.linalg.norm(gradient), 1.0
        if length <= 1e-11:
            return w + newton
        while (
            np.linalg.norm(inner_gradient(problem, w + size * newton, omega))
            > (1 - size / 4) * length
        ):
            size /= 2
        w = w + size * newton


def signal_at(problem, w, surrogate):
    return problem.signal(problem.cell_sums(losses(problem, w, surrogate)))


def random_problem(kind, symmetric, groups, seed):
    """Return 40 to 60 rows, every cell filled and shifted on its own, and a lambda off the border.

    Lambda's set is convex: half way between the start and any of its points, every part of lambda
    keeps at least half of its starting value (at least 1/120) from 0, and the same from above.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(40, 61))
    cell = np.concatenate([np.arange(2 * groups), rng.integers(0, 2 * groups, n - 2 * groups)])
    shifts = rng.uniform(0, 2) * rng.normal(size=(2 * groups, 2))
    x = np.column_stack([np.ones(n), rng.normal(size=(n, 2)) + shifts[cell]])
    problem = Problem(NOTIONS[kind](groups, symmetric), x, cell % 2, cell // 2)
    anywhere = problem.move(problem.start, rng.normal(size=problem.start.shape), by=1.0)
    return problem, (problem.start + anywhere) / 2
