"""TERM (Li, Beirami, Sanjabi, Smith 2021, Tilted Empirical Risk Minimization), over clients."""

from typing import NamedTuple

import numpy as np

from fedfb.algorithms.baselines.client_losses import bounded_exp, mean_loss
from fedfb.algorithms.method import Knob, Method, Problem
from fedfb.algorithms.tasks import average, equal_weights, global_model, weigh_model
from fedfb.core import Algorithm, Arrays, Ask, ClientData, ClientTask, Info, Key, LocalSolver
from fedfb.engine import Engine
from fedfb.shapes import Array, Float


class State(NamedTuple):
    """The common model, and the mean loss of the previous round, the origin of the losses."""

    params: Float[Array, "r p"]
    centre: Float[Array, " r"]


def term(engine: Engine, solver: LocalSolver, t: Float[Array, " r"]) -> Algorithm:
    r"""Return TERM: the average has exponential weights, larger for larger losses.

    .. math:: \min_w\frac1t\log\sum_i p_i e^{tF_i(w)},\qquad
              w^{k+1}=\frac{\sum_i p_ie^{tF_i(w^k)}w_i}{\sum_i p_ie^{tF_i(w^k)}},\qquad
              p_i=\frac{n_i}n

    with :math:`w_i` from E local epochs on the plain mean loss. One full-batch step of plain SGD
    is a gradient step on the tilted objective. With t = 0 it is FedAvg, bit for bit. With
    :math:`t\to\infty` only the worst client counts.

    Departs from the paper: a public value is subtracted from all losses, which cancels. The value
    is the mean loss of the previous round, which follows from two sums; the largest loss would need
    a gather. Exponents beyond +-500 are cut off.

    Args:
        engine: does the arithmetic.
        solver: local training.
        t: the tilt, one value per run, at least 0.
    """

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        params, rows = broadcast["params"], len(data.y)
        loss = mean_loss(engine, params, data)
        weight = rows * bounded_exp(t * (loss - broadcast["centre"]))
        trained = engine.train(params, data, equal_weights(broadcast, data), solver, key)
        upload = weigh_model(trained, weight)
        return {**upload, "loss": rows * loss, "rows": np.asarray(rows)}, memory

    fit = ClientTask("fit", "sum", run)

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        return State(params, np.full(len(params), np.log(2.0)))

    def round(s: State, ask: Ask) -> tuple[State, Info]:
        total = ask(fit, {"params": s.params, "centre": s.centre})
        centre = total["loss"] / total["rows"]
        return State(average(total, s.params), centre), Info(signal=centre[:, None])

    return global_model("term", engine, (fit,), State, setup, round)


def _make(problem: Problem) -> Algorithm:
    return term(problem.engine, problem.solver, problem.knobs["t"])


METHOD = Method(
    "term",
    "average weighted by the exponential of each client's loss",
    "Li et al. 2021",
    _make,
    knobs={"t": Knob(2.0, (0.01, 0.1, 0.5, 1.0, 2.0), "tilt towards large losses; 0 is FedAvg")},
    notions=("client_parity",),
    additive=False,  # a client counts by its own mean loss
)
