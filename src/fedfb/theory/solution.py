"""The result of a solver, and the checks of what a solver is given.

A solver takes levels and local budgets, numbers in [0, 1]. It returns a ``Solution``: the rule,
what the rule does, its multipliers, and a bound on how far it is from the optimum.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedfb.errors import ConfigError
from fedfb.shapes import Array, Float
from fedfb.theory.measures import Outcome, Rule
from fedfb.theory.population import ContinuousPopulation, Population

PARITY = 1e-8
"""A disparity this close to a level meets it: solvers settle gaps no better."""


class Solution(NamedTuple):
    """An optimum.

    Attributes:
        rule: the classifier.
        outcome: accuracy and disparities of the rule.
        multipliers: one number for CFL, else one for each client.
        budgets: the local bounds on the disparity that lead to the rule; None for CFL.
        gap: a bound on the accuracy that a better rule could still gain: 0 up to rounding for a
            closed form, the duality gap for a program.
    """

    rule: Rule
    outcome: Outcome
    multipliers: Float[Array, " m"]
    budgets: Float[Array, " i"] | None = None
    gap: float = 0.0

    @property
    def local_budgets(self) -> Float[Array, " i"]:
        """The budgets of a solution that has them: any but CFL's."""
        assert self.budgets is not None
        return self.budgets


class CurvePoint(NamedTuple):
    """The best solution at one level of disparity.

    Attributes:
        level: bound on ``spd``; for more than two groups on ``demographic_parity``.
        solution: the best solution within the level, or None if no budgets reach the level.
        gap: a bound on the accuracy that other budgets could still gain.
        exact: False if the search did not cover all budgets.
    """

    level: float
    solution: Solution | None
    gap: float = 0.0
    exact: bool = True

    @property
    def accuracy(self) -> float | None:
        return None if self.solution is None else self.solution.outcome.accuracy


class TradeOff(NamedTuple):
    """The solution of least disparity (the most accurate of these), and the best at each level."""

    least: Solution
    curve: list[CurvePoint]


def check_level(eps: float, name: str = "eps") -> float:
    """Return a bound on a disparity; refuse a number outside [0, 1].

    Args:
        eps: the bound.
        name: name of the bound in the error message.

    >>> check_level(0.1)
    0.1
    """
    if not 0 <= eps <= 1:
        raise ConfigError(
            f"{name} is {eps}; a difference of two rates lies in [0, 1]. Give a number there."
        )
    return float(eps)


def check_levels(levels: Sequence[float] | Float[Array, " n"]) -> list[float]:
    """Return the levels of a curve as floats; refuse a number outside [0, 1].

    >>> check_levels([0, 0.5])
    [0.0, 0.5]
    """
    return [check_level(level, "a level") for level in np.asarray(levels, float).ravel()]


def check_budgets(
    population: Population, eps: float | Sequence[float] | Float[Array, " i"]
) -> Float[Array, " i"]:
    """Return one local budget for each client.

    Args:
        population: its number of clients is the number of budgets.
        eps: one budget for each client, or a single number for all clients.

    >>> from fedfb.theory.settings import fig2
    >>> check_budgets(fig2(), 0.1)
    array([0.1, 0.1])
    """
    budgets: Array = np.asarray(eps, float)
    if budgets.ndim > 1 or budgets.size not in {1, population.clients}:
        raise ConfigError(
            f"found {budgets.size} local budgets for {population.clients} clients. "
            "Give one for each, or a single one for all."
        )
    for number, budget in enumerate(budgets.ravel()):
        check_level(float(budget), f"the local budget of client {number}")
    return np.broadcast_to(budgets, population.clients).astype(float)


def refuse_more_than_two_groups(population: Population, quantity: str) -> None:
    """Refuse a population with more than two groups.

    Args:
        population: the population that the user gave.
        quantity: the quantity that is known for two groups only, as named in the error message.

    >>> from fedfb.theory.settings import fig2
    >>> refuse_more_than_two_groups(fig2(), "tau")
    """
    if population.groups > 2:
        raise ConfigError(
            f"{quantity} is worked out for two groups, and this population has "
            f"{population.groups}. For more groups there are cfl and lft_fedavg with their curves, "
            "and local_optima and lft_ensemble at given budgets, on atoms. Merge groups, or "
            "compare two at a time."
        )


def refuse_densities_of_many_groups(population: Population) -> None:
    """Refuse a population with densities and more than two groups.

    >>> from fedfb.theory.settings import fig2
    >>> refuse_densities_of_many_groups(fig2())
    """
    if population.groups > 2 and isinstance(population, ContinuousPopulation):
        raise ConfigError(
            f"{population.groups} groups with densities: for more than two groups the optima come "
            "from a linear program on atoms. Put the laws on atoms first: on_cells(population)."
        )
