"""Sums over rows by (label, group), from logits that come chunk by chunk."""

from collections.abc import Iterable

import numpy as np

from fedfb.core import ClientData
from fedfb.engine.cells import cell_counts
from fedfb.engine.losses import RowLoss, decide, loss
from fedfb.engine.rows import add_by_cell
from fedfb.shapes import Array, Float

Chunks = Iterable[tuple[slice, Float[Array, "n r"]]]
"""Which rows, and the logits of all runs at them."""


def loss_sums(
    logits: Chunks, runs: int, data: ClientData, surrogate: RowLoss
) -> Float[Array, "r 2 a"]:
    """Return the sum of a loss over the rows of each cell."""
    total = np.zeros((2 * data.groups, runs))
    for rows, z in logits:
        add_by_cell(total, data.cell[rows], loss(z, data.y[rows, None], surrogate))
    return total.T.reshape(-1, 2, data.groups)


def confusion(logits: Chunks, runs: int, data: ClientData) -> Float[Array, "r 2 2 a"]:
    """Return the number of rows by label, decision and group."""
    positive: Array = np.zeros((2 * data.groups, runs))
    for rows, z in logits:
        add_by_cell(positive, data.cell[rows], decide(z))
    positive = positive.T.reshape(-1, 2, data.groups)
    return np.stack([cell_counts(data) - positive, positive], axis=2)
