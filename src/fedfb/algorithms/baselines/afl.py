"""AFL (Mohri, Sivek, Suresh 2019, Agnostic Federated Learning): guard the worst mixture."""

from typing import Literal, NamedTuple

import numpy as np

from fedfb.algorithms.baselines.client_losses import (
    losses_task,
    mean_gradient,
    own,
    placed,
    roll_call_task,
)
from fedfb.algorithms.baselines.server_step import descend, no_moments
from fedfb.algorithms.method import DESCENT, Knob, Method, Problem
from fedfb.algorithms.tasks import predict_globally
from fedfb.core import Algorithm, Arrays, Ask, ClientData, ClientTask, Info, Key, LocalSolver
from fedfb.engine import Engine
from fedfb.notions.base import ratio
from fedfb.notions.projections import simplex
from fedfb.shapes import Array, Float, Int


def ascend(
    lam: Float[Array, "r h"], losses: Float[Array, "r h"], gamma: Float[Array, " r"]
) -> Float[Array, "r h"]:
    r"""Return :math:`\Pi(\lambda+\gamma F)`, the projection keeping the mass that lambda has.

    That mass is 1 where all clients answer; those who do not keep theirs.

    >>> ascend(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]]), np.array([0.2]))
    array([[0.6, 0.4]])
    """
    mass = lam.sum(axis=1, keepdims=True)
    unit = np.where(mass > 0, mass, 1.0)
    return mass * simplex((lam + gamma[:, None] * losses) / unit, 1.0)


def running_mean(
    mean: Float[Array, "r p"], value: Float[Array, "r p"], t: int
) -> Float[Array, "r p"]:
    """Return the mean of t values, given the mean of the t - 1 before the last.

    >>> running_mean(np.array([[1.0]]), np.array([[4.0]]), t=3)
    array([[2.]])
    """
    return mean + (value - mean) / t


class State(NamedTuple):
    """The iterate, its optimiser's moments, the mean iterate (the output), lambda, and the time."""

    params: Float[Array, "r p"]
    moments: Float[Array, "r 2 p"]
    mean: Float[Array, "r p"]
    lam: Float[Array, "r i"]
    ids: Int[Array, " i"]
    t: int


def afl(
    engine: Engine,
    solver: LocalSolver,
    gamma: Float[Array, " r"],
    start: Literal["uniform", "sizes"] = "uniform",
) -> Algorithm:
    r"""Return AFL.

    .. math:: \min_w\max_{\lambda\in\Delta}\sum_i\lambda_iF_i(w)

    A round is one step of both players from the same place,

    .. math:: w^{t+1}=w^t-\eta\sum_i\lambda_i^t\nabla F_i(w^t),\qquad
              \lambda^{t+1}=\Pi_\Delta(\lambda^t+\gamma F(w^t))

    and the output is the mean iterate :math:`\frac1T\sum_{t=1}^Tw^t`: the iterates themselves may
    circle around the solution. Lambda starts at 1/I (``uniform``) or at :math:`n_i/n` (``sizes``).
    With gamma = 0 and ``sizes`` the iterates are those of pooled gradient descent (FedSGD).

    The server needs every client's loss, to place them in lambda; lambda is public, and every
    client weighs its own gradient with it, so that gradients are only summed. A step is over all
    rows: of the solver, epochs and batch have no meaning here.

    After Mohri et al.: a reconstruction. Departs from the paper: full gradients in place of one
    row or minibatch per client, no bound on w, and the solver's optimiser takes the step; only
    ``sgd`` is the equation above, ``adam`` a heuristic that needs less care with the learning rate.
    """

    def weighted_gradient(
        broadcast: Arrays, data: ClientData, memory: Arrays, key: Key
    ) -> tuple[Arrays, Arrays]:
        weight = own(broadcast["lam"], broadcast["ids"], data.id, absent=0.0)
        slope = mean_gradient(engine, broadcast["params"], data)
        return {"gradient": weight[:, None] * slope, "weight": weight}, memory

    roll_call = roll_call_task(sizes=start == "sizes")
    losses = losses_task(engine)
    gradient = ClientTask("gradient", "sum", weighted_gradient)

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        called = ask(roll_call, {})
        shares = called["size"] / called["size"].sum()
        lam = np.repeat(shares[None], len(params), axis=0)
        return State(params, no_moments(params), params, lam, called["client"], 0)

    def round(s: State, ask: Ask) -> tuple[State, Info]:
        total, t = ask(gradient, {"params": s.params, "lam": s.lam, "ids": s.ids}), s.t + 1
        slope = ratio(total["gradient"], total["weight"][:, None], empty=0.0)
        params, moments = descend(s.params, slope, s.moments, solver, t)
        here, found = placed(ask(losses, {"params": s.params}), s.ids)
        lam = s.lam.copy()
        lam[:, here] = ascend(s.lam[:, here], found, gamma)
        mean = running_mean(s.mean, params, t)
        return State(params, moments, mean, lam, s.ids, t), Info(lam=lam)

    return Algorithm(
        name="afl",
        tasks=(roll_call, gradient, losses),
        state=State,
        memory=lambda params: {},
        setup=setup,
        round=round,
        params=lambda s: s.mean,
        predict=lambda s, _, examples: predict_globally(engine, s.mean, examples),
    )


def _make(problem: Problem) -> Algorithm:
    start: Literal["uniform", "sizes"] = "sizes" if problem.variant == "sizes" else "uniform"
    return afl(problem.engine, problem.solver, problem.knobs["gamma"], start)


METHOD = Method(
    "afl",
    "the best model for the worst mixture of clients",
    "Mohri et al. 2019",
    _make,
    knobs={"gamma": Knob(0.1, (0.01, 0.05, 0.1, 0.5), "step size of the clients' weights")},
    variants=("uniform", "sizes"),
    notions=("client_parity",),
    rounds=300,
    learning_rate=0.1,
    learning_rates=(0.01, 0.03, 0.1),
    reconstruction=True,
    additive=False,  # every client has a weight of its own
    reads=DESCENT,
)
