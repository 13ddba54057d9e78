"""Ditto (Li, Hu, Beirami, Smith 2021): a personal model for every client, tied to a common one."""

from collections.abc import Mapping

import numpy as np

from fedfb.algorithms.method import Knob, Method, Problem
from fedfb.algorithms.tasks import ModelState, averaging, equal_weights, fit_task
from fedfb.core import (
    Algorithm,
    Arrays,
    ClientData,
    ClientTask,
    Examples,
    Key,
    LocalSolver,
    Prediction,
)
from fedfb.engine import Engine, decide, sigmoid
from fedfb.errors import ConfigError
from fedfb.shapes import Array, Float


def ditto(engine: Engine, solver: LocalSolver, lam: Float[Array, " r"]) -> Algorithm:
    r"""Return Ditto.

    .. math:: \min_{v_i}F_i(v_i)+\frac\lambda2\lVert v_i-w^*\rVert^2,\qquad w^*\text{ of FedAvg}

    A round is one exchange: client i trains from :math:`w^t` as in FedAvg and sends the result.
    Then it trains its personal model :math:`v_i`, which never leaves the client, for E epochs on
    :math:`F_i(v)+\frac\lambda2\lVert v-w^t\rVert^2`, where :math:`w^t` is the received model. All
    :math:`v_i` start at :math:`w^0`. Personal training draws from another key, so the common model
    is exactly FedAvg's.

    :math:`v_i` decides the rows of client i; the common model decides rows of no client. With
    :math:`\lambda=0` clients train alone; with :math:`\lambda\to\infty` the common model decides
    all rows (plain SGD needs :math:`\eta\lambda<1`).

    Departs from the paper: the number of personal epochs is that of the common epochs, and all
    clients have the same lambda.

    Args:
        engine: does the arithmetic.
        solver: local training of the common and of the personal models.
        lam: weight of the pull to the common model, one value per run.
    """
    common = fit_task(engine, solver, equal_weights)
    personal_solver = solver._replace(prox=lam)

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        upload, memory = common.run(broadcast, data, memory, key)
        personal = engine.train(
            memory["personal"],
            data,
            equal_weights(broadcast, data),
            personal_solver,
            (*key, 1),
            anchor=broadcast["params"],
        )
        return upload, {**memory, "personal": personal}

    fit = ClientTask("fit", "sum", run)

    def predict(s: ModelState, memories: Mapping[int, Arrays], examples: Examples) -> Prediction:
        logits = engine.logits(s.params, examples.x)
        for client, memory in memories.items():
            rows = np.flatnonzero(examples.client == client)
            if len(rows):
                logits[:, rows] = engine.logits(memory["personal"], examples.x[rows])
        return Prediction(sigmoid(logits), decide(logits))

    algorithm = averaging("ditto", engine, fit, lambda params: {"personal": params.copy()})
    return algorithm._replace(predict=predict)


def _make(problem: Problem) -> Algorithm:
    solver, lam = problem.solver, problem.knobs["lam"]
    pull = float(np.max(solver.learning_rate * lam))
    if solver.optimiser == "sgd" and pull >= 1:
        raise ConfigError(
            f"Ditto's pull overshoots: plain SGD needs learning rate times lam below 1, got "
            f"{pull:g}. Lower --set lam=... or --lr, or train with --optimiser adam."
        )
    return ditto(problem.engine, solver, lam)


METHOD = Method(
    "ditto",
    "a personal model for every client, pulled towards FedAvg's",
    "Li et al. 2021",
    _make,
    knobs={
        "lam": Knob(
            0.1,
            (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0),
            "pull of the personal models; 0 trains every client alone",
        )
    },
    notions=("client_parity",),
    additive=False,  # every client has its own model
)
