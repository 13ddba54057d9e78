r"""Optima on atoms: thresholds on eta with a randomised decision at the tie.

For two groups with shares :math:`n_0, n_1` the optimum of multiplier :math:`\lambda` decides
positively where :math:`n_0(2\eta-1)+\lambda>0` in group 0 and :math:`n_1(2\eta-1)-\lambda>0` in
group 1. As :math:`\lambda` grows, one value of eta after the other enters in group 0 or leaves in
group 1: a list of moves, exact, without root finding. The move at which a constraint begins to
bind is made in part. (The paper's Lemma "FFL_soln" leaves out that part.)

For more groups the bound is on :math:`\max_a|P_a-P|` and the optimum comes from a linear program.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from fedfb.shapes import Array, Float, Int
from fedfb.theory.measures import Decisions, Solution, outcome
from fedfb.theory.population import AtomPopulation, ContinuousPopulation

_AT_ONCE = 24
"""Constraints that a program takes in at first, and the least that it adds in a round."""

VIOLATED = 1e-11
"""A bound counts as exceeded from here; the solver's tolerance is 1e-10."""


class Moves(NamedTuple):
    """Moves away from 1[eta > 1/2], in order: the multiplier, and whose level of eta switches."""

    lam: Float[Array, " m"]
    group: Int[Array, " m"]
    level: Int[Array, " m"]


def levels_of(eta: Float[Array, " k"]) -> tuple[Float[Array, " l"], Int[Array, " k"]]:
    """Return the distinct values of eta, and the index of each point's value."""
    values, level_of_point = np.unique(eta, return_inverse=True)
    return values, level_of_point.reshape(eta.shape)


def sum_by_level(eta: Float[Array, " k"], masses: Float[Array, "*b k"]) -> Float[Array, "*b l"]:
    """Return masses summed over points with the same eta.

    Args:
        eta: value at each point.
        masses: the last axis is points.

    >>> sum_by_level(np.array([0.2, 0.2, 0.7]), np.array([[0.1, 0.2, 0.7]])).round(1)
    array([[0.3, 0.7]])
    """
    values, level_of_point = levels_of(eta)
    summed = np.zeros((*masses.shape[:-1], len(values)))
    for point, level in enumerate(level_of_point):
        summed[..., level] += masses[..., point]
    return summed


def list_moves(eta: Float[Array, " l"], shares: Float[Array, " 2"], sign: float) -> Moves:
    """Return the moves that raise or lower the mean difference, the cheapest first.

    Args:
        eta: distinct values, increasing.
        shares: of the two groups.
        sign: 1 to raise P_0 - P_1, -1 to lower it.

    >>> list_moves(np.array([0.3, 0.6]), np.array([0.5, 0.5]), 1.0).group  # 0.6 leaves, 0.3 enters
    array([1, 0])
    """
    margin = 2 * eta - 1
    # A level switches where n_0 (2 eta - 1) + lam = 0, or n_1 (2 eta - 1) - lam = 0 in group 1.
    at = np.concatenate([-shares[0] * margin, shares[1] * margin])
    group = np.repeat([0, 1], len(eta))
    level = np.tile(np.arange(len(eta)), 2)
    positive = np.tile(margin > 0, 2)
    # Upwards group 0 lets in who is out and group 1 turns away who is in; downwards the reverse.
    turned = positive != (group == (0 if sign > 0 else 1))
    order = np.lexsort((group, np.abs(at)))
    order = order[turned[order]]
    return Moves(at[order], group[order], level[order])


def apply_moves(eta: Float[Array, " l"], path: Moves, amount: float) -> Float[Array, "2 l"]:
    """Return the decisions of both groups after a number of moves.

    Args:
        eta: distinct values.
        path: the moves, in order.
        amount: number of moves; the fraction is the part of the last move.
    """
    decisions = np.repeat((eta > 0.5)[None, :], 2, axis=0).astype(float)
    complete = int(amount)
    for move in range(min(complete + 1, len(path.lam))):
        part = 1.0 if move < complete else amount - complete
        at = path.group[move], path.level[move]
        decisions[at] += part * (1.0 - 2.0 * decisions[at])
    return decisions


def amount_for(gap: float, steps: Float[Array, " m"], eps: float) -> float:
    """Return the number of moves that bring a gap within eps; the last move may be partial.

    Args:
        gap: the gap before the first move.
        steps: the mass that each move shifts; every move brings the gap closer to 0.
        eps: bound on the absolute gap.

    >>> amount_for(0.5, np.array([0.2, 0.2, 0.2]), 0.0)
    2.5
    """
    needed = abs(gap) - eps
    if needed <= 1e-15:
        return 0.0
    done = np.cumsum(steps)
    move = int(np.searchsorted(done, needed - 1e-15))
    if move == len(steps):
        return float(len(steps))
    shifted = done[move - 1] if move else 0.0
    return float(move + min(1.0, (needed - shifted) / steps[move]))


def pooled_masses(population: AtomPopulation) -> Float[Array, "a k"]:
    """Return the laws of all clients together."""
    return np.einsum("ia,iak->ak", population.client_weights, population.masses)


def erm_of_atoms(population: AtomPopulation) -> Solution:
    decisions = Decisions(
        np.repeat((population.eta > 0.5)[None, :], population.groups, axis=0) * 1.0
    )
    return Solution(decisions, outcome(population, decisions), np.zeros(1))


def cfl_of_atoms(population: AtomPopulation, eps: float) -> Solution:
    """Return the optimum of CFL(eps); ``eps`` bounds spd, or ``max |P_a - P|`` of many groups."""
    masses, shares = pooled_masses(population), population.group_shares
    if population.groups == 2:
        decisions, lam = solve_two_groups(population.eta, shares, masses, eps)
        rule = Decisions(decisions)
        return Solution(rule, outcome(population, rule), np.array([lam]))
    decisions, lams, gap = solve_many_groups(population.eta, shares, masses, eps)
    rule = Decisions(decisions)
    return Solution(rule, outcome(population, rule), lams, gap=gap)


def solve_two_groups(
    eta: Float[Array, " k"], shares: Float[Array, " 2"], masses: Float[Array, "2 k"], eps: float
) -> tuple[Float[Array, "2 k"], float]:
    """Return the optimal decisions for two groups, and the multiplier.

    Args:
        eta: value at each point.
        shares: of the groups.
        masses: law of each group on the points.
        eps: bound on the absolute mean difference.

    >>> eta, masses = np.array([0.2, 0.6]), np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> solve_two_groups(eta, np.array([0.5, 0.5]), masses, 0.25)[0]  # few of 0.6 stay in group 0
    array([[0.  , 0.25],
           [0.  , 1.  ]])
    """
    values, level_of_point = levels_of(eta)
    summed = sum_by_level(eta, masses)
    accepted = values > 0.5
    gap = float(summed[0, accepted].sum() - summed[1, accepted].sum())
    # sign(0) is 0, which is no direction: without a gap any direction will do.
    path = list_moves(values, shares, -np.sign(gap) or 1.0)
    amount = amount_for(gap, summed[path.group, path.level], eps)
    begun = min(int(np.ceil(amount)), len(path.lam))
    lam = float(path.lam[begun - 1]) if begun else 0.0
    return apply_moves(values, path, amount)[:, level_of_point], lam


def solve_many_groups(
    eta: Float[Array, " k"], shares: Float[Array, " a"], masses: Float[Array, "a k"], eps: float
) -> tuple[Float[Array, "a k"], Float[Array, " a"], float]:
    r"""Return the best decisions with :math:`\max_a|P_a-P|\le\epsilon`, multipliers and gap.

    Given the rate of a group, the best decisions accept from the largest eta down. So the rates of
    the program become thresholds, which also fixes decisions where the group has no mass.

    Args:
        eta: value at each point.
        shares: of the groups.
        masses: law of each group on the points.
        eps: the bound.
    """
    gain = (shares[:, None] * masses * (2 * eta - 1)).ravel()
    gaps = gap_rows(shares, masses)
    bounds = np.full(len(gaps), eps)
    f, lams = solve_program(gain, gaps, bounds)
    rates = (f.reshape(masses.shape) * masses).sum(axis=1)
    decisions = np.stack([threshold_at_rate(eta, m, r) for m, r in zip(masses, rates, strict=True)])
    bound = np.maximum(gain + lams @ gaps, 0.0).sum() + bounds @ np.abs(lams)
    return decisions, lams, max(float(bound - gain @ decisions.ravel()), 0.0)


def gap_rows(shares: Float[Array, " a"], masses: Float[Array, "a k"]) -> Float[Array, "a n"]:
    """Return the matrix that maps decisions to :math:`P_a - P`, one row for each group.

    Args:
        shares: of the groups.
        masses: law of each group on the points.
    """
    groups = len(shares)
    rates = np.zeros((groups, *masses.shape))
    rates[np.arange(groups), np.arange(groups)] = masses
    return (rates - np.einsum("b,bck->ck", shares, rates)).reshape(groups, -1)


def threshold_at_rate(
    eta: Float[Array, " k"], masses: Float[Array, " k"], rate: float
) -> Float[Array, " k"]:
    """Return the threshold on eta with a given rate of positive decisions, randomised at the tie.

    Args:
        eta: value at each point.
        masses: law of the group on the points.
        rate: the share of the group to accept.

    >>> threshold_at_rate(np.array([0.2, 0.5, 0.9]), np.array([0.5, 0.25, 0.25]), 0.375)
    array([0. , 0.5, 1. ])
    """
    level_of_point = levels_of(eta)[1]
    summed = sum_by_level(eta, masses)
    above = np.cumsum(summed[::-1])[::-1] - summed
    # Where the group has no mass any decision fits: none, unless the rate is used up below.
    part = np.where(summed > 0, (rate - above) / np.where(summed > 0, summed, 1.0), 0.0)
    open_above = (summed == 0) & (above < rate - 1e-12)
    return np.clip(np.where(open_above, 1.0, part), 0.0, 1.0)[level_of_point]


def on_cells(population: ContinuousPopulation, cells: int = 1000) -> AtomPopulation:
    """Return a population on atoms that stands for one with densities.

    Each cell becomes one atom with the exact mass and with eta at the middle. The error of an
    accuracy is of the order of the squared width of a cell.

    Args:
        population: laws with densities.
        cells: number of atoms.

    >>> from fedfb.theory.population import fig2
    >>> on_cells(fig2(), 200).masses.sum(axis=2).round(12)
    array([[1., 1.],
           [1., 1.]])
    """
    knots = np.concatenate([part.knots for laws in population.laws for part in laws.parts])
    mass = np.unique(knots)
    edges = np.interp(np.linspace(0, 1, cells + 1), np.linspace(0, 1, len(mass)), mass)
    edges = np.unique(edges)
    points = 0.5 * (edges[1:] + edges[:-1])
    ends = np.concatenate([[-np.inf], edges[1:-1], [np.inf]])[None, :]
    masses = np.stack([np.diff(laws.ask("cdf", ends), axis=1) for laws in population.laws], axis=1)
    return AtomPopulation(population.joint, points, population.eta.value(points), masses)


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
