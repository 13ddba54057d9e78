"""How the released code puts models together, and how it should."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from fedfb.shapes import Array, Float, Int

Averaging = Literal["first-unweighted", "weighted"]


def by_weight(
    models: Sequence[Float[Array, "s p"]], weights: Float[Array, "s i"], averaging: Averaging
) -> Float[Array, "s p"]:
    r"""Average FedFB's models.

    .. math:: \frac{w_0 + \sum_{i \ge 1} c_i w_i}{\sum_i c_i}
              \quad\text{(released)} \qquad \frac{\sum_i c_i w_i}{\sum_i c_i}

    As released client 0 all but falls out, and the model shrinks by its share.

    >>> models = [np.array([[4.0]]), np.array([[8.0]])]
    >>> by_weight(models, np.array([[3.0, 1.0]]), "first-unweighted")
    array([[3.]])
    >>> by_weight(models, np.array([[3.0, 1.0]]), "weighted")
    array([[5.]])
    """
    factors = weights.copy()
    if averaging == "first-unweighted":
        factors[:, 0] = 1.0
    total = np.einsum("si,isp->sp", factors, np.stack(models))
    return (total / weights.sum(axis=1, keepdims=True)).astype(models[0].dtype)


def by_size(
    models: Sequence[Float[Array, "s p"]],
    sizes: Sequence[int],
    first: Int[Array, " s"],
    averaging: Averaging,
) -> Float[Array, "s p"]:
    r"""Average FedAvg's models; ``first`` is each seed's client f that is asked first.

    .. math:: \frac{w_f + \sum_{i \ne f} n_i w_i}{\sum_{i \ne f} n_i}
              \quad\text{(released)} \qquad \frac{\sum_i n_i w_i}{\sum_i n_i}

    >>> models = [np.array([[4.0]]), np.array([[8.0]])]
    >>> by_size(models, [3, 2], np.array([0]), "first-unweighted")
    array([[10.]])
    """
    factors = np.tile(np.array(sizes, float), (len(first), 1))
    totals = factors.sum(axis=1, keepdims=True)
    if averaging == "first-unweighted":
        seeds = np.arange(len(first))
        totals = totals - factors[seeds, first][:, None]
        factors[seeds, first] = 1.0
    return (np.einsum("si,isp->sp", factors, np.stack(models)) / totals).astype(models[0].dtype)


def first_clients(seeds: tuple[int, ...], clients: int) -> Int[Array, " s"]:
    """Return whom each seed asks first: the same client in every round, as it seeds anew in each.

    >>> first_clients((0, 1, 2, 3, 4), 3).tolist()
    [2, 0, 2, 1, 1]
    """
    return np.array([np.random.RandomState(seed).permutation(clients)[0] for seed in seeds])
