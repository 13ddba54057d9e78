r"""LFT+FedAvg as a linear program on cells with exact masses.

.. math:: \max_f \sum_{a,k} f_{ak} h_{ak} \quad\text{s.t.}\quad
          |\sum_k f_{0k} m_{i0k} - f_{1k} m_{i1k}| \le \epsilon_i, \quad 0\le f\le 1

:math:`m_{iak}` is client i's mass in cell k and :math:`h_{ak}` what accuracy gains there. A rule
that is constant on cells is a rule: the program's optimum is feasible, and optimal up to the width
of the cells at the ends of its intervals.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from fedfb.shapes import Array, Float
from fedfb.theory.measures import Steps
from fedfb.theory.overlap import Overlap, tilt
from fedfb.theory.population import ContinuousPopulation

_AT_ONCE = 24
VIOLATED = 1e-11
MOST_SPLIT = 24
"""Cells of a group that are split in one round."""


class CellOptimum(NamedTuple):
    """The program's multipliers and its rule."""

    lam: Float[Array, " i"]
    rule: tuple[Steps, Steps]


def solve_program(
    gain: Float[Array, " n"], gaps: Float[Array, "i n"], eps: Float[Array, " i"]
) -> tuple[Float[Array, " n"], Float[Array, " i"]]:
    r"""Return the best f in [0, 1] with :math:`|v_i \cdot f|\le\epsilon_i`, and the multipliers.

    .. math:: \lambda_i = \lambda_i'' - \lambda_i' \quad\text{of}\quad
              v_i f\le\epsilon_i,\; -v_i f\le\epsilon_i

    Args:
        gain: accuracy gained by deciding a cell positively.
        gaps: the rows :math:`v_i`.
        eps: the bounds.

    >>> f, lam = solve_program(np.array([1.0, 0.5]), np.array([[1.0, -1.0]]), np.array([0.3]))
    >>> f                                   # one client, one atom for each group
    array([1., 1.])
    >>> solve_program(np.array([1.0, -0.5]), np.array([[1.0, -1.0]]), np.array([0.3]))[0]
    array([1. , 0.7])
    """
    f, lam = (gain > 0).astype(float), np.zeros(len(gaps))
    chosen = np.zeros(len(gaps), bool)
    # Of many clients few are bound at the optimum: take in only those that the last one violates.
    while True:
        excess = np.where(chosen, 0.0, np.abs(gaps @ f) - eps)
        worst = np.argsort(-excess, kind="stable")[: max(_AT_ONCE, int(chosen.sum()))]
        worst = worst[excess[worst] > VIOLATED]
        if len(worst) == 0:
            return f, lam
        chosen[worst] = True
        f, lam[chosen] = _solve_all(gain, gaps[chosen], eps[chosen])


def _solve_all(
    gain: Float[Array, " n"], gaps: Float[Array, "i n"], eps: Float[Array, " i"]
) -> tuple[Float[Array, " n"], Float[Array, " i"]]:
    solved = linprog(
        -gain,
        A_ub=np.concatenate([gaps, -gaps]),
        b_ub=np.concatenate([eps, eps]),
        bounds=(0.0, 1.0),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if not solved.success:
        raise ArithmeticError(f"the linear program did not finish: {solved.message}")
    # A row and its negative bound one gap from both sides, and share one multiplier.
    marginals = solved.ineqlin.marginals
    # The solver may leave its bounds by its tolerance; a probability may not.
    return np.clip(solved.x, 0.0, 1.0), marginals[: len(eps)] - marginals[len(eps) :]


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
