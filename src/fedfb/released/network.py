"""The two models with two outputs each, for several seeds at once: a leading axis ``s``.

All parameters of a seed stand in one row. A layer is a block (outputs, inputs + 1) whose last
column is the bias, so features carry a last column of ones.
"""

from typing import NamedTuple

import numpy as np

from fedfb.released.torch_random import Linear, linear, torch_generator
from fedfb.shapes import Array, Float, Int

HIDDEN = {"mlp": 4, "logistic": 0}
"""Hidden units; none is a single layer."""


class Layers(NamedTuple):
    """Views into rows of parameters; ``first`` is None without hidden units."""

    first: Float[Array, "s h i"] | None
    last: Float[Array, "s 2 j"]


def layers(params: Float[Array, "s p"], inputs: int, hidden: int) -> Layers:
    """Look at rows of parameters as layers; writing to the views writes to the rows."""
    seeds, cut = len(params), hidden * (inputs + 1)
    first = params[:, :cut].reshape(seeds, hidden, inputs + 1) if hidden else None
    return Layers(first, params[:, cut:].reshape(seeds, 2, (hidden or inputs) + 1))


def initial(seeds: tuple[int, ...], inputs: int, hidden: int) -> Float[Array, "s p"]:
    """Draw each seed's parameters as torch does after ``torch.manual_seed(seed)``."""
    sizes = ((inputs, hidden), (hidden, 2)) if hidden else ((inputs, 2),)
    drawn = []
    for seed in seeds:
        rng = torch_generator(seed)
        drawn.append(np.concatenate([_packed(linear(rng, *size)) for size in sizes]))
    return np.stack(drawn)


def _packed(layer: Linear) -> Float[Array, " p"]:
    return np.column_stack([layer.weight, layer.bias]).ravel()


def with_ones(x: Float[Array, "n d"], dtype: str) -> Float[Array, "n i"]:
    """Add the column that the biases multiply."""
    return np.column_stack([x, np.ones(len(x))]).astype(dtype)


def margins(params: Float[Array, "s p"], x: Float[Array, "n i"], hidden: int) -> Array:
    r"""Return by how much the second output exceeds the first, by seed and row.

    .. math:: m = o_1 - o_0, \qquad P(y = 1) = \frac{1}{1 + e^{-m}}
    """
    first, last = layers(params, x.shape[1] - 1, hidden)
    difference = last[:, 1] - last[:, 0]
    if first is None:
        return difference @ x.T
    active = np.maximum(x @ first.swapaxes(1, 2), 0)
    return (active @ difference[:, :-1, None])[..., 0] + difference[:, -1:]


def cross_entropy(margin: Float[Array, "s n"], y: Int[Array, " n"]) -> Float[Array, "s n"]:
    """Return each row's cross-entropy towards the given labels."""
    return np.logaddexp(0, np.where(y == 1, -margin, margin).astype(np.float64))
