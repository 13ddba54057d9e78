"""FairBatch's sampler (Roh et al. 2021), two groups: how a batch is composed and how it moves."""

from collections.abc import Iterator

import numpy as np

from fedfb.core import ClientData
from fedfb.engine import cell_counts
from fedfb.notions.base import ratio
from fedfb.shapes import Array, Float, Int

TIE = 1e-12
"""Gaps up to this are none."""


def signed_gaps(chance: Float[Array, " n"], data: ClientData, notion: str) -> Float[Array, " 2"]:
    r"""Return by label how much more weight group 1 needs; 0 where a group lacks the label.

    .. math:: D_y = L_{y1}-L_{y0},\qquad\text{for demographic parity}\quad
              D_y = (2y-1)(G_{y1}-G_{y0}),\ G_{ya}=\frac1{n_a}\sum_{(y,a)}\ell(1,p)

    with the mean losses :math:`L_{ya}`. More weight on rows of label 0 pushes predictions down,
    hence the sign.
    """
    counts, parity = cell_counts(data), notion == "demographic_parity"
    target = np.ones_like(data.y) if parity else data.y
    losses = -np.log(np.maximum(np.where(target == 1, chance, 1 - chance), 1e-12))
    sums = np.bincount(data.cell, losses, minlength=4).reshape(2, 2)
    means = ratio(sums, counts.sum(axis=0) if parity else counts, empty=0.0)
    gaps = np.where((counts > 0).all(axis=1), means[:, 1] - means[:, 0], 0.0)
    return gaps * (np.array([-1.0, 1.0]) if parity else 1.0)


def moved(
    lam: Float[Array, " 2"], gaps: Float[Array, " 2"], notion: str, alpha: float
) -> Float[Array, " 2"]:
    r"""Return the ratios after a step of :math:`\alpha`, kept within [0, 1].

    Only the label with the larger gap moves (equal opportunity: only label 1), towards the group
    that needs more; where the gap is 0, nothing.

    >>> moved(np.array([0.5, 0.5]), np.array([0.3, -0.2]), "equalized_odds", 0.1)
    array([0.6, 0.5])
    >>> moved(np.array([0.5, 0.5]), np.array([0.3, -0.2]), "equal_opportunity", 0.1)
    array([0.5, 0.4])
    """
    label = 1 if notion == "equal_opportunity" or abs(gaps[1]) > abs(gaps[0]) else 0
    after = lam.copy()
    if abs(gaps[label]) > TIE:
        after[label] = np.clip(lam[label] + alpha * np.sign(gaps[label]), 0.0, 1.0)
    return after


def batch_sizes(
    lam: Float[Array, " 2"], counts: Int[Array, "2 2"], batch: int
) -> Int[Array, "2 2"]:
    r"""Return how many rows of each cell (label, group) a batch has.

    That is :math:`B\frac{n_y}{n}(1-\lambda_y,\lambda_y)`, rounded.

    >>> batch_sizes(np.array([0.5, 0.2]), np.array([[20, 20], [30, 30]]), batch=100)
    array([[20, 20],
           [48, 12]])
    """
    of_label = batch * counts.sum(axis=1) / counts.sum()
    sizes = np.stack([1 - lam, lam], axis=1) * of_label[:, None]
    # A half is rounded alike on both sides, though .35 and 1 - .65 are not the same float.
    sizes = np.rint(np.round(sizes, 9))
    return np.where(counts > 0, sizes, 0).astype(np.int64)


def batches(
    cell: Int[Array, " n"], sizes: Int[Array, "2 2"], number: int, rng: np.random.Generator
) -> Iterator[Int[Array, " b"]]:
    """Yield a number of batches: every cell's rows in random order, begun anew when used up."""
    # One order for all rows, so that exchanging the groups' numbers changes no batch.
    order = rng.permutation(len(cell))
    by_cell = [order[cell[order] == one] for one in range(4)]
    drawn = [
        rows[np.arange(number * size) % len(rows)].reshape(number, size)
        for rows, size in zip(by_cell, sizes.ravel(), strict=True)
        if size
    ]
    yield from np.concatenate(drawn, axis=1) if drawn else ()
