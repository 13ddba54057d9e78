r"""Where the clients of a federation overlap: the form of every LFT+FedAvg optimum.

With one multiplier for each client's mean difference the optimum decides positively where

.. math:: T_a(x) = 2\eta(x) - 1 + s_a \sum_i \lambda_i\, r_{ia}(x) > 0, \qquad
          r_{ia} = \frac{p_a^{(i)}}{\sum_j n_{ja} p_a^{(j)}}, \qquad s_0 = 1,\; s_1 = -1

that is :math:`\sum_i [n_{ia}(2\eta-1) + s_a\lambda_i]\,p_a^{(i)} > 0`, divided by a positive number
so that nothing underflows. The paper's Lemma "FFL_soln" lacks the weights :math:`n_{ia}`. The
positive set is in general a union of intervals, not a half-line.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedfb.shapes import Array, Float
from fedfb.theory.laws import Gaussian
from fedfb.theory.measures import Outcome, Steps, client_rates, negatives, summary
from fedfb.theory.population import ContinuousPopulation
from fedfb.theory.roots import Function, bracketed_roots, crossings_below

SIGN = (1.0, -1.0)
MOST_NODES = 1600


@dataclass(frozen=True)
class Overlap:
    """A grid fine enough to see every sign change, with 2 eta - 1 and r on it."""

    population: ContinuousPopulation
    nodes: Float[Array, " k"]
    margin: Float[Array, " k"]
    ratios: tuple[Float[Array, "k i"], Float[Array, "k i"]]
    negatives: float


class Gaps(NamedTuple):
    r"""The rule of given multipliers, each client's gap, and how the gaps move with them.

    ``slopes[a][i, j]`` is :math:`|\partial P_a^{(i)}/\partial\lambda_j|`, the sum of
    :math:`p_a^{(i)} p_a^{(j)} / |S_a'|` over the ends of the intervals.
    """

    rule: tuple[Steps, Steps]
    rates: Float[Array, "i 2"]
    gaps: Float[Array, " i"]
    slopes: tuple[Float[Array, "i i"], Float[Array, "i i"]]

    @property
    def jacobian(self) -> Float[Array, "i i"]:
        r""":math:`\partial M_i / \partial\lambda_j`: symmetric, and no entry is negative."""
        return self.slopes[0] + self.slopes[1]


def overlap(population: ContinuousPopulation) -> Overlap:
    """Return the grid on which sign changes are sought.

    >>> from fedfb.theory.settings import fig2
    >>> overlap(fig2()).ratios[0].shape[1]
    2
    """
    nodes = _nodes(population)
    margin = population.eta.value(nodes) - population.eta.upper(nodes)
    ratios = (ratio(population, 0, nodes), ratio(population, 1, nodes))
    return Overlap(population, nodes, margin, ratios, negatives(population))


def _nodes(population: ContinuousPopulation) -> Float[Array, " k"]:
    parts = [part for laws in population.laws for part in laws.parts]
    own = np.unique(np.concatenate([part.knots for part in parts]))
    low, high = own[0], own[-1]
    bends = np.array(population.eta.knots)
    own = np.unique(np.concatenate([own, bends[(bends > low) & (bends < high)]]))
    # A step density jumps at its knots: its value before the jump needs a node of its own.
    stepped = [part.knots for part in parts if not isinstance(part, Gaussian)]
    jumps = np.unique(np.concatenate([np.empty(0), *stepped]))
    if len(own) > MOST_NODES:
        own = own[np.linspace(0, len(own) - 1, MOST_NODES).round().astype(int)]
    finer = max(1, MOST_NODES // (2 * len(own)))
    steps = np.arange((len(own) - 1) * finer + 1) / finer
    filled = np.interp(steps, np.arange(len(own)), own)
    evenly = np.linspace(low, high, MOST_NODES // 4)
    smooth = np.unique(np.concatenate([filled, evenly]))
    smooth = smooth[np.diff(smooth, prepend=-np.inf) > 1e-4 * (high - low) / MOST_NODES]
    return np.unique(np.concatenate([smooth, jumps, np.nextafter(jumps, -np.inf)]))


def ratio(
    population: ContinuousPopulation, group: int, x: Float[Array, " k"]
) -> Float[Array, "k i"]:
    r"""Return r at the points x, 0 where no client has mass.

    :math:`n_{ia} r_{ia}` is a softmax of :math:`\log n_{ia} + \log p_a^{(i)}`.
    """
    weights = population.joint[:, group]
    weighted = population.laws[group].ask_log("logpdf", x[None, :])
    if weights.all():
        weighted = weighted + np.log(weights)[:, None]
    else:  # clients without the group carry no multiplier; their column is never used
        weighted = weighted + np.log(np.where(weights > 0, weights, 1.0))[:, None]
        weighted[weights == 0] = -np.inf
    weighted -= np.maximum(weighted.max(axis=0), -1e300)
    parts = np.exp(weighted, out=weighted)
    parts /= np.maximum(parts.sum(axis=0), 1e-300)
    return (parts / np.where(weights > 0, weights, 1.0)[:, None]).T


def tilt(
    population: ContinuousPopulation, group: int, lam: Float[Array, " i"], x: Float[Array, " k"]
) -> Float[Array, " k"]:
    """Return T at the points x."""
    margin = population.eta.value(x) - population.eta.upper(x)
    return margin + SIGN[group] * (ratio(population, group, x) @ lam)


def positive_steps(grid: Overlap, group: int, lam: Float[Array, " i"]) -> Steps:
    """Return the union of intervals on which T is positive.

    >>> from fedfb.theory.settings import fig2
    >>> positive_steps(overlap(fig2()), 0, np.zeros(2)).edges.round(12)
    array([0.])
    """

    def at(points: Array) -> Array:
        return tilt(grid.population, group, lam, points)

    values = grid.margin + SIGN[group] * (grid.ratios[group] @ lam)
    x, values = _with_hidden_extremes(at, grid.nodes, values)
    positive = values > 0
    change = np.flatnonzero(positive[:-1] != positive[1:])
    ends = x[change], x[change + 1], values[change], values[change + 1]
    edges = bracketed_roots(at, *ends) if len(change) else np.empty(0)
    first = float(positive[0])
    return Steps(edges, np.where(np.arange(len(edges) + 1) % 2 == 0, first, 1.0 - first))


def _with_hidden_extremes(
    at: Function, x: Float[Array, " k"], values: Float[Array, " k"]
) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """Add a point between two roots that hide between neighbouring nodes of equal sign.

    Where the size of T falls towards a cell from the left and rises to the right of it, the lines
    through the outer nodes meet below its least value: only where they meet below zero, look.
    """
    size = np.abs(values)
    slope = np.diff(size) / np.maximum(np.diff(x), 1e-9)
    cell = np.flatnonzero((slope[:-2] < 0) & (slope[2:] > 0)) + 1
    positive = values > 0
    alike = positive[cell - 1] + positive[cell] * 1 + positive[cell + 1] + positive[cell + 2]
    cell = cell[(alike == 0) | (alike == 4)]
    left, right, width = slope[cell - 1], slope[cell + 1], x[cell + 1] - x[cell]
    meet = (size[cell] - size[cell + 1] + right * width) / (right - left)
    cell = cell[size[cell] + left * meet <= 0]
    if len(cell) == 0:
        return x, values
    side = np.where(positive[cell], 1.0, -1.0)
    lower = np.where(size[cell] <= size[cell + 1], cell, cell + 1)
    three = np.stack([cell - 1, lower, cell + 2])
    lowest, found = crossings_below(lambda p: side * at(p), x[three], size[three])
    crossed = found <= 0
    if not crossed.any():
        return x, values
    # A value of exactly 0 must still count as crossed.
    opposite = side * np.where(found == 0, -1e-300, found)
    points = np.concatenate([x, lowest[crossed]])
    order = np.argsort(points, kind="stable")
    return points[order], np.concatenate([values, opposite[crossed]])[order]


def gaps_of(grid: Overlap, lam: Float[Array, " i"]) -> Gaps:
    r"""Return the rule with multipliers :math:`\lambda` and its gaps; a search needs no more.

    >>> from fedfb.theory.settings import fig2
    >>> gaps_of(overlap(fig2()), np.zeros(2)).gaps.round(7)
    array([-0.0013496,  0.6826895])
    """
    population = grid.population
    rule = (positive_steps(grid, 0, lam), positive_steps(grid, 1, lam))
    rates = client_rates(population, rule)
    slopes = (_slopes(population, 0, lam, rule[0]), _slopes(population, 1, lam, rule[1]))
    gaps = np.where(population.constrained, rates[:, 0] - rates[:, 1], 0.0)
    return Gaps(rule, rates, gaps, slopes)


def outcome_of(grid: Overlap, seen: Gaps) -> Outcome:
    """Return what the rule of given multipliers does.

    >>> from fedfb.theory.settings import fig2
    >>> grid = overlap(fig2())
    >>> round(outcome_of(grid, gaps_of(grid, np.zeros(2))).mean_difference, 7)
    0.3406699
    """
    gain = gain_of(grid.population, seen.rule)
    return summary(grid.population, grid.negatives + gain, seen.rates)


def gain_of(population: ContinuousPopulation, rule: tuple[Steps, ...]) -> float:
    """Return what a rule gains in accuracy over deciding against everybody."""
    total = 0.0
    for share, table, steps in zip(
        population.group_shares, population.pooled_gains, rule, strict=True
    ):
        edges = np.concatenate([[-np.inf], steps.edges])[None, :]
        total += float(share * (table.at(edges)[0] @ np.diff(steps.values, prepend=0.0)))
    return total


def _slopes(
    population: ContinuousPopulation, group: int, lam: Float[Array, " i"], steps: Steps
) -> Float[Array, "i i"]:
    x = steps.edges
    if len(x) == 0:
        return np.zeros((population.clients, population.clients))
    width = 1e-6 * (1.0 + np.abs(x))
    three = np.concatenate([x, x + width, x - width])
    ratios = ratio(population, group, three)
    margin = population.eta.value(three) - population.eta.upper(three)
    values = (margin + SIGN[group] * (ratios @ lam))[len(x) :].reshape(2, -1)
    steepness = np.maximum(np.abs(values[0] - values[1]) / (2 * width), 1e-12)
    density = population.joint[:, group] @ population.laws[group].ask("pdf", x[None, :])
    own = ratios[: len(x)]
    return (own * (density / steepness)[:, None]).T @ own
