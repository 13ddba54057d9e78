r"""Settle the budgets of LFT+FedAvg near given multipliers, so that a level is met exactly.

A search in :math:`\lambda` ends close to, not exactly at, a rule that some budgets attain. The rule
of the budgets it points to is attainable by construction; then one client's budget is moved until
the mean difference of all is within the level. With W the clients whose budget binds,
:math:`\sigma` the signs of their multipliers, :math:`J_a` the slopes of the rates and
:math:`w_{ia} = P(i\mid a)`,

.. math:: \frac{\partial\mathrm{MD}}{\partial\epsilon_W} =
          -(w_0^\top J_0 + w_1^\top J_1)_W\, (J_0 + J_1)_{WW}^{-1} \operatorname{diag}(\sigma)
"""

import numpy as np

from fedfb.shapes import Array, Float
from fedfb.theory.lft_fedavg import solve
from fedfb.theory.overlap import Overlap, gaps_of
from fedfb.theory.solution import Solution

CLOSE = 1e-10
TRIED = 2
SWEEPS = 3
STRIDE = 0.002
"""How far a budget is moved at first to find the other side of a kink."""

FAR = 0.02
"""A search that ends farther from its level than this has not reached it."""


def settled(grid: Overlap, lam: Float[Array, " i"], level: float) -> Solution | None:
    """Return an optimum near given multipliers with spd at most a level, or None.

    >>> from fedfb.theory.overlap import overlap
    >>> from fedfb.theory.settings import fig2
    >>> round(settled(overlap(fig2()), np.array([0.0, -0.09]), 0.1).outcome.spd, 9)
    0.1
    """
    if not np.all(np.isfinite(lam)) or np.abs(lam).max(initial=0.0) > 1e3:
        return None
    lam = np.where(np.abs(lam) < 1e-12, 0.0, lam)
    gaps = gaps_of(grid, lam).gaps
    eps = np.where(lam * gaps > 0, 0.0, np.abs(gaps))
    eps = np.where(grid.population.constrained, np.minimum(eps, 1.0), 1.0)
    return _met(grid, solve(grid, eps, lam), level)


def snapped(grid: Overlap, solution: Solution, level: float) -> Solution | None:
    """Return the optimum nearby at which clients that are almost tight or loose are so.

    A search ends a little before the corner at which a multiplier or a budget is 0.
    """
    lam, eps, free = solution.multipliers, solution.local_budgets, grid.population.constrained
    small = 0.01 * np.abs(lam).max(initial=0.0)
    loose = free & (lam != 0) & (np.abs(lam) < small)
    tight = free & (eps > 0) & (eps < 0.002) & ~loose & (lam != 0)
    if not (loose | tight).any():
        return None
    eps = np.where(loose, 1.0, np.where(tight, 0.0, eps))
    return _met(grid, solve(grid, eps, np.where(loose, 0.0, lam)), level)


def flipped(grid: Overlap, solution: Solution, level: float) -> Solution:
    """Return the best optimum found by making one client after the other tight or loose."""
    best = solution
    for client in np.flatnonzero(grid.population.constrained):
        for budget in (0.0, 1.0):
            eps = best.local_budgets.copy()
            eps[client] = budget
            there = _met(grid, solve(grid, eps, best.multipliers), level)
            if there is not None and there.outcome.accuracy > best.outcome.accuracy + 1e-7:
                best = there
    return best


def fairer(grid: Overlap, solution: Solution) -> Solution:
    """Return the optimum of least disparity found by moving one client's budget after the other.

    Where an interval is born the disparity has a kink in the budgets, and there it is often least.
    """
    best = solution
    for _ in range(SWEEPS):
        before = best.outcome.spd
        for client in np.flatnonzero(grid.population.constrained):
            best = _lowest(grid, best, int(client))
        if before - best.outcome.spd < 1e-8:
            break
    return best


def _lowest(grid: Overlap, start: Solution, client: int) -> Solution:
    """Return the least disparity along one budget: close in on where tangents from both sides meet.

    A slope that points out of [0, 1] ends the search.
    """
    sign, best, now = np.sign(start.outcome.mean_difference), start, start
    ends: dict[bool, tuple[float, float, float]] = {}
    stride = STRIDE
    for _ in range(14):
        at, height = float(now.local_budgets[client]), float(sign * now.outcome.mean_difference)
        slope = float(sign * parity_slope(grid, now)[client])
        if slope == 0 or height < 0:
            break
        ends[slope > 0] = (at, height, slope)
        if len(ends) < 2:
            goal, stride = float(np.clip(at - np.sign(slope) * stride, 0.0, 1.0)), 4 * stride
        else:
            (left, low, fall), (right, high, rise) = ends[False], ends[True]
            goal = (high - low + fall * left - rise * right) / (fall - rise)
            goal = float(np.clip(goal, min(left, right), max(left, right)))
        if abs(goal - at) < 1e-10:
            break
        eps = now.local_budgets.copy()
        eps[client] = goal
        now = solve(grid, eps, predicted(grid, now, eps))
        if abs(now.outcome.mean_difference) < best.outcome.spd:
            best = now
    return best


def _met(grid: Overlap, solution: Solution, level: float) -> Solution | None:
    """Return a solution that is within the level, or one nearby whose budgets are moved to it."""
    if level - 1e-7 <= solution.outcome.spd <= level + CLOSE or level >= 1.0:
        return solution
    if solution.outcome.spd > level + FAR:
        return None
    inside = solution if solution.outcome.spd <= level else None
    moved = _first_moved(grid, solution, level)
    if inside is None or moved is None:
        return moved or inside
    return max(inside, moved, key=lambda one: one.outcome.accuracy)


def _first_moved(grid: Overlap, solution: Solution, level: float) -> Solution | None:
    eps = solution.local_budgets
    slope = parity_slope(grid, solution)
    # Where an interval is about to be born a budget can pull hard one way and not at all the
    # other; large budgets are far from that.
    order = np.argsort(-np.where(slope != 0, eps, -1.0), kind="stable")[:TRIED]
    for client in order:
        moved = _moved(grid, solution, level, int(client), float(slope[client]))
        if moved is not None:
            return moved
    return None


def _moved(
    grid: Overlap, solution: Solution, level: float, client: int, pull: float
) -> Solution | None:
    """Move one client's budget until the level is met, by secants."""
    goal = np.sign(solution.outcome.mean_difference) * level
    eps, now = solution.local_budgets.copy(), solution
    for _ in range(8):
        if pull == 0:
            return None
        excess = now.outcome.mean_difference - goal
        before = float(eps[client])
        eps[client] = np.clip(before - excess / pull, 0.0, 1.0)
        if eps[client] == before:
            return None
        then = solve(grid, eps.copy(), predicted(grid, now, eps))
        change = then.outcome.mean_difference - now.outcome.mean_difference
        now, pull = then, change / (float(eps[client]) - before)
        if now.outcome.spd <= level + CLOSE and now.outcome.spd >= level - 1e-7:
            return now
    return now if now.outcome.spd <= level + CLOSE else None


def parity_slope(grid: Overlap, solution: Solution) -> Float[Array, " i"]:
    """Return how the mean difference of all moves with each budget."""
    lam = solution.multipliers
    binding = lam != 0
    slope = np.zeros(len(lam))
    if binding.any():
        seen = gaps_of(grid, lam)
        weights = grid.population.client_weights
        by_lam = weights[:, 0] @ seen.slopes[0] + weights[:, 1] @ seen.slopes[1]
        matrix: Array = seen.jacobian[np.ix_(binding, binding)]
        solved = np.linalg.lstsq(matrix, by_lam[binding], rcond=None)[0]
        slope[binding] = -solved * np.sign(lam[binding])
    return slope


def predicted(grid: Overlap, solution: Solution, eps: Float[Array, " i"]) -> Float[Array, " i"]:
    r"""Return multipliers for other budgets, to first order.

    .. math:: J_{WW}\, d\lambda_W = -\operatorname{diag}(\sigma)\, d\epsilon_W
    """
    lam, budgets = solution.multipliers, solution.local_budgets
    binding = lam != 0
    if not binding.any() or np.abs(eps - budgets).max() > 0.05:
        return lam
    matrix = gaps_of(grid, lam).jacobian[np.ix_(binding, binding)]
    change = -np.sign(lam[binding]) * (eps - budgets)[binding]
    moved = lam.copy()
    moved[binding] += np.linalg.lstsq(matrix, change, rcond=1e-9)[0]
    return np.where(lam * moved < 0, 0.0, moved)
