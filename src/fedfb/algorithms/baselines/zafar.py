"""Fairness constraints (Zafar, Valera, Gomez Rodriguez, Gummadi, AISTATS and WWW 2017).

Covariances and their gradients are sums over rows, so the constraint on all clients is exact. The
variant ``pooled`` is the same code with all rows in one place.
"""

from math import inf
from typing import NamedTuple

import numpy as np

from fedfb.algorithms.baselines.group_gaps import (
    MEAN_LOGIT,
    MISTAKE_OF_POSITIVES,
    GapStatistic,
    GroupGaps,
    Push,
    descend_on_gaps,
    excess,
    gap_method,
    gaps_task,
)
from fedfb.algorithms.baselines.server_step import no_moments
from fedfb.algorithms.method import Knob, Problem
from fedfb.core import Algorithm, Arrays, Ask, Info, LocalSolver
from fedfb.engine import Engine
from fedfb.errors import ConfigError
from fedfb.notions import DemographicParity, EqualOpportunity
from fedfb.shapes import Array, Float

PERIOD = 30
"""Steps between two moves of the multipliers. With 10, the model is late and both oscillate."""


class State(NamedTuple):
    """The common model, the step's moments, multipliers of both bounds by group, steps done."""

    params: Float[Array, "r p"]
    moments: Float[Array, "r 2 p"]
    multipliers: Float[Array, "r 2 a"]
    t: int


def zafar(
    engine: Engine,
    solver: LocalSolver,
    groups: int,
    tau: Float[Array, " r"],
    nu: Float[Array, " r"],
    statistic: GapStatistic = MEAN_LOGIT,
    period: int | None = PERIOD,
    minimum: int = 1,
) -> Algorithm:
    r"""Return descent on the mean loss under a bound on every group's covariance with the logit.

    .. math:: \min_w \bar L(w)\quad\text{s.t.}\quad |c_a(w)|\le\tau,\qquad
              c_a = \frac1n\sum_j(1[a_j=a]-\pi_a)\,z_j = \pi_a(\bar z_a-\bar z)

    by an augmented Lagrangian, one exchange a step: with the pressures on both sides
    :math:`p^\pm_a=\max(0, m^\pm_a+2\nu(\pm c_a-\tau))`

    .. math:: w\leftarrow w-\eta\big(\nabla\bar L+\textstyle\sum_a(p^+_a-p^-_a)\nabla c_a\big),
              \qquad m^\pm_a\leftarrow p^\pm_a\ \text{ every k steps}

    where :math:`\pi_a` is the share of group a and k the ``period``. For two groups the covariances
    are :math:`\mp\pi_0\pi_1(\bar z_1-\bar z_0)`, and both count. Equal opportunity is disparate
    mistreatment: :math:`\bar z_a` is the mean of :math:`\min(0, z)` over the positives of a group,
    a proxy of its false negative rate.

    Departs from the paper: another solver (the paper uses SLSQP, and a convex-concave procedure for
    mistreatment), and :math:`\tau` is absolute, not a fraction of the free model's covariance.

    Args:
        engine: does the arithmetic.
        solver: learning rate and optimiser of the server's step.
        groups: number of groups.
        tau: bound on each covariance, one value per run.
        nu: weight of the squared excess, one value per run.
        statistic: what is averaged over the rows of a group.
        period: steps between two moves of the multipliers. None: no multipliers, the penalty form
            :math:`\bar L+\nu\sum_a\max(0,|c_a|-\tau)^2`.
        minimum: a group with fewer compared rows has no bound.
    """
    ask_sums = gaps_task(engine, statistic)

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        return State(params, no_moments(params), np.zeros((len(params), 2, groups)), 0)

    def push(s: State, gap: GroupGaps, total: Arrays) -> Push:
        covariance = gap.share * gap.value
        penalty = 2 * nu[:, None, None] * excess(covariance, tau)
        pressure = np.maximum(0.0, s.multipliers + penalty)
        force = gap.share * (pressure[:, 0] - pressure[:, 1])
        moves = gap.present[:, None] & (period is not None and (s.t + 1) % period == 0)
        multipliers = np.where(moves, pressure, s.multipliers)
        gradient = np.einsum("ra,rap->rp", force, gap.gradient)
        info = Info(signal=covariance, lam=multipliers)
        return Push(gradient, {"multipliers": multipliers}, info)

    return descend_on_gaps("zafar", engine, solver, (ask_sums,), State, setup, push, minimum)


def _make(problem: Problem) -> Algorithm:
    match problem.notion:
        case DemographicParity(groups=groups):
            statistic = MEAN_LOGIT
        case EqualOpportunity(groups=groups):
            statistic = MISTAKE_OF_POSITIVES
        case other:
            raise ConfigError(
                f"zafar bounds covariances for demographic parity or equal opportunity, not for "
                f"{other.name!r}. Choose --notion dp or --notion eo, or the method fedfb."
            )
    knobs = problem.knobs
    return zafar(
        problem.engine,
        problem.solver,
        groups,
        knobs["tau"],
        knobs["nu"],
        statistic,
        minimum=problem.notion.minimum,
    )


METHOD = gap_method(
    name="zafar",
    summary="bound the covariance of group and logit; one exchange per gradient step",
    paper="Zafar et al. 2017",
    make=_make,
    knobs={
        "tau": Knob(0.0, (0.0, 0.01, 0.05, 0.1, 0.2), "bound on each covariance", high=inf),
        "nu": Knob(3.0, (1.0, 3.0, 10.0, 30.0), "weight of the squared excess"),
    },
    variants=("summed", "pooled"),
    pooled=("pooled",),
    notions=("demographic_parity", "equal_opportunity"),
)
