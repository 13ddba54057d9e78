"""What disparity chance alone shows: that of a classifier that does not see groups.

The favourable decisions are shuffled among the rows. The draws are the same in every call, so a
figure is a function of its table. An interval of :mod:`fedfb.notions.intervals` contains 0 if no
gap is larger than chance allows for its own group's size; here the largest gap counts, whatever the
size of its group. A tiny group may therefore have a gap that chance alone often shows, while
another group's smaller gap is beyond chance.
"""

import msgspec
import numpy as np

from fedfb.core import Key, generator
from fedfb.notions.values import enough
from fedfb.shapes import Array, Float

DRAWS = 5_000
MOST_NUMBERS = 2_000_000
"""Of more clients than these numbers allow, fewer ranges are drawn, at least FEWEST_DRAWS."""

FEWEST_DRAWS = 200
_KEY: Key = (0, 9)


class Chance(msgspec.Struct, frozen=True):
    """Disparities of a classifier that does not see groups: mean, quantile, share as large."""

    mean: float
    quantile_95: float
    share_as_large: float


def draw_blind_disparities(
    positives: Float[Array, "b a"], rows: Float[Array, "b a"], minimum: int
) -> Float[Array, " d"]:
    r"""Return disparities of a classifier that favours as many rows, whatever their group.

    .. math:: (K_1, \dots, K_A) \sim \mathrm{Hypergeometric}(n_1, \dots, n_A; \textstyle\sum_a k_a)

    in every block: the favourable decisions are shuffled among its rows.

    Args:
        positives: favourable decisions by block and group.
        rows: rows by block and group.
        minimum: fewest rows of a group that is compared.

    """
    largest = np.zeros(DRAWS)
    for block, (k, n) in enumerate(zip(positives, rows, strict=True)):
        large = enough(n, minimum)
        sizes, total = np.rint(n[large]).astype(np.int64), round(float(k[large].sum()))
        draws = generator((*_KEY, block)).multivariate_hypergeometric(
            sizes, total, size=DRAWS, method="marginals"
        )
        gaps = np.abs(draws / sizes - total / sizes.sum()).max(axis=1)
        largest = np.maximum(largest, gaps)
    return largest


def summarize_draws(draws: Float[Array, " d"], value: float) -> Chance:
    """Return mean and quantile of drawn disparities, and the share as large as the measured one.

    Args:
        draws: disparities drawn by chance.
        value: the measured disparity.

    """
    # The measured disparity counts as one more draw, so that the share is never 0.
    share = (np.sum(draws >= value - 1e-12) + 1) / (len(draws) + 1)
    # Not numpy.quantile: it imports numpy's masked arrays, which a plain run does not need.
    quantile = np.sort(draws)[-(-95 * len(draws) // 100) - 1]
    return Chance(float(draws.mean()), float(quantile), float(share))


def expect_losses_by_chance(variance: Float[Array, " i"], value: float) -> Chance:
    """Return the range of mean losses that clients with the same true mean would show.

    Means are taken as normal. Each client keeps the variance of its mean loss.

    Args:
        variance: variance of each client's mean loss.
        value: the measured range.

    """
    draws = max(min(DRAWS, MOST_NUMBERS // len(variance)), FEWEST_DRAWS)
    means = generator((*_KEY, len(variance))).standard_normal((draws, len(variance)))
    return summarize_draws(np.ptp(means * np.sqrt(variance), axis=1), value)
