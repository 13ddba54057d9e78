"""After FPFL (Rodriguez-Galvez, Granqvist, van Dalen, Seigel 2021): multipliers on group gaps."""

from math import inf
from typing import NamedTuple

import numpy as np

from fedfb.algorithms.baselines.group_gaps import (
    SOFT_MISS_RATE,
    SOFT_POSITIVE_RATE,
    GapStatistic,
    GroupGaps,
    Push,
    descend_on_gaps,
    excess,
    gap_method,
    gaps_task,
    pull,
)
from fedfb.algorithms.baselines.server_step import no_moments
from fedfb.algorithms.method import Knob, Problem
from fedfb.core import Algorithm, Arrays, Ask, Info, LocalSolver
from fedfb.engine import Engine
from fedfb.errors import ConfigError
from fedfb.notions import DemographicParity, EqualOpportunity
from fedfb.shapes import Array, Float


class Multipliers(NamedTuple):
    r"""The bound :math:`\tau` on every gap, the damping c, and the step :math:`\gamma`, by run."""

    tau: Float[Array, " r"]
    damping: Float[Array, " r"]
    gamma: Float[Array, " r"]


class State(NamedTuple):
    """The common model, the step's moments, a multiplier for each group, and the steps done."""

    params: Float[Array, "r p"]
    moments: Float[Array, "r 2 p"]
    lam: Float[Array, "r a"]
    t: int


def fpfl(
    engine: Engine,
    solver: LocalSolver,
    groups: int,
    statistic: GapStatistic,
    rule: Multipliers,
    minimum: int = 1,
) -> Algorithm:
    r"""Return the modified method of differential multipliers, one exchange a step.

    .. math:: \min_w \bar L(w)\quad\text{s.t.}\quad g_a(w)=|h_a(w)-h(w)|-\tau\le 0

    .. math:: w\leftarrow w-\eta\big(\nabla\bar L+\textstyle\sum_a\max(0,\lambda_a+c\,g_a)
              \nabla g_a\big),\qquad \lambda_a\leftarrow\max(0,\lambda_a+\gamma g_a)

    Both updates use the old point; :math:`\lambda=0` at first. :math:`h_a` is the mean over group a
    of 1-p on positives (equal opportunity) or of p (demographic parity), and h is the mean of all.
    If the participants of a step have too few rows of a group, its multiplier does not move. With
    :math:`\tau=0` no g is negative and multipliers only grow. A small positive bound converges.

    After Rodriguez-Galvez et al.: a reconstruction. Departs from the paper: no clipping and no
    noise, so no differential privacy; demographic parity by the soft rate (erratum E38); the
    server's step may be Adam's.

    Args:
        engine: does the arithmetic.
        solver: learning rate and optimiser of the server's step.
        groups: number of groups.
        statistic: what is averaged over the rows of a group.
        rule: bound, damping and step of the multipliers.
        minimum: smallest number of rows of a compared group.
    """
    ask_sums = gaps_task(engine, statistic)
    damping, gamma = rule.damping[:, None], rule.gamma[:, None]

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        return State(params, no_moments(params), np.zeros((len(params), groups)), 0)

    def push(s: State, gap: GroupGaps, total: Arrays) -> Push:
        g = excess(gap.value, rule.tau).max(axis=1)
        pressure = np.maximum(0.0, s.lam + damping * g)
        lam = np.where(gap.present, np.maximum(0.0, s.lam + gamma * g), s.lam)
        gradient = pull(pressure, gap.value, gap.gradient)
        return Push(gradient, {"lam": lam}, Info(signal=gap.value, lam=lam))

    return descend_on_gaps("fpfl", engine, solver, (ask_sums,), State, setup, push, minimum)


def _make(problem: Problem) -> Algorithm:
    match problem.notion:
        case DemographicParity(groups=groups):
            statistic = SOFT_POSITIVE_RATE
        case EqualOpportunity(groups=groups):
            statistic = SOFT_MISS_RATE
        case other:
            raise ConfigError(
                f"fpfl bounds group gaps of demographic parity or equal opportunity, not of "
                f"{other.name!r}. Choose --notion dp or --notion eo, or the method fedfb."
            )
    knobs = problem.knobs
    rule = Multipliers(knobs["tau"], knobs["damping"], knobs["gamma"])
    minimum = problem.notion.minimum
    return fpfl(problem.engine, problem.solver, groups, statistic, rule, minimum)


METHOD = gap_method(
    name="fpfl",
    summary="bound each group's gap by multipliers; one exchange per gradient step, no noise",
    paper="Rodriguez-Galvez et al. 2021",
    make=_make,
    knobs={
        "tau": Knob(0.02, (0.0, 0.02, 0.05, 0.1, 0.2), "bound on each group's gap", high=inf),
        "damping": Knob(1.0, (0.0, 1.0, 10.0), "damping c of the multipliers' oscillation"),
        "gamma": Knob(0.1, (0.03, 0.1, 0.3), "step size of the multipliers"),
    },
    notions=("demographic_parity", "equal_opportunity"),
    reconstruction=True,
)
