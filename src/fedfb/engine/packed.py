"""The parameters of all runs in one buffer, and the forward and the backward pass.

The first layer is stored as ``W[d, r, h]``, so that one product with the rows serves all runs.
Later layers are stored as ``W[r, h, k]``. One flat buffer holds all layers, so that a step of an
optimiser is a few passes over one vector.
"""

from typing import NamedTuple

import numpy as np

from fedfb.models import Network
from fedfb.shapes import Array, Float


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


def pack(params: Float[Array, "r p"], model: Network) -> Packed:
    """Return the runs' flat vectors in the packed layout."""
    packed = empty(model, len(params), params.dtype)
    for number, (weight, bias) in enumerate(model.split(params)):
        packed.weights[number][:] = weight.transpose(1, 0, 2) if number == 0 else weight
        packed.biases[number][:] = bias
    return packed


def unpack(packed: Packed, model: Network) -> Float[Array, "r p"]:
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
