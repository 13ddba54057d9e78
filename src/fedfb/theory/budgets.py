r"""Search for the best budgets of LFT+FedAvg: exact optima along lines of budgets, and two climbs.

In the budgets every point is attainable, and the accuracy of the optimum is concave and increasing,
:math:`\partial\mathrm{Acc}/\partial\epsilon_i = |\lambda_i|`. Only the disparity of all clients is
not convex. Where a client's law is narrow, all its budgets from 0 to 1 belong to multipliers that
agree in four digits: a search in the budgets (``solve_along_lines``, ``solve_between``,
``climb_budgets``) resolves what a search in :math:`\lambda` cannot. Where an interval is about to
appear it is the other way round: there the disparity has a kink in the budgets, and ``climb``
searches in :math:`\lambda`.

Within one orthant of :math:`\lambda` attainability is a smooth constraint,
:math:`\sigma_i M_i\le 0`, so no inner problem has to be solved. Both climbs are sequential
quadratic programming, first on softened rules (:mod:`fedfb.theory.settling`), then on exact rules.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise, product
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize

from fedfb.shapes import Array, Bool, Float, Int
from fedfb.theory.lft_fedavg import solve_multipliers
from fedfb.theory.measures import Solution
from fedfb.theory.overlap import Overlap, evaluate_gaps
from fedfb.theory.settling import Linearised, parity_slope, predict_multipliers

_STEPS = {1: 16, 2: 9, 3: 6, 4: 4}
"""Points on a line, by the number of clients that hold both groups."""

MOST_BUDGETS = 4
BudgetLine = list[Solution]


def solve_along_lines(grid: Overlap) -> list[BudgetLine]:
    """Return optima along lines of budgets, neighbours side by side.

    Few clients: the budget of one client goes from 0 to 1, those of the others are 0 or 1 in every
    combination. Many clients: equal budgets, and equal fractions of each client's gap.

    >>> from fedfb.theory.overlap import make_overlap
    >>> from fedfb.theory.population import fig2
    >>> lines = solve_along_lines(make_overlap(fig2()))
    >>> round(min(optimum.outcome.spd for line in lines for optimum in line), 9)
    0.0
    """
    population = grid.population
    free = np.flatnonzero(population.constrained)
    everything = np.ones(population.clients)
    if len(free) == 0:
        return [[solve_multipliers(grid, everything)]]
    if len(free) > MOST_BUDGETS:
        gaps = np.abs(evaluate_gaps(grid, 0 * everything).gaps)
        # The corners of the cube of budgets are too many: follow two lines through it.
        tight = solve_multipliers(grid, 0 * gaps)
        families = [
            solve_multipliers(grid, np.full(len(gaps), gaps.max())),
            solve_multipliers(grid, gaps),
        ]
        return [[tight, *_solve_line(grid, tight, end, 5), end] for end in families]
    optimum_at = {eps.tobytes(): solve_multipliers(grid, eps) for eps in _corners(grid, free)}
    lines = []
    for moving in free:
        for start in [eps for eps in _corners(grid, free) if eps[moving] == 0]:
            end = start.copy()
            end[moving] = 1.0
            first, last = optimum_at[start.tobytes()], optimum_at[end.tobytes()]
            lines.append([first, *_solve_line(grid, first, last, _STEPS[len(free)]), last])
    return lines


def find_crossings(lines: list[BudgetLine], level: float) -> list[tuple[Solution, Solution, float]]:
    """Return neighbours between which the mean difference passes a level, and the value to reach.

    Pairs between which the accuracy may be best come first.

    Args:
        lines: optima as ``solve_along_lines`` returns them.
        level: bound on spd; the mean difference may pass it or its negative.
    """
    pairs = [
        (first, second, goal)
        for line in lines
        for first, second in pairwise(line)
        for goal in {level, -level}
        if (first.outcome.mean_difference - goal) * (second.outcome.mean_difference - goal) < 0
    ]
    return sorted(
        pairs, key=lambda pair: -_most_accurate([*pair[:2]], [0.0, 1.0], *_line_ends(*pair[:2]))
    )


def _corners(grid: Overlap, free: Int[Array, " f"]) -> Iterator[Float[Array, " i"]]:
    for pattern in product((0.0, 1.0), repeat=len(free)):
        eps = np.ones(grid.population.clients)
        eps[free] = pattern
        yield eps


def _solve_line(grid: Overlap, first: Solution, last: Solution, steps: int) -> Iterator[Solution]:
    """Yield optima on the line of budgets between two optima, without its ends."""
    start, end, current = first.local_budgets, _least_budgets(last), first
    # The power puts more points near the tight end.
    for part in np.linspace(0.0, 1.0, steps + 1)[1:-1] ** 1.5:
        # A budget that is loose at both ends may differ by what it does not bind.
        eps = np.where(start == 1.0, 1.0, (1 - part) * start + part * end)
        current = solve_multipliers(grid, eps, predict_multipliers(grid, current, eps))
        yield current


def solve_between(
    grid: Overlap, first: Solution, second: Solution, goal: float, beat: float = -1.0
) -> Solution | None:
    """Return the optimum on the line between two optima whose mean difference is the goal.

    The optimum moves continuously with its budgets, so a value that the mean difference passes is
    taken.

    Args:
        grid: the overlap of the population.
        first: an optimum on one side of the goal.
        second: an optimum on the other side.
        goal: the mean difference to reach.
        beat: accuracy to exceed. The accuracy is concave on the line; as soon as it must stay below
            ``beat``, the search ends with None.
    """
    ends = sorted((first, second), key=lambda solution: solution.outcome.mean_difference)
    budgets = _line_ends(*ends)
    parts, current = [0.0, 1.0], ends[0]
    for step in range(40):
        if _most_accurate(ends, parts, *budgets) < beat:
            return None
        sizes = [end.outcome.mean_difference - goal for end in ends]
        secant = parts[0] - sizes[0] * (parts[1] - parts[0]) / (sizes[1] - sizes[0])
        # Secants alone may keep one end for ever: every third step halves the interval.
        part = 0.5 * (parts[0] + parts[1]) if step % 3 == 2 else secant
        current = solve_multipliers(
            grid, (1 - part) * budgets[0] + part * budgets[1], current.multipliers
        )
        excess = current.outcome.mean_difference - goal
        side = 0 if excess < 0 else 1
        parts[side], ends[side] = part, current
        if abs(excess) < 1e-10:
            break
    return current


def _line_ends(first: Solution, second: Solution) -> tuple[Float[Array, " i"], Float[Array, " i"]]:
    """Return the budgets between which to search; budgets that bind at neither end stay 1."""
    loose = (first.local_budgets == 1.0) & (second.local_budgets == 1.0)
    start, end = (np.where(loose, 1.0, _least_budgets(solution)) for solution in (first, second))
    return start, end


def _most_accurate(
    ends: list[Solution], parts: list[float], start: Float[Array, " i"], end: Float[Array, " i"]
) -> float:
    r"""Return a bound on the accuracy between two optima on a line of budgets.

    The tangents at both ends meet at the bound:
    :math:`\partial\mathrm{Acc}/\partial\epsilon_i = |\lambda_i|`. At a kink any slope is valid.
    """
    left_slope, right_slope = (
        float(np.abs(solution.multipliers) @ (end - start)) for solution in ends
    )
    low, high = (end.outcome.accuracy for end in ends)
    width = parts[1] - parts[0]
    if (
        left_slope <= 0 or right_slope >= 0
    ):  # accuracy falls from the left end on, or rises to the right one
        return max(low, high)
    meet = np.clip((high - low - right_slope * width) / (left_slope - right_slope), 0.0, width)
    return float(low + left_slope * meet)


def _least_budgets(solution: Solution) -> Float[Array, " i"]:
    """Return the least budgets of a solution: a loose budget shrinks to the gap it bounds."""
    gaps = np.nan_to_num(np.abs(solution.outcome.client_gaps), nan=1.0)
    return np.minimum(solution.local_budgets, gaps)


def climb_budgets(grid: Overlap, level: float, start: Solution, steps: int = 12) -> Solution:
    """Return the optimum at which sequential quadratic programming in the budgets ends.

    Args:
        grid: the overlap of the population.
        level: bound on spd.
        start: the optimum to start from.
        steps: largest number of steps.
    """
    free = np.flatnonzero(grid.population.constrained)
    recent, direction = [start], np.sign(start.outcome.mean_difference) or 1.0

    # Objective, constraint and gradients are asked at the same places one after the other.
    @lru_cache(maxsize=64)
    def remembered(key: bytes) -> Solution:
        eps = np.ones(grid.population.clients)
        eps[free] = np.clip(np.frombuffer(key), 0.0, 1.0)
        recent.append(solve_multipliers(grid, eps, predict_multipliers(grid, recent[-1], eps)))
        return recent[-1]

    def at(eps: Array) -> Solution:
        return remembered(np.ascontiguousarray(eps, float).tobytes())

    def room(eps: Array) -> Array:
        gap = direction * at(eps).outcome.mean_difference
        return np.array([level - gap, level + gap])

    def room_slope(eps: Array) -> Array:
        slope = direction * parity_slope(grid, at(eps))[free]
        return np.stack([-slope, slope])

    first = _least_budgets(start)[free]
    ended = minimize(
        lambda eps: -at(eps).outcome.accuracy,
        first,
        jac=lambda eps: -np.abs(at(eps).multipliers[free]),
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(free),
        constraints=[{"type": "ineq", "fun": room, "jac": room_slope}],
        options={"maxiter": steps, "ftol": 1e-9},
    )
    return at(np.where(np.isfinite(ended.x), ended.x, first))


Rules = Callable[[Array], Linearised]


class Goal(NamedTuple):
    """Best accuracy with :math:`|MD|` at most a level, or the least :math:`|MD|`."""

    towards: Literal["accuracy", "parity"]
    level: float


class Effort(NamedTuple):
    """The largest number of steps of a search, and the gain below which it ends."""

    steps: int
    gain: float = 1e-10


def climb(
    rules: Rules, free: Bool[Array, " i"], goal: Goal, start: Float[Array, " i"], effort: Effort
) -> Float[Array, " i"]:
    """Return the multipliers at which the search ends, within the orthant of its start.

    Args:
        rules: evaluates multipliers, with gradients.
        free: True for clients that hold both groups; the others have no multiplier.
        goal: what to optimise, and the bound on spd.
        start: multipliers to start from.
        effort: when to stop.
    """
    at = _cache(rules, free)
    first = at(start[free])
    # A multiplier and its gap differ in sign, so a multiplier of 0 can only leave to one side.
    side = np.where(start == 0, -np.sign(first.gaps), np.sign(start))[free]
    side = np.where(side == 0, 1.0, side)
    direction = np.sign(first.mean_difference) or 1.0
    for_accuracy = goal.towards == "accuracy"
    # For the least disparity the sign must not change: beyond 0 the distance would grow again.
    most, least = (goal.level, goal.level) if for_accuracy else (1.0, 0.0)

    def loss(lam: Array) -> float:
        return -at(lam).accuracy if for_accuracy else direction * at(lam).mean_difference

    def loss_slope(lam: Array) -> Array:
        if for_accuracy:
            return -at(lam).accuracy_slope[free]
        return direction * at(lam).parity_slope[free]

    def room(lam: Array) -> Array:
        gap = direction * at(lam).mean_difference
        return np.concatenate([-side * at(lam).gaps[free], [most - gap, least + gap]])

    def room_slope(lam: Array) -> Array:
        gap = direction * at(lam).parity_slope[free][None, :]
        slopes = at(lam).gaps_slope[np.ix_(free, free)]
        return np.concatenate([-side[:, None] * slopes, -gap, gap])

    ended = minimize(
        loss,
        start[free],
        jac=loss_slope,
        method="SLSQP",
        bounds=[(0.0, None) if s > 0 else (None, 0.0) for s in side],
        constraints=[{"type": "ineq", "fun": room, "jac": room_slope}],
        options={"maxiter": effort.steps, "ftol": effort.gain},
    )
    # SLSQP may end in NaN; the start is still a solution.
    reached = np.where(np.isfinite(ended.x), ended.x, start[free])
    return _fill_in_zeros(np.where(side * reached < 0, 0.0, reached), free)


def _fill_in_zeros(lam: Array, free: Bool[Array, " i"]) -> Float[Array, " i"]:
    full = np.zeros(len(free))
    full[free] = lam
    return full


def _cache(rules: Rules, free: Bool[Array, " i"]) -> Rules:
    # Objective, constraints and gradients are asked at the same places one after the other.
    @lru_cache(maxsize=8)
    def remembered(key: bytes) -> Linearised:
        return rules(_fill_in_zeros(np.frombuffer(key), free))

    return lambda lam: remembered(np.ascontiguousarray(lam, float).tobytes())


def violation_of(rule: Linearised, lam: Float[Array, " i"], level: float) -> float:
    """Return by how much a rule violates attainability or a level.

    Args:
        rule: the evaluated rule.
        lam: its multipliers.
        level: bound on spd.
    """
    wrong = np.where(lam * rule.gaps > 0, np.abs(rule.gaps), 0.0)
    # A gap on the wrong side of its multiplier is a budget that no client can have.
    return max(float(wrong.max(initial=0.0)), abs(rule.mean_difference) - level)
