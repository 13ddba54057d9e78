"""GIFAIR-FL (Yue, Nouiehed, Al Kontar 2021): clients are weighted by the rank of their loss."""

from typing import NamedTuple

import numpy as np

from fedfb.algorithms.baselines.client_losses import (
    losses_task,
    place_losses,
    roll_call_task,
    select_client,
)
from fedfb.algorithms.method import Knob, Method, Problem
from fedfb.algorithms.tasks import average, fit_task, global_model
from fedfb.core import Algorithm, Arrays, Ask, ClientData, Info, LocalSolver
from fedfb.engine import Engine
from fedfb.errors import ConfigError
from fedfb.shapes import Array, Float, Int


def rank_scores(losses: Float[Array, "r i"]) -> Float[Array, "r i"]:
    r"""Return for each loss the number of smaller losses less the number of larger losses.

    .. math:: r_i=\sum_j\operatorname{sign}(F_i-F_j),\qquad \sum_{i<j}|F_i-F_j|=\sum_i r_iF_i

    Equal losses have equal scores, and the scores add up to 0.

    >>> rank_scores(np.array([[0.5, 0.2, 0.5]]))
    array([[ 1., -2.,  1.]])
    """
    return np.sign(losses[:, :, None] - losses[:, None, :]).sum(axis=2)


class State(NamedTuple):
    """The common model, the rank scores, and the ids and sizes of the clients."""

    params: Float[Array, "r p"]
    score: Float[Array, "r i"]
    ids: Int[Array, " i"]
    sizes: Int[Array, " i"]


def gifair(engine: Engine, solver: LocalSolver, lam: Float[Array, " r"]) -> Algorithm:
    r"""Return GIFAIR-FL for single clients (every client is a group of its own).

    .. math:: \min_w\sum_i p_iF_i(w)+\Lambda\sum_{i<j}|F_i(w)-F_j(w)|=\min_w\sum_i\rho_iF_i(w),
              \qquad\rho_i=p_i+\Lambda r_i

    with the rank scores :math:`r_i` of :func:`rank_scores` and :math:`p_i=n_i/n`. All weights are
    positive for :math:`\Lambda<\Lambda_{\max}=\min_i p_i/(I-1)`; the knob is the fraction,
    :math:`\Lambda=\text{lam}\,\Lambda_{\max}` with lam in [0, 1), and the weights sum to 1.

    In a round, clients train on their plain mean loss, and the server averages with the weights
    :math:`\rho_i`. Then each client sends its loss at the new model, for the scores of the next
    round. In the first round all scores are 0: it is a round of FedAvg, as is every round with
    lam = 0. A client that does not take part has score 0.

    After Yue et al.: a reconstruction. Departs from the paper, which scales the local loss by
    :math:`\rho_i/p_i` and averages with :math:`p_i`: Adam would cancel the scale. Departs from
    FedFB's code, whose bound :math:`\max_i p_i` allows negative weights (D9).

    Args:
        engine: does the arithmetic.
        solver: local training.
        lam: fraction of :math:`\Lambda_{\max}` in [0, 1), one value per run.
    """

    def cell_weights(broadcast: Arrays, data: ClientData) -> Float[Array, "r 2 a"]:
        weight = select_client(broadcast["weights"], broadcast["ids"], data.id, absent=1.0)
        return np.repeat(weight, 2 * data.groups).reshape(-1, 2, data.groups)

    roll_call = roll_call_task(sizes=True)
    fit = fit_task(engine, solver, cell_weights)
    losses = losses_task(engine)

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        roll = ask(roll_call, {})
        score = np.zeros((len(params), len(roll["client"])))
        return State(params, score, roll["client"], roll["size"])

    def round(s: State, ask: Ask) -> tuple[State, Info]:
        p = s.sizes / s.sizes.sum()
        largest = p.min() / max(len(p) - 1, 1)
        rho = p + lam[:, None] * largest * s.score
        total = ask(fit, {"params": s.params, "weights": rho / p, "ids": s.ids})
        params, score = average(total, s.params), np.zeros_like(s.score)
        places, client_losses = place_losses(ask(losses, {"params": params}), s.ids)
        score[:, places] = rank_scores(client_losses)
        return State(params, score, s.ids, s.sizes), Info(signal=score, lam=rho)

    return global_model("gifair", engine, (roll_call, fit, losses), State, setup, round)


def _make(problem: Problem) -> Algorithm:
    lam = problem.knobs["lam"]
    if np.any(lam >= 1):
        raise ConfigError(
            f"GIFAIR's lam is a fraction of the largest weight that keeps every client in the "
            f"objective, expected at least 0 and below 1, got {float(lam.max()):g}. "
            "Choose --lam 0.8 or less."
        )
    return gifair(problem.engine, problem.solver, lam)


METHOD = Method(
    "gifair",
    "clients weighted by the rank of their loss",
    "Yue et al. 2021",
    _make,
    knobs={
        "lam": Knob(
            0.6,
            (0.1, 0.2, 0.3, 0.4, 0.6, 0.8),
            "weight of the loss gaps, as a fraction of the largest possible; 0 is FedAvg",
            high=1.0,
        )
    },
    notions=("client_parity",),
    reconstruction=True,
    additive=False,  # clients are ranked
)
