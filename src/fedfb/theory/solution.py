"""What a solver returns: the rule, what it does, the multipliers, and how far from optimal."""

from typing import NamedTuple

from fedfb.shapes import Array, Float
from fedfb.theory.measures import Outcome, Rule

PARITY = 1e-8
"""A disparity this close to a level meets it: solvers settle gaps no better."""


class Solution(NamedTuple):
    """An optimum.

    ``multipliers`` has one number for CFL and one for each client otherwise; ``budgets`` are the
    local bounds on the disparity that lead to it (None for CFL). ``gap`` bounds what a better rule
    could still gain in accuracy: 0 to rounding for a closed form, a duality gap for a program.
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
    """The best solution with ``spd`` at most ``level``, or None where no budgets reach it.

    For more than two groups the level bounds ``demographic_parity``.

    ``gap`` bounds what a better choice of budgets could still gain where the search for them did
    not cover the whole space; then ``exact`` is False.
    """

    level: float
    solution: Solution | None
    gap: float = 0.0
    exact: bool = True

    @property
    def accuracy(self) -> float | None:
        return None if self.solution is None else self.solution.outcome.accuracy


class TradeOff(NamedTuple):
    """The fairest solution (of these the most accurate), and the best at each level asked for."""

    least: Solution
    curve: list[CurvePoint]
