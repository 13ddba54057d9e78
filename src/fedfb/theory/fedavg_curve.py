r"""The trade-off of LFT+FedAvg: which local budgets are best at each level of disparity.

A rule :math:`f_\lambda` is the optimum for some budgets exactly if its multipliers and gaps differ
in sign,

.. math:: \{f_\lambda : \lambda_i M_i(\lambda)\le 0\;\text{for all } i\}, \qquad
          \epsilon_i = |M_i(\lambda)|

and the search is for the best accuracy in that set with :math:`|\mathrm{MD}|\le d`, which is not
convex. For up to four clients: a look at a dense grid of multipliers, a local search on softened
rules from the best place of each of several orthants, then one on exact rules; beside it a search
along lines of budgets. At last the budgets are settled, so that every point returned is the exact
optimum of its budgets. For more clients there is no grid, and two lines of budgets: a heuristic;
``gap`` is then the distance to CFL's accuracy, which nothing can exceed.
"""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from fedfb.shapes import Array, Float
from fedfb.theory import atom_fedavg
from fedfb.theory.budgets import MOST_CLIENTS, between, climb_budgets, explored
from fedfb.theory.cfl import cfl
from fedfb.theory.checks import checked_levels, refuse_more_than_two_groups
from fedfb.theory.lft_fedavg import solve
from fedfb.theory.overlap import Overlap, overlap
from fedfb.theory.population import AtomPopulation, Population
from fedfb.theory.settling import flipped, settled, snapped
from fedfb.theory.sketch import Glance, Sketch, exactly, glance, sketch, softened
from fedfb.theory.solution import CurvePoint, Solution
from fedfb.theory.trade import Goal, climb, misses

PER_AXIS = {1: 401, 2: 61, 3: 21, 4: 13}
ORTHANTS = 5
PARITY = 1e-9
WORTH_A_TRY = 0.03
"""A place of the grid whose accuracy, less its penalties, is lower by more starts no search."""

FINER = 2e-4


class Ground(NamedTuple):
    """What a search stands on: exact rules, two sketches of them, places looked at, and optima."""

    grid: Overlap
    coarse: Sketch
    fine: Sketch
    known: Glance
    optima: list[Solution]


def lft_fedavg_curve(
    population: Population, levels: Sequence[float] | Float[Array, " n"]
) -> list[CurvePoint]:
    """Return the best LFT+FedAvg optimum at each level of spd, None where no budgets reach it.

    >>> from fedfb.theory.settings import fig2
    >>> [round(point.accuracy, 5) for point in lft_fedavg_curve(fig2(), [0.0, 0.2])]
    [0.80415, 0.83901]
    """
    refuse_more_than_two_groups(population, "the trade-off of LFT+FedAvg")
    asked = checked_levels(levels)
    if isinstance(population, AtomPopulation):
        return atom_fedavg.curve(population, asked)
    ground = _ground(overlap(population))
    exact = int(population.constrained.sum()) <= MOST_CLIENTS
    found = _from_strict_to_loose(ground, sorted(set(asked)))
    points = []
    for level in asked:
        solution, gap = found[level], 0.0
        if solution is not None and not exact:
            gap = max(cfl(population, level).outcome.accuracy - solution.outcome.accuracy, 0.0)
        points.append(CurvePoint(level, solution, gap, exact))
    return points


def lft_fedavg_least(population: Population) -> Solution:
    r"""Return the most accurate LFT+FedAvg optimum of the least disparity that budgets reach.

    With the same mix of groups everywhere that is 0 (Theorem "fflfair": MD is the mean of the gaps,
    and all budgets may be 0).

    >>> from fedfb.theory.settings import fig2
    >>> round(lft_fedavg_least(fig2(0.3, 0.7)).outcome.spd, 5)
    0.20272
    """
    refuse_more_than_two_groups(population, "the least disparity of LFT+FedAvg")
    if isinstance(population, AtomPopulation):
        return atom_fedavg.least_disparity(population)
    ground = _ground(overlap(population))
    least = _least(ground)
    if not population.constrained.any():
        return least
    if least.outcome.spd > PARITY:  # a least disparity above 0 is that of one rule
        return least
    return _better(_best(ground, 0.0, least), least) or least


def _from_strict_to_loose(ground: Ground, levels: list[float]) -> dict[float, Solution | None]:
    """Search every level; what is best at one is allowed, and a start, at the next."""
    unconstrained = solve(ground.grid, np.ones(ground.grid.population.clients))
    least = _least(ground)
    best: Solution | None = None
    found: dict[float, Solution | None] = {}
    for level in levels:
        if level >= unconstrained.outcome.spd:
            best = unconstrained
        elif level >= least.outcome.spd - 1e-9:
            best = _better(least, best)
            best = _better(_best(ground, level, best), best)
        found[level] = best
    return found


def _better(first: Solution | None, second: Solution | None) -> Solution | None:
    if first is None or second is None:
        return first or second
    return max(first, second, key=lambda one: one.outcome.accuracy)


def _best(ground: Ground, level: float, before: Solution | None) -> Solution | None:
    """Return the best optimum found at one level, by multipliers and by budgets."""
    if ground.grid.population.constrained.sum() > 2:
        ground = _near_cfl(ground, level)
    best = _by_both(ground, level, before)
    if best is None:
        return None
    best = _better(best, snapped(ground.grid, best, level)) or best
    few = 2 < ground.grid.population.constrained.sum() <= MOST_CLIENTS
    return flipped(ground.grid, best, level) if few else best


def _near_cfl(ground: Ground, level: float) -> Ground:
    """Add the optima of budgets read off CFL's rule: many clients are often close to it.

    A client whose gap under that rule could not come from a multiplier of CFL's sign is made
    tight in one of the two, loose in the other.
    """
    grid = ground.grid
    together = cfl(grid.population, level)
    gaps = np.nan_to_num(together.outcome.client_gaps)
    wrong = gaps * together.multipliers[0] > 0
    budgets = [np.where(wrong, other, np.abs(gaps)) for other in (0.0, 1.0)]
    optima = [solve(grid, eps) for eps in budgets]
    looked = glance(ground.coarse, np.array([one.multipliers for one in optima]))
    known = Glance(*(np.concatenate(pair) for pair in zip(ground.known, looked, strict=True)))
    return ground._replace(known=known, optima=[*ground.optima, *optima])


def _by_both(ground: Ground, level: float, before: Solution | None) -> Solution | None:
    by_lam: Solution | None = None
    for lam in _leaders(ground, _softly(ground, Goal("accuracy", level), before), level):
        for end in _sharpened(ground, Goal("accuracy", level), lam):
            by_lam = _better(settled(ground.grid, end, level), by_lam)
    by_eps = before
    reached = by_lam.outcome.accuracy if by_lam is not None else 0.0
    for start in _most_promising(ground.optima, level, reached):
        by_eps = _better(_settled_optimum(ground, start, level), by_eps)
    if by_eps is None or (by_lam is not None and _leads(by_lam, by_eps)):
        return by_lam
    there = climb_budgets(ground.grid, level, by_eps)
    best = _better(by_lam, by_eps)
    return _better(best, there) if there.outcome.spd <= level + 1e-9 else best


def _leads(first: Solution, second: Solution) -> bool:
    return first.outcome.accuracy >= second.outcome.accuracy - 1e-8


def _softly(ground: Ground, goal: Goal, before: Solution | None) -> list[Array]:
    """Return where searches on softened rules end that start from the best of each orthant."""
    known, free = ground.known, ground.grid.population.constrained
    excess = np.maximum(np.abs(known.mean_difference) - goal.level, 0.0)
    merit = known.accuracy - 2.0 * excess - 2.0 * violation(known)
    order = np.argsort(-merit, kind="stable")
    order = order[merit[order] > merit[order[0]] - WORTH_A_TRY]
    starts = _one_per_orthant(known.lam[order])
    starts += [before.multipliers] if before is not None else []
    return [climb(lambda lam: softened(ground.coarse, lam), free, goal, s, 60) for s in starts]


def _sharpened(ground: Ground, goal: Goal, lam: Array) -> tuple[Array, Array]:
    """Return where a search on less softened rules ends, and one on exact rules from there."""
    free = ground.grid.population.constrained
    finer = climb(lambda at: softened(ground.fine, at, FINER), free, goal, lam, 30)
    return finer, climb(lambda at: exactly(ground.grid, at), free, goal, finer, 4)


def _settled_optimum(ground: Ground, start: Solution, level: float) -> Solution | None:
    """Return an optimum within the level between one that may not be and one that is."""
    if start.outcome.spd <= level:
        return start
    sign = np.sign(start.outcome.mean_difference)
    inside = [o for o in ground.optima if sign * o.outcome.mean_difference <= level]
    if not inside:
        return None
    nearest = max(inside, key=lambda one: one.outcome.accuracy)
    return between(ground.grid, start, nearest, sign * level)


def _most_promising(optima: list[Solution], level: float, reached: float) -> list[Solution]:
    """Return the best optimum within a level, and one beyond it that may lead to a better one."""

    def merit(one: Solution) -> float:
        price = max(0.1, float(np.abs(one.multipliers).max()))
        return one.outcome.accuracy - price * max(one.outcome.spd - level, 0.0)

    inside = [one for one in optima if one.outcome.spd <= level]
    beyond = [one for one in optima if merit(one) > reached]
    best = sorted(inside, key=lambda one: -one.outcome.accuracy)[:1]
    return best + sorted(beyond, key=merit, reverse=True)[:2]


def _leaders(ground: Ground, found: list[Array], level: float) -> list[Array]:
    """Return the best two places at which softened searches ended, if they differ."""
    seen = [softened(ground.coarse, lam) for lam in found]
    merit = [s.accuracy - 2 * misses(s, lam, level) for s, lam in zip(seen, found, strict=True)]
    order = np.argsort(-np.array(merit), kind="stable")
    first = order[0]
    apart = [k for k in order if np.abs(found[k] - found[first]).max() > 5e-3]
    near = [found[k] for k in apart[:1] if merit[k] > merit[first] - 3e-4]
    return [found[first], *near]


def _least(ground: Ground) -> Solution:
    """Return the optimum of least disparity: 0 where two optima favour different groups."""
    ordered = sorted(ground.optima, key=lambda one: one.outcome.spd)
    nearest = ordered[0]
    sign = np.sign(nearest.outcome.mean_difference)
    opposite = [one for one in ordered if one.outcome.mean_difference * sign < 0]
    if nearest.outcome.spd < 1e-9:
        return nearest
    if opposite:
        return between(ground.grid, nearest, opposite[0], 0.0)
    grid, goal, free = ground.grid, Goal("parity", 1.0), ground.grid.population.constrained
    if not free.any():
        return nearest  # clients of one group each: no budget binds anybody
    order = np.argsort(np.abs(ground.known.mean_difference) + 3 * violation(ground.known))
    starts = [*_one_per_orthant(ground.known.lam[order]), nearest.multipliers]
    soft = [climb(lambda lam: softened(ground.coarse, lam), free, goal, s, 60) for s in starts]
    seen = [softened(ground.coarse, lam) for lam in soft]
    size = [abs(s.mean_difference) + 2 * misses(s, x, 1.0) for s, x in zip(seen, soft, strict=True)]
    for lam in [soft[int(np.argmin(size))], nearest.multipliers]:
        exact = climb(lambda at: exactly(grid, at), free, goal, lam, 15)
        for end in (lam, exact):
            there = settled(grid, end, 1.0)
            if there is not None and there.outcome.spd < nearest.outcome.spd:
                nearest = there
    if nearest.outcome.mean_difference * sign < 0:
        return between(grid, nearest, ordered[0], 0.0)
    return nearest


def violation(seen: Glance) -> Float[Array, " b"]:
    """Return by how much the signs of multipliers and gaps fail to differ, summed over clients."""
    return np.where(seen.lam * seen.gaps > 0, np.abs(seen.gaps), 0.0).sum(axis=1)


def _one_per_orthant(lam: Float[Array, "b i"]) -> list[Array]:
    chosen: dict[bytes, Array] = {}
    for row in lam[:4000]:
        chosen.setdefault(np.sign(row).tobytes(), row)
        if len(chosen) >= ORTHANTS:
            break
    return list(chosen.values())


def _ground(grid: Overlap) -> Ground:
    """Solve along lines of budgets, and look at a grid of multipliers if they are few."""
    population = grid.population
    free = np.flatnonzero(population.constrained)
    optima = explored(grid)
    rows = [one.multipliers for one in optima]
    if 0 < len(free) <= MOST_CLIENTS:
        axis = np.linspace(-1.25, 1.25, PER_AXIS[len(free)])
        axis = np.sign(axis) * np.abs(axis) ** 1.5
        scale = population.joint[free].max(axis=1)
        for point in product(axis, repeat=len(free)):
            row = np.zeros(population.clients)
            row[free] = scale * point
            rows.append(row)
    coarse, lam = sketch(grid, 800), np.array(rows)
    parts = [glance(coarse, lam[k : k + 2048]) for k in range(0, len(lam), 2048)]
    known = Glance(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    ground = Ground(grid, coarse, sketch(grid, 3200), known, optima)
    return _near_cfl(ground, 0.0) if len(free) > 2 else ground
