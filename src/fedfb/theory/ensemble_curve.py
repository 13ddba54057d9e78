r"""The trade-off of LFT+Ensemble: the best accuracy at each level of disparity.

Every :math:`A_j` falls as :math:`\lambda_j` leaves 0. So if the unconstrained optimum has
:math:`\mathrm{MD} > d`, a best ensemble has :math:`\mathrm{MD} = d`, moves only clients that lower
MD, and loses what it must: with :math:`y_j` the part of client j in the reduction and
:math:`c_j(y_j)` its loss of accuracy,

.. math:: \min_y \sum_j c_j(y_j) \quad\text{s.t.}\quad \sum_j y_j = \mathrm{MD}_{erm} - d

With equal mixes of groups all :math:`c_j` are convex and the optimum is water-filling,
:math:`\lambda_j = \operatorname{clip}(\lambda^*)`. Otherwise
:math:`dA_j/dG_j = -\lambda[\tfrac{P(0)}{P(0|j)}u_0 + \tfrac{P(1)}{P(1|j)}u_1]/(u_0+u_1)`, with
:math:`u_a` the mass that moves in group a, need not be monotone: see
:mod:`fedfb.theory.atom_ensemble`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicHermiteSpline

from fedfb.shapes import Array, Float, Int
from fedfb.theory import atom_ensemble
from fedfb.theory.atom_ensemble import MOST_ON_GRIDS, Cost, allocate
from fedfb.theory.cfl import ThresholdProblem, local_distances, local_problem, pairs_at
from fedfb.theory.lft_ensemble import (
    NO_DISPARITY,
    Vote,
    ensemble_at,
    member_gaps,
    vote_weights,
)
from fedfb.theory.measures import PARITY, CurvePoint, check_levels, refuse_more_than_two_groups
from fedfb.theory.population import AtomPopulation, ContinuousPopulation, Population

POINTS = 800
"""Points of a cost curve: as many evenly spaced thresholds, as many evenly spaced amounts."""


def lft_ensemble_curve(
    population: Population, levels: Sequence[float] | Float[Array, " n"], vote: Vote = "uniform"
) -> list[CurvePoint]:
    """Return the best ensemble at each level of spd; None where no budgets reach the level.

    Args:
        population: a population of two groups.
        levels: bounds on spd.
        vote: "uniform", as in the paper, or "shares" of the clients.

    >>> from fedfb.theory.population import fig2
    >>> curve = lft_ensemble_curve(fig2(), [0.1, 0.2])
    >>> [point.accuracy and round(point.accuracy, 7) for point in curve]
    [None, 0.8322583]
    """
    refuse_more_than_two_groups(population, "the trade-off of LFT+Ensemble")
    goals, weights = check_levels(levels), vote_weights(population, vote)
    if isinstance(population, AtomPopulation):
        return atom_ensemble.curve(population, goals, weights)
    unconstrained = np.zeros(population.clients)
    start = float(weights @ member_gaps(population, unconstrained))
    fair = local_distances(population, unconstrained)
    # Only clients whose own constraint pulls the ensemble towards parity are of use.
    box = np.where(fair * start < 0, fair, 0.0)
    reach = abs(start - float(weights @ member_gaps(population, box)))
    needs_costs = np.any(box != 0) and not population.equal_mix
    costs = cost_curves(population, box, weights) if needs_costs else []
    points = []
    for level in goals:
        needed = abs(start) - level
        if needed <= NO_DISPARITY:
            points.append(CurvePoint(level, ensemble_at(population, unconstrained, weights)))
        elif needed > reach + PARITY:
            points.append(CurvePoint(level, None))
        else:
            points.append(_at_level(population, box, weights, costs, start, level))
    return points


class MemberCost(NamedTuple):
    """A client's cost curve, and the distance of its threshold at each of its points."""

    client: int
    distance: Float[Array, " k"]
    cost: Cost


def cost_curves(
    population: ContinuousPopulation, box: Float[Array, " i"], weights: Float[Array, " i"]
) -> list[MemberCost]:
    """Return what each client's move towards parity costs, up to the end of its box.

    Args:
        population: laws with densities, two groups.
        box: the largest distance of each client's threshold; 0 for a client that does not move.
        weights: the vote of each client.

    >>> from fedfb.theory.population import fig2
    >>> [cost.client for cost in cost_curves(fig2(), np.array([0.0, -1.0]), np.array([0.5, 0.5]))]
    [1]
    """
    moving = np.flatnonzero(box)
    evenly = box[moving, None] * np.linspace(0.0, 1.0, POINTS)
    pooled = _pooled_curves(population, moving, evenly)
    amounts, _ = _on_paths(population, moving, evenly, pooled)
    goals = amounts[:, -1:] * np.linspace(0.0, 1.0, POINTS)
    extra = [np.interp(*row) for row in zip(goals, amounts, evenly, strict=True)]
    distances = np.sort(np.abs(np.concatenate([evenly, np.array(extra)], axis=1)), axis=1)
    distances = distances * np.sign(box[moving, None])
    amounts, losses = _on_paths(population, moving, distances, pooled)
    return [
        MemberCost(
            int(j), distances[row], Cost(weights[j] * amounts[row], weights[j] * losses[row])
        )
        for row, j in enumerate(moving)
    ]


Pooled = tuple[tuple[CubicHermiteSpline, CubicHermiteSpline], ...]


def _pooled_curves(
    population: ContinuousPopulation, moving: Int[Array, " m"], distances: Float[Array, "m k"]
) -> Pooled:
    """Return rate and gain above a threshold on the pooled law, for each group, as splines.

    The splines only guide the search: the final rules are evaluated without them.
    """
    first, second = _paths(population, moving, distances)
    return tuple(_splines(population, group, t) for group, t in enumerate((first, second)))


def _splines(
    population: ContinuousPopulation, group: int, t: Float[Array, "m k"]
) -> tuple[CubicHermiteSpline, CubicHermiteSpline]:
    laws, table = population.pooled[group], population.pooled_gains[group]
    low, high = float(t.min()) - 1e-9, float(t.max()) + 1e-9
    pieces = 4000 if population.clients <= 10 else 1000
    knots = np.unique(np.concatenate([part.knots for part in laws.parts]))
    knots = knots[(knots > low) & (knots < high)]
    knots = np.concatenate([[low], knots[:: max(1, len(knots) // pieces)], [high]])
    finer = np.interp(np.arange(16 * len(knots)) / 16, np.arange(len(knots)), knots)
    finer = finer[:: max(1, len(finer) // pieces)]
    points = np.unique(np.concatenate([np.linspace(low, high, pieces), finer]))
    # Points that almost coincide would give a spline coefficients beyond all floats.
    grid = points[np.diff(points, prepend=-np.inf) > 1e-7 * (high - low)][None, :]
    density = laws.ask("pdf", grid)[0]
    margin = population.eta.value(grid[0]) - population.eta.upper(grid[0])
    rate = CubicHermiteSpline(grid[0], laws.ask("sf", grid)[0], -density)
    return rate, CubicHermiteSpline(grid[0], table.at(grid)[0], -density * margin)


def _paths(
    population: ContinuousPopulation, moving: Int[Array, " m"], distances: Float[Array, "m k"]
) -> tuple[Float[Array, "m k"], Float[Array, "m k"]]:
    """Return the two thresholds along each client's path."""
    points = distances.shape[1]
    problem = local_problem(population)
    shares = np.repeat(problem.shares[moving], points, axis=0)
    pairs = pairs_at(ThresholdProblem(problem.eta, shares, problem.laws), distances.ravel())
    return pairs.t0.reshape(-1, points), pairs.t1.reshape(-1, points)


def _on_paths(
    population: ContinuousPopulation,
    moving: Int[Array, " m"],
    distances: Float[Array, "m k"],
    pooled: Pooled,
) -> tuple[Float[Array, "m k"], Float[Array, "m k"]]:
    """Return how far each path moves the mean difference, and the accuracy it loses."""
    t0, t1 = _paths(population, moving, distances)
    (rate0, gain0), (rate1, gain1) = pooled
    gaps = rate0(t0) - rate1(t1)
    share0, share1 = population.group_shares
    accuracy = share0 * gain0(t0) + share1 * gain1(t1)
    amounts = np.abs(gaps[:, :1] - gaps)
    # Rounding may leave steps back of 1e-17, on which a curve cannot be inverted.
    return np.maximum.accumulate(amounts, axis=1), np.maximum(accuracy[:, :1] - accuracy, 0.0)


def _at_level(
    population: ContinuousPopulation,
    box: Float[Array, " i"],
    weights: Float[Array, " i"],
    costs: list[MemberCost],
    start: float,
    level: float,
) -> CurvePoint:
    if population.equal_mix:  # water-filling: all move alike, each up to the end of its box
        equal_shifts = _shift_to_goal(population, box, weights, 0.0 * box, np.sign(start) * level)
        return CurvePoint(level, ensemble_at(population, equal_shifts, weights))
    most = sum(float(member.cost.amount[-1]) for member in costs)
    shared = allocate([member.cost for member in costs], min(abs(start) - level, most))
    sizes = np.zeros(len(box))
    for member, amount in zip(costs, shared.amounts, strict=True):
        sizes[member.client] = np.interp(amount, member.cost.amount, np.abs(member.distance))
    distances = _shift_to_goal(population, box, weights, sizes, np.sign(start) * level)
    gap = max(shared.cost - shared.bound, 0.0)
    exact = gap < 1e-8 or len(costs) <= MOST_ON_GRIDS
    return CurvePoint(level, ensemble_at(population, distances, weights), gap, exact)


def _shift_to_goal(
    population: ContinuousPopulation,
    box: Float[Array, " i"],
    weights: Float[Array, " i"],
    sizes: Float[Array, " i"],
    goal: float,
) -> Float[Array, " i"]:
    """Shift all moving thresholds together by the small amount that meets the goal."""
    sign = np.sign(box)

    def moved(shift: float) -> Float[Array, " i"]:
        return sign * np.clip(sizes + shift, 0.0, np.abs(box))

    toward = np.sign(sign[np.argmax(np.abs(sign))])
    low, high = -1e-6, 1e-6
    while high < 1e9 and toward * (weights @ member_gaps(population, moved(high)) - goal) < 0:
        high *= 8
    while low > -1e9 and toward * (weights @ member_gaps(population, moved(low)) - goal) > 0:
        low *= 8
    for _ in range(60):
        middle = 0.5 * (low + high)
        short = toward * (weights @ member_gaps(population, moved(middle)) - goal) < 0
        low, high = (middle, high) if short else (low, middle)
    return moved(high)
