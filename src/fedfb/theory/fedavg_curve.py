r"""The trade-off of LFT+FedAvg: the best local budgets at each level of disparity.

A rule :math:`f_\lambda` is the optimum of some budgets exactly if its multipliers and gaps differ
in sign,

.. math:: \{f_\lambda : \lambda_i M_i(\lambda)\le 0\;\text{for all } i\}, \qquad
          \epsilon_i = |M_i(\lambda)|

The search is for the best accuracy in that set with :math:`|\mathrm{MD}|\le d`. This set is not
convex. For up to four clients: sample a dense grid of multipliers, search on softened rules from
the best sample of each of several orthants, then search on exact rules; in parallel, search along
lines of budgets. At the end the budgets are settled, so that every returned point is the exact
optimum of its budgets. For more clients there is no grid, and only two lines of budgets: a
heuristic. ``gap`` is then the distance to CFL's accuracy, which nothing can exceed.
"""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from fedfb.shapes import Array, Float
from fedfb.theory import linear_programs
from fedfb.theory.budgets import (
    MOST_BUDGETS,
    BudgetLine,
    Effort,
    Goal,
    climb,
    climb_budgets,
    find_crossings,
    solve_along_lines,
    solve_between,
    violation_of,
)
from fedfb.theory.cfl import cfl
from fedfb.theory.lft_fedavg import solve_multipliers
from fedfb.theory.measures import (
    PARITY,
    CurvePoint,
    Solution,
    TradeOff,
    check_levels,
    refuse_densities_of_many_groups,
)
from fedfb.theory.overlap import Overlap, make_overlap
from fedfb.theory.population import AtomPopulation, Population
from fedfb.theory.settling import (
    Samples,
    Sketch,
    evaluate_exactly,
    evaluate_softened,
    flip_budgets,
    make_sketch,
    reduce_disparity,
    sample_rules,
    settle_budgets,
    snap_to_corner,
)

PER_AXIS = {1: 401, 2: 61, 3: 21, 4: 13}
ORTHANTS = 5
TIE, AT_BEST = 1e-7, 1e-9
WORTH_A_TRY = 0.03
"""A place of the grid whose accuracy, less its penalties, is lower by more starts no search."""

FINER = 2e-4
ON_SKETCH, ON_FINE_SKETCH = Effort(60, 1e-7), Effort(30, 1e-9)
"""A sketch errs by more than that, and a finer search follows."""


class Ground(NamedTuple):
    """What a search starts from.

    Attributes:
        grid: exact rules.
        coarse: a sketch of few cells.
        fine: a sketch of many cells.
        samples: evaluated multipliers.
        optima: exact optima, in no order.
        lines: the same optima along lines of budgets.
    """

    grid: Overlap
    coarse: Sketch
    fine: Sketch
    samples: Samples
    optima: list[Solution]
    lines: list[BudgetLine]


def lft_fedavg_curve(
    population: Population, levels: Sequence[float] | Float[Array, " n"]
) -> list[CurvePoint]:
    """Return the best LFT+FedAvg optimum at each level of spd; None where no budgets reach it.

    Args:
        population: the population.
        levels: bounds on spd, or on ``max |P_a - P|`` for more than two groups.

    >>> from fedfb.theory.population import fig2
    >>> [round(point.accuracy, 5) for point in lft_fedavg_curve(fig2(), [0.0, 0.2])]
    [0.80415, 0.83901]
    """
    return lft_fedavg_trade_off(population, levels).curve


def lft_fedavg_least(population: Population) -> Solution:
    """Return the most accurate LFT+FedAvg optimum of least disparity.

    If the mix of groups is the same at all clients, the least disparity is 0 (Theorem "fflfair": MD
    is the mean of the gaps, and all budgets may be 0).

    >>> from fedfb.theory.population import fig2
    >>> round(lft_fedavg_least(fig2(0.3, 0.7)).outcome.spd, 5)
    0.20272
    """
    return lft_fedavg_trade_off(population, []).least


def lft_fedavg_trade_off(
    population: Population, levels: Sequence[float] | Float[Array, " n"]
) -> TradeOff:
    """Return least disparity and curve from one search.

    On atoms, and so for more than two groups, budgets are tried: a heuristic that states its gap.

    Args:
        population: the population.
        levels: bounds on spd, or on ``max |P_a - P|`` for more than two groups.
    """
    goals = check_levels(levels)
    refuse_densities_of_many_groups(population)
    if isinstance(population, AtomPopulation):
        return linear_programs.trade_off(population, goals)
    ground = _make_ground(make_overlap(population))
    exact = int(population.constrained.sum()) <= MOST_BUDGETS
    least, best_at = _search_levels(ground, sorted(set(goals)))
    points = []
    for level in goals:
        solution, gap = best_at[level], 0.0
        if solution is not None and not exact:
            gap = max(cfl(population, level).outcome.accuracy - solution.outcome.accuracy, 0.0)
        points.append(CurvePoint(level, solution, gap, exact))
    return TradeOff(least, points)


def _search_levels(
    ground: Ground, levels: list[float]
) -> tuple[Solution, dict[float, Solution | None]]:
    """Search every level; the best of one level is allowed, and a start, at the next level."""
    unconstrained = solve_multipliers(ground.grid, np.ones(ground.grid.population.clients))
    least = _most_accurate(ground, _least(ground))
    best: Solution | None = None
    best_at: dict[float, Solution | None] = {}
    for level in levels:
        if level >= unconstrained.outcome.spd:
            best = unconstrained
        elif level >= least.outcome.spd - PARITY:
            best = _better(least, best)
            # The least disparity has been searched already.
            if level > least.outcome.spd + PARITY:
                best = _better(_best(ground, level, best), best)
        best_at[level] = best
    return least, best_at


def _most_accurate(ground: Ground, least: Solution) -> Solution:
    """Return the best optimum of the least disparity; above 0 there is only one."""
    if not ground.grid.population.constrained.any() or least.outcome.spd > PARITY:
        return least
    return _better(_best(ground, 0.0, least), least) or least


def _better(first: Solution | None, second: Solution | None) -> Solution | None:
    if first is None or second is None:
        return first or second
    return max(first, second, key=lambda solution: solution.outcome.accuracy)


def _best(ground: Ground, level: float, previous: Solution | None) -> Solution | None:
    """Return the best optimum at one level, by multipliers and by budgets."""
    if ground.grid.population.constrained.sum() > 2:
        ground = _add_optima_near_cfl(ground, level)
    # Nothing is more accurate than training together, so what is as accurate ends the search.
    ceiling = cfl(ground.grid.population, level).outcome.accuracy - AT_BEST
    best = _search_both_ways(ground, level, previous, ceiling)
    if best is None or best.outcome.accuracy >= ceiling:
        return best
    best = _better(best, snap_to_corner(ground.grid, best, level)) or best
    is_small = 2 < ground.grid.population.constrained.sum() <= MOST_BUDGETS
    return flip_budgets(ground.grid, best, level) if is_small else best


def _add_optima_near_cfl(ground: Ground, level: float) -> Ground:
    """Add the optima of budgets that follow from CFL's rule: many clients are often close to it.

    If a client's gap under that rule cannot come from a multiplier of CFL's sign, its budget is 0
    in one of the two optima and 1 in the other.
    """
    grid = ground.grid
    together = cfl(grid.population, level)
    gaps = np.nan_to_num(together.outcome.client_gaps)
    wrong = gaps * together.multipliers[0] > 0
    budgets = [np.where(wrong, budget, np.abs(gaps)) for budget in (0.0, 1.0)]
    optima = [solve_multipliers(grid, eps) for eps in budgets]
    glances = sample_rules(ground.coarse, np.array([solution.multipliers for solution in optima]))
    samples = Samples(*(np.concatenate(pair) for pair in zip(ground.samples, glances, strict=True)))
    return ground._replace(samples=samples, optima=[*ground.optima, *optima])


def _search_both_ways(
    ground: Ground, level: float, previous: Solution | None, ceiling: float
) -> Solution | None:
    by_lam: Solution | None = None
    for lam in _best_two(
        ground, _search_softened(ground, Goal("accuracy", level), previous), level
    ):
        ends = (
            settle_budgets(ground.grid, at, level) for at in _search_exactly(ground, level, lam)
        )
        by_lam = _better(next((end for end in ends if end is not None), None), by_lam)
    by_eps = previous
    reached = by_lam.outcome.accuracy if by_lam is not None else 0.0
    by_eps = _better(_search_lines(ground, level, reached), by_eps)
    if by_eps is None or (by_lam is not None and _leads(by_lam, by_eps)):
        return by_lam
    if by_eps.outcome.accuracy >= ceiling:
        return by_eps
    candidate = climb_budgets(ground.grid, level, by_eps)
    best = _better(by_lam, by_eps)
    return _better(best, candidate) if candidate.outcome.spd <= level + PARITY else best


def _leads(first: Solution, second: Solution) -> bool:
    return first.outcome.accuracy >= second.outcome.accuracy - 1e-8


def _search_softened(ground: Ground, goal: Goal, previous: Solution | None) -> list[Array]:
    """Return the ends of searches on softened rules, from the best sample of each orthant."""
    samples = ground.samples
    excess = np.maximum(np.abs(samples.mean_difference) - goal.level, 0.0)
    # A point of disparity or violation too much costs two points of accuracy.
    merit = samples.accuracy - 2.0 * excess - 2.0 * violation(samples)
    order = np.argsort(-merit, kind="stable")
    order = order[merit[order] > merit[order[0]] - WORTH_A_TRY]
    starts = _one_per_orthant(samples.lam[order])
    starts += [previous.multipliers] if previous is not None else []
    return [_climb_on_sketch(ground, goal, start) for start in starts]


def _climb_on_sketch(ground: Ground, goal: Goal, start: Array) -> Array:
    free = ground.grid.population.constrained
    return climb(lambda lam: evaluate_softened(ground.coarse, lam), free, goal, start, ON_SKETCH)


def _search_exactly(ground: Ground, level: float, lam: Array) -> list[Array]:
    """Return the ends of searches on finer and on exact rules, the better first."""
    goal, free = Goal("accuracy", level), ground.grid.population.constrained
    finer = climb(
        lambda at: evaluate_softened(ground.fine, at, FINER), free, goal, lam, ON_FINE_SKETCH
    )
    exact = climb(lambda at: evaluate_exactly(ground.grid, at), free, goal, finer, Effort(4))

    def merit(at: Array) -> float:
        evaluation = evaluate_exactly(ground.grid, at)
        return evaluation.accuracy - 2 * violation_of(evaluation, at, level)

    return sorted((exact, finer), key=merit, reverse=True)


def _search_lines(ground: Ground, level: float, beat: float) -> Solution | None:
    """Return the best optimum on the lines of budgets; None if none exceeds ``beat``."""
    inside = [solution for solution in ground.optima if solution.outcome.spd <= level]
    best = max(inside, key=lambda solution: solution.outcome.accuracy, default=None)
    for first, second, goal in find_crossings(ground.lines, level):
        reached = beat if best is None else max(beat, best.outcome.accuracy)
        best = _better(solve_between(ground.grid, first, second, goal, reached + TIE), best)
    return best


def _best_two(ground: Ground, places: list[Array], level: float) -> list[Array]:
    """Return the best two ends of the softened searches, if they differ."""
    evaluations = [evaluate_softened(ground.coarse, lam) for lam in places]
    merit = [
        s.accuracy - 2 * violation_of(s, lam, level)
        for s, lam in zip(evaluations, places, strict=True)
    ]
    order = np.argsort(-np.array(merit), kind="stable")
    first = order[0]
    apart = [k for k in order if np.abs(places[k] - places[first]).max() > 5e-3]
    second = [places[k] for k in apart[:1] if merit[k] > merit[first] - 3e-4]
    return [places[first], *second]


def _least(ground: Ground) -> Solution:
    """Return the optimum of least disparity: 0 where two optima favour different groups."""
    ordered = sorted(ground.optima, key=lambda solution: solution.outcome.spd)
    nearest = ordered[0]
    sign = np.sign(nearest.outcome.mean_difference)
    opposite = [solution for solution in ordered if solution.outcome.mean_difference * sign < 0]
    if nearest.outcome.spd <= PARITY:
        return nearest
    if opposite:
        return solve_between(ground.grid, nearest, opposite[0], 0.0) or nearest
    grid, goal, free = ground.grid, Goal("parity", 1.0), ground.grid.population.constrained
    if not free.any():
        return nearest  # clients of one group each: no budget binds anybody
    order = np.argsort(np.abs(ground.samples.mean_difference) + 3 * violation(ground.samples))
    starts = [*_one_per_orthant(ground.samples.lam[order])[:2], nearest.multipliers]
    soft = [_climb_on_sketch(ground, goal, start) for start in starts]
    evaluations = [evaluate_softened(ground.coarse, lam) for lam in soft]
    size = [
        abs(s.mean_difference) + 2 * violation_of(s, x, 1.0)
        for s, x in zip(evaluations, soft, strict=True)
    ]
    for lam in [soft[int(np.argmin(size))], nearest.multipliers]:
        exact = climb(lambda at: evaluate_exactly(grid, at), free, goal, lam, Effort(15))
        for end in (lam, exact):
            candidate = settle_budgets(grid, end, 1.0)
            if candidate is not None and candidate.outcome.spd < nearest.outcome.spd:
                nearest = candidate
    nearest = reduce_disparity(grid, nearest)
    if nearest.outcome.mean_difference * sign < 0:
        return solve_between(grid, nearest, ordered[0], 0.0) or nearest
    return nearest


def violation(samples: Samples) -> Float[Array, " b"]:
    """Return by how much the signs of multipliers and gaps fail to differ, summed over clients."""
    return np.where(samples.lam * samples.gaps > 0, np.abs(samples.gaps), 0.0).sum(axis=1)


def _one_per_orthant(lam: Float[Array, "b i"]) -> list[Array]:
    chosen: dict[bytes, Array] = {}
    for row in lam[:4000]:
        chosen.setdefault(np.sign(row).tobytes(), row)
        if len(chosen) >= ORTHANTS:
            break
    return list(chosen.values())


def _make_ground(grid: Overlap) -> Ground:
    """Solve along lines of budgets; sample a grid of multipliers if clients are few."""
    population = grid.population
    free = np.flatnonzero(population.constrained)
    lines = solve_along_lines(grid)
    optima = [solution for line in lines for solution in line]
    rows = [solution.multipliers for solution in optima]
    if 0 < len(free) <= MOST_BUDGETS:
        axis = np.linspace(-1.25, 1.25, PER_AXIS[len(free)])
        axis = np.sign(axis) * np.abs(axis) ** 1.5  # denser near 0
        scale = population.joint[free].max(axis=1)
        for point in product(axis, repeat=len(free)):
            row = np.zeros(population.clients)
            row[free] = scale * point
            rows.append(row)
    coarse, lam = make_sketch(grid, 800), np.array(rows)
    parts = [sample_rules(coarse, lam[k : k + 2048]) for k in range(0, len(lam), 2048)]
    samples = Samples(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    ground = Ground(grid, coarse, make_sketch(grid, 3200), samples, optima, lines)
    return _add_optima_near_cfl(ground, 0.0) if len(free) > 2 else ground
