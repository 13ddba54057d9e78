"""The losses of a logit and their derivatives, elementwise."""

from typing import Literal

import numpy as np

from fedfb.errors import ConfigError
from fedfb.shapes import Array, Float, Num

RowLoss = Literal["zero_one", "prob", "ce", "logit", "steep", "mistake"]
"""The losses that are summed over rows: the surrogates of a signal, and statistics of the logit."""

STEEPNESS = 10.0


def sigmoid(z: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """Return 1/(1+exp(-z)) without overflow.

    >>> sigmoid(np.array([0.0, 1e4]))
    array([0.5, 1. ])
    """
    return 0.5 + 0.5 * np.tanh(0.5 * z)


def decide(z: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """Decide positively where p >= 1/2, that is z >= 0; a tie is positive."""
    return (z >= 0).astype(np.float64)


def loss(z: Float[Array, "*s"], y: Num[Array, "*#s"], kind: RowLoss) -> Float[Array, "*s"]:
    r"""Return the loss of each row.

    Args:
        z: logits.
        y: labels.
        kind: ``ce`` cross-entropy, ``prob`` :math:`|y-p|`, ``zero_one`` :math:`1[\hat y\ne y]`; or
            a statistic of the logit: ``logit`` z, ``steep`` :math:`\sigma(10z)` (nearly the
            decision), ``mistake`` :math:`\min(0,(2y-1)z)`.

    >>> loss(np.array([0.0, 2.0]), np.array([1, 0]), "zero_one")
    array([0., 1.])
    """
    losses: Float[Array, "*s"]
    match kind:
        case "zero_one":
            losses = np.abs(decide(z) - y)
        case "prob":
            losses = np.abs(y - sigmoid(z))
        case "logit":
            losses = z
        case "steep":
            losses = sigmoid(STEEPNESS * z)
        case "mistake":
            losses = np.minimum(0.0, (2 * y - 1) * z)
        case _:
            # numpy's own logaddexp takes four times as long.
            losses = np.maximum(z, 0.0) + _log_of_one_and(np.exp(-np.abs(z))) - y * z
    return losses


def _log_of_one_and(e: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """Return log(1 + e). In single precision the error is 6e-8, in a third of log1p's time."""
    return np.log(1 + e) if e.dtype == np.float32 else np.log1p(e)


def slope(z: Float[Array, "*s"], y: Num[Array, "*#s"], kind: RowLoss) -> Float[Array, "*s"]:
    """Return the derivative of the loss with respect to the logit.

    The arguments are those of :func:`loss`; the 0-1 loss has no derivative and is refused.
    """
    slopes: Float[Array, "*s"]
    match kind:
        case "zero_one":
            raise ConfigError(
                "the 0-1 loss has no gradient; a method that follows the gradient of its signal "
                "needs the surrogate 'prob' or 'ce' (--signal-loss prob)."
            )
        case "prob":
            p = sigmoid(z)
            slopes = (1 - 2 * y) * p * (1 - p)
        case "logit":
            slopes = np.ones_like(z)
        case "steep":
            p = sigmoid(STEEPNESS * z)
            slopes = STEEPNESS * p * (1 - p)
        case "mistake":
            sign = 2 * y - 1
            slopes = np.where(sign * z < 0, sign * np.ones_like(z), 0.0).astype(z.dtype)
        case _:
            slopes = sigmoid(z) - y
    return slopes
