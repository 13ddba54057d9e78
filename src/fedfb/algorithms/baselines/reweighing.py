"""Reweighing (Kamiran, Calders 2012), federated on pooled counts as in Abay et al. 2020."""

from typing import NamedTuple

import numpy as np

from fedfb.algorithms.method import TRAINING, Method, Problem
from fedfb.algorithms.newton import Fitted, make_fit, start_of
from fedfb.algorithms.tasks import Scaling, count_task, global_model, read_counts
from fedfb.core import Algorithm, Arrays, Ask, ClientData, Info, LocalSolver
from fedfb.engine import Engine
from fedfb.errors import ConfigError
from fedfb.notions import DemographicParity
from fedfb.notions.base import ratio
from fedfb.shapes import Array, Float, Num


def independent_weights(counts: Num[Array, "2 a"]) -> Float[Array, "2 a"]:
    r"""Return the weights that make label and group independent; an empty cell has weight 1.

    .. math:: \omega_{ya}=\frac{n_{y*}\,n_{*a}}{n\,n_{ya}}

    The weighted share of positives of a group is then :math:`n_{1*}/n`, if the group has rows of
    both labels.

    >>> independent_weights(np.array([[3, 1], [1, 3]])).round(3)
    array([[0.667, 2.   ],
           [2.   , 0.667]])
    """
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0, keepdims=True)
    return ratio(expected, counts * counts.sum(), empty=1.0)


class State(NamedTuple):
    """The common model, what counts of earlier rounds, and the pooled weights of the cells."""

    params: Float[Array, "r p"]
    past: Float[Array, "r q"]
    weights: Float[Array, "2 a"]


def reweighing(
    engine: Engine, solver: LocalSolver, notion: DemographicParity, scaling: Scaling = "mass"
) -> Algorithm:
    r"""Return FedAvg on reweighed rows.

    .. math:: \min_w\sum_j\omega_{y_j a_j}\,\ell_j,\qquad
              \omega_{ya}=\frac{n_{y*}\,n_{*a}}{n\,n_{ya}}

    The counts are pooled over all clients by one sum before the first round. The weights are
    exactly those of the centralised method, also if a client lacks a cell. With one group, or with
    labels that are independent of groups, every weight is 1 and this is FedAvg. The method makes
    labels independent of groups in the training rows. Decisions are independent only as far as the
    model cannot recognise groups. Rows of groups with fewer rows than ``notion.minimum`` keep
    weight 1, and the counts leave them out.

    Departs from Abay et al., who always add noise to the counts (differential privacy): here noise
    is added only under privacy, and then to the training as well.

    Args:
        engine: does the arithmetic.
        solver: local training.
        notion: demographic parity.
        scaling: see :func:`fedfb.algorithms.tasks.fit_task`.
    """

    def cell_weights(broadcast: Arrays, data: ClientData) -> Float[Array, "r 2 a"]:
        return np.repeat(broadcast["weights"][None], len(broadcast["params"]), axis=0)

    fit = make_fit(engine, solver, cell_weights, scaling)
    count = count_task(notion)

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        counts = read_counts(ask(count, {}))
        weights = np.ones(counts.shape)
        compared = notion.present(counts)
        weights[:, compared] = independent_weights(counts[:, compared])
        return State(*start_of(params, solver), weights)

    def round(s: State, ask: Ask) -> tuple[State, Info]:
        fitted = fit.solve(ask, Fitted(s.params, s.past), {}, {"weights": s.weights})
        return State(*fitted, s.weights), Info()

    return global_model("reweighing", engine, (count, fit.task), State, setup, round)


def _make(problem: Problem) -> Algorithm:
    notion, scaling = problem.notion, problem.options.scaling
    if not isinstance(notion, DemographicParity):
        raise ConfigError(
            f"reweighing makes labels independent of groups, which serves demographic parity, not "
            f"{notion.name}. Choose --notion dp, or the algorithm fedfb."
        )
    return reweighing(problem.engine, problem.solver, notion, scaling)


METHOD = Method(
    name="reweighing",
    summary="FedAvg on rows weighted so that label and group are independent",
    paper="Kamiran, Calders 2012; Abay et al. 2020",
    make=_make,
    notions=("demographic_parity",),
    one_fit=("plain",),
    reads={**TRAINING, "scaling": (), "solver": ()},
)
