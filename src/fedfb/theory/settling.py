r"""Evaluate LFT+FedAvg rules quickly, and settle budgets so that a level is met exactly.

A search in :math:`\lambda` ends close to, not exactly at, a rule that some budgets attain. The rule
of the budgets near the end is attainable by construction (``settle_budgets``). Then the budget of
one client moves until the mean difference of all clients is within the level. With W the clients
whose budget binds, :math:`\sigma` the signs of their multipliers, :math:`J_a` the slopes of the
rates and :math:`w_{ia} = P(i\mid a)`,

.. math:: \frac{\partial\mathrm{MD}}{\partial\epsilon_W} =
          -(w_0^\top J_0 + w_1^\top J_1)_W\, (J_0 + J_1)_{WW}^{-1} \operatorname{diag}(\sigma)

A ``Sketch`` evaluates many multipliers at once, or one with smooth gradients. Its decisions are
softened, :math:`f_a = \operatorname{expit}(T_a/\tau)`, at the middle of some hundred cells with
exact masses. This costs a few matrix products, has an error of about :math:`\tau^2` at a simple end
of an interval, and smooths the square-root kinks at which intervals appear.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from fedfb.shapes import Array, Float
from fedfb.theory.lft_fedavg import solve_multipliers
from fedfb.theory.linear_programs import first_edges
from fedfb.theory.measures import Solution
from fedfb.theory.overlap import SIGN, Overlap, density_ratios, evaluate_gaps, outcome_of

_CLOSE = 1e-10
TRIED = 2
SWEEPS = 3
STRIDE = 0.002
"""How far a budget is moved at first to find the other side of a kink."""

_FAR = 0.02
"""A search that ends farther from its level than this has not reached it."""


def settle_budgets(grid: Overlap, lam: Float[Array, " i"], level: float) -> Solution | None:
    """Return an optimum near given multipliers with spd at most a level; None if there is none.

    Args:
        grid: the overlap of the population.
        lam: multipliers at which a search ended.
        level: bound on spd.

    >>> from fedfb.theory.overlap import make_overlap
    >>> from fedfb.theory.population import fig2
    >>> round(settle_budgets(make_overlap(fig2()), np.array([0.0, -0.09]), 0.1).outcome.spd, 9)
    0.1
    """
    # A search that ran away has not ended near any optimum.
    if not np.all(np.isfinite(lam)) or np.abs(lam).max(initial=0.0) > 1e3:
        return None
    lam = np.where(np.abs(lam) < 1e-12, 0.0, lam)
    gaps = evaluate_gaps(grid, lam).gaps
    # A multiplier pushes its gap to the other side of 0. With equal signs no budget explains both,
    # and
    # the tightest budget is nearest.
    eps = np.where(lam * gaps > 0, 0.0, np.abs(gaps))
    eps = np.where(grid.population.constrained, np.minimum(eps, 1.0), 1.0)
    return _meet_level(grid, solve_multipliers(grid, eps, lam), level)


def snap_to_corner(grid: Overlap, solution: Solution, level: float) -> Solution | None:
    """Return the nearby optimum at which budgets that are almost 0 or almost loose are so.

    A search ends a little before the corner at which a multiplier or a budget is 0.

    Args:
        grid: the overlap of the population.
        solution: the end of a search.
        level: bound on spd.
    """
    lam, eps, free = solution.multipliers, solution.local_budgets, grid.population.constrained
    small = 0.01 * np.abs(lam).max(initial=0.0)
    loose = free & (lam != 0) & (np.abs(lam) < small)
    tight = free & (eps > 0) & (eps < 0.002) & ~loose & (lam != 0)
    if not (loose | tight).any():
        return None
    eps = np.where(loose, 1.0, np.where(tight, 0.0, eps))
    return _meet_level(grid, solve_multipliers(grid, eps, np.where(loose, 0.0, lam)), level)


def flip_budgets(grid: Overlap, solution: Solution, level: float) -> Solution:
    """Return the best optimum after setting one client's budget after the other to 0 and to 1.

    Args:
        grid: the overlap of the population.
        solution: the optimum to improve.
        level: bound on spd.
    """
    best = solution
    for client in np.flatnonzero(grid.population.constrained):
        for budget in (0.0, 1.0):
            eps = best.local_budgets.copy()
            eps[client] = budget
            candidate = _meet_level(grid, solve_multipliers(grid, eps, best.multipliers), level)
            # Less than that is the error of the solver: the search would never settle.
            if candidate is not None and candidate.outcome.accuracy > best.outcome.accuracy + 1e-7:
                best = candidate
    return best


def reduce_disparity(grid: Overlap, solution: Solution) -> Solution:
    """Return the optimum of least disparity found by moving one budget after the other.

    Where an interval appears, the disparity has a kink in the budgets, and often its minimum.

    Args:
        grid: the overlap of the population.
        solution: the optimum to improve.
    """
    best = solution
    for _ in range(SWEEPS):
        previous = best.outcome.spd
        for client in np.flatnonzero(grid.population.constrained):
            best = _minimise_along_budget(grid, best, int(client))
        if previous - best.outcome.spd < 1e-8:
            break
    return best


def _minimise_along_budget(grid: Overlap, start: Solution, client: int) -> Solution:
    """Return the least disparity along one budget, where tangents from both sides meet.

    A slope that points out of [0, 1] ends the search.
    """
    sign, best, current = np.sign(start.outcome.mean_difference), start, start
    ends: dict[bool, tuple[float, float, float]] = {}
    stride = STRIDE
    for _ in range(14):
        at, height = (
            float(current.local_budgets[client]),
            float(sign * current.outcome.mean_difference),
        )
        slope = float(sign * parity_slope(grid, current)[client])
        # Below 0 the mean difference has changed its sign: it passes 0 on the way.
        if slope == 0 or height < 0:
            break
        ends[slope > 0] = (at, height, slope)
        if len(ends) < 2:
            # One side only is known: go downhill in growing steps until the slope turns.
            goal, stride = float(np.clip(at - np.sign(slope) * stride, 0.0, 1.0)), 4 * stride
        else:
            (left, low, fall), (right, high, rise) = ends[False], ends[True]
            goal = (high - low + fall * left - rise * right) / (fall - rise)
            # Tangents of a function that is not quite convex may meet outside.
            goal = float(np.clip(goal, min(left, right), max(left, right)))
        if abs(goal - at) < 1e-10:
            break
        eps = current.local_budgets.copy()
        eps[client] = goal
        current = solve_multipliers(grid, eps, predict_multipliers(grid, current, eps))
        if abs(current.outcome.mean_difference) < best.outcome.spd:
            best = current
    return best


def _meet_level(grid: Overlap, solution: Solution, level: float) -> Solution | None:
    """Return a solution within the level: the given one, or one nearby with other budgets."""
    # A little below the level costs next to no accuracy; above it only rounding is allowed.
    if level - 1e-7 <= solution.outcome.spd <= level + _CLOSE or level >= 1.0:
        return solution
    if solution.outcome.spd > level + _FAR:
        return None
    inside = solution if solution.outcome.spd <= level else None
    candidate = _move_some_budget(grid, solution, level)
    if inside is None or candidate is None:
        return candidate or inside
    return max(inside, candidate, key=lambda optimum: optimum.outcome.accuracy)


def _move_some_budget(grid: Overlap, solution: Solution, level: float) -> Solution | None:
    eps = solution.local_budgets
    slope = parity_slope(grid, solution)
    # Where an interval is about to be born a budget can pull hard one way and not at all the
    # other; large budgets are far from that.
    order = np.argsort(-np.where(slope != 0, eps, -1.0), kind="stable")[:TRIED]
    for client in order:
        candidate = _move_budget(grid, solution, level, int(client), float(slope[client]))
        if candidate is not None:
            return candidate
    return None


def _move_budget(
    grid: Overlap, solution: Solution, level: float, client: int, pull: float
) -> Solution | None:
    """Move one client's budget until the level is met, by secants."""
    goal = np.sign(solution.outcome.mean_difference) * level
    eps, current = solution.local_budgets.copy(), solution
    for _ in range(8):
        if pull == 0:
            return None
        excess = current.outcome.mean_difference - goal
        previous = float(eps[client])
        eps[client] = np.clip(previous - excess / pull, 0.0, 1.0)
        if eps[client] == previous:
            return None
        following = solve_multipliers(grid, eps.copy(), predict_multipliers(grid, current, eps))
        change = following.outcome.mean_difference - current.outcome.mean_difference
        current, pull = following, change / (float(eps[client]) - previous)
        if current.outcome.spd <= level + _CLOSE and current.outcome.spd >= level - 1e-7:
            return current
    return current if current.outcome.spd <= level + _CLOSE else None


def parity_slope(grid: Overlap, solution: Solution) -> Float[Array, " i"]:
    """Return the derivative of the mean difference of all clients with respect to each budget.

    Args:
        grid: the overlap of the population.
        solution: an optimum.
    """
    lam = solution.multipliers
    binding = lam != 0
    slope = np.zeros(len(lam))
    if binding.any():
        evaluation = evaluate_gaps(grid, lam)
        weights = grid.population.client_weights
        by_lam = weights[:, 0] @ evaluation.slopes[0] + weights[:, 1] @ evaluation.slopes[1]
        matrix: Array = evaluation.jacobian[np.ix_(binding, binding)]
        solved = np.linalg.lstsq(matrix, by_lam[binding], rcond=None)[0]
        slope[binding] = -solved * np.sign(lam[binding])
    return slope


def predict_multipliers(
    grid: Overlap, solution: Solution, eps: Float[Array, " i"]
) -> Float[Array, " i"]:
    r"""Return the multipliers of other budgets, to first order.

    .. math:: J_{WW}\, d\lambda_W = -\operatorname{diag}(\sigma)\, d\epsilon_W

    Args:
        grid: the overlap of the population.
        solution: an optimum.
        eps: budgets near those of the optimum.
    """
    lam, budgets = solution.multipliers, solution.local_budgets
    binding = lam != 0
    # The prediction is of first order: it holds for small changes only.
    if not binding.any() or np.abs(eps - budgets).max() > 0.05:
        return lam
    matrix = evaluate_gaps(grid, lam).jacobian[np.ix_(binding, binding)]
    change = -np.sign(lam[binding]) * (eps - budgets)[binding]
    prediction = lam.copy()
    # Clients with equal laws make the matrix singular: least squares shares the change among them.
    prediction[binding] += np.linalg.lstsq(matrix, change, rcond=1e-9)[0]
    # At 0 the dual has a kink: to first order nothing can be said of the other side.
    return np.where(lam * prediction < 0, 0.0, prediction)


SOFTNESS = 2e-3


class Sketch(NamedTuple):
    """For each group: 2 eta - 1 and r at the middle of the cells, their masses and gains."""

    margin: tuple[Float[Array, " k"], ...]
    ratios: tuple[Float[Array, "k i"], ...]
    masses: tuple[Float[Array, "i k"], ...]
    gain: tuple[Float[Array, " k"], ...]
    client_weights: Float[Array, "i 2"]
    negatives: float


class Samples(NamedTuple):
    """Accuracy, mean difference and each client's gap for many multipliers."""

    lam: Float[Array, "b i"]
    accuracy: Float[Array, " b"]
    mean_difference: Float[Array, " b"]
    gaps: Float[Array, "b i"]


class Linearised(NamedTuple):
    """Accuracy, mean difference and gaps of one rule, with their gradients."""

    accuracy: float
    mean_difference: float
    gaps: Float[Array, " i"]
    accuracy_slope: Float[Array, " i"]
    parity_slope: Float[Array, " i"]
    gaps_slope: Float[Array, "i i"]


def make_sketch(grid: Overlap, cells: int = 800) -> Sketch:
    """Return a sketch whose cells are dense where there is mass.

    Args:
        grid: the overlap of the population.
        cells: number of cells of each group.

    >>> from fedfb.theory.overlap import make_overlap
    >>> from fedfb.theory.population import fig2
    >>> look = sample_rules(make_sketch(make_overlap(fig2())), np.zeros((1, 2)))
    >>> bool(abs(look.accuracy[0] - 0.8476605) < 1e-4)
    True
    """
    population = grid.population
    margin, ratios, masses, gain = [], [], [], []
    for group, edges in enumerate(first_edges(grid, cells)):
        ends = np.concatenate([[grid.nodes[0]], edges, [grid.nodes[-1]]])
        middle = 0.5 * (ends[1:] + ends[:-1])
        margin.append(population.eta.value(middle) - population.eta.upper(middle))
        ratios.append(density_ratios(population, group, middle))
        masses.append(np.diff(population.laws[group].ask("cdf", ends[None, :]), axis=1))
        table = population.pooled_gains[group].at(ends[None, :])[0]
        gain.append(-population.group_shares[group] * np.diff(table))
    return Sketch(
        tuple(margin),
        tuple(ratios),
        tuple(masses),
        tuple(gain),
        population.client_weights,
        grid.negatives,
    )


def sample_rules(sketch: Sketch, lam: Float[Array, "b i"]) -> Samples:
    """Return accuracy and gaps of the rules of many multipliers.

    Args:
        sketch: cells and masses.
        lam: one row of multipliers for each rule.
    """
    accuracy = np.full(len(lam), sketch.negatives)
    rates: list[Array] = []
    for group in (0, 1):
        values = sketch.margin[group][:, None] + SIGN[group] * (sketch.ratios[group] @ lam.T)
        inside = (values > 0).astype(float)
        accuracy = accuracy + sketch.gain[group] @ inside
        rates.append((sketch.masses[group] @ inside).T)
    by_group = [rates[a] @ sketch.client_weights[:, a] for a in (0, 1)]
    return Samples(lam, accuracy, by_group[0] - by_group[1], rates[0] - rates[1])


def evaluate_softened(
    sketch: Sketch, lam: Float[Array, " i"], softness: float = SOFTNESS
) -> Linearised:
    """Return accuracy and gaps of a softened rule, with gradients.

    Args:
        sketch: cells and masses.
        lam: one multiplier for each client.
        softness: tau, the width over which a decision goes from 0 to 1.
    """
    accuracy, accuracy_slope = sketch.negatives, np.zeros(len(lam))
    gaps, gaps_slope = np.zeros(len(lam)), np.zeros((len(lam), len(lam)))
    gap, parity_slope = 0.0, np.zeros(len(lam))
    for group, sign in enumerate(SIGN):
        ratios, masses = sketch.ratios[group], sketch.masses[group]
        f = expit((sketch.margin[group] + sign * (ratios @ lam)) / softness)
        slope = (f * (1 - f) / softness)[:, None] * ratios
        rates, rates_slope = masses @ f, masses @ slope
        weights = sketch.client_weights[:, group]
        accuracy += float(sketch.gain[group] @ f)
        accuracy_slope = accuracy_slope + sign * (sketch.gain[group] @ slope)
        gaps, gaps_slope = gaps + sign * rates, gaps_slope + rates_slope
        gap, parity_slope = (
            gap + sign * float(weights @ rates),
            parity_slope + weights @ rates_slope,
        )
    return Linearised(accuracy, gap, gaps, accuracy_slope, parity_slope, gaps_slope)


def evaluate_exactly(grid: Overlap, lam: Float[Array, " i"]) -> Linearised:
    r"""Return accuracy and gaps of an exact rule, with gradients.

    .. math:: \partial M = J_0 + J_1, \quad \partial\mathrm{Acc} = -\lambda^\top(J_0 + J_1), \quad
              \partial\mathrm{MD} = w_0^\top J_0 + w_1^\top J_1

    Args:
        grid: the overlap of the population.
        lam: one multiplier for each client.
    """
    evaluation = evaluate_gaps(grid, lam)
    weights = grid.population.client_weights
    parity = weights[:, 0] @ evaluation.slopes[0] + weights[:, 1] @ evaluation.slopes[1]
    outcome = outcome_of(grid, evaluation)
    return Linearised(
        outcome.accuracy,
        outcome.mean_difference,
        evaluation.gaps,
        -evaluation.jacobian @ lam,
        parity,
        evaluation.jacobian,
    )
