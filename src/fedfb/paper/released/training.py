"""One client's training as ``torch.optim.Adam`` does it, for several seeds at once.

Arrays have a leading axis of seeds ``s``. All parameters of a seed are one row. A layer is a block
(outputs, inputs + 1) whose last column is the bias, so features have a last column of ones. Both
models have two outputs.

Random numbers are those of torch's CPU generator, drawn with numpy: torch is not needed.
Both use the Mersenne Twister with the same seeding. This file repeats how many of its 32-bit words
each function of torch takes, and what torch computes from them. Checked against torch 2.13.0.
"""

from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from fedfb.shapes import Array, Float, Int

WORD = 2**32
FILLED_AT_ONCE = 16
"""From this many on, torch fills an array of normal numbers by one word each."""


class Linear(NamedTuple):
    """The parameters of one layer."""

    weight: Float[Array, "o i"]
    bias: Float[Array, " o"]


def torch_generator(seed: int) -> np.random.RandomState:
    """Return the generator that ``torch.manual_seed(seed)`` sets up; 32 bits of the seed count."""
    return np.random.RandomState(seed % WORD)


def draw_words(rng: np.random.RandomState, number: int) -> Int[Array, " n"]:
    """Draw raw 32-bit words.

    Args:
        rng: the generator.
        number: of words.
    """
    return rng.randint(0, WORD, number, dtype=np.uint32).astype(np.int64)


def draw_uniform(rng: np.random.RandomState, number: int, bound: float) -> Float[Array, " n"]:
    r"""Draw float32 numbers between -bound and bound, of 24 bits each.

    .. math:: u = (w \bmod 2^{24})\, 2^{-24} (b - (-b)) + (-b)

    Args:
        rng: the generator.
        number: of numbers.
        bound: the largest absolute value.
    """
    low, high = np.float32(-bound), np.float32(bound)
    # In float64, rounded once: torch multiplies and adds in one instruction.
    share = (draw_words(rng, number) % 2**24) * 2.0**-24
    return (share * np.float64(high - low) + np.float64(low)).astype(np.float32)


def draw_linear(rng: np.random.RandomState, inputs: int, outputs: int) -> Linear:
    """Draw a layer as ``torch.nn.Linear`` does: weight, then bias, both within 1/sqrt(inputs).

    Args:
        rng: the generator.
        inputs: of the layer.
        outputs: of the layer.

    >>> draw_linear(torch_generator(0), 3, 2).bias
    array([-0.01143914,  0.45777494], dtype=float32)
    """
    # Kaiming's gain for a slope of sqrt(5); the product rounds in this order.
    bound = np.sqrt(3.0) * (np.sqrt(2.0 / 6.0) / np.sqrt(inputs))
    weight = draw_uniform(rng, outputs * inputs, bound).reshape(outputs, inputs)
    return Linear(weight, draw_uniform(rng, outputs, 1 / np.sqrt(inputs)))


def random_int64(rng: np.random.RandomState) -> int:
    """Draw what ``torch.empty((), dtype=torch.int64).random_()`` draws: 63 bits of two words."""
    high, low = draw_words(rng, 2).tolist()
    return (high * WORD + low) % 2**63


def randperm(rng: np.random.RandomState, number: int) -> Int[Array, " n"]:
    """Draw a permutation as ``torch.randperm``: place i swaps with one of the places from i on.

    Args:
        rng: the generator.
        number: length of the permutation.
    """
    order = list(range(number))
    steps = draw_words(rng, max(number - 1, 0)) % np.arange(number, 1, -1)
    for place, step in enumerate(steps.tolist()):
        order[place], order[place + step] = order[place + step], order[place]
    return np.array(order, int)


def skip_randn(rng: np.random.RandomState, number: int, stored: int = 0) -> int:
    """Draw the words that ``torch.randn(number)`` draws; return how many normals torch stores.

    A short array is drawn in pairs of two 64-bit numbers. Of an odd array the generator stores the
    second normal of the last pair. A long array takes one word for each number, and its last 16
    numbers are drawn again unless the number is a multiple of 16.

    Args:
        rng: the generator.
        number: of normals.
        stored: how many normals are stored from the call before, 0 or 1.
    """
    if number >= FILLED_AT_ONCE:
        draw_words(rng, number + (FILLED_AT_ONCE if number % FILLED_AT_ONCE else 0))
        return stored
    pairs = (number - stored + 1) // 2
    draw_words(rng, 4 * pairs)
    return (number - stored) % 2


@lru_cache(maxsize=32)  # methods on the same rows, with the same seeds, see them in the same order
def loader_orders(
    seed: int, rows: int, epochs: int, batch: int, fillers: bool
) -> Int[Array, "e n"]:
    """Return the order of rows in each epoch of a shuffling ``DataLoader`` that is seeded once.

    Each epoch draws a seed for worker processes, then one for the permutation.

    Args:
        seed: of the loader.
        rows: number of rows.
        epochs: number of epochs.
        batch: size of a batch.
        fillers: whether every batch draws one normal for each row, which only moves the generator.
    """
    rng, stored, orders = torch_generator(seed), 0, []
    for _ in range(epochs):
        random_int64(rng)
        orders.append(randperm(torch_generator(random_int64(rng)), rows))
        for start in range(0, rows if fillers else 0, batch):
            stored = skip_randn(rng, min(batch, rows - start), stored)
    result = np.array(orders, np.int32).reshape(epochs, rows)
    result.flags.writeable = False
    return result


HIDDEN = {"mlp": 4, "logistic": 0}
"""Hidden units; none is a single layer."""


class Layers(NamedTuple):
    """Views into rows of parameters; ``first`` is None without hidden units."""

    first: Float[Array, "s h i"] | None
    last: Float[Array, "s 2 j"]


def view_layers(params: Float[Array, "s p"], inputs: int, hidden: int) -> Layers:
    """Return rows of parameters as layers; writing to the views writes to the rows.

    Args:
        params: one row for each seed.
        inputs: number of features, without the column of ones.
        hidden: number of hidden units; 0 for a single layer.
    """
    seeds, cut = len(params), hidden * (inputs + 1)
    first = params[:, :cut].reshape(seeds, hidden, inputs + 1) if hidden else None
    return Layers(first, params[:, cut:].reshape(seeds, 2, (hidden or inputs) + 1))


def draw_initial(seeds: tuple[int, ...], inputs: int, hidden: int) -> Float[Array, "s p"]:
    """Draw each seed's parameters as torch does after ``torch.manual_seed(seed)``.

    Args:
        seeds: of the runs.
        inputs: number of features.
        hidden: number of hidden units; 0 for a single layer.
    """
    sizes = ((inputs, hidden), (hidden, 2)) if hidden else ((inputs, 2),)
    drawn = []
    for seed in seeds:
        rng = torch_generator(seed)
        drawn.append(np.concatenate([_packed(draw_linear(rng, *size)) for size in sizes]))
    return np.stack(drawn)


def _packed(layer: Linear) -> Float[Array, " p"]:
    return np.column_stack([layer.weight, layer.bias]).ravel()


def add_ones(x: Float[Array, "n d"], dtype: str) -> Float[Array, "n i"]:
    """Return features with the column that the biases multiply.

    Args:
        x: features.
        dtype: of the result.
    """
    return np.column_stack([x, np.ones(len(x))]).astype(dtype)


def margins(params: Float[Array, "s p"], x: Float[Array, "n i"], hidden: int) -> Array:
    r"""Return the difference of the second and the first output, by seed and row.

    .. math:: m = o_1 - o_0, \qquad P(y = 1) = \frac{1}{1 + e^{-m}}

    Args:
        params: one row for each seed.
        x: features with ones.
        hidden: number of hidden units; 0 for a single layer.
    """
    first, last = view_layers(params, x.shape[1] - 1, hidden)
    difference = last[:, 1] - last[:, 0]
    if first is None:
        return difference @ x.T
    active = np.maximum(x @ first.swapaxes(1, 2), 0)
    return (active @ difference[:, :-1, None])[..., 0] + difference[:, -1:]


def released_cross_entropy(margin: Float[Array, "s n"], y: Int[Array, " n"]) -> Float[Array, "s n"]:
    """Return each row's cross-entropy towards the labels.

    Args:
        margin: by seed and row.
        y: labels, 0 or 1.
    """
    return np.logaddexp(0, np.where(y == 1, -margin, margin).astype(np.float64))


BATCH = 128
WEIGHT_DECAY = 1e-4
MOMENTS = (0.9, 0.999)
EPSILON = 1e-8

Reduction = Literal["sum", "weighted mean"]


class LocalRows(NamedTuple):
    """Rows of a client for training: features with ones, labels, and orders by seed and epoch."""

    x: Float[Array, "n i"]
    y: Int[Array, " n"]
    orders: Int[Array, "s e n"]


class _Work(NamedTuple):
    """Arrays that every step overwrites: parameters, gradients, Adam's two moments."""

    params: Float[Array, "s p"]
    gradient: Float[Array, "s p"]
    mean: Float[Array, "s p"]
    square: Float[Array, "s p"]


def train_released(
    params: Float[Array, "s p"],
    rows: LocalRows,
    weights: Float[Array, "s n"],
    rate: float,
    hidden: int,
    reduction: Reduction,
) -> Float[Array, "s p"]:
    r"""Return the parameters after all epochs of minibatches.

    .. math:: \ell = \sum_{j \in B} w_j\, \mathrm{CE}_j
              \quad\text{or}\quad \sum_{j \in B} w_j\, \mathrm{CE}_j \Big/ \sum_{j \in B} w_j

    Args:
        params: to start from, one row for each seed.
        rows: the client's rows and their orders.
        weights: of each row, by seed.
        rate: learning rate.
        hidden: number of hidden units; 0 for a single layer.
        reduction: the loss of a batch: the weighted sum, or the weighted mean.
    """
    work = _Work(params.copy(), *(np.zeros_like(params) for _ in range(3)))
    inputs, seeds, number = rows.x.shape[1] - 1, np.arange(len(params))[:, None], 0
    labels = rows.y.astype(params.dtype)
    current, gradients = (view_layers(part, inputs, hidden) for part in work[:2])
    for epoch in range(rows.orders.shape[1]):
        order = rows.orders[:, epoch]
        for start in range(0, order.shape[1], BATCH):
            batch = order[:, start : start + BATCH]
            share = weights[seeds, batch]
            if reduction == "weighted mean":
                share = share / share.sum(axis=1, keepdims=True)
            # Batch by batch: what is gathered stays in the cache until it is used.
            x = np.take(rows.x, batch, axis=0, mode="clip")
            _differentiate(current, gradients, x, labels[batch], share)
            number += 1
            _move(work, rate, number)
    return work.params


def _differentiate(
    current: Layers,
    gradients: Layers,
    x: Float[Array, "s b i"],
    y: Float[Array, "s b"],
    weights: Float[Array, "s b"],
) -> None:
    r"""Write the gradient of a batch; both outputs' is one vector with two signs.

    .. math:: \partial\ell/\partial o_1 = w (P(y=1) - y) = -\partial\ell/\partial o_0
    """
    below = x if current.first is None else _activations(current.first, x)
    difference = current.last[:, 1] - current.last[:, 0]
    margin = (below @ difference[..., None])[..., 0]
    error = (1 / (1 + np.exp(-margin)) - y) * weights
    gradient = (error[:, None] @ below)[:, 0]
    gradients.last[:, 1] = gradient
    np.negative(gradient, out=gradients.last[:, 0])
    if gradients.first is not None:
        back = error[..., None] * difference[:, None, :-1] * (below[..., :-1] > 0)
        np.matmul(back.swapaxes(1, 2), x, out=gradients.first)


def _activations(first: Float[Array, "s h i"], x: Float[Array, "s b i"]) -> Float[Array, "s b j"]:
    """Return the hidden units' outputs and a last column of ones."""
    active = np.ones((*x.shape[:2], first.shape[1] + 1), x.dtype)
    np.maximum(x @ first.swapaxes(1, 2), 0, out=active[..., :-1])
    return active


def _move(work: _Work, rate: float, number: int) -> None:
    r"""Take step t of Adam, with weight decay added to the gradient.

    .. math:: g \leftarrow g + \delta\theta,\quad m \leftarrow m + (1-\beta_1)(g - m),\quad
              v \leftarrow \beta_2 v + (1-\beta_2) g^2,\quad
              \theta \leftarrow \theta - \frac{\eta}{1-\beta_1^t}
              \frac{m}{\sqrt{v}/\sqrt{1-\beta_2^t} + \epsilon}

    A weight without a gradient of its own does not settle at zero: near it the update is
    :math:`\eta\delta/\epsilon = 50` times the weight, so it jumps about, in a range of
    :math:`\epsilon/\delta`. Rounding alone then decides whether a dead unit comes alive again.
    """
    params, gradient, mean, square = work
    scalar = params.dtype.type  # numpy 1 would widen products with its own scalars
    first, second = MOMENTS
    gradient += scalar(WEIGHT_DECAY) * params
    mean += scalar(1 - first) * (gradient - mean)
    square *= scalar(second)
    square += scalar(1 - second) * gradient * gradient
    spread = np.sqrt(square) / scalar(np.sqrt(1 - second**number))
    spread += scalar(EPSILON)
    params -= scalar(rate / (1 - first**number)) * mean / spread
