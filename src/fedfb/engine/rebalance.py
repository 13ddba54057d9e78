"""FairBatch inside one client's training: the weights of an epoch, and lambda after it."""

import numpy as np

from fedfb.core import ClientData
from fedfb.engine.base import Rebalance
from fedfb.notions.base import decay, normalised, ratio
from fedfb.shapes import Array, Float, Int


def local_weights(
    rule: Rebalance, lam: Float[Array, "r *l"], data: ClientData, counts: Int[Array, "2 a"]
) -> Float[Array, "r 2 a"]:
    r"""Return the weights of an epoch's rows, so that their mean over the client's rows is 1.

    The objective is :math:`\frac1W\sum_j\omega_j(\lambda)\ell_j`, W the sum of the weights.
    """
    omega = rule.notion.cell_weights(rule.notion.weights(lam, rule.counts), data.id, data.groups)
    mean = np.sum(omega * counts, axis=(1, 2)) / len(data.y)
    return omega * ratio(np.ones_like(mean), mean, empty=0.0)[:, None, None]


def moved(
    losses: Float[Array, "r 2 a"],
    data: ClientData,
    lam: Float[Array, "r *l"],
    rule: Rebalance,
    number: int,
) -> Float[Array, "r *l"]:
    """Return lambda after its number-th move, along the signal of these sums of losses."""
    notion, counts = rule.notion, rule.counts
    signal = notion.signal(notion.share(losses, counts, data.id), counts)
    step_size = rule.alpha * decay(number, rule.decay)
    return notion.step(lam, normalised(signal, rule.normalise), counts, step_size)
