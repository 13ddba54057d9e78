"""After FedFair (Chu, Wang, Dong, Pei, Zhou, Zhang 2021): a bound on the loss gap of positives."""

from math import inf
from typing import NamedTuple

import numpy as np

from fedfb.algorithms.baselines.group_gaps import (
    LOSS_OF_POSITIVES,
    SOFT_MISS_RATE,
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
from fedfb.algorithms.tasks import count_task
from fedfb.core import Algorithm, Arrays, Ask, Info, LocalSolver
from fedfb.engine import Engine
from fedfb.errors import ConfigError
from fedfb.notions import EqualOpportunity
from fedfb.notions.values import enough
from fedfb.shapes import Array, Float

LARGEST = 10.0
"""The upper bound of each multiplier."""


class State(NamedTuple):
    """The common model, moments, multipliers of both signs, the reference group, and steps."""

    params: Float[Array, "r p"]
    moments: Float[Array, "r 2 p"]
    lam: Float[Array, "r 2 a"]
    reference: int
    t: int


def fedfair(
    engine: Engine,
    solver: LocalSolver,
    notion: EqualOpportunity,
    eps: Float[Array, " r"],
    gamma: Float[Array, " r"],
    statistic: GapStatistic = SOFT_MISS_RATE,
) -> Algorithm:
    r"""Return descent and ascent on the Lagrangian of a bounded gap, one exchange a step.

    .. math:: \min_w \bar L(w)\ \text{ s.t. }\ |d_a(w)|\le\epsilon,\qquad d_a = L_{1a} - L_{10}

    .. math:: \lambda^1_a\leftarrow\Pi(\lambda^1_a+\gamma(d_a-\epsilon)),\quad
              \lambda^2_a\leftarrow\Pi(\lambda^2_a+\gamma(-d_a-\epsilon)),\quad
              w\leftarrow w-\eta\big(\nabla\bar L+\textstyle\sum_a(\lambda^1_a-\lambda^2_a)
              \nabla d_a\big)

    with :math:`L_{1a}` the mean of :math:`|y-p|` (or of the cross-entropy) over the positives of
    group a, :math:`\Pi` the projection onto [0, 10]. Group 0 is the first group with enough
    positive rows (``notion.minimum``) in the federation. If a group, or the reference, has too few
    positive rows among the participants of a step, the group keeps its multipliers and has no
    effect on the step.

    After Chu et al.: a reconstruction. Departs from the paper: :math:`d_a` is exact, from sums. The
    paper averages the differences of the clients, which a client without a cell does not have. With
    more than two groups, each is compared with the first. The server's step may be Adam's.

    Args:
        engine: does the arithmetic.
        solver: learning rate and optimiser of the server's step.
        notion: equal opportunity.
        eps: bound on the gap, one value per run.
        gamma: step size of the multipliers, one value per run.
        statistic: what is averaged over the positives of a group.
    """
    count, ask_sums = count_task(notion), gaps_task(engine, statistic)

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        positives = ask(count, {})["counts"][1]
        lam = np.zeros((len(params), 2, notion.groups))
        first = int(np.argmax(enough(positives, notion.minimum)))
        return State(params, no_moments(params), lam, first, 0)

    def push(s: State, gap: GroupGaps, total: Arrays) -> Push:
        first = slice(s.reference, s.reference + 1)
        compared = gap.present & gap.present[:, first]
        d = np.where(compared, gap.value - gap.value[:, first], 0.0)
        slope = gap.gradient - gap.gradient[:, first]
        after = np.clip(s.lam + gamma[:, None, None] * excess(d, eps), 0.0, LARGEST)
        lam = np.where(compared[:, None], after, s.lam)
        force = np.where(compared, lam[:, 0] - lam[:, 1], 0.0)
        gradient = np.einsum("ra,rap->rp", force, slope)
        return Push(gradient, {"lam": lam}, Info(signal=d, lam=lam))

    tasks = (count, ask_sums)
    return descend_on_gaps("fedfair", engine, solver, tasks, State, setup, push, notion.minimum)


def _make(problem: Problem) -> Algorithm:
    notion, knobs = problem.notion, problem.knobs
    if not isinstance(notion, EqualOpportunity):
        raise ConfigError(
            f"fedfair bounds the gap of losses on positives, which is equal opportunity, not "
            f"{notion.name!r}. Choose --notion eo, or the method fpfl."
        )
    statistic = LOSS_OF_POSITIVES if problem.variant == "ce" else SOFT_MISS_RATE
    return fedfair(problem.engine, problem.solver, notion, knobs["eps"], knobs["gamma"], statistic)


METHOD = gap_method(
    name="fedfair",
    summary="bound the loss gap of positives by multipliers; one exchange per gradient step",
    paper="Chu et al. 2021",
    make=_make,
    knobs={
        "eps": Knob(0.02, (0.0, 0.02, 0.05, 0.1), "bound on the gap of losses", high=inf),
        "gamma": Knob(0.01, (0.003, 0.01, 0.03, 0.1), "step size of the multipliers"),
    },
    variants=("prob", "ce"),
    notions=("equal_opportunity",),
    reconstruction=True,
)
