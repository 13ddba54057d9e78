"""The sums of a Newton step of logistic regression: loss, gradient and second derivatives.

They are in double precision on every engine: a fit by sums is the same however rows are distributed
over clients only if the sums agree to rounding.
"""

import numpy as np

from fedfb.core import ClientData
from fedfb.engine.base import Curvature, loss, sigmoid
from fedfb.engine.rows import by_cell, chunks
from fedfb.errors import ConfigError
from fedfb.models import Model, Network
from fedfb.shapes import Array, Float


def curvature_size(parameters: int, full: bool) -> int:
    """Return the number of sums of one run.

    >>> curvature_size(3, full=True), curvature_size(3, full=False)
    (10, 7)
    """
    return 1 + parameters + (parameters * (parameters + 1) // 2 if full else parameters)


def split_curvature(sums: Float[Array, "r s"], parameters: int) -> Curvature:
    """Return loss, gradient and second derivatives of sums in this order.

    >>> split_curvature(np.arange(6.0)[None], parameters=2).second
    array([[3., 4., 5.]])
    """
    return Curvature(sums[:, 0], sums[:, 1 : 1 + parameters], sums[:, 1 + parameters :])


def full_matrix(triangle: Float[Array, " q"], parameters: int) -> Float[Array, "p p"]:
    """Return the symmetric matrix of a lower triangle.

    >>> full_matrix(np.array([1.0, 2.0, 3.0]), parameters=2)
    array([[1., 2.],
           [2., 3.]])
    """
    matrix = np.zeros((parameters, parameters))
    matrix[np.tril_indices(parameters)] = triangle
    return matrix + np.tril(matrix, -1).T


def sum_curvature(
    params: Float[Array, "r p"],
    data: ClientData,
    cell_weights: Float[Array, "r 2 a"],
    full: bool,
) -> Curvature:
    """Return the sums over a client's rows, in chunks so that memory does not grow with them.

    Args:
        params: weights of the features, then the bias; by run.
        data: the client's rows.
        cell_weights: weights of the rows by run, label and group.
        full: the triangle of second derivatives, or its diagonal.
    """
    runs, size = params.shape
    weights, cell = by_cell(cell_weights), data.cell
    sums, triangle = np.zeros((runs, curvature_size(size, full))), np.tril_indices(size)
    total = split_curvature(sums, size)
    for rows in chunks(len(data.y)):
        x, y = np.ones((len(data.y[rows]), size)), data.y[rows].astype(np.float64)
        x[:, :-1] = data.x[rows]
        # Run by run: a product for several runs would round otherwise in another grid.
        for run in range(runs):
            z, weight = x @ params[run], weights[cell[rows], run]
            p = sigmoid(z)
            bend = weight * p * sigmoid(-z)
            total.loss[run] += np.sum(weight * loss(z, y, "ce"))
            total.gradient[run] += (weight * (p - y)) @ x
            total.second[run] += (x.T @ (bend[:, None] * x))[triangle] if full else bend @ x**2
    return total


def no_curvature(model: Model) -> ConfigError:
    """Return the error for a model that is not a logistic regression."""
    name = f"a network with hidden layers {model.hidden}" if isinstance(model, Network) else model
    return ConfigError(
        f"--solver newton fits logistic regressions, and this model is {name}. Leave out --solver, "
        "or choose --model logistic."
    )
