"""FedAvg (McMahan et al. 2017): train locally, average, repeat."""

from typing import NamedTuple

from fedfb.algorithms.method import ALL_NOTIONS, Method
from fedfb.algorithms.tasks import average, equal_weights, fit_task, global_model
from fedfb.core import Algorithm, Ask, Info, LocalSolver
from fedfb.engine import Engine
from fedfb.shapes import Array, Float


class State(NamedTuple):
    """The common model."""

    params: Float[Array, "r p"]


def fedavg(engine: Engine, solver: LocalSolver) -> Algorithm:
    r"""Return FedAvg.

    .. math:: w^{t+1} = \sum_i\frac{n_i}{n}\,w_i^{t+1},\qquad w_i^{t+1}=\text{E epochs from } w^t
              \text{ on } \frac1{n_i}\sum_j\ell_j

    Departs from the released code: every client counts with its own weight, the first one too
    (defect D1).
    """
    fit = fit_task(engine, solver, equal_weights)

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        return State(params)

    def round(s: State, ask: Ask) -> tuple[State, Info]:
        total = ask(fit, {"params": s.params})
        return State(average(total, s.params)), Info()

    return global_model("fedavg", engine, (fit,), State, setup, round)


METHOD = Method(
    name="fedavg",
    summary="train locally, average; no fairness",
    paper="McMahan et al. 2017",
    make=lambda problem: fedavg(problem.engine, problem.solver),
    fair=False,
    notions=ALL_NOTIONS,
)
