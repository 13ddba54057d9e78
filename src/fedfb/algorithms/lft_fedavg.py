"""LFT+FedAvg: local fair training inside FedAvg (Zeng, Chen, Lee 2021, Section 3; code: FFL).

The paper's second baseline: FedAvg whose clients run FairBatch, each for its own constraint.
"""

from typing import NamedTuple

import numpy as np

from fedfb.algorithms.local_fairbatch import READS, LocalFairBatch, rule_of, train_fairbatch
from fedfb.algorithms.method import TRAINING, Knob, Method, Problem
from fedfb.algorithms.tasks import average, global_model
from fedfb.core import (
    Algorithm,
    Arrays,
    Ask,
    ClientData,
    ClientTask,
    Info,
    Key,
    LocalSolver,
)
from fedfb.engine import Engine
from fedfb.shapes import Array, Float


class State(NamedTuple):
    """The common model; every lambda stays with its client."""

    params: Float[Array, "r p"]


def lft_fedavg(engine: Engine, solver: LocalSolver, rule: LocalFairBatch) -> Algorithm:
    r"""Return LFT+FedAvg.

    The problem is :math:`\min_f P(\hat y\ne y)` s.t. on every client its own groups are alike.
    Round t: client i trains E epochs from :math:`w^t` on

    .. math:: \frac1{W_i}\sum_{j\in i}\omega_j(\lambda^{(i)})\,\ell_j,\qquad
              W_i=\sum_{j\in i}\omega_j(\lambda^{(i)}),\qquad
              \lambda^{(i)}\leftarrow\Pi\bigl(\lambda^{(i)}+\alpha u^{-1/2}\mu^{(i)}\bigr)

    where lambda moves after every epoch, u counts the client's epochs over all rounds, and weights,
    signal and projection use local counts. The server averages as FedAvg does,
    :math:`w^{t+1}=\sum_i\frac{n_i}n w_i`. With :math:`\alpha=0` this is FedAvg. On one client it
    is FairBatch on all rows with a move per epoch: with E = 1 exactly CFL, round by round.

    A client counts with its rows, not with the mass :math:`W_i`: lambda moves within the round, so
    there is no one mass, and what is said about a client's lambda stays with it. The two differ for
    demographic parity only; elsewhere :math:`W_i=n_i`.

    Departs from the released code: the step decays over all epochs by :math:`1/\sqrt u` (there:
    1/(epoch+1), anew in every round), lambda moves once per epoch and uses the client's counts
    (defect D7), the average is a weighted mean (D1), the signal is :math:`|y-p|` (E19).
    """

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        params = broadcast["params"]
        trained, memory = train_fairbatch(engine, solver, rule, params, data, memory, key)
        weight = np.full(len(params), float(len(data.y)))
        return {"weighted": trained * weight[:, None], "weight": weight}, memory

    fit = ClientTask("fit", "sum", run)

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        return State(params)

    def round(s: State, ask: Ask) -> tuple[State, Info]:
        total = ask(fit, {"params": s.params})
        return State(average(total, s.params)), Info()

    return global_model("lft-fedavg", engine, (fit,), State, setup, round)


def _make(problem: Problem) -> Algorithm:
    return lft_fedavg(problem.engine, problem.solver, rule_of(problem))


METHOD = Method(
    name="lft-fedavg",
    summary="FedAvg of clients that each run FairBatch for themselves",
    paper="Zeng, Chen, Lee 2021 (baseline)",
    make=_make,
    knobs={
        "alpha": Knob(
            0.05,
            (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 1.0),
            "Step of each client's own fairness weights, after every local epoch",
        )
    },
    additive=False,  # every client moves weights of its own
    reads={**TRAINING, **dict.fromkeys(READS, ())},
)
