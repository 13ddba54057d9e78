r"""LFT+FedAvg: one classifier for all, every client bounding its own disparity (code: FFL).

.. math:: \min_f P(\hat y\ne y)\quad\text{s.t.}\quad |M_i(f)|\le\epsilon_i\;\text{for all }i

where :math:`M_i` is client i's own mean difference. With multipliers :math:`\lambda` the optimum is
that of :mod:`fedfb.theory.overlap`; the dual is convex,

.. math:: \min_\lambda D(\lambda) = \sum_a\int [S_a]_+ + \sum_i\epsilon_i|\lambda_i|, \qquad
          \frac{\partial}{\partial\lambda_i}\sum_a\int[S_a]_+ = M_i

and optimal where :math:`\lambda_i>0 \Rightarrow M_i=-\epsilon_i`,
:math:`\lambda_i<0 \Rightarrow M_i=\epsilon_i`. A linear program on cells finds the region, Newton's
method on the exact dual the digits. Where Newton stalls (a pair of roots is born and M has a
square-root kink) the program is solved again on finer cells, until its gap closes.
"""

from typing import NamedTuple

import numpy as np

from fedfb.shapes import Array, Float
from fedfb.theory import linear_programs
from fedfb.theory.lft_ensemble import Budgets
from fedfb.theory.linear_programs import finer_edges, first_edges, solve_on_cells
from fedfb.theory.measures import Solution, check_budgets, outcome, refuse_densities_of_many_groups
from fedfb.theory.overlap import Gaps, Overlap, evaluate_gaps, gain_of, make_overlap, outcome_of
from fedfb.theory.population import AtomPopulation, Population

ROUNDS, FEW_ROUNDS = 8, 3
_TOLERANCE = 1e-12
LONGEST_STEP = 2.0
GOOD_ENOUGH = 1e-8
"""Where two ends of an interval nearly meet, rounding leaves more than the tolerance."""


def lft_fedavg(population: Population, eps: Budgets) -> Solution:
    """Return the optimum of LFT+FedAvg; ``gap`` of the solution is its duality gap.

    Args:
        population: the population.
        eps: one budget for each client, or a single number for all.

    >>> from fedfb.theory.population import fig2
    >>> best = lft_fedavg(fig2(), [0.1, 0.1]).outcome
    >>> round(best.accuracy, 7), round(best.mean_difference, 7)
    (0.8133894, 0.0425202)
    """
    budgets = check_budgets(population, eps)
    if isinstance(population, AtomPopulation):
        return linear_programs.optimum(population, budgets)
    refuse_densities_of_many_groups(population)
    return solve_multipliers(make_overlap(population), budgets)


def solve_multipliers(
    grid: Overlap, eps: Float[Array, " i"], start: Array | None = None
) -> Solution:
    """Return the optimum of LFT+FedAvg on an overlap.

    Args:
        grid: the overlap of the population.
        eps: one budget for each client.
        start: multipliers close to the optimum, if some are known: Newton's method alone then
            suffices.
    """
    if start is not None:
        # A neighbour's multipliers are mostly within Newton's reach, and cost no solve on cells.
        polished = polish(grid, eps, start, 12)
        if polished.good:
            return _solution(grid, eps, polished)
    clients = grid.population.clients
    # A thousand clients: the program alone is within its gap, and a Newton step would cost more.
    newton_steps = 12 if clients <= 100 else 0
    edges = first_edges(grid, 400)
    best: Solution | None = None
    for _ in range(ROUNDS if clients <= 20 else FEW_ROUNDS):
        on_cells = solve_on_cells(grid.population, eps, edges)
        # The program is exact for its cells only; Newton's method removes their error.
        polished = polish(grid, eps, on_cells.lam, newton_steps)
        if polished.good:
            return _solution(grid, eps, polished)
        done = outcome(grid.population, on_cells.rule)
        # Any multipliers bound the optimum (weak duality), also those at which Newton's method
        # failed.
        bound = grid.negatives + dual_value(grid, eps, polished)
        gap = max(bound - done.accuracy, 0.0)
        if best is None or gap < best.gap:
            best = Solution(on_cells.rule, done, polished.lam, eps, gap)
        if best.gap <= (1e-10 if clients <= 10 else 5e-7):
            break
        edges = finer_edges(grid, polished.lam, edges)
    assert best is not None
    return best


class Polished(NamedTuple):
    """Multipliers, their evaluation, and the largest violation of optimality."""

    lam: Float[Array, " i"]
    evaluation: Gaps
    residual: float

    @property
    def good(self) -> bool:
        """Whether the conditions hold, and the duality gap that is left is below 1e-9."""
        gap = self.residual * float(np.abs(self.lam).sum())
        return self.residual <= GOOD_ENOUGH and gap <= 5e-10


def polish(
    grid: Overlap, eps: Float[Array, " i"], lam: Float[Array, " i"], steps: int = 30
) -> Polished:
    """Return multipliers that minimise the dual: Newton's method with a line search.

    Args:
        grid: the overlap of the population.
        eps: one budget for each client.
        lam: multipliers to start from, close to the optimum.
        steps: largest number of steps.
    """
    free = grid.population.constrained
    lam = np.where(free, lam, 0.0)
    # With a budget above 0 the dual has a kink at 0: a tiny multiplier would start beside it.
    lam = np.where((np.abs(lam) < 1e-9) & (eps > 0), 0.0, lam)
    current = evaluate_gaps(grid, lam)
    for _ in range(steps):
        residual, active = _violations(eps, lam, current, free)
        if np.max(np.abs(residual), initial=0.0) <= _TOLERANCE or _is_unresolved(lam, current):
            break
        step = _newton_step(current.jacobian, residual, active, (lam == 0) & (eps > 0))
        following = _search_line(grid, eps, lam, current, step)
        if following is None:
            break
        lam, current = following
    residual, _ = _violations(eps, lam, current, free)
    return Polished(lam, current, float(np.max(np.abs(residual), initial=0.0)))


def _is_unresolved(lam: Float[Array, " i"], current: Gaps) -> bool:
    """Return True if the rounding of a multiplier moves a gap by more than is allowed.

    Where eta is 1 up to rounding, all thresholds have one multiplier. No step of Newton's method
    helps there, and the linear program on cells is exact without it.
    """
    rounding = np.finfo(np.float64).eps * float(np.abs(lam).max(initial=0.0))
    return bool(rounding * float(np.abs(current.jacobian).max(initial=0.0)) > GOOD_ENOUGH)


def _violations(
    eps: Float[Array, " i"], lam: Float[Array, " i"], current: Gaps, free: Array
) -> tuple[Float[Array, " i"], Array]:
    """Return the dual's (least) slope in each multiplier, and which multipliers should move."""
    nonzero = lam != 0
    at_zero = np.sign(current.gaps) * np.maximum(np.abs(current.gaps) - eps, 0.0)
    # A multiplier other than 0 needs a budget used up; at 0 a gap may be anything within it.
    residual = np.where(nonzero, current.gaps + eps * np.sign(lam), at_zero)
    residual = np.where(free, residual, 0.0)
    return residual, free & (nonzero | (residual != 0))


def _newton_step(
    jacobian: Float[Array, "i i"], residual: Float[Array, " i"], active: Array, at_kink: Array
) -> Float[Array, " i"]:
    """Return Newton's step; a multiplier at the kink in 0 moves only to the side that gains."""
    step = np.zeros(len(residual))
    for _ in range(len(residual)):
        matrix = jacobian[np.ix_(active, active)]
        # Clients with equal laws make the matrix singular; the ridge picks one of their steps.
        ridge = 1e-13 * max(float(np.trace(matrix)), 1e-12)
        matrix = matrix + ridge * np.eye(len(matrix))
        step = np.zeros(len(residual))
        step[active] = -np.linalg.lstsq(matrix, residual[active], rcond=None)[0]
        # Against its slope the dual falls; a step along the slope would leave the kink uphill.
        wrong = at_kink & active & (step * residual > 0)
        if not wrong.any() or np.array_equal(wrong, active):
            break
        active = active & ~wrong
    # The whole step is shortened, so that it keeps its direction.
    return step / max(1.0, float(np.abs(step).max()) / LONGEST_STEP)


def _search_line(
    grid: Overlap, eps: Float[Array, " i"], lam: Float[Array, " i"], current: Gaps, step: Array
) -> tuple[Float[Array, " i"], Gaps] | None:
    """Return the full step if it halves the violation, else the dual's minimum on the line."""
    free = grid.population.constrained
    residual = _violations(eps, lam, current, free)[0]
    violation, slope_start = float(np.abs(residual).max()), float(step @ residual)
    # A budget above 0 makes a kink at 0: stop there, the other side has other equations.
    crossing = (eps > 0) & (lam * (lam + step) < 0)
    sizes = np.where(crossing, -lam / np.where(crossing, step, 1.0), 1.0)
    longest = float(sizes.min())

    def at(size: float) -> tuple[Array, Gaps, Array]:
        trial = np.where(crossing & (sizes <= size), 0.0, lam + size * step)
        evaluation = evaluate_gaps(grid, trial)
        # At the kink the slope of the side to which the step leads is meant.
        one_sided = evaluation.gaps + eps * np.sign(np.where(lam == 0, step, lam))
        return trial, evaluation, np.where(step == 0, 0.0, one_sided)

    trial, evaluation, slopes = at(longest)
    slope_high = float(step @ slopes)
    if (
        np.abs(_violations(eps, trial, evaluation, free)[0]).max() < 0.5 * violation
        or slope_high <= 0
    ):
        return trial, evaluation
    if violation <= GOOD_ENOUGH or slope_start >= 0:
        return None
    # The dual is convex, so its slope along the way changes sign once: close in on that place.
    low, high = 0.0, longest
    nearest, best = abs(slope_start), None
    longest_move, finest = float(np.abs(step).max()), 1e-16 * float(np.abs(lam).max(initial=1e-3))
    for _ in range(60):
        # A good step may be smaller by orders of magnitude: go down by tenths first.
        size = 0.1 * high if low < 0.01 * high else 0.5 * (low + high)
        trial, evaluation, slopes = at(size)
        slope = float(step @ slopes)
        low, high = (size, high) if slope <= 0 else (low, size)
        if abs(slope) < nearest:
            nearest, best = abs(slope), (trial, evaluation)
        if nearest <= 0.3 * abs(slope_start) or (high - low) * longest_move < finest:
            break
    return best


def dual_value(grid: Overlap, eps: Float[Array, " i"], at: Polished) -> float:
    """Return D, a bound on the gain of any feasible rule over rejecting all rows.

    Args:
        grid: the overlap of the population.
        eps: one budget for each client.
        at: multipliers and their evaluation.
    """
    gain = gain_of(grid.population, at.evaluation.rule)
    return gain + float(at.lam @ at.evaluation.gaps) + float(eps @ np.abs(at.lam))


def _solution(grid: Overlap, eps: Float[Array, " i"], at: Polished) -> Solution:
    gap = float(at.lam @ at.evaluation.gaps) + float(eps @ np.abs(at.lam))
    return Solution(at.evaluation.rule, outcome_of(grid, at.evaluation), at.lam, eps, max(gap, 0.0))
