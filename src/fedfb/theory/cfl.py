r"""CFL: one fair classifier from all data in one place (the paper's bound for everybody else).

.. math:: \min_f P(\hat y\ne y)\quad\text{s.t.}\quad |P_0 - P_1|\le\epsilon

The optimum is a pair of thresholds (Lemma "solution", see :mod:`fedfb.theory.thresholds`) on the
pooled law :math:`P_a = \sum_i P(i\mid a) P_a^{(i)}` with shares :math:`P(a)`.
"""

from collections.abc import Sequence

import numpy as np

from fedfb.shapes import Array, Float
from fedfb.theory import atoms
from fedfb.theory.measures import outcome, threshold
from fedfb.theory.population import AtomPopulation, ContinuousPopulation, Population
from fedfb.theory.solution import (
    CurvePoint,
    Solution,
    check_level,
    check_levels,
    refuse_densities_of_many_groups,
)
from fedfb.theory.thresholds import distances_for, pairs_at, pooled_problem


def erm(population: Population) -> Solution:
    r"""Return the most accurate classifier, :math:`1[\eta(x) > 1/2]`.

    >>> from fedfb.theory.settings import fig2
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

    >>> from fedfb.theory.settings import fig2
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

    >>> from fedfb.theory.settings import fig2
    >>> [round(point.accuracy, 7) for point in cfl_curve(fig2(), [0.0, 0.2])]
    [0.8043111, 0.8390181]
    """
    return [CurvePoint(level, cfl(population, level)) for level in check_levels(levels)]


def _at(population: ContinuousPopulation, distance: Float[Array, " 1"]) -> Solution:
    pair = pairs_at(pooled_problem(population), distance)
    rule = (threshold(float(pair.t0[0])), threshold(float(pair.t1[0])))
    multipliers: Array = pair.lam
    return Solution(rule, outcome(population, rule), multipliers)
