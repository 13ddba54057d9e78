r"""Training that hides single rows: Poisson batches, clipped gradients, Gaussian noise.

DP-SGD (Abadi et al. 2016). Every step draws every row independently with probability
:math:`q=B/n`; with :math:`g_j` the gradient of the weighted loss of row j the step follows

.. math:: \frac1{qn}\Bigl(\sum_{j\in b}g_j\min\bigl(1,\tfrac C{\lVert g_j\rVert}\bigr)
          +\mathcal N(0,\sigma^2C^2)\Bigr)

The divisor is the expected number of rows: the drawn number depends on which rows are present.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fedfb.core import ClientData, Key, LocalSolver, generator
from fedfb.engine.optimise import Packed
from fedfb.errors import ConfigError
from fedfb.shapes import Array, Float, Int

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
