"""What the released code measures: accuracy, disparity, and the losses that move lambda."""

from typing import Literal

import numpy as np

from fedfb.released.network import cross_entropy
from fedfb.released.rows import Rows
from fedfb.shapes import Array, Float


def accuracies(margin: Float[Array, "s n"], rows: Rows) -> Float[Array, " s"]:
    """Return the share of right decisions; a row is decided positively above a margin of 0."""
    return ((margin > 0) == rows.y).mean(axis=1)


def disparities(margin: Float[Array, "s n"], rows: Rows, groups: int) -> Float[Array, " s"]:
    r"""Return the largest gap between a group's rate of positive decisions and everyone's.

    .. math:: \max_z |P(\hat y = 1 \mid z) - P(\hat y = 1)|
    """
    decision = margin > 0
    rate = decision.mean(axis=1)
    of_groups = [decision[:, rows.group == group].mean(axis=1) for group in range(groups)]
    return np.abs(np.stack(of_groups) - rate).max(axis=0)


def parity_differences(margin: Float[Array, "s n"], rows: Rows) -> Float[Array, " s"]:
    r"""Return :math:`|P(\hat y=1\mid 0)-P(\hat y=1\mid 1)|`, whatever other groups there are."""
    rates = [(margin[:, rows.group == group] > 0).mean(axis=1) for group in (0, 1)]
    return np.abs(rates[0] - rates[1])


def loss_sums(
    margin: Float[Array, "s n"],
    rows: Rows,
    groups: int,
    signal: Literal["label-one", "cross-entropy", "zero-one"],
) -> Float[Array, "s 2 a"]:
    """Sum losses by label and group; which loss, see :class:`fedfb.released.flags.Flags`."""
    if signal == "zero-one":
        losses: Array = ((margin > 0) != rows.y).astype(np.float64)
    else:
        towards = np.ones_like(rows.y) if signal == "label-one" else rows.y
        losses = cross_entropy(margin, towards)
    cell = (rows.y * groups + rows.group)[:, None] == np.arange(2 * groups)
    return (losses @ cell.astype(np.float64)).reshape(len(margin), 2, groups)
