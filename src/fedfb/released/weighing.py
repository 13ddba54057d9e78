"""The rules by which the released FedFB weighs cells (label, group) and moves lambda.

Arrays have a leading axis of seeds ``s``; ``counts`` are rows by label and group over all clients,
those set aside for validation included.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from fedfb.released.flags import Flags
from fedfb.released.training import Reduction
from fedfb.shapes import Array, Float

Lambda = Float[Array, "s 2 a"]


class Rule(NamedTuple):
    """How lambda starts, what it weighs, and how losses of round t move it.

    ``step`` takes lambda, the loss sums by cell over all clients, alpha and t. ``losses_on`` says
    of which of a client's rows these are.
    """

    start: Float[Array, "2 a"]
    weights: Callable[[Lambda], Lambda]
    reduction: Reduction
    losses_on: Literal["validation", "training"]
    step: Callable[[Lambda, Lambda, float, int], Lambda]


def rule_of(method: str, flags: Flags, counts: Float[Array, "2 a"], clients: int) -> Rule:
    """Return the rule of a method: that of October 2021 treats two groups in a way of its own."""
    if method == "fedavg":
        return unweighted(counts)
    if method == "fedfb" and counts.shape[1] == 2:
        return two_groups(flags, counts)
    return many_groups(flags, counts, clients)


def unweighted(counts: Float[Array, "2 a"]) -> Rule:
    """Weigh every row alike: FedAvg."""
    return Rule(np.ones_like(counts), lambda lam: lam, "sum", "training", lambda lam, *_: lam)


def two_groups(flags: Flags, counts: Float[Array, "2 2"]) -> Rule:
    r"""Follow October 2021's rule for two groups.

    .. math:: \lambda_{yz} = n_{yz}/n_z \text{ at first},\quad
              w_{yz} = \lambda_{yz}\, n_y / n_{yz},\quad
              \text{forth if } \frac{L_{00}}{n_0} - \frac{L_{01}}{n_1}
              > \frac{L_{10}}{n_0} - \frac{L_{11}}{n_1}

    Forth, :math:`\lambda_{00}` loses and :math:`\lambda_{01}` gains :math:`\alpha/t`, and
    :math:`\lambda_{1z} = 1 - \lambda_{0z}`. Back, as released, :math:`\lambda_{00}` gains and
    :math:`\lambda_{10}` loses it, and :math:`\lambda_{y1} = 1 - \lambda_{y0}`: another
    normalisation than the one forth.
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

    return Rule(
        start=counts / sizes,
        weights=lambda lam: lam * counts.sum(axis=1, keepdims=True) / counts,
        reduction="weighted mean",
        losses_on="validation",
        step=step,
    )


def many_groups(flags: Flags, counts: Float[Array, "2 a"], clients: int) -> Rule:
    r"""Follow the rule of the last release, or October 2021's for more than two groups.

    .. math:: \lambda_{yz} = n_z/n \text{ at first},\quad w_{yz} = \lambda_{yz}/n_z,\quad
              f_z = \frac{L_{10} - L_{00}}{n_0} - \frac{L_{1z} - L_{0z}}{n_z}
              + K \Big(\frac{n_{00}}{n_0} - \frac{n_{0z}}{n_z}\Big)

    with the number of clients K where it should be 1. From losses towards label 1 (October 2021)
    it is :math:`f_z = (L_{00} + L_{10})/n_0 - (L_{0z} + L_{1z})/n_z`. Then
    :math:`\lambda_{00}` loses :math:`\alpha f_z/\sqrt t` and :math:`\lambda_{0z}` gains it, both
    kept in :math:`[0, 2 n_0/n]` for every z, and :math:`\lambda_{1z} = 2 n_0/n - \lambda_{0z}`:
    right is :math:`2 n_z/n`.
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
        moved = np.clip(lam[:, 0] + alpha / np.sqrt(number) * gain, 0, bound)
        return np.stack([moved, bound - moved], axis=1)

    return Rule(
        start=np.stack([shares, shares]),
        weights=lambda lam: lam / sizes,
        reduction="sum",
        losses_on="training",
        step=step,
    )
