r"""CFL: one fair classifier from all data in one place (the paper's bound for everybody else).

.. math:: \min_f P(\hat y\ne y)\quad\text{s.t.}\quad |P_0 - P_1|\le\epsilon

The optimum is a pair of thresholds (Lemma "solution") on the
pooled law :math:`P_a = \sum_i P(i\mid a) P_a^{(i)}` with shares :math:`P(a)`.

With the multiplier :math:`\lambda` of the mean difference and group shares :math:`n_0, n_1`,

.. math:: f(x,0) = 1\Big[\eta(x) > \tfrac12 - \tfrac{\lambda}{2n_0}\Big],\qquad
          f(x,1) = 1\Big[\eta(x) > \tfrac12 + \tfrac{\lambda}{2n_1}\Big]

and :math:`g(\lambda)` is the mean difference, increasing. Where an argument leaves [0, 1] the
threshold is infinite; that happens first in the group with the smaller share, the *lead*. A root of
g lies before that: where the lead is decided all alike, g has changed its sign. So a pair is
described by the lead's threshold t alone. That has a second use: close to its bound
:math:`\lambda` cannot tell thresholds apart that t can (with a probit eta, from t = 8 on).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedfb.shapes import Array, Bool, Float
from fedfb.theory import atoms
from fedfb.theory.eta import Eta
from fedfb.theory.measures import (
    CurvePoint,
    Solution,
    check_level,
    check_levels,
    outcome,
    refuse_densities_of_many_groups,
    threshold,
)
from fedfb.theory.population import AtomPopulation, ContinuousPopulation, Population
from fedfb.theory.tails import GroupLaws, rate_gap, rate_order

_FARTHEST = 2.0**70
"""No threshold is sought farther from the unconstrained one."""


class Pairs(NamedTuple):
    """One pair of thresholds for each client (or for the pooled law) and its multiplier."""

    t0: Float[Array, " i"]
    t1: Float[Array, " i"]
    lam: Float[Array, " i"]


class ThresholdProblem(NamedTuple):
    """Problems with two groups, one for each client: shares of the groups and laws."""

    eta: Eta
    shares: Float[Array, "i 2"]
    laws: tuple[GroupLaws, GroupLaws]

    @property
    def lead_is_0(self) -> Bool[Array, " i"]:
        return self.shares[:, 0] <= self.shares[:, 1]


def pairs_at(problem: ThresholdProblem, distance: Float[Array, " i"]) -> Pairs:
    r"""Return the pairs whose lead threshold has a given distance from that of :math:`\eta=1/2`.

    The threshold t' of the other group follows from
    :math:`\eta(t') - \frac12 = -\frac{n_{lead}}{n_{other}}(\eta(t) - \frac12)`.

    Args:
        problem: one problem for each client.
        distance: of each client; it has the sign of :math:`\lambda`.

    >>> from fedfb.theory.population import fig2
    >>> pairs_at(pooled_problem(fig2()), np.array([-1.0])).t1      # equal shares: mirror images
    array([-1.])
    """
    lead_is_0 = problem.lead_is_0
    middle = problem.eta.inverse(np.array(0.5))
    lead = middle + np.where(lead_is_0, -distance, distance)
    low, high = problem.eta.value(lead), problem.eta.upper(lead)
    smaller = problem.shares.min(axis=1)
    ratio = smaller / problem.shares.max(axis=1)
    # From the small tail of the lead follows the small tail of its partner, without cancellation.
    tail = (1.0 - ratio) / 2 + ratio * np.minimum(low, high)
    partner = np.where(low <= high, problem.eta.inverse_upper(tail), problem.eta.inverse(tail))
    lam = smaller * np.where(lead_is_0, high - low, low - high)
    t0, t1 = np.where(lead_is_0, lead, partner), np.where(lead_is_0, partner, lead)
    unconstrained = distance == 0
    return Pairs(
        np.where(unconstrained, middle, t0),
        np.where(unconstrained, middle, t1),
        np.where(unconstrained, 0.0, lam),
    )


def gaps_at(problem: ThresholdProblem, distance: Float[Array, " i"]) -> Float[Array, " i"]:
    """Return :math:`g_i`, each client's mean difference under its pair.

    Args:
        problem: one problem for each client.
        distance: of each client's lead threshold.
    """
    pairs = pairs_at(problem, distance)
    return rate_gap(*problem.laws, pairs.t0[:, None], pairs.t1[:, None])[:, 0]


def signs_at(problem: ThresholdProblem, distance: Float[Array, " i"]) -> Float[Array, " i"]:
    """Return the signs of the gaps, exact where the gaps underflow.

    Args:
        problem: one problem for each client.
        distance: of each client's lead threshold.
    """
    pairs = pairs_at(problem, distance)
    return rate_order(*problem.laws, pairs.t0[:, None], pairs.t1[:, None])[:, 0]


def distances_for(problem: ThresholdProblem, eps: Float[Array, " i"]) -> Float[Array, " i"]:
    r"""Return the distances at which :math:`|g_i| = \min(\epsilon_i, |g_i(0)|)`.

    .. math:: \lambda_i = g_i^{-1}(\operatorname{sign}(g_i(0))\min\{\epsilon_i, |g_i(0)|\})

    The multiplier has the sign opposite to :math:`g_i(0)`; the paper's Lemma "different_sign"
    equates it with the mean difference. Where g is constant, the multiplier nearest to 0 is taken.
    Bisection on the distance, for all clients at once.

    Args:
        problem: one problem for each client.
        eps: one budget for each client.

    >>> from fedfb.theory.population import fig2
    >>> problem = pooled_problem(fig2())
    >>> gaps_at(problem, distances_for(problem, np.array([0.1]))).round(12)
    array([0.1])
    """
    sign = signs_at(problem, np.zeros(len(eps)))
    exactly = eps <= 0
    middle = float(problem.eta.inverse(np.array(0.5)))

    def reached(size: Float[Array, " i"]) -> Bool[Array, " i"]:
        distance = -sign * size
        fair = sign * signs_at(problem, distance) <= 0 if exactly.any() else exactly
        close = exactly if exactly.all() else sign * gaps_at(problem, distance) <= eps
        return np.where(exactly, fair, close)

    if not np.isfinite(middle):  # eta stays on one side of 1/2: all are decided alike
        return np.zeros(len(eps))
    done = reached(np.zeros(len(eps))) | (sign == 0)
    low, high = np.zeros(len(eps)), np.full(len(eps), 2.0**-10)
    short = ~(done | reached(high))
    while np.any(short & (high < _FARTHEST)):
        low, high = np.where(short, high, low), np.where(short, 4 * high, high)
        short = short & ~reached(high)
    # A float has 53 bits, and a bracket grows by a factor 4: 58 halvings reach its rounding.
    for _ in range(58):
        between = 0.5 * (low + high)
        hit = reached(between)
        low, high = np.where(hit, low, between), np.where(hit, between, high)
    return np.where(done, 0.0, -sign * high)


def pooled_problem(population: ContinuousPopulation) -> ThresholdProblem:
    """Return the problem of all clients together, as that of a single client."""
    laws = population.pooled
    return ThresholdProblem(population.eta, population.group_shares[None, :], (laws[0], laws[1]))


def local_problem(population: ContinuousPopulation) -> ThresholdProblem:
    """Return each client's own problem."""
    laws = population.laws
    return ThresholdProblem(population.eta, population.within, (laws[0], laws[1]))


def local_distances(
    population: ContinuousPopulation, eps: Float[Array, " i"]
) -> Float[Array, " i"]:
    """Return the distance of every client's optimum; 0 for a client that lacks a group.

    Args:
        population: laws with densities, two groups.
        eps: one budget for each client.

    >>> from fedfb.theory.population import fig2
    >>> local_distances(fig2(0.0, 1.0), np.zeros(2))
    array([0., 0.])
    """
    distances = distances_for(local_problem(population), eps)
    return np.where(population.constrained, distances, 0.0)


def erm(population: Population) -> Solution:
    r"""Return the most accurate classifier, :math:`1[\eta(x) > 1/2]`.

    >>> from fedfb.theory.population import fig2
    >>> round(erm(fig2()).outcome.spd, 7)
    0.3406699
    """
    if isinstance(population, AtomPopulation):
        return atoms.erm_of_atoms(population)
    middle = float(population.eta.inverse(np.array(0.5)))
    rule = (threshold(middle),) * population.groups
    return Solution(rule, outcome(population, rule), np.zeros(1))


def cfl(population: Population, eps: float) -> Solution:
    r"""Return the optimum of CFL(eps) and its multiplier.

    .. math:: \lambda = g^{-1}(\operatorname{sign}(g(0))\min\{\epsilon, |g(0)|\}), \qquad
              \frac{d\,\mathrm{Acc}}{d\,\mathrm{MD}} = -\lambda

    For more than two groups (laws on atoms) the bound is on :math:`\max_a|P_a - P|`, the optimum
    comes from a linear program, and ``multipliers`` has one number for each group.

    >>> from fedfb.theory.population import fig2
    >>> best = cfl(fig2(), 0.1)
    >>> round(best.outcome.accuracy, 7), round(best.outcome.spd, 12)
    (0.8244224, 0.1)
    """
    eps = check_level(eps)
    if isinstance(population, AtomPopulation):
        return atoms.cfl_of_atoms(population, eps)
    refuse_densities_of_many_groups(population)
    problem = pooled_problem(population)
    return _at(population, distances_for(problem, np.array([eps])))


def cfl_curve(
    population: Population, levels: Sequence[float] | Float[Array, " n"]
) -> list[CurvePoint]:
    """Return the best accuracy at each level of disparity; CFL reaches every level.

    Args:
        population: the population.
        levels: bounds on spd, or on ``max |P_a - P|`` for more than two groups.

    >>> from fedfb.theory.population import fig2
    >>> [round(point.accuracy, 7) for point in cfl_curve(fig2(), [0.0, 0.2])]
    [0.8043111, 0.8390181]
    """
    return [CurvePoint(level, cfl(population, level)) for level in check_levels(levels)]


def _at(population: ContinuousPopulation, distance: Float[Array, " 1"]) -> Solution:
    pair = pairs_at(pooled_problem(population), distance)
    rule = (threshold(float(pair.t0[0])), threshold(float(pair.t1[0])))
    multipliers: Array = pair.lam
    return Solution(rule, outcome(population, rule), multipliers)
