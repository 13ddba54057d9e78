"""The losses of a logit and their derivatives, elementwise."""

import numpy as np

from fedfb.errors import ConfigError
from fedfb.notions import Surrogate
from fedfb.shapes import Array, Float, Num


def sigmoid(z: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """Return 1/(1+exp(-z)) without overflow.

    >>> sigmoid(np.array([0.0, 1e4]))
    array([0.5, 1. ])
    """
    return 0.5 + 0.5 * np.tanh(0.5 * z)


def decide(z: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """Decide positively where p >= 1/2, that is z >= 0; a tie is positive."""
    return (z >= 0).astype(np.float64)


def loss(z: Float[Array, "*s"], y: Num[Array, "*#s"], surrogate: Surrogate) -> Float[Array, "*s"]:
    r"""Return the loss of each row: cross-entropy, :math:`|y-p|`, or :math:`1[\hat y\ne y]`.

    >>> loss(np.array([0.0, 2.0]), np.array([1, 0]), "zero_one")
    array([0., 1.])
    """
    found: Float[Array, "*s"]
    if surrogate == "zero_one":
        found = np.abs(decide(z) - y)
    elif surrogate == "prob":
        found = np.abs(y - sigmoid(z))
    else:
        found = np.logaddexp(0.0, z) - y * z
    return found


def slope(z: Float[Array, "*s"], y: Num[Array, "*#s"], surrogate: Surrogate) -> Float[Array, "*s"]:
    """Return the derivative of the loss with respect to the logit."""
    if surrogate == "zero_one":
        raise ConfigError(
            "the 0-1 loss has no gradient; a method that follows the gradient of its signal needs "
            "the surrogate 'prob' or 'ce' (--signal-loss prob)."
        )
    p = sigmoid(z)
    found: Float[Array, "*s"] = (1 - 2 * y) * p * (1 - p) if surrogate == "prob" else p - y
    return found
