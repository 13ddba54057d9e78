"""AFL (Mohri, Sivek, Suresh 2019, Agnostic Federated Learning): minimise the worst mixture."""

from typing import Literal, NamedTuple

import numpy as np

from fedfb.algorithms.baselines.client_losses import (
    losses_task,
    mean_gradient,
    place_losses,
    roll_call_task,
    select_client,
)
from fedfb.algorithms.baselines.server_step import descend, no_moments
from fedfb.algorithms.method import DESCENT, Knob, Method, Problem
from fedfb.algorithms.tasks import global_model, make_task, predict_globally
from fedfb.core import Algorithm, Arrays, Ask, ClientData, Info, LocalSolver
from fedfb.engine import Engine
from fedfb.notions.base import ratio, simplex
from fedfb.shapes import Array, Float, Int


def ascend(
    lam: Float[Array, "r h"], losses: Float[Array, "r h"], gamma: Float[Array, " r"]
) -> Float[Array, "r h"]:
    r"""Return :math:`\Pi(\lambda+\gamma F)`; the projection keeps the sum of lambda.

    The sum is 1 if all clients take part. A client that does not take part keeps its lambda.

    Args:
        lam: weights of the clients that take part, by run.
        losses: mean losses F of these clients.
        gamma: step size, one value per run.

    >>> ascend(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]]), np.array([0.2]))
    array([[0.6, 0.4]])
    """
    mass = lam.sum(axis=1, keepdims=True)
    unit = np.where(mass > 0, mass, 1.0)
    return mass * simplex((lam + gamma[:, None] * losses) / unit, 1.0)


def running_mean(
    mean: Float[Array, "r p"], value: Float[Array, "r p"], t: int
) -> Float[Array, "r p"]:
    """Return the mean of t values from the mean of the first t - 1 values.

    Args:
        mean: mean of the first t - 1 values.
        value: the last value.
        t: number of values, at least 1.

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

    A round is one step of both players from the same point,

    .. math:: w^{t+1}=w^t-\eta\sum_i\lambda_i^t\nabla F_i(w^t),\qquad
              \lambda^{t+1}=\Pi_\Delta(\lambda^t+\gamma F(w^t))

    and the output is the mean iterate :math:`\frac1T\sum_{t=1}^Tw^t`: the iterates themselves may
    circle around the solution. Lambda starts at 1/I (``uniform``) or at :math:`n_i/n` (``sizes``).
    With gamma = 0 and ``sizes`` the iterates are those of pooled gradient descent (FedSGD).

    The server needs every client's loss for lambda. Lambda is public: every client weighs its own
    gradient with it, so gradients are only summed. A step uses all rows: epochs and batch of the
    solver have no meaning here.

    After Mohri et al.: a reconstruction. Departs from the paper: full gradients in place of one
    row or minibatch per client, no bound on w, and the solver's optimiser makes the step. Only
    ``sgd`` is the equation above. ``adam`` is a heuristic that depends less on the learning rate.

    Args:
        engine: does the arithmetic.
        solver: learning rate and optimiser of the server's step.
        gamma: step size of lambda, one value per run.
        start: the first lambda.
    """

    def weigh_gradient(broadcast: Arrays, data: ClientData) -> Arrays:
        weight = select_client(broadcast["lam"], broadcast["ids"], data.id, absent=0.0)
        slope = mean_gradient(engine, broadcast["params"], data)
        return {"gradient": weight[:, None] * slope, "weight": weight}

    roll_call = roll_call_task(sizes=start == "sizes")
    losses = losses_task(engine)
    gradient = make_task("gradient", "sum", weigh_gradient)

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        roll = ask(roll_call, {})
        shares = roll["size"] / roll["size"].sum()
        lam = np.repeat(shares[None], len(params), axis=0)
        return State(params, no_moments(params), params, lam, roll["client"], 0)

    def round(s: State, ask: Ask) -> tuple[State, Info]:
        total, t = ask(gradient, {"params": s.params, "lam": s.lam, "ids": s.ids}), s.t + 1
        slope = ratio(total["gradient"], total["weight"][:, None], empty=0.0)
        params, moments = descend(s.params, slope, s.moments, solver, t)
        places, client_losses = place_losses(ask(losses, {"params": s.params}), s.ids)
        lam = s.lam.copy()
        lam[:, places] = ascend(s.lam[:, places], client_losses, gamma)
        mean = running_mean(s.mean, params, t)
        return State(params, moments, mean, lam, s.ids, t), Info(lam=lam)

    algorithm = global_model("afl", engine, (roll_call, gradient, losses), State, setup, round)
    return algorithm._replace(
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
    additive=False,  # every client has its own weight
    reads=DESCENT,
)
