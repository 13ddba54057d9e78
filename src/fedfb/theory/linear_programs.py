r"""LFT+FedAvg by linear programs: on cells with exact masses, and on atoms.

.. math:: \max_f \sum_{a,k} f_{ak} h_{ak} \quad\text{s.t.}\quad
          |\sum_k f_{0k} m_{i0k} - f_{1k} m_{i1k}| \le \epsilon_i, \quad 0\le f\le 1

:math:`m_{iak}` is client i's mass in cell k and :math:`h_{ak}` what accuracy gains there. A rule
that is constant on cells is a rule: the program's optimum is feasible, and optimal up to the width
of the cells at the ends of its intervals. On atoms, where each cell is one point, it is exact.

At a tie the optimum of given budgets is not unique. Disparities therefore jump as budgets move, and
no smooth search is possible. Budgets are tried on a grid, and between the best budgets that meet a
level and the best that do not: a heuristic. ``gap`` is the distance to CFL's accuracy, which
nothing can exceed. For an exact curve use histograms instead of atoms: densities have no ties.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from fedfb.shapes import Array, Float
from fedfb.theory.atoms import cfl_of_atoms, erm_of_atoms, gap_rows, pooled_masses, solve_program
from fedfb.theory.measures import PARITY, CurvePoint, Decisions, Solution, Steps, TradeOff, outcome
from fedfb.theory.overlap import Overlap, tilt
from fedfb.theory.population import AtomPopulation, ContinuousPopulation

MOST_SPLIT = 24
"""Cells of a group that are split in one round."""


class CellOptimum(NamedTuple):
    """The program's multipliers and its rule."""

    lam: Float[Array, " i"]
    rule: tuple[Steps, Steps]


def solve_on_cells(
    population: ContinuousPopulation,
    eps: Float[Array, " i"],
    edges: tuple[Float[Array, " k"], Float[Array, " l"]],
) -> CellOptimum:
    """Return the optimum among rules that are constant between edges.

    Args:
        population: laws with densities, two groups.
        eps: one budget for each client.
        edges: edges of the cells of group 0 and of group 1.
    """
    gain, masses = [], []
    for group in (0, 1):
        ends = np.concatenate([[-np.inf], edges[group], [np.inf]])[None, :]
        below = population.laws[group].ask("cdf", ends)
        above = population.laws[group].ask("sf", ends)
        # A difference of two numbers near 1 loses digits: take the smaller of the two tails.
        mass = np.where(below[:, 1:] < 0.5, np.diff(below, axis=1), -np.diff(above, axis=1))
        gain.append(population.group_shares[group] * _gain_in_cells(population, group, ends[0]))
        masses.append(mass)
    gaps = np.concatenate([masses[0], -masses[1]], axis=1)
    # A gap is at most 1, so a budget of 1 is no constraint.
    bound = population.constrained & (eps < 1)
    f, multipliers = solve_program(np.concatenate(gain), gaps[bound], eps[bound])
    lam = np.zeros(population.clients)
    lam[bound] = multipliers
    first = len(edges[0]) + 1
    return CellOptimum(lam, (_steps(edges[0], f[:first]), _steps(edges[1], f[first:])))


def _steps(edges: Float[Array, " k"], values: Float[Array, " k+1"]) -> Steps:
    """Return decisions without the edges at which nothing changes; these are most edges."""
    changes = np.diff(values) != 0
    return Steps(edges[changes], np.concatenate([values[:1], values[1:][changes]]))


def _gain_in_cells(
    population: ContinuousPopulation, group: int, ends: Float[Array, " k"]
) -> Float[Array, " c"]:
    table = population.pooled_gains[group]
    # Exact gains at every edge cost too much with many clients; inner cells then take four nodes.
    if population.clients <= 50:
        return -np.diff(table.at(ends[None, :])[0])
    outer = table.at(ends[None, [0, 1, -2, -1]])[0]
    inner = table.between(ends[1:-1])[0]
    return np.concatenate([[outer[0] - outer[1]], inner, [outer[2] - outer[3]]])


def first_edges(grid: Overlap, cells: int) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Return edges for both groups, dense where clients have mass.

    Args:
        grid: the overlap of the population.
        cells: about how many cells a group gets.
    """
    population = grid.population
    x = grid.nodes
    steps = []
    for laws in population.laws:
        below = laws.ask("cdf", x[None, :]).mean(axis=0)
        even = np.arange(len(x)) / len(x)
        goals = np.linspace(0, 1, cells // 2 + 2)[1:-1]
        by_mass = np.interp(goals, below + 1e-9 * even, x)
        by_node = np.interp(goals, even, x)
        steps.append(np.unique(np.concatenate([by_mass, by_node])))
    return steps[0], steps[1]


def finer_edges(
    grid: Overlap,
    lam: Float[Array, " i"],
    edges: tuple[Float[Array, " k"], Float[Array, " l"]],
    parts: int = 8,
) -> tuple[Float[Array, " m"], Float[Array, " n"]]:
    """Split the cells in which T changes its sign, or nearly does.

    Args:
        grid: the overlap of the population.
        lam: multipliers of the last program.
        edges: edges of the cells of both groups.
        parts: number of cells that a split cell becomes.
    """
    first = _finer(grid, 0, lam, edges[0], parts)
    return first, _finer(grid, 1, lam, edges[1], parts)


def _finer(
    grid: Overlap, group: int, lam: Float[Array, " i"], edges: Float[Array, " k"], parts: int
) -> Float[Array, " m"]:
    values = tilt(grid.population, group, lam, edges)
    change = np.sign(values[:-1]) != np.sign(values[1:])
    bend = np.abs(np.diff(values)) / np.maximum(
        np.minimum(np.abs(values[:-1]), np.abs(values[1:])), 1e-300
    )
    urgency = np.where(change, np.inf, bend)
    # Neighbours too: the multipliers still move, and the changes with them.
    urgency = np.maximum(
        urgency, np.maximum(np.append(urgency[1:], 0), np.insert(urgency[:-1], 0, 0))
    )
    chosen = np.argsort(-urgency, kind="stable")[:MOST_SPLIT]
    chosen = chosen[urgency[chosen] > 0.5]
    inside = np.linspace(0, 1, parts + 1)[1:-1]
    low, high = edges[:-1][chosen], edges[1:][chosen]
    added: Array = low[:, None] + (high - low)[:, None] * inside
    return np.unique(np.concatenate([edges, added.ravel()]))


PARTS = (0.0, 0.25, 0.5, 0.75, 1.0)
MOST_PROGRAMS = 130
HALVINGS = 8
_ROUNDING = 1e-12
_TIE = 1e-11
"""Optima that differ by less accuracy are alike."""


def optimum(population: AtomPopulation, eps: Float[Array, " i"]) -> Solution:
    """Return the optimum of given budgets.

    Atoms with the same score tie, and the optimum is then not unique: the fairest optimum is
    returned. ``multipliers`` has one number for each client, or for more than two groups one for
    each client and group.

    Args:
        population: the population.
        eps: bound on each client's disparity: spd, or ``max |P_a - P|`` for more than two groups.
    """
    clients, groups = population.clients, population.groups
    weight = np.einsum("ia,iak->ak", population.joint, population.masses)
    gain = (weight * (2 * population.eta - 1)).ravel()
    rows, bounds, places = _constraints(population, eps)
    f, multipliers = solve_program(gain, rows, bounds)
    f = _fairest(population, f, gain, rows, bounds)
    lam = np.zeros((clients, groups if groups > 2 else 1))
    for (i, a), value in zip(places, multipliers, strict=True):
        lam[i, a] = value
    rule = Decisions(f.reshape(groups, -1))
    dual = np.maximum(gain + multipliers @ rows, 0.0).sum() + bounds @ np.abs(multipliers)
    gap = max(float(dual - gain @ f), 0.0)
    return Solution(rule, outcome(population, rule), lam.ravel(), eps, gap)


def _fairest(
    population: AtomPopulation,
    f: Float[Array, " n"],
    gain: Float[Array, " n"],
    rows: Float[Array, "r n"],
    bounds: Float[Array, " r"],
) -> Float[Array, " n"]:
    """Return the optimum of least disparity among the optima of a program, of which f is one."""
    pooled = pooled_masses(population)
    if population.groups == 2:
        ways = np.concatenate([pooled[0], -pooled[1]])[None, :]
    else:
        ways = gap_rows(population.group_shares, pooled)
    if np.abs(ways @ f).max() <= _ROUNDING:
        return f
    # One more variable bounds every disparity; it is made as small as the optima allow.
    limits = np.concatenate([ways, -ways, rows, -rows, -gain[None, :]])
    slack = np.repeat([-1.0, 0.0], [2 * len(ways), 2 * len(rows) + 1])[:, None]
    solved = linprog(
        np.append(np.zeros(len(f)), 1.0),
        A_ub=np.concatenate([limits, slack], axis=1),
        b_ub=np.concatenate([np.zeros(2 * len(ways)), bounds, bounds, [_TIE - gain @ f]]),
        bounds=(0.0, 1.0),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    better = np.clip(solved.x[:-1], 0.0, 1.0) if solved.success else f
    return better if np.abs(ways @ better).max() < np.abs(ways @ f).max() else f


def _constraints(
    population: AtomPopulation, eps: Float[Array, " i"]
) -> tuple[Float[Array, "r n"], Float[Array, " r"], list[tuple[int, int]]]:
    rows: list[Array] = []
    bounds: list[float] = []
    places: list[tuple[int, int]] = []
    for i in np.flatnonzero(population.constrained):
        masses = population.masses[i]
        if population.groups == 2:
            rows.append(np.concatenate([masses[0], -masses[1]]))
            bounds.append(float(eps[i]))
            places.append((int(i), 0))
        else:
            present = np.flatnonzero(population.joint[i])
            rows.extend(gap_rows(population.within[i], masses)[present])
            bounds.extend([float(eps[i])] * len(present))
            places.extend((int(i), int(a)) for a in present)
    width = population.groups * len(population.eta)
    return np.array(rows).reshape(-1, width), np.array(bounds), places


def trade_off(population: AtomPopulation, levels: list[float]) -> TradeOff:
    """Return the best optimum at each level, and the fairest of all budgets that were tried.

    Args:
        population: the population.
        levels: bounds on spd, or on ``max |P_a - P|`` for more than two groups.
    """
    candidates = _solve_grid(population)
    best_at: dict[float, Solution | None] = {}
    for level in sorted(set(levels)):
        best_at[level] = _best(population, candidates, level)
        # What is fair enough at a level is so at the next.
        candidates = [
            solution for solution in [best_at[level]] if solution is not None
        ] + candidates
    points = []
    for level in levels:
        ceiling = cfl_of_atoms(population, level).outcome.accuracy
        best = best_at[level]
        gap = 0.0 if best is None else max(ceiling - best.outcome.accuracy, 0.0)
        points.append(CurvePoint(level, best, gap, exact=gap < 1e-9))
    fairest = min(
        candidates,
        key=lambda solution: (_disparity(population, solution), -solution.outcome.accuracy),
    )
    return TradeOff(fairest, points)


def _disparity(population: AtomPopulation, solution: Solution) -> float:
    """Return the disparity that levels bound: spd, or ``max |P_a - P|`` of more than two groups."""
    reached = solution.outcome
    return reached.spd if population.groups == 2 else reached.demographic_parity


def _solve_grid(population: AtomPopulation) -> list[Solution]:
    disparities, bound = _local_disparities(population), np.flatnonzero(population.constrained)
    parts = next(
        (p for p in (PARTS, PARTS[::2], (0.0, 1.0)) if len(p) ** len(bound) <= MOST_PROGRAMS), None
    )
    if parts is not None:
        scales = [np.array(p) * disparities[bound] for p in product(parts, repeat=len(bound))]
    else:
        scales = [
            p * scale
            for scale in (disparities[bound], np.full(len(bound), disparities.max()))
            for p in PARTS
        ]
    budgets = np.ones((len(scales), population.clients))
    budgets[:, bound] = np.array(scales)
    return [optimum(population, eps) for eps in budgets]


def _local_disparities(population: AtomPopulation) -> Float[Array, " i"]:
    """Return the disparity of the unconstrained optimum at each client."""
    plain = erm_of_atoms(population)
    if population.groups == 2:
        return np.nan_to_num(np.abs(plain.outcome.client_gaps))
    assert isinstance(plain.rule, Decisions)
    rates = (population.masses * plain.rule.probability).sum(axis=2)
    overall = (population.within * rates).sum(axis=1, keepdims=True)
    return np.where(population.joint > 0, np.abs(rates - overall), 0.0).max(axis=1)


def _best(population: AtomPopulation, candidates: list[Solution], level: float) -> Solution | None:
    """Return the best optimum within a level: between candidates, then client by client."""
    inside = [
        solution for solution in candidates if _disparity(population, solution) <= level + PARITY
    ]
    if not inside:
        return None
    best = max(inside, key=lambda solution: solution.outcome.accuracy)
    better = [
        solution for solution in candidates if solution.outcome.accuracy > best.outcome.accuracy
    ]
    for target in sorted(better, key=lambda solution: _disparity(population, solution))[:3]:
        best = _loosen(population, best, target.local_budgets, level)
    for client in np.flatnonzero(population.constrained):
        loose = best.local_budgets.copy()
        loose[client] = candidates[-1].local_budgets[client]
        best = _loosen(population, best, loose, level)
    return best


def _loosen(
    population: AtomPopulation, best: Solution, goal: Float[Array, " i"], level: float
) -> Solution:
    """Return the best optimum that bisection finds between its budgets and looser budgets."""
    low, high = best.local_budgets, goal
    for _ in range(HALVINGS if np.any(low != high) else 0):
        middle = 0.5 * (low + high)
        candidate = optimum(population, middle)
        fits = _disparity(population, candidate) <= level + PARITY
        low, high = (middle, high) if fits else (low, middle)
        if fits and candidate.outcome.accuracy > best.outcome.accuracy:
            best = candidate
    return best
