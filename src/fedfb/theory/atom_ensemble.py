r"""LFT+Ensemble on atoms: each client's path is a list of moves, so curves are polygons.

A level of disparity is divided among the clients at the least cost, where each has its own curve:

.. math:: \min_y \sum_j c_j(y_j) \quad\text{s.t.}\quad \sum_j y_j = Y,\; 0\le y_j\le Y_j

The lower convex envelopes of the curves give a lower bound. Where the curves are convex this bound
is the optimum: take the cheapest slopes first (water-filling). Elsewhere dynamic programming on a
grid, refined around its optimum, finds the optimum. ``bound`` is valid in both cases.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedfb.shapes import Array, Float, Int
from fedfb.theory.atoms import (
    Moves,
    amount_for,
    apply_moves,
    levels_of,
    list_moves,
    pooled_masses,
    solve_many_groups,
    sum_by_level,
)
from fedfb.theory.atoms import cfl_of_atoms as pooled_optimum
from fedfb.theory.measures import PARITY, CurvePoint, Decisions, Outcome, Solution, outcome
from fedfb.theory.population import AtomPopulation

GRID = 1500
ZOOMS = 4
MOST_ON_GRIDS = 12
"""Beyond, the program by grids is left out: one client of many off its envelope costs little."""


class Cost(NamedTuple):
    """A cost curve through points; ``amount`` and ``cost`` increase from 0."""

    amount: Float[Array, " k"]
    cost: Float[Array, " k"]

    def at(self, y: Array) -> Array:
        return np.interp(y, self.amount, self.cost)


class Allocation(NamedTuple):
    """Each client's amount, the total cost, and a lower bound on the cost of any allocation."""

    amounts: Float[Array, " j"]
    cost: float
    bound: float


def allocate(costs: Sequence[Cost], total: float) -> Allocation:
    """Return the cheapest division of a total.

    Args:
        costs: one increasing curve for each client; its last amount is the most the client can
            take.
        total: the amount to divide, at most the sum of what all clients can take.

    >>> quadratic = Cost(np.linspace(0, 1, 101), np.linspace(0, 1, 101) ** 2)
    >>> allocate([quadratic, quadratic], 0.5).amounts.round(2)
    array([0.25, 0.25])
    """
    filled = _by_envelopes(costs, total)
    # An allocation that costs as much as its lower bound is optimal.
    if filled.cost - filled.bound < 1e-8 or len(costs) > MOST_ON_GRIDS:
        return filled
    amounts = _by_grids(costs, total)
    cost = sum(float(c.at(y)) for c, y in zip(costs, amounts, strict=True))
    return Allocation(amounts, cost, filled.bound) if cost < filled.cost else filled


def _by_envelopes(costs: Sequence[Cost], total: float) -> Allocation:
    hulls = [lower_hull(c.amount, c.cost) for c in costs]
    widths = [np.diff(c.amount[h]) for c, h in zip(costs, hulls, strict=True)]
    rises = [np.diff(c.cost[h]) for c, h in zip(costs, hulls, strict=True)]
    owner = np.concatenate([np.full(len(w), j) for j, w in enumerate(widths)])
    width, rise = np.concatenate(widths), np.concatenate(rises)
    # Stable: equal slopes are taken client by client, however the sort works.
    order = np.argsort(rise / width, kind="stable")
    offsets = np.concatenate([[0.0], np.cumsum(width[order])[:-1]])
    portions = np.clip(total - offsets, 0.0, width[order])
    bound = float((rise[order] * portions / width[order]).sum())
    amounts = np.bincount(owner[order], weights=portions, minlength=len(costs))
    cost = sum(float(c.at(y)) for c, y in zip(costs, amounts, strict=True))
    # Rounding may put the bound a little above the cost.
    return Allocation(amounts, cost, min(bound, cost))


def lower_hull(x: Float[Array, " k"], y: Float[Array, " k"]) -> Int[Array, " h"]:
    """Return the indices of the points on the lower convex hull.

    Args:
        x: coordinates, increasing; of equal ones the first counts.
        y: values at x.

    >>> lower_hull(np.array([0.0, 1.0, 2.0]), np.array([0.0, 2.0, 1.0]))
    array([0, 2])
    """
    hull: list[int] = []
    for k in range(len(x)):
        if hull and x[k] <= x[hull[-1]]:
            continue
        while len(hull) > 1:
            i, j = hull[-2], hull[-1]
            if (y[j] - y[i]) * (x[k] - x[i]) < (y[k] - y[i]) * (x[j] - x[i]):
                break
            hull.pop()
        hull.append(k)
    return np.array(hull)


def _by_grids(costs: Sequence[Cost], total: float) -> Float[Array, " j"]:
    most = np.array([c.amount[-1] for c in costs])
    low, high = np.zeros(len(costs)), np.minimum(most, total)
    amounts, points = low, GRID
    for _ in range(ZOOMS):
        step = max((high - low).max() / points, 1e-15)
        amounts = _one_grid(costs, total, low, high, step)
        # The next grid covers four steps to both sides, so that a neighbour's optimum stays inside.
        low = np.maximum(amounts - 4 * step, 0.0)
        high = np.minimum(amounts + 4 * step, np.minimum(most, total))
        points = 80
    return amounts


def _one_grid(costs: Sequence[Cost], total: float, low: Array, high: Array, step: float) -> Array:
    """Solve with all clients but one on grids; the client of the widest range takes the rest."""
    # One client needs no grid, as it takes the rest: that of the widest range.
    rest = int(np.argmax(high - low))
    others = [j for j in range(len(costs)) if j != rest]
    sums, values = np.zeros(1), np.zeros(1)
    choices: list[tuple[Array, Int[Array, " n"]]] = []
    for j in others:
        grid = np.append(np.arange(low[j], high[j], step), high[j])
        # The best cost of the clients so far for every sum: a (min, +) convolution.
        values, pick = _merge(values, costs[j].at(grid))
        sums = low[others[: len(choices) + 1]].sum() + step * np.arange(len(values))
        choices.append((grid, pick))
    remainder = total - sums
    slack = len(costs) * step  # a grid's last step may be shorter than the others
    fits = (remainder >= -slack) & (remainder <= costs[rest].amount[-1] + slack)
    total_cost = np.where(fits, values + costs[rest].at(remainder), np.inf)
    at = int(np.argmin(total_cost))
    amounts = np.zeros(len(costs))
    for j, (grid, pick) in zip(reversed(others), reversed(choices), strict=True):
        amounts[j] = grid[pick[at]]
        at = at - int(pick[at])
    amounts[rest] = total - amounts.sum()
    return _repair(amounts, np.array([c.amount[-1] for c in costs]), total)


def _repair(amounts: Array, most: Array, total: float) -> Float[Array, " j"]:
    """Move the small amount that does not fit one client to clients that have room for it."""
    amounts = np.clip(amounts, 0.0, most)
    for _ in range(2):
        missing = total - amounts.sum()
        room = most - amounts if missing > 0 else amounts
        if room.sum() > 0:
            # In proportion to the room, so that nobody is pushed beyond a limit.
            amounts = np.clip(amounts + missing * room / room.sum(), 0.0, most)
    return amounts


def _merge(first: Float[Array, " m"], second: Float[Array, " n"]) -> tuple[Array, Array]:
    r"""Return :math:`\min_k (first_{t-k} + second_k)` for every t, and the best k."""
    size = len(first) + len(second) - 1
    best, pick = np.full(size, np.inf), np.zeros(size, dtype=int)
    for k, value in enumerate(second):
        window = slice(k, k + len(first))
        better = first + value < best[window]
        best[window] = np.where(better, first + value, best[window])
        pick[window] = np.where(better, k, pick[window])
    return best, pick


_ROUNDING = 1e-12


class Path(NamedTuple):
    """A client's way from the unconstrained optimum to its local parity.

    Attributes:
        moves: the moves, in order.
        steps: the mass that each move shifts at the client.
        gap: the client's mean difference before the first move.
        end: the number of moves to parity; the last move may be partial.
    """

    moves: Moves
    steps: Float[Array, " m"]
    gap: float
    end: float


def make_paths(population: AtomPopulation) -> list[Path]:
    """Return every client's path; a client that lacks a group does not move."""
    values, _ = levels_of(population.eta)
    accepted = values > 0.5
    result = []
    for i in range(population.clients):
        local_masses = sum_by_level(population.eta, population.masses[i])
        gap = float(local_masses[0, accepted].sum() - local_masses[1, accepted].sum())
        # sign(0) is 0, which is no direction: without a gap any direction will do.
        way = list_moves(values, population.within[i], -np.sign(gap) or 1.0)
        steps = local_masses[way.group, way.level]
        end = amount_for(gap, steps, 0.0) if population.constrained[i] else 0.0
        result.append(Path(way, steps, gap, end))
    return result


def decisions_at(population: AtomPopulation, path: Path, amount: float) -> Float[Array, "2 k"]:
    """Return a client's decisions after a number of moves, at every point.

    Args:
        population: the population.
        path: the client's path.
        amount: number of moves; the fraction is the part of the last move.
    """
    values, level_of_point = levels_of(population.eta)
    return apply_moves(values, path.moves, amount)[:, level_of_point]


def local_optima_of_atoms(
    population: AtomPopulation, eps: Float[Array, " i"]
) -> list[tuple[float, float, Outcome, Decisions]]:
    """Return multiplier, local gap, outcome on all clients and rule of each client's optimum.

    Args:
        population: the population.
        eps: one budget for each client.
    """
    optima = []
    for i in range(population.clients):
        decisions, lam = _solve_locally(population, i, float(eps[i]))
        rule = Decisions(decisions)
        everywhere = outcome(population, rule)
        optima.append((lam, float(everywhere.client_gaps[i]), everywhere, rule))
    return optima


def _solve_locally(population: AtomPopulation, i: int, eps: float) -> tuple[Array, float]:
    unconstrained = np.repeat((population.eta > 0.5)[None, :], population.groups, axis=0) * 1.0
    if not population.constrained[i]:
        return unconstrained, 0.0
    if population.groups > 2:
        present, decisions = population.joint[i] > 0, unconstrained
        local_laws = population.within[i, present], population.masses[i, present]
        decisions[present], lams, _ = solve_many_groups(population.eta, *local_laws, eps)
        return decisions, float(lams[np.argmax(np.abs(lams))])
    path = make_paths(population)[i]
    amount = amount_for(path.gap, path.steps, eps)
    return decisions_at(population, path, amount), _multiplier(path, amount)


def _multiplier(path: Path, amount: float) -> float:
    begun = min(int(np.ceil(amount)), len(path.moves.lam))
    return float(path.moves.lam[begun - 1]) if begun else 0.0


def ensemble(
    population: AtomPopulation, eps: Float[Array, " i"], weights: Float[Array, " i"]
) -> Solution:
    """Return the ensemble of the local optima.

    Args:
        population: the population.
        eps: one budget for each client.
        weights: the vote of each client; they sum to 1.
    """
    members = local_optima_of_atoms(population, eps)
    rule = Decisions(np.einsum("i,iak->ak", weights, np.stack([m[3].probability for m in members])))
    return Solution(rule, outcome(population, rule), np.array([m[0] for m in members]), eps)


def _ensemble_at(
    population: AtomPopulation,
    ways: list[Path],
    amounts: Float[Array, " i"],
    weights: Float[Array, " i"],
) -> Solution:
    """Return the ensemble whose members have made some of their moves.

    Args:
        population: the population.
        ways: the path of each client.
        amounts: number of moves of each client; the fraction is the part of the last move.
        weights: the vote of each client; they sum to 1.
    """
    decisions = [decisions_at(population, w, a) for w, a in zip(ways, amounts, strict=True)]
    rule = Decisions(np.einsum("i,iak->ak", weights, np.stack(decisions)))
    lam = np.array([_multiplier(w, a) for w, a in zip(ways, amounts, strict=True)])
    remaining = [
        max(abs(w.gap) - float(np.interp(a, np.arange(len(w.steps) + 1), _cumulate(w.steps))), 0.0)
        for w, a in zip(ways, amounts, strict=True)
    ]
    budgets = np.where(population.constrained, remaining, 1.0)
    return Solution(
        rule, outcome(population, rule), lam, np.where(budgets < _ROUNDING, 0.0, budgets)
    )


def _cumulate(steps: Array) -> Array:
    return np.concatenate([[0.0], np.cumsum(steps)])


def range_of(
    population: AtomPopulation, weights: Float[Array, " i"]
) -> tuple[float, float, float, Float[Array, " i"], Float[Array, " i"]]:
    """Return low and high mean difference, least disparity, and its budgets and multipliers.

    Args:
        population: a population of two groups.
        weights: the vote of each client; they sum to 1.
    """
    ways = make_paths(population)
    ends = np.array([w.end for w in ways])
    raises = np.array([w.gap < 0 for w in ways])
    corners = [np.where(raises, 0.0, ends), np.where(raises, ends, 0.0)]
    low, high = (_ensemble_at(population, ways, c, weights) for c in corners)
    spans = low.outcome.mean_difference, high.outcome.mean_difference
    if spans[0] > PARITY or spans[1] < -PARITY:
        best = low if spans[0] > 0 else high
        least = best.outcome.spd
    else:
        best, least = _find_parity(population, ways, corners, weights), 0.0
    assert best.budgets is not None
    return (*spans, least, best.budgets, best.multipliers)


def _find_parity(
    population: AtomPopulation, ways: list[Path], corners: list[Array], weights: Array
) -> Solution:
    low, high = 0.0, 1.0
    for _ in range(60):
        part = 0.5 * (low + high)
        at = _ensemble_at(population, ways, (1 - part) * corners[0] + part * corners[1], weights)
        low, high = (part, high) if at.outcome.mean_difference < 0 else (low, part)
    return _ensemble_at(population, ways, (1 - high) * corners[0] + high * corners[1], weights)


def tau_of_atoms(population: AtomPopulation) -> float:
    """Return the disparity from which on the ensemble is as accurate as CFL."""
    unconstrained = pooled_optimum(population, 1.0).outcome.spd
    if not population.equal_mix:
        return unconstrained
    ways = make_paths(population)
    pooled = sum_by_level(population.eta, pooled_masses(population))
    accepted = levels_of(population.eta)[0] > 0.5
    gap = float(pooled[0, accepted].sum() - pooled[1, accepted].sum())
    if any(w.gap * gap <= 0 for w in ways):
        return unconstrained
    # One mix of groups: all clients make the same moves in the same order.
    way = min(ways, key=lambda w: w.end)
    shifted = _cumulate(pooled[way.moves.group, way.moves.level])
    reached = abs(gap) - float(np.interp(way.end, np.arange(len(shifted)), shifted))
    return max(reached, 0.0) if reached > _ROUNDING else 0.0


def curve(
    population: AtomPopulation, levels: list[float], weights: Float[Array, " i"]
) -> list[CurvePoint]:
    """Return the best ensemble at each level of ``spd``.

    Args:
        population: a population of two groups.
        levels: bounds on ``spd``.
        weights: the vote of each client; they sum to 1.
    """
    ways = make_paths(population)
    start = _ensemble_at(population, ways, np.zeros(len(ways)), weights)
    sign = np.sign(start.outcome.mean_difference)
    useful = [j for j, w in enumerate(ways) if w.gap * sign > 0 and w.end > 0]
    costs = [_cost(population, ways[j], float(weights[j])) for j in useful]
    most = sum(float(cost.amount[-1]) for _, cost in costs)
    points = []
    for level in levels:
        needed = start.outcome.spd - level
        if needed <= _ROUNDING:
            points.append(CurvePoint(level, start))
        elif needed > most + PARITY:
            points.append(CurvePoint(level, None))
        else:
            shared = allocate([cost for _, cost in costs], min(needed, most))
            amounts = np.zeros(len(ways))
            for j, (at, cost), y in zip(useful, costs, shared.amounts, strict=True):
                amounts[j] = np.interp(y, cost.amount, at)
            gap = max(shared.cost - shared.bound, 0.0)
            exact = gap < 1e-8 or len(costs) <= MOST_ON_GRIDS
            solution = _ensemble_at(population, ways, amounts, weights)
            points.append(CurvePoint(level, solution, gap, exact))
    return points


def _cost(population: AtomPopulation, path: Path, weight: float) -> tuple[Array, Cost]:
    """Return numbers of moves of a member, and their cost in accuracy by the mass they shift."""
    values, _ = levels_of(population.eta)
    pooled = sum_by_level(population.eta, pooled_masses(population))
    at = path.moves.group, path.moves.level
    shifted = pooled[at]
    lost = population.group_shares[path.moves.group] * shifted * np.abs(2 * values - 1)[at[1]]
    steps = np.arange(len(shifted) + 1)
    counts = np.append(steps[steps < path.end], path.end)
    amount = np.interp(counts, steps, weight * _cumulate(shifted))
    return counts, Cost(amount, np.interp(counts, steps, weight * _cumulate(lost)))
