"""What a classifier that does not see groups would show: the disparity of pure chance."""

from collections.abc import Mapping

import numpy as np

from fedfb.audit.measures import BLOCKS, Record
from fedfb.audit.suppress import Published
from fedfb.core import Key, generator
from fedfb.notions.values import enough
from fedfb.shapes import Array, Float

DRAWS = 5_000
KEY: Key = (0, 9)
"""The draws are the same in every call: an audit is a function of its tables."""


def blind_disparities(
    positives: Float[Array, "b a"], rows: Float[Array, "b a"], minimum: int
) -> Float[Array, " d"]:
    r"""Return disparities of a classifier that favours as many rows, whatever their group.

    .. math:: (K_1, \dots, K_A) \sim \mathrm{Hypergeometric}(n_1, \dots, n_A; \textstyle\sum_a k_a)

    in every block: who is favoured is shuffled among its rows.
    """
    largest = np.zeros(DRAWS)
    for block, (k, n) in enumerate(zip(positives, rows, strict=True)):
        there = enough(n, minimum)
        sizes, total = np.rint(n[there]).astype(np.int64), round(float(k[there].sum()))
        drawn = generator((*KEY, block)).multivariate_hypergeometric(
            sizes, total, size=DRAWS, method="marginals"
        )
        gaps = np.abs(drawn / sizes - total / sizes.sum()).max(axis=1)
        largest = np.maximum(largest, gaps)
    return largest


def chance(shown: Published, found: Mapping[str, Record], minimum: int) -> dict[str, Record | None]:
    """Return mean and 95% quantile of chance's disparity, and how often it is as large as ours."""
    return {
        notion: None
        if found[notion]["value"] is None
        else chance_record(blind_disparities(*blocks(shown), minimum), found[notion]["value"])
        for notion, blocks in BLOCKS.items()
    }


def chance_record(drawn: Float[Array, " d"], value: float) -> Record:
    """Sum up disparities that chance has drawn, beside the one that was found."""
    as_large = (np.sum(drawn >= value - 1e-12) + 1) / (len(drawn) + 1)
    return {
        "mean": float(drawn.mean()),
        "quantile_95": float(np.quantile(drawn, 0.95)),
        "share_as_large": float(as_large),
    }


def chance_of_losses(
    rows: Float[Array, " i"], variance: Float[Array, " i"], value: float
) -> Record:
    """Return the range of mean losses that silos with one true mean would show.

    Means are taken as normal; each silo keeps the variance of its losses.
    """
    drawn = generator((*KEY, len(rows))).standard_normal((DRAWS, len(rows))) * np.sqrt(variance)
    return chance_record(np.ptp(drawn, axis=1), value)
