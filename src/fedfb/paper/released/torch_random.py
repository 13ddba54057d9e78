"""The random numbers of torch's CPU generator, drawn with numpy: torch is not needed.

Both use the Mersenne Twister with the same seeding. This file repeats how many of its 32-bit words
each function of torch takes, and what torch computes from them. Checked against torch 2.13.0.
"""

from functools import lru_cache
from typing import NamedTuple

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
