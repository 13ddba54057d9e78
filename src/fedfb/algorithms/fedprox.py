"""FedProx (Li et al. 2020, Federated Optimization in Heterogeneous Networks)."""

from fedfb.algorithms.fedavg import fedavg
from fedfb.algorithms.method import ALL_NOTIONS, Knob, Method, Problem
from fedfb.core import Algorithm, LocalSolver
from fedfb.engine import Engine
from fedfb.shapes import Array, Float


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


METHOD = Method(
    "fedprox",
    "FedAvg with a pull towards the common model; no fairness",
    "Li et al. 2020",
    _make,
    fair=False,
    knobs={"mu": Knob(0.01, (0.001, 0.01, 0.1, 1.0), "weight of the pull to the common model")},
    notions=ALL_NOTIONS,
    reconstruction=True,
)
