"""The released FedFB's rules: weights, the step of lambda, averages of models, and measures.

Arrays have a leading axis of seeds ``s``. ``counts`` are rows by label and group over all clients,
validation rows included. Averages exist as released and as they should be.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from fedfb.paper.released.data import Rows
from fedfb.paper.released.flags import Flags
from fedfb.paper.released.training import Reduction, released_cross_entropy
from fedfb.shapes import Array, Float, Int

Lambda = Float[Array, "s 2 a"]


class ReleasedRule(NamedTuple):
    """The rule of one method.

    Attributes:
        start: lambda at first.
        weights: the weight of each cell, from lambda.
        reduction: how a batch's losses are reduced.
        losses_on: the rows of a client whose losses move lambda.
        step: takes lambda, loss sums by cell over all clients, alpha and the round; returns lambda.
    """

    start: Float[Array, "2 a"]
    weights: Callable[[Lambda], Lambda]
    reduction: Reduction
    losses_on: Literal["validation", "training"]
    step: Callable[[Lambda, Lambda, float, int], Lambda]


def choose_rule(
    method: str, flags: Flags, counts: Float[Array, "2 a"], clients: int
) -> ReleasedRule:
    """Return the rule of a method.

    Args:
        method: one of ``METHODS``.
        flags: the switches.
        counts: rows by label and group.
        clients: number of clients.
    """
    if method == "fedavg":
        return make_unweighted_rule(counts)
    if method == "fedfb" and counts.shape[1] == 2:
        return make_two_group_rule(flags, counts)
    return make_many_group_rule(flags, counts, clients)


def make_unweighted_rule(counts: Float[Array, "2 a"]) -> ReleasedRule:
    """Return FedAvg's rule: every row has the same weight."""
    return ReleasedRule(
        np.ones_like(counts), lambda lam: lam, "sum", "training", lambda lam, *_: lam
    )


def make_two_group_rule(flags: Flags, counts: Float[Array, "2 2"]) -> ReleasedRule:
    r"""Return October 2021's rule for two groups.

    .. math:: \lambda_{yz} = n_{yz}/n_z \text{ at first},\quad
              w_{yz} = \lambda_{yz}\, n_y / n_{yz},\quad
              \text{forth if } \frac{L_{00}}{n_0} - \frac{L_{01}}{n_1}
              > \frac{L_{10}}{n_0} - \frac{L_{11}}{n_1}

    Forth, :math:`\lambda_{00}` loses and :math:`\lambda_{01}` gains :math:`\alpha/t`, and
    :math:`\lambda_{1z} = 1 - \lambda_{0z}`. Back, as released, :math:`\lambda_{00}` gains and
    :math:`\lambda_{10}` loses it, and :math:`\lambda_{y1} = 1 - \lambda_{y0}`: this normalisation
    is not the one of the step forth.

    Args:
        flags: ``return_step`` counts.
        counts: rows by label and group.
    """
    sizes = counts.sum(axis=0)

    def step(lam: Lambda, losses: Lambda, alpha: float, number: int) -> Lambda:
        mean = losses / sizes
        forth = mean[:, 0, 0] - mean[:, 0, 1] > mean[:, 1, 0] - mean[:, 1, 1]
        move = alpha / number
        ahead = np.clip(lam[:, 0] + move * np.array([-1.0, 1.0]), 0, 1)
        back = np.clip(lam[:, 0] - move * np.array([-1.0, 1.0]), 0, 1)
        released = np.clip(lam[:, :, 0] + move * np.array([1.0, -1.0]), 0, 1)
        returned = (
            np.stack([back, 1 - back], axis=1)
            if flags.return_step == "mirrored"
            else np.stack([released, 1 - released], axis=2)
        )
        return np.where(forth[:, None, None], np.stack([ahead, 1 - ahead], axis=1), returned)

    return ReleasedRule(
        start=counts / sizes,
        weights=lambda lam: lam * counts.sum(axis=1, keepdims=True) / counts,
        reduction="weighted mean",
        losses_on="validation",
        step=step,
    )


def make_many_group_rule(flags: Flags, counts: Float[Array, "2 a"], clients: int) -> ReleasedRule:
    r"""Return the rule of the last release, and October 2021's for more than two groups.

    .. math:: \lambda_{yz} = n_z/n \text{ at first},\quad w_{yz} = \lambda_{yz}/n_z,\quad
              f_z = \frac{L_{10} - L_{00}}{n_0} - \frac{L_{1z} - L_{0z}}{n_z}
              + K \Big(\frac{n_{00}}{n_0} - \frac{n_{0z}}{n_z}\Big)

    with the number of clients K where it should be 1. From losses towards label 1 (October 2021) it
    is :math:`f_z = (L_{00} + L_{10})/n_0 - (L_{0z} + L_{1z})/n_z`. Then :math:`\lambda_{00}` loses
    :math:`\alpha f_z/\sqrt t` and :math:`\lambda_{0z}` gains it, both clipped to
    :math:`[0, 2 n_0/n]` for every z, and :math:`\lambda_{1z} = 2 n_0/n - \lambda_{0z}`. The correct
    bound is :math:`2 n_z/n`.

    Args:
        flags: ``bound``, ``constant``, ``signal`` and ``step`` count.
        counts: rows by label and group.
        clients: number of clients.
    """
    sizes = counts.sum(axis=0)
    shares = sizes / sizes.sum()
    bound = 2 * (shares if flags.bound == "own-group" else np.full_like(shares, shares[0]))
    times = clients if flags.constant == "per-client" else 1
    constant = times * (counts[0, 0] / sizes[0] - counts[0] / sizes)

    def signal(losses: Lambda) -> Float[Array, "s a"]:
        mean = losses / sizes
        if flags.signal == "label-one":
            rate = mean.sum(axis=1)
            return rate[:, :1] - rate
        rate = mean[:, 1] - mean[:, 0]
        return rate[:, :1] - rate + constant

    def step(lam: Lambda, losses: Lambda, alpha: float, number: int) -> Lambda:
        f = signal(losses)
        if flags.step == "normalised":
            f = f / np.maximum(np.linalg.norm(f, axis=1, keepdims=True), np.finfo(float).tiny)
        gain = f - np.eye(f.shape[1])[0] * f.sum(axis=1, keepdims=True)
        first_label = np.clip(lam[:, 0] + alpha / np.sqrt(number) * gain, 0, bound)
        return np.stack([first_label, bound - first_label], axis=1)

    return ReleasedRule(
        start=np.stack([shares, shares]),
        weights=lambda lam: lam / sizes,
        reduction="sum",
        losses_on="training",
        step=step,
    )


Averaging = Literal["first-unweighted", "weighted"]


def average_by_weight(
    models: Sequence[Float[Array, "s p"]], weights: Float[Array, "s i"], averaging: Averaging
) -> Float[Array, "s p"]:
    r"""Return the average of FedFB's models.

    .. math:: \frac{w_0 + \sum_{i \ge 1} c_i w_i}{\sum_i c_i}
              \quad\text{(released)} \qquad \frac{\sum_i c_i w_i}{\sum_i c_i}

    As released, client 0 has almost no influence, and the model shrinks by its share.

    Args:
        models: one for each client.
        weights: mass of each client's rows, by seed.
        averaging: as released, or correct.

    >>> models = [np.array([[4.0]]), np.array([[8.0]])]
    >>> average_by_weight(models, np.array([[3.0, 1.0]]), "first-unweighted")
    array([[3.]])
    >>> average_by_weight(models, np.array([[3.0, 1.0]]), "weighted")
    array([[5.]])
    """
    factors = weights.copy()
    if averaging == "first-unweighted":
        factors[:, 0] = 1.0
    total = np.einsum("si,isp->sp", factors, np.stack(models))
    return (total / weights.sum(axis=1, keepdims=True)).astype(models[0].dtype)


def average_by_size(
    models: Sequence[Float[Array, "s p"]],
    sizes: Sequence[int],
    first: Int[Array, " s"],
    averaging: Averaging,
) -> Float[Array, "s p"]:
    r"""Return the average of FedAvg's models.

    .. math:: \frac{w_f + \sum_{i \ne f} n_i w_i}{\sum_{i \ne f} n_i}
              \quad\text{(released)} \qquad \frac{\sum_i n_i w_i}{\sum_i n_i}

    Args:
        models: one for each client.
        sizes: rows of each client.
        first: for each seed the client f that is asked first.
        averaging: as released, or correct.

    >>> models = [np.array([[4.0]]), np.array([[8.0]])]
    >>> average_by_size(models, [3, 2], np.array([0]), "first-unweighted")
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
    """Return the client that each seed asks first; as the code seeds anew, it is so in every round.

    Args:
        seeds: of the runs.
        clients: number of clients.

    >>> first_clients((0, 1, 2, 3, 4), 3).tolist()
    [2, 0, 2, 1, 1]
    """
    return np.array([np.random.RandomState(seed).permutation(clients)[0] for seed in seeds])


def accuracies(margin: Float[Array, "s n"], rows: Rows) -> Float[Array, " s"]:
    """Return the share of correct decisions, by seed.

    Args:
        margin: by seed and row; a positive margin is a positive decision.
        rows: the rows.
    """
    return ((margin > 0) == rows.y).mean(axis=1)


def released_disparities(
    margin: Float[Array, "s n"], rows: Rows, groups: int
) -> Float[Array, " s"]:
    r"""Return the largest gap between a group's rate of positive decisions and the overall rate.

    .. math:: \max_z |P(\hat y = 1 \mid z) - P(\hat y = 1)|

    Args:
        margin: by seed and row; a positive margin is a positive decision.
        rows: the rows.
        groups: number of groups.
    """
    decision = margin > 0
    rate = decision.mean(axis=1)
    of_groups = [decision[:, rows.group == group].mean(axis=1) for group in range(groups)]
    return np.abs(np.stack(of_groups) - rate).max(axis=0)


def parity_differences(margin: Float[Array, "s n"], rows: Rows) -> Float[Array, " s"]:
    r"""Return :math:`|P(\hat y=1\mid 0)-P(\hat y=1\mid 1)|`, without other groups.

    Args:
        margin: by seed and row; a positive margin is a positive decision.
        rows: the rows.
    """
    rates = [(margin[:, rows.group == group] > 0).mean(axis=1) for group in (0, 1)]
    return np.abs(rates[0] - rates[1])


def released_loss_sums(
    margin: Float[Array, "s n"],
    rows: Rows,
    groups: int,
    signal: Literal["label-one", "cross-entropy", "zero-one"],
) -> Float[Array, "s 2 a"]:
    """Return losses summed by label and group.

    Args:
        margin: by seed and row.
        rows: the rows.
        groups: number of groups.
        signal: which loss; see :class:`fedfb.paper.released.flags.Flags`.
    """
    if signal == "zero-one":
        losses: Array = ((margin > 0) != rows.y).astype(np.float64)
    else:
        towards = np.ones_like(rows.y) if signal == "label-one" else rows.y
        losses = released_cross_entropy(margin, towards)
    cell = (rows.y * groups + rows.group)[:, None] == np.arange(2 * groups)
    return (losses @ cell.astype(np.float64)).reshape(len(margin), 2, groups)
