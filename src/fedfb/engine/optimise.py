"""The steps of local training: of the parameters, and of lambda in FairBatch on one client.

Parameters move on flat vectors by SGD or Adam, with weight decay and proximal term. Lambda gives
the weights of an epoch, and moves after it.
"""

from collections.abc import Callable

import numpy as np

from fedfb.core import ClientData, LocalSolver
from fedfb.engine.base import Rebalance
from fedfb.engine.packed import Packed, pack
from fedfb.models import Network
from fedfb.notions.base import decay, normalise, ratio
from fedfb.shapes import Array, Float, Int

Step = Callable[[Packed, Packed], None]
"""Move packed parameters in place by a gradient. The gradient may be overwritten."""

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


Move = Callable[[Array, Array], None]
"""Move a flat vector in place by a gradient. The gradient may be overwritten."""


def make_optimiser(theta: Packed, solver: LocalSolver, model: Network, anchor: Packed) -> Step:
    """Return the step of a solver on packed parameters. Its moments start at 0.

    Args:
        theta: the parameters, for their type.
        solver: learning rate, optimiser, weight decay and proximal weight.
        model: gives the layout.
        anchor: centre of the proximal term; copied.
    """
    dtype = theta.flat.dtype
    move = make_move(solver, lambda by_run: _per_parameter(by_run, model, dtype), anchor.flat)
    return lambda theta, gradient: move(theta.flat, gradient.flat)


def make_move(
    solver: LocalSolver,
    per_parameter: Callable[[Float[Array, " r"]], Float[Array, " q"]],
    anchor: Float[Array, " q"],
) -> Move:
    r"""Return the step of a solver on flat vectors. Its moments start at 0.

    The step adds to the objective, with the anchor :math:`w^t`,
    :math:`\frac{wd}2\lVert w\rVert^2+\frac{prox}2\lVert w-w^t\rVert^2`.

    Args:
        solver: learning rate, optimiser, weight decay and proximal weight.
        per_parameter: one value per run -> one value per parameter, in the layout of the vectors.
        anchor: centre of the proximal term; copied.
    """
    rate = per_parameter(solver.learning_rate)
    move = _sgd(rate) if solver.optimiser == "sgd" else _adam(rate)
    pull = None if solver.prox is None else per_parameter(solver.prox)
    at = anchor.copy()

    def step(value: Array, gradient: Array) -> None:
        if solver.weight_decay:
            gradient += solver.weight_decay * value
        if pull is not None:
            gradient += pull * (value - at)
        move(value, gradient)

    return step


def _per_parameter(
    by_run: Float[Array, " r"], model: Network, dtype: np.dtype
) -> Float[Array, " q"]:
    values = np.repeat(by_run.astype(dtype)[:, None], model.size, axis=1)
    return pack(values, model).flat


def _sgd(rate: Float[Array, " q"]) -> Move:
    def move(value: Array, gradient: Array) -> None:
        gradient *= rate
        value -= gradient

    return move


def _adam(rate: Float[Array, " q"]) -> Move:
    r"""Return Adam's step with the constants moved out of the moments.

    This saves two passes over the moments. With
    :math:`m\leftarrow\beta_1 m+g,\ v\leftarrow\beta_2 v+g^2` and
    :math:`s_t=\sqrt{(1-\beta_2)/(1-\beta_2^t)}` the usual step is

    .. math:: \eta\,\frac{1-\beta_1}{(1-\beta_1^t)\,s_t}\;m/(\sqrt v+\epsilon/s_t)
    """
    mean, square, scratch = np.zeros_like(rate), np.zeros_like(rate), np.empty_like(rate)
    time = 0

    def move(value: Array, gradient: Array) -> None:
        nonlocal time
        time += 1
        scale = ((1 - BETA2) / (1 - BETA2**time)) ** 0.5
        factor = (1 - BETA1) / ((1 - BETA1**time) * scale)
        np.multiply(mean, BETA1, out=mean)
        np.add(mean, gradient, out=mean)
        np.multiply(gradient, gradient, out=gradient)
        np.multiply(square, BETA2, out=square)
        np.add(square, gradient, out=square)
        np.sqrt(square, out=scratch)
        np.add(scratch, EPSILON / scale, out=scratch)
        np.divide(mean, scratch, out=scratch)
        np.multiply(scratch, rate, out=scratch)
        np.multiply(scratch, factor, out=scratch)
        np.subtract(value, scratch, out=value)

    return move


def local_weights(
    rule: Rebalance, lam: Float[Array, "r *l"], data: ClientData, counts: Int[Array, "2 a"]
) -> Float[Array, "r 2 a"]:
    r"""Return the weights of an epoch by cell, scaled to mean 1 over the client's rows.

    The objective is :math:`\frac1W\sum_j\omega_j(\lambda)\ell_j`, with W the sum of the weights.

    Args:
        rule: notion and pooled counts of lambda.
        lam: lambda of the epoch.
        data: the client's rows.
        counts: the client's counts.
    """
    omega = rule.notion.cell_weights(rule.notion.weights(lam, rule.counts), data.id, data.groups)
    mean = np.sum(omega * counts, axis=(1, 2)) / len(data.y)
    return omega * ratio(np.ones_like(mean), mean, empty=0.0)[:, None, None]


def move_lambda(
    losses: Float[Array, "r 2 a"],
    data: ClientData,
    lam: Float[Array, "r *l"],
    rule: Rebalance,
    number: int,
) -> Float[Array, "r *l"]:
    """Return lambda after a move along the signal.

    Args:
        losses: loss sums of the client after the epoch.
        data: the client's rows.
        lam: lambda before the move.
        rule: notion, counts and step size.
        number: number of the move: 1, 2, ...
    """
    notion, counts = rule.notion, rule.counts
    signal = notion.signal(notion.share(losses, counts, data.id), counts)
    step_size = rule.alpha * decay(number, rule.decay)
    return notion.step(lam, normalise(signal, rule.normalise), counts, step_size)
