"""FedAvg and FedProx: clients train, the server averages; no fairness.

FedAvg: McMahan et al. 2017. FedProx: Li et al. 2020, Federated Optimization in Heterogeneous
Networks.
"""

from fedfb.algorithms.method import ALL_NOTIONS, TRAINING, Knob, Method, Problem
from fedfb.algorithms.newton import Fitted, make_fit, start_of
from fedfb.algorithms.tasks import equal_weights, global_model
from fedfb.core import Algorithm, Ask, Info, LocalSolver
from fedfb.engine import Engine
from fedfb.shapes import Array, Float


def fedavg(engine: Engine, solver: LocalSolver) -> Algorithm:
    r"""Return FedAvg.

    .. math:: w^{t+1} = \sum_i\frac{n_i}{n}\,w_i^{t+1},\qquad w_i^{t+1}=\text{E epochs from } w^t
              \text{ on } \frac1{n_i}\sum_j\ell_j

    If the solver asks for Newton's method, a round is an exact fit of all rows instead
    (:mod:`fedfb.algorithms.newton`).

    Departs from the released code: every client has its own weight in the average, also the first
    client (defect D1).
    """
    fit = make_fit(engine, solver, equal_weights)

    def setup(params: Float[Array, "r p"], ask: Ask) -> Fitted:
        return start_of(params, solver)

    def round(s: Fitted, ask: Ask) -> tuple[Fitted, Info]:
        return fit.solve(ask, s, {}, {}), Info()

    return global_model("fedavg", engine, (fit.task,), Fitted, setup, round)


METHOD = Method(
    name="fedavg",
    summary="train locally, average; no fairness",
    paper="McMahan et al. 2017",
    make=lambda problem: fedavg(problem.engine, problem.solver),
    fair=False,
    notions=ALL_NOTIONS,
    one_fit=("plain",),
    reads={**TRAINING, "solver": ()},
)


def fedprox(engine: Engine, solver: LocalSolver, mu: Float[Array, " r"]) -> Algorithm:
    r"""Return FedProx: FedAvg whose clients are pulled towards the model they received.

    .. math:: w^{t+1} = \sum_i\frac{n_i}{n}\,w_i^{t+1},\qquad w_i^{t+1}=\text{E epochs from } w^t
              \text{ on } F_i(w)+\frac\mu2\lVert w-w^t\rVert^2

    With :math:`\mu=0` it is FedAvg. It is not a fair method: it limits how far clients drift apart.

    After Li et al.: a reconstruction. Every client trains for the same number of epochs. The paper
    also lets slow clients stop early, which is left out. With Adam, the pull is part of the
    gradient that Adam rescales.

    Args:
        engine: does the arithmetic.
        solver: local training; its ``prox`` is replaced.
        mu: weight of the pull, one value per run, at least 0.
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
