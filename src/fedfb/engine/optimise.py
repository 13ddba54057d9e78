r"""The parameters of all runs in one buffer, both passes over it, and the steps of local training.

The first layer is stored as ``W[d, r, h]``, so that one product with the rows serves all runs.
Later layers are stored as ``W[r, h, k]``. One flat buffer holds all layers, so that a step of an
optimiser is a few passes over one vector.

Parameters move on flat vectors by SGD or Adam, with weight decay and proximal term. Lambda gives
the weights of an epoch, and moves after it.

Training that hides single rows is DP-SGD (Abadi et al. 2016). Every step draws every row
independently with probability :math:`q=B/n`; with :math:`g_j` the gradient of the weighted loss of
row j the step follows

.. math:: \frac1{qn}\Bigl(\sum_{j\in b}g_j\min\bigl(1,\tfrac C{\lVert g_j\rVert}\bigr)
          +\mathcal N(0,\sigma^2C^2)\Bigr)

The divisor is the expected number of rows: the drawn number depends on which rows are present.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from fedfb.core import ClientData, Key, LocalSolver, generator
from fedfb.engine.base import Rebalance
from fedfb.errors import ConfigError
from fedfb.models import Network
from fedfb.notions.base import decay, normalise, ratio
from fedfb.shapes import Array, Float, Int


class Packed(NamedTuple):
    """A flat buffer and the layers as views into it."""

    flat: Float[Array, " q"]
    weights: tuple[Float[Array, "..."], ...]
    biases: tuple[Float[Array, "r o"], ...]


def empty(model: Network, runs: int, dtype: np.dtype) -> Packed:
    """Return a buffer for all runs with undefined values.

    Args:
        model: gives the layers.
        runs: number of runs.
        dtype: float32 or float64.
    """
    flat = np.empty(model.size * runs, dtype)
    weights, biases, start = [], [], 0
    for number, (fan_in, fan_out) in enumerate(model.layers):
        shape = (fan_in, runs, fan_out) if number == 0 else (runs, fan_in, fan_out)
        middle = start + fan_in * fan_out * runs
        weights.append(flat[start:middle].reshape(shape))
        start = middle + fan_out * runs
        biases.append(flat[middle:start].reshape(runs, fan_out))
    return Packed(flat, tuple(weights), tuple(biases))


def pack_layers(params: Float[Array, "r p"], model: Network) -> Packed:
    """Return the runs' flat vectors in the packed layout."""
    packed = empty(model, len(params), params.dtype)
    for number, (weight, bias) in enumerate(model.split(params)):
        packed.weights[number][:] = weight.transpose(1, 0, 2) if number == 0 else weight
        packed.biases[number][:] = bias
    return packed


def unpack_layers(packed: Packed, model: Network) -> Float[Array, "r p"]:
    """Return each run's flat vector; the inverse of pack."""
    runs, parts = len(packed.biases[0]), []
    for number, (weight, bias) in enumerate(zip(packed.weights, packed.biases, strict=True)):
        by_run = weight.transpose(1, 0, 2) if number == 0 else weight
        parts += [by_run.reshape(runs, -1), bias]
    return np.concatenate(parts, axis=1)


def forward(theta: Packed, x: Float[Array, "b d"]) -> list[Array]:
    """Return the rows, the activations (b, r, h) of each hidden layer, and the logits (b, r)."""
    first = theta.weights[0]
    value = (x @ first.reshape(len(first), -1)).reshape(len(x), *first.shape[1:])
    value += theta.biases[0]
    active: list[Array] = [x]
    for weight, bias in zip(theta.weights[1:], theta.biases[1:], strict=True):
        np.maximum(value, 0, out=value)
        active.append(value)
        value = np.matmul(value.transpose(1, 0, 2), weight).transpose(1, 0, 2) + bias
    return [*active, value[:, :, 0]]


def backward(theta: Packed, active: list[Array], error: Float[Array, "b r"]) -> Packed:
    """Return the gradient of the objective.

    Args:
        theta: the parameters.
        active: the result of :func:`forward`.
        error: derivative of the objective with respect to each logit.
    """
    runs = error.shape[1]
    gradient = _like(theta)
    delta = error[:, :, None]
    for number in range(len(theta.weights) - 1, 0, -1):
        before, by_run = active[number], delta.transpose(1, 0, 2)
        np.matmul(before.transpose(1, 2, 0), by_run, out=gradient.weights[number])
        delta.sum(axis=0, out=gradient.biases[number])
        delta = np.matmul(by_run, theta.weights[number].transpose(0, 2, 1)).transpose(1, 0, 2)
        delta = delta * (before > 0)
    flat_delta = np.ascontiguousarray(delta).reshape(len(delta), runs * delta.shape[2])
    first = gradient.weights[0].reshape(len(theta.weights[0]), -1)
    np.matmul(active[0].T, flat_delta, out=first)
    flat_delta.sum(axis=0, out=gradient.biases[0].reshape(runs * delta.shape[2]))
    return gradient


def _like(theta: Packed) -> Packed:
    flat, start = np.empty_like(theta.flat), 0
    weights, biases = [], []
    for weight, bias in zip(theta.weights, theta.biases, strict=True):
        middle = start + weight.size
        weights.append(flat[start:middle].reshape(weight.shape))
        start = middle + bias.size
        biases.append(flat[middle:start].reshape(bias.shape))
    return Packed(flat, tuple(weights), tuple(biases))


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
    return pack_layers(values, model).flat


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


SAMPLING, NOISE = 40, 41
"""Parts of the keys that draw the rows of a step and the noise on their gradient."""


class PrivateEpoch(NamedTuple):
    """The steps of one epoch: the rows of each, its noise, and the expected number of rows."""

    batches: list[Int[Array, " b"]]
    noise: Float[Array, "s r p"]
    expected: int


def steps_of_an_epoch(rows: int, batch: int) -> int:
    """Return the number of steps of an epoch: that of its minibatches without sampling.

    Args:
        rows: the client's rows.
        batch: rows of a minibatch.

    >>> steps_of_an_epoch(1000, 128)
    8
    """
    return -(-rows // batch)


def sampling_rate(rows: int, batch: int) -> float:
    """Return the probability with which a step draws a row.

    >>> sampling_rate(1000, 125), sampling_rate(100, 128)
    (0.125, 1.0)
    """
    return min(1.0, batch / rows)


def private_epochs(
    data: ClientData, shape: tuple[int, ...], solver: LocalSolver, key: Key
) -> Iterator[PrivateEpoch]:
    """Yield every epoch with the rows and the noise of its steps.

    The runs of a grid share the rows. Each run has its own noise.

    Args:
        data: the client's rows.
        shape: (runs, parameters).
        solver: a private solver.
        key: draws rows and noise, with the solver's secret.
    """
    private = solver.private
    if private is None:
        raise ConfigError("private epochs were asked of a solver that is not private.")
    rows, scale = len(data.y), private.noise[data.id] * private.clip
    sampling = generator((*key, SAMPLING, *private.secret))
    noise = generator((*key, NOISE, *private.secret))
    steps, rate = steps_of_an_epoch(rows, solver.batch), sampling_rate(rows, solver.batch)
    for _ in range(solver.epochs):
        # Given their number, the rows of a Poisson sample are a uniform sample of this size.
        sizes = sampling.binomial(rows, rate, steps)
        batches = [sampling.choice(rows, size, replace=False, shuffle=False) for size in sizes]
        yield PrivateEpoch(
            batches, scale * noise.standard_normal((steps, *shape)), min(solver.batch, rows)
        )


def clip_factors(
    theta: Packed, active: list[Array], error: Float[Array, "b r"], clip: float
) -> Float[Array, "b r"]:
    r"""Return :math:`\min(1, C/\lVert g_j\rVert)` of every row and run, without any :math:`g_j`.

    With :math:`\delta_l` the error of layer l and :math:`h_{l-1}` what enters it,
    :math:`\lVert g\rVert^2=\sum_l\lVert\delta_l\rVert^2(\lVert h_{l-1}\rVert^2+1)`. The errors of
    all layers are linear in the error of the logit, so scaling this error scales the gradient.

    Args:
        theta: the parameters.
        active: the result of :func:`fedfb.engine.optimise.forward`.
        error: derivative of each row's loss with respect to its logit.
        clip: C, the largest length of a gradient.
    """
    delta = error[:, :, None]
    squared = np.zeros_like(error)
    for number in range(len(theta.weights) - 1, 0, -1):
        before = active[number]
        squared += _squares(delta) * (_squares(before) + 1)
        back = np.matmul(delta.transpose(1, 0, 2), theta.weights[number].transpose(0, 2, 1))
        delta = back.transpose(1, 0, 2) * (before > 0)
    squared += _squares(delta) * (_squares(active[0])[:, None] + 1)
    length = np.sqrt(squared)
    factors: Float[Array, "b r"] = clip / np.maximum(length, clip)
    return factors


def _squares(values: Float[Array, "*s k"]) -> Float[Array, "*s"]:
    return np.einsum("...k,...k->...", values, values)
