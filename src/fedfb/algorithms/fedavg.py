"""FedAvg (McMahan et al. 2017): train locally, average, repeat.

FedProx (Li et al. 2020, Federated Optimization in Heterogeneous Networks).
"""

from typing import NamedTuple

from fedfb.algorithms.method import ALL_NOTIONS, Knob, Method, Problem
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


def fedprox(engine: Engine, solver: LocalSolver, mu: Float[Array, " r"]) -> Algorithm:
    r"""Return FedProx: FedAvg whose clients are pulled towards the model they received.

    .. math:: w^{t+1} = \sum_i\frac{n_i}{n}\,w_i^{t+1},\qquad w_i^{t+1}=\text{E epochs from } w^t
              \text{ on } F_i(w)+\frac\mu2\lVert w-w^t\rVert^2

    With :math:`\mu=0` it is FedAvg. It is not a fair method: it tames clients that drift apart.

    After Li et al.: a reconstruction. Every client does the same number of epochs; the inexact
    local solutions of the paper, which let slow clients stop early, are left out. With Adam the
    pull is part of the gradient that Adam rescales.
    """
    return fedavg(engine, solver._replace(prox=mu))._replace(name="fedprox")


def _make(problem: Problem) -> Algorithm:
    return fedprox(problem.engine, problem.solver, problem.knobs["mu"])


FEDPROX = Method(
    "fedprox",
    "FedAvg with a pull towards the common model; no fairness",
    "Li et al. 2020",
    _make,
    fair=False,
    knobs={"mu": Knob(0.01, (0.001, 0.01, 0.1, 1.0), "weight of the pull to the common model")},
    notions=ALL_NOTIONS,
    reconstruction=True,
)
