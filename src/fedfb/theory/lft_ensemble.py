r"""LFT+Ensemble: every client trains a fair classifier of its own, then all vote (code: UFL).

Client j bounds its own disparity by :math:`\epsilon_j` and finds the pair of thresholds with
multiplier :math:`\lambda_j`; the ensemble decides with :math:`\sum_j v_j f_j(x,a)`. On the pooled
law member j has a mean difference :math:`G_j(\lambda_j)`, increasing, and an accuracy
:math:`A_j(\lambda_j)`, so

.. math:: \mathrm{MD} = \sum_j v_j G_j(\lambda_j), \qquad \mathrm{Acc} = \sum_j v_j A_j(\lambda_j)

and :math:`\lambda_j` ranges over exactly the interval between 0 and
:math:`\lambda_j^0 = g_j^{-1}(0)`. The range of MD is therefore an interval whose ends are corners,
and the least disparity costs one root for each client: no search over budgets.

Local optima are statements about a client's own mass. Elsewhere the threshold form is taken, as in
the paper; a classifier that a client fits to its own sample could be anything there.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from fedfb.errors import ConfigError
from fedfb.shapes import Array, Float
from fedfb.theory import atom_ensemble
from fedfb.theory.cfl import (
    Pairs,
    distances_for,
    gaps_at,
    local_distances,
    local_problem,
    pairs_at,
    pooled_problem,
)
from fedfb.theory.measures import (
    PARITY,
    Decisions,
    Outcome,
    Solution,
    Steps,
    check_budgets,
    outcome,
    refuse_densities_of_many_groups,
    refuse_more_than_two_groups,
    threshold,
)
from fedfb.theory.population import AtomPopulation, ContinuousPopulation, Population
from fedfb.theory.tails import rate_gap

Vote = Literal["uniform", "shares"]
Budgets = float | Sequence[float] | Float[Array, " i"]
NO_DISPARITY = 1e-12
"""A mean difference below this is rounding."""

_ROUNDING = 1e-14


class LocalOptimum(NamedTuple):
    """A client's optimum: its rule, its local gap, and its outcome on all clients."""

    client: int
    multiplier: float
    at_home: float
    everywhere: Outcome
    rule: tuple[Steps, ...] | Decisions


class EnsembleRange(NamedTuple):
    """The mean differences that some budgets reach, and the least disparity among them.

    ``budgets`` reach ``least_disparity``; where a client stays at its unconstrained optimum, any
    larger budget reaches it as well. A budget smaller than floats can hold is 0. Where a client has
    no mass, its optimum at a budget is not unique: the range has all of them, and ``multipliers``
    identify the one that is meant; :func:`lft_ensemble` takes the one nearest to plain training.
    """

    low: float
    high: float
    least_disparity: float
    budgets: Float[Array, " i"]
    multipliers: Float[Array, " i"]


def vote_weights(population: Population, vote: Vote) -> Float[Array, " i"]:
    """Return the vote of each client.

    Args:
        population: the population.
        vote: "uniform", as in the paper, or "shares" of the clients.

    >>> from fedfb.theory.population import fig2
    >>> vote_weights(fig2(), "uniform")
    array([0.5, 0.5])
    """
    if vote not in ("uniform", "shares"):
        raise ConfigError(f"unknown vote {vote!r}. Valid: shares, uniform")
    uniform = np.full(population.clients, 1.0 / population.clients)
    return population.shares if vote == "shares" else uniform


def local_optima(population: Population, eps: Budgets) -> list[LocalOptimum]:
    """Return each client's optimum at its budget.

    Args:
        population: the population.
        eps: one budget for each client, or a single number for all.

    >>> from fedfb.theory.population import fig1c
    >>> [round(optimum.multiplier, 7) for optimum in local_optima(fig1c(), 0.0)]
    [0.2310586, -0.2310586]
    """
    budgets = check_budgets(population, eps)
    if isinstance(population, AtomPopulation):
        on_atoms = atom_ensemble.local_optima_of_atoms(population, budgets)
        return [LocalOptimum(i, *parts) for i, parts in enumerate(on_atoms)]
    refuse_densities_of_many_groups(population)
    distances = local_distances(population, budgets)
    pairs = pairs_at(local_problem(population), distances)
    gaps = np.where(population.constrained, gaps_at(local_problem(population), distances), np.nan)
    optima = []
    for i in range(population.clients):
        rule = (threshold(float(pairs.t0[i])), threshold(float(pairs.t1[i])))
        everywhere = outcome(population, rule)
        optima.append(LocalOptimum(i, float(pairs.lam[i]), float(gaps[i]), everywhere, rule))
    return optima


def lft_ensemble(population: Population, eps: Budgets, vote: Vote = "uniform") -> Solution:
    """Return the ensemble of the local optima.

    Args:
        population: the population.
        eps: one budget for each client, or a single number for all.
        vote: "uniform", as in the paper, or "shares" of the clients.

    >>> from fedfb.theory.population import fig1c
    >>> round(lft_ensemble(fig1c(), [1.0, 0.0]).outcome.spd, 7)
    0.1646474
    """
    budgets = check_budgets(population, eps)
    weights = vote_weights(population, vote)
    if isinstance(population, AtomPopulation):
        return atom_ensemble.ensemble(population, budgets, weights)
    refuse_densities_of_many_groups(population)
    return ensemble_at(population, local_distances(population, budgets), weights, budgets)


def ensemble_at(
    population: ContinuousPopulation,
    distances: Float[Array, " i"],
    weights: Float[Array, " i"],
    budgets: Float[Array, " i"] | None = None,
) -> Solution:
    """Return the ensemble of members at given distances.

    Args:
        population: laws with densities, two groups.
        distances: of each member's threshold from the unconstrained one
            (:mod:`fedfb.theory.cfl`).
        weights: the vote of each client.
        budgets: the budgets that led to the distances; computed if None.
    """
    problem = local_problem(population)
    pairs = pairs_at(problem, distances)
    rule = (_steps(pairs.t0, weights), _steps(pairs.t1, weights))
    if budgets is None:
        budgets = budgets_at(population, distances)
    return Solution(rule, outcome(population, rule), pairs.lam, budgets)


def budgets_at(
    population: ContinuousPopulation, distances: Float[Array, " i"]
) -> Float[Array, " i"]:
    """Return the local budgets that lead to members at given distances; 1 where no budget binds.

    Args:
        population: laws with densities, two groups.
        distances: of each member's threshold from the unconstrained one.
    """
    gaps = np.abs(gaps_at(local_problem(population), distances))
    gaps = np.where(gaps < _ROUNDING, 0.0, gaps)  # a budget of 1e-17 means 0
    return np.where(population.constrained, gaps, 1.0)


def ensemble_range(population: Population, vote: Vote = "uniform") -> EnsembleRange:
    """Return the exact range of the ensemble's mean difference, and its least disparity.

    Args:
        population: a population of two groups.
        vote: "uniform", as in the paper, or "shares" of the clients.

    >>> from fedfb.theory.population import example1, fig1b
    >>> round(ensemble_range(example1()).least_disparity, 7)
    0.2043003
    >>> ensemble_range(fig1b()).least_disparity       # the paper's figure shows .085: an underflow
    0.0
    """
    refuse_more_than_two_groups(population, "the range of LFT+Ensemble")
    weights = vote_weights(population, vote)
    if isinstance(population, AtomPopulation):
        return EnsembleRange(*atom_ensemble.range_of(population, weights))
    fair = local_distances(population, np.zeros(population.clients))
    ends = [np.minimum(fair, 0.0), np.maximum(fair, 0.0)]
    low, high = (float(weights @ member_gaps(population, end)) for end in ends)
    if high < -PARITY or low > PARITY:
        least, corner = min((abs(low), ends[0]), (abs(high), ends[1]), key=lambda pair: pair[0])
    else:
        least, corner = 0.0, _zero_between(population, ends, (low, high), weights)
    lam = pairs_at(local_problem(population), corner).lam
    return EnsembleRange(low, high, least, budgets_at(population, corner), lam)


def member_gaps(
    population: ContinuousPopulation, distances: Float[Array, " i"]
) -> Float[Array, " i"]:
    r"""Return :math:`G_j(\lambda_j)`, each member's mean difference on the pooled law."""
    pairs = pairs_at(local_problem(population), distances)
    return _pooled_gaps(population, pairs)


def _pooled_gaps(population: ContinuousPopulation, pairs: Pairs) -> Float[Array, " i"]:
    laws = population.pooled
    return rate_gap(laws[0], laws[1], pairs.t0[None, :], pairs.t1[None, :])[0]


def _zero_between(
    population: ContinuousPopulation,
    ends: list[Array],
    sizes: tuple[float, float],
    weights: Float[Array, " i"],
) -> Float[Array, " i"]:
    """Return distances between two corners at which the ensemble is fair.

    ``sizes`` are the mean differences at both corners.
    """
    low, high = 0.0, 1.0
    part = low
    for step in range(60):
        secant = low - sizes[0] * (high - low) / max(sizes[1] - sizes[0], 1e-300)
        # Secants alone may keep one end for ever: every third step halves the interval.
        part = 0.5 * (low + high) if step % 3 == 2 else float(np.clip(secant, low, high))
        gap = float(weights @ member_gaps(population, (1 - part) * ends[0] + part * ends[1]))
        if abs(gap) < NO_DISPARITY:
            break
        low, high, sizes = (
            (part, high, (gap, sizes[1])) if gap < 0 else (low, part, (sizes[0], gap))
        )
    return (1 - part) * ends[0] + part * ends[1]


def tau(population: Population) -> float:
    r"""Return the disparity from which on LFT+Ensemble is as accurate as CFL.

    Members vote alike only if all have CFL's thresholds. With one mix of groups everywhere that
    asks for :math:`\lambda^{CFL}` in every client's interval: :math:`\tau = |g|` at the nearest of
    the bounds :math:`\lambda_j^0` (Lemma "uflcfl"; 0 if all are equal, :math:`|g(0)|` if one has
    the other sign). With different mixes only the unconstrained optimum is common to all: again
    :math:`|g(0)|` (Lemma "ufl_q_different"; laws whose density vanishes may agree earlier).

    >>> from fedfb.theory.population import fig1b, fig1c
    >>> round(tau(fig1c()), 7), tau(fig1b())
    (0.3406699, 0.0)
    """
    refuse_more_than_two_groups(population, "tau")
    if isinstance(population, AtomPopulation):
        return atom_ensemble.tau_of_atoms(population)
    pooled = pooled_problem(population)
    unconstrained = gaps_at(pooled, np.zeros(1))[0]
    if not population.equal_mix:
        return abs(float(unconstrained))
    fair = local_distances(population, np.zeros(population.clients))
    goal = float(distances_for(pooled, np.zeros(1))[0])
    nearest = float(np.min(fair * np.sign(goal)))
    if goal == 0 or nearest <= 0:
        return abs(float(unconstrained))
    reached = gaps_at(pooled, np.array([np.sign(goal) * min(nearest, abs(goal))]))[0]
    return 0.0 if abs(reached) < NO_DISPARITY else abs(float(reached))


def _steps(thresholds: Float[Array, " i"], weights: Float[Array, " i"]) -> Steps:
    order = np.argsort(thresholds, kind="stable")
    values = np.concatenate([[0.0], np.cumsum(weights[order])])
    return Steps(thresholds[order], values)
