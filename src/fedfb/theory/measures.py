r"""What a classifier does to a population: accuracy, and two measures of disparity.

.. math:: \mathrm{MD} = P_0 - P_1, \qquad \texttt{spd} = \max_{a,b}|P_a - P_b|, \qquad
          \texttt{demographic\_parity} = \max_a |P_a - P|

with :math:`P_a = P(\hat y=1\mid a)` and :math:`P = P(\hat y = 1)`. For two groups
:math:`\texttt{spd} = |\mathrm{MD}|`, the disparity of the paper's theory, and
:math:`\texttt{demographic\_parity} = \max(P(a=0), P(a=1))\,\texttt{spd}`.

A solver takes levels and local budgets, numbers in [0, 1]. It returns a ``Solution``: the rule,
what the rule does, its multipliers, and a bound on how far it is from the optimum.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedfb.errors import ConfigError
from fedfb.shapes import Array, Float
from fedfb.theory.population import AtomPopulation, ContinuousPopulation, Population


class Steps(NamedTuple):
    """One group's decisions: ``values[k]`` between ``edges[k-1]`` and ``edges[k]``.

    A value is the probability of a positive decision. A threshold t is edges (t,), values (0, 1).
    """

    edges: Float[Array, " k"]
    values: Float[Array, " k+1"]


class Decisions(NamedTuple):
    """On atoms: the probability of a positive decision for each group at each point."""

    probability: Float[Array, "a k"]


Rule = tuple[Steps, ...] | Decisions


class Outcome(NamedTuple):
    """What a rule does. ``mean_difference`` and ``client_gaps`` are P_0 - P_1, nan if undefined.

    ``client_gaps`` has each client's mean difference, or for more than two groups the largest
    difference between two of its rates. It is nan for a client with a single group.
    """

    accuracy: float
    mean_difference: float
    spd: float
    demographic_parity: float
    rates: Float[Array, " a"]
    client_gaps: Float[Array, " i"]


def threshold(t: float) -> Steps:
    """Return the decisions "positive above t".

    >>> threshold(0.5).values
    array([0., 1.])
    """
    return Steps(np.array([t]), np.array([0.0, 1.0]))


def outcome(population: Population, rule: Rule) -> Outcome:
    r"""Return accuracy and disparities of a rule.

    .. math:: \mathrm{Acc} = P(y=0) + \sum_{ia} n_{ia} \int f(x,a)(2\eta(x)-1)\,dP_a^{(i)}

    The paper's formula conditions on y = 0 in both terms; this formula is correct.

    Args:
        population: the population.
        rule: steps for each group, or on atoms decisions at each point.

    >>> from fedfb.theory.population import fig2
    >>> erm = (threshold(0.0), threshold(0.0))
    >>> round(outcome(fig2(0.5, 0.5), erm).accuracy, 7)
    0.8476605
    """
    if isinstance(rule, Decisions):
        assert isinstance(population, AtomPopulation)
        gain, rates = _on_atoms(population, rule)
    else:
        assert isinstance(population, ContinuousPopulation)
        gain, rates = _by_steps(population, rule)
    return summary(population, negatives(population) + gain, rates)


def summary(population: Population, accuracy: float, rates: Float[Array, "i a"]) -> Outcome:
    """Return the outcome that follows from accuracy and rates.

    Args:
        population: the population.
        accuracy: of the rule.
        rates: of positive decisions, by client and group.
    """
    by_group = (population.client_weights * rates).sum(axis=0)
    overall = float(population.group_shares @ by_group)
    spread = float(np.ptp(by_group))
    two = population.groups == 2
    local = rates[:, 0] - rates[:, 1] if two else _widest(population, rates)
    return Outcome(
        accuracy=float(accuracy),
        mean_difference=float(by_group[0] - by_group[1]) if two else float("nan"),
        spd=spread,
        demographic_parity=float(np.abs(by_group - overall).max()),
        rates=by_group,
        client_gaps=np.where(population.constrained, local, np.nan),
    )


def _widest(population: Population, rates: Float[Array, "i a"]) -> Float[Array, " i"]:
    """Return each client's largest difference of two rates, among the groups that it holds."""
    present = population.joint > 0
    most = np.where(present, rates, -np.inf).max(axis=1)
    return np.asarray(most - np.where(present, rates, np.inf).min(axis=1))


def negatives(population: Population) -> float:
    """Return P(y = 0), the accuracy of rejecting all rows."""
    if isinstance(population, AtomPopulation):
        weight = population.joint[:, :, None] * population.masses
        return float((weight * (1.0 - population.eta)).sum())
    everyone = np.full((1, 1), -np.inf)
    margins = np.array([gains.at(everyone)[0, 0] for gains in population.pooled_gains])
    return float(population.group_shares @ (1.0 - margins) / 2)


def client_rates(population: ContinuousPopulation, rule: tuple[Steps, ...]) -> Float[Array, "i a"]:
    """Return P(positive | client i, group a) of a rule.

    Args:
        population: laws with densities.
        rule: steps of each group.
    """
    columns = []
    for laws, steps in zip(population.laws, rule, strict=True):
        jumps = np.diff(steps.values)
        columns.append(steps.values[0] + laws.ask("sf", steps.edges[None, :]) @ jumps)
    return np.stack(columns, axis=1)


def _by_steps(
    population: ContinuousPopulation, rule: tuple[Steps, ...]
) -> tuple[float, Float[Array, "i a"]]:
    gain = 0.0
    for share, gains, steps in zip(
        population.group_shares, population.pooled_gains, rule, strict=True
    ):
        edges = np.concatenate([[-np.inf], steps.edges])
        jumps = np.concatenate([steps.values[:1], np.diff(steps.values)])
        gain += float(share * (gains.at(edges[None, :])[0] @ jumps))
    return gain, client_rates(population, rule)


def _on_atoms(
    population: AtomPopulation, decisions: Decisions
) -> tuple[float, Float[Array, "i a"]]:
    rates = (population.masses * decisions.probability).sum(axis=2)
    positive = population.joint[:, :, None] * population.masses * decisions.probability
    return float((positive * (2 * population.eta - 1)).sum()), rates


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

    >>> from fedfb.theory.population import fig2
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

    >>> from fedfb.theory.population import fig2
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

    >>> from fedfb.theory.population import fig2
    >>> refuse_densities_of_many_groups(fig2())
    """
    if population.groups > 2 and isinstance(population, ContinuousPopulation):
        raise ConfigError(
            f"{population.groups} groups with densities: for more than two groups the optima come "
            "from a linear program on atoms. Put the laws on atoms first: on_cells(population)."
        )
