"""q-FFL (Li, Sanjabi, Beirami, Smith 2020, Fair Resource Allocation in Federated Learning)."""

from typing import Literal, NamedTuple

import numpy as np

from fedfb.algorithms.baselines.client_losses import bounded_exp, mean_gradient, mean_loss
from fedfb.algorithms.method import TRAINING, Knob, Method, Problem
from fedfb.algorithms.tasks import equal_weights, global_model
from fedfb.core import Algorithm, Arrays, Ask, ClientData, ClientTask, Info, Key, LocalSolver
from fedfb.engine import Engine
from fedfb.notions.base import ratio
from fedfb.shapes import Array, Float

FLOOR = 1e-10
"""Added to every loss: the power F^(q-1) of a loss of 0 is infinite for q < 1."""


class State(NamedTuple):
    """The common model, and the mean loss of the previous round: the unit of the losses' powers."""

    params: Float[Array, "r p"]
    unit: Float[Array, " r"]


def q_ffl(
    engine: Engine,
    solver: LocalSolver,
    q: Float[Array, " r"],
    variant: Literal["avg", "sgd"] = "avg",
) -> Algorithm:
    r"""Return q-FFL: clients with a larger loss have a larger weight, and more so for a larger q.

    .. math:: \min_w\sum_i\frac{p_i}{q+1}F_i(w)^{q+1},\qquad p_i=\frac{n_i}n

    With :math:`F_i=F_i(w^t)`, the Lipschitz estimate :math:`L=1/\eta`, and :math:`g_i=\nabla
    F_i(w^t)` (``sgd``, over all rows of the client) or :math:`g_i=L(w^t-w_i)` after E local epochs
    (``avg``),

    .. math:: \Delta_i=F_i^q g_i,\quad h_i=qF_i^{q-1}\lVert g_i\rVert^2+LF_i^q,\quad
              w^{t+1}=w^t-\frac{\sum_i p_i\Delta_i}{\sum_i p_i h_i}

    With q = 0 this is FedAvg (``avg``) or one pooled gradient step (``sgd``). The identity
    :math:`g_i=L(w^t-w_i)` holds for one step of plain SGD. With many epochs, and especially with
    Adam, :math:`g_i` is a sum of many steps, and :math:`\lVert g_i\rVert^2` grows with its square.
    The update stays safe but becomes short: for one client the factor on :math:`w_i-w^t` is
    :math:`L/(L+q\lVert g_i\rVert^2/F_i)\le 1`. Even q = 0.1 may hardly move the model.

    Departs from the paper: all clients take part with weight :math:`p_i`; the paper draws clients
    with this probability. Losses are divided by a common unit before the power. This changes
    nothing, because numerator and denominator both contain :math:`F^q`, but keeps large q in the
    range of floats. The unit is the mean loss of the previous round, which follows from two sums;
    the largest loss would need a gather. Powers beyond exp(+-500) are cut off.

    Args:
        engine: does the arithmetic.
        solver: local training; its learning rate gives L.
        q: power of the losses, one value per run, at least 0.
        variant: how a client computes its gradient.
    """
    L = 1.0 / solver.learning_rate

    def local_gradient(broadcast: Arrays, data: ClientData, key: Key) -> Float[Array, "r p"]:
        params = broadcast["params"]
        if variant == "sgd":
            return mean_gradient(engine, params, data) + solver.weight_decay * params
        trained = engine.train(params, data, equal_weights(broadcast, data), solver, key)
        return L[:, None] * (params - trained)

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        rows, F = len(data.y), mean_loss(engine, broadcast["params"], data) + FLOOR
        g = local_gradient(broadcast, data, key)
        power = rows * bounded_exp(q * np.log(F / broadcast["unit"]))
        h = power * (q / F * np.sum(g**2, axis=1) + L)
        upload = {"delta": power[:, None] * g, "h": h, "loss": rows * F, "rows": np.asarray(rows)}
        return upload, memory

    # Powers of losses, and in h squares of gradients of the size L.
    step = ClientTask("step", "sum", run, bounds={"delta": 2.0**56, "h": 2.0**72})

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        return State(params, np.full(len(params), np.log(2.0)))

    def round(s: State, ask: Ask) -> tuple[State, Info]:
        total = ask(step, {"params": s.params, "unit": s.unit})
        params = s.params - ratio(total["delta"], total["h"][:, None], empty=0.0)
        unit = total["loss"] / total["rows"]
        return State(params, unit), Info(signal=unit[:, None])

    return global_model("q-ffl", engine, (step,), State, setup, round)


def _make(problem: Problem) -> Algorithm:
    variant: Literal["avg", "sgd"] = "sgd" if problem.variant == "sgd" else "avg"
    return q_ffl(problem.engine, problem.solver, problem.knobs["q"], variant)


METHOD = Method(
    "q-ffl",
    "clients with a larger loss count more (power q)",
    "Li et al. 2020",
    _make,
    knobs={
        "q": Knob(
            0.001,
            (0.0, 0.001, 0.01, 0.1, 1.0, 2.0, 5.0, 10.0),
            "power of a client's loss in its weight; 0 is FedAvg",
        )
    },
    variants=("avg", "sgd"),
    notions=("client_parity",),
    additive=False,  # a client counts by its own mean loss
    reads={**dict.fromkeys(TRAINING, ("avg",)), "weight_decay": ()},
)
