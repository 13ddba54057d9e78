r"""95 % bands for signed gaps, and the interval of the largest absolute gap.

A gap is a linear contrast of independent cell means, :math:`d = M m` with
:math:`\mathrm{se}_g^2 = \sum_k M_{gk}^2 v_k`. The bands :math:`d_g \pm c\,\mathrm{se}_g` hold for
all gaps at once. The following inequality is a consequence, and holds even if the true disparity
is 0:

.. math:: \max_g \max(0, |d_g| - c\,\mathrm{se}_g) \;\le\; \max_g |\delta_g|
          \;\le\; \max_g (|d_g| + c\,\mathrm{se}_g)

The interval contains 0 exactly when every signed band does.
"""

from typing import NamedTuple

import numpy as np

from fedfb.notions.critical import (
    _DRAWS,
    LEVEL,
    critical_value,
    critical_values,
    normal_quantile,
    range_critical_value,
    standard_errors,
)
from fedfb.shapes import Array, Float, Int

POOLED_ROWS = 20
"""The number of rows that the pooled variance counts for, besides a cell's own rows."""

PAIRS_AT_ONCE = 1_000_000
"""The number of pairs of means that are in memory at a time."""


class Bands(NamedTuple):
    """Signed gaps, their standard errors, and the critical value with which all bands hold at once.

    Either of one run, or of many runs with a leading run axis.
    """

    gap: Float[Array, "*r g"]
    se: Float[Array, "*r g"]
    critical: float | Float[Array, " r"]


def rate_variance(positives: Float[Array, "*k"], rows: Float[Array, "*k"]) -> Float[Array, "*k"]:
    r"""Return the variance of each rate, from the rate moved towards one half (Agresti and Coull).

    .. math:: v = \tilde p (1 - \tilde p) / n, \qquad \tilde p = (k + 2) / (n + 4)

    A rate of 0 or 1 has a positive variance.

    Args:
        positives: positive decisions k. For randomised decisions it is a sum of probabilities,
            which varies less than a binomial count: the variance is then an upper bound.
        rows: rows n, at least 1.

    >>> rate_variance(np.array([0.0, 48.0]), np.array([96.0, 96.0])).round(5)
    array([0.0002, 0.0026])
    """
    adjusted = (positives + 2) / (rows + 4)
    variance: Float[Array, "*k"] = adjusted * (1 - adjusted) / rows
    return variance


def rate_ends(
    positives: Float[Array, "*k"], rows: Float[Array, "*k"], level: float = LEVEL
) -> tuple[Float[Array, "*k"], Float[Array, "*k"]]:
    r"""Return the ends of the interval of each rate taken alone (Wilson, corrected for continuity).

    .. math:: \frac{2 k + z^2 \mp 1 \mp z \sqrt{z^2 \mp 2 - 1/n + 4 k (n - k \pm 1) / n}}
              {2 (n + z^2)}

    (Newcombe 1998, method 4). It covers at least 94.7 % at every rate and number of rows, and
    stays within [0, 1]. Without the correction it covers 84 % at rates near 0.2 / n.

    Args:
        positives: positive decisions k, whole or fractional.
        rows: rows n, at least 1.
        level: share of intervals that cover the true rate.

    >>> [end.round(3).tolist() for end in rate_ends(np.array([0.0, 48.0]), np.array([96.0, 96.0]))]
    [[0.0, 0.397], [0.048, 0.603]]
    """
    k, z = np.clip(positives, 0.0, rows), normal_quantile(level)
    misses = rows - k

    def end(side: int) -> Float[Array, "*k"]:
        under = z**2 + 2 * side - 1 / rows + 4 * k * (misses - side) / rows
        ends: Float[Array, "*k"] = 2 * k + z**2 + side + side * z * np.sqrt(np.maximum(under, 0.0))
        return np.clip(ends / (2 * (rows + z**2)), 0.0, 1.0)

    return np.where(k > 0, end(-1), 0.0), np.where(misses > 0, end(1), 1.0)


def mean_variance(
    rows: Float[Array, "*k"], total: Float[Array, "*k"], squares: Float[Array, "*k"]
) -> Float[Array, "*k"]:
    r"""Return the variance of each mean, from sums; every cell needs at least two rows.

    .. math:: v = \frac{1}{n} \cdot \frac{\sum x^2 - (\sum x)^2 / n}{n - 1}

    Args:
        rows: number of rows n of each cell, at least 2.
        total: sum of the values.
        squares: sum of their squares.

    >>> mean_variance(np.array([2.0]), np.array([4.0]), np.array([10.0]))   # the rows 1 and 3
    array([1.])
    """
    # Rounding may leave a tiny negative number where all rows are equal.
    scatter = np.maximum(squares - total**2 / rows, 0.0)
    variance: Float[Array, "*k"] = scatter / (rows - 1) / rows
    return variance


def steady_variance(
    rows: Float[Array, "*r k"], total: Float[Array, "*r k"], squares: Float[Array, "*r k"]
) -> Float[Array, "*r k"]:
    r"""Return the variance of each mean, raised towards the variance pooled over all cells.

    .. math:: v_k = \frac{1}{n_k} \max\Big(s_k^2,\;
              \frac{(n_k - 1) s_k^2 + m s^2}{n_k - 1 + m}\Big), \qquad m = 20

    with the pooled variance :math:`s^2`. The variance of a few rows of skewed values is often too
    small, and the range selects the most extreme mean: with 100 clients of 10 rows each, intervals
    of the range from the clients' own variances cover 60 %.

    >>> steady_variance(np.array([2.0, 2.0]), np.array([4.0, 2.0]), np.array([10.0, 2.0])).round(3)
    array([1.   , 0.476])
    """
    within = mean_variance(rows, total, squares) * rows
    freedom = rows - 1
    pooled = (within * freedom).sum(axis=-1, keepdims=True) / freedom.sum(axis=-1, keepdims=True)
    shrunk = (freedom * within + POOLED_ROWS * pooled) / (freedom + POOLED_ROWS)
    variance: Float[Array, "*r k"] = np.maximum(within, shrunk) / rows
    return variance


def parity_contrasts(rows: Float[Array, "*r k"], block: Int[Array, " k"]) -> Float[Array, "*r k k"]:
    r"""Return the contrasts of each cell mean with the pooled mean of the cell's block.

    .. math:: M_{kl} = 1[k = l] - 1[b_k = b_l]\, \pi_l, \qquad
              \pi_l = n_l / \textstyle\sum_{j: b_j = b_l} n_j

    Demographic parity has one block, equalized odds has one for each label. The shares are taken
    as fixed. If the mix of groups is random, add :func:`mix_variance`.

    >>> parity_contrasts(np.array([1.0, 3.0]), np.array([0, 0]))
    array([[ 0.75, -0.75],
           [-0.25,  0.25]])
    """
    same = block[:, None] == block[None, :]
    shares = rows / (same @ rows[..., None])[..., 0]
    contrasts: Float[Array, "*r k k"] = np.eye(len(block)) - same * shares[..., None, :]
    return contrasts


def mix_variance(
    means: Float[Array, "*r k"], rows: Float[Array, "*r k"], block: Int[Array, " k"]
) -> Float[Array, "*r k"]:
    r"""Return the variance that a random mix of groups adds to each gap.

    .. math:: \mathrm{Var}\big(\textstyle\sum_l (\hat\pi_l - \pi_l)\, m_l\big)
              = \frac{1}{n} \sum_l \pi_l (m_l - m)^2

    over the block of the gap. The error has mean 0 and is the same for all gaps of a block. Add the
    variance to the squared standard error. At parity it is 0; at gaps of .4 it is larger than all
    other parts of the variance.

    >>> mix_variance(np.array([0.3, 0.5]), np.array([50.0, 50.0]), np.array([0, 0])).round(5)
    array([0.0001, 0.0001])
    """
    inside = (block[:, None] == block[None, :]).astype(np.float64)
    total = rows @ inside
    pooled = (rows * means) @ inside / total
    between = (rows * means**2) @ inside / total - pooled**2
    variance: Float[Array, "*r k"] = np.maximum(between, 0.0) / total
    return variance


def parity_bands(
    contrasts: Float[Array, "*r g k"],
    means: Float[Array, "*r k"],
    variance: Float[Array, "*r k"],
    level: float = LEVEL,
    draws: int = _DRAWS,
) -> Bands:
    """Return simultaneous bands for the contrasts of independent means.

    Args:
        contrasts: the matrix M, one row per gap; an axis of runs may lead.
        means: cell means.
        variance: variances of the cell means.
        level: probability with which all bands hold.
        draws: Monte Carlo draws, where the critical value needs them.

    >>> contrasts = parity_contrasts(np.array([50.0, 50.0]), np.array([0, 0]))
    >>> parity_bands(contrasts, np.array([0.3, 0.5]), np.array([0.0032, 0.0032])).gap
    array([-0.1,  0.1])
    """
    choose = critical_value if variance.ndim == 1 else critical_values
    gap = (contrasts @ means[..., None])[..., 0]
    critical = choose(contrasts, variance, level, draws)
    return Bands(gap, standard_errors(contrasts, variance), critical)


def range_interval(
    means: Float[Array, " k"], variance: Float[Array, " k"], level: float = LEVEL
) -> tuple[float, float]:
    r"""Return the interval of the range of independent means, from the bands of all pairs at once.

    .. math:: \max_{i \ne j} \big(m_i - m_j \mp c \sqrt{v_i + v_j}\big), \qquad
              \text{the lower end at least } 0

    Most pairs need not be computed. If another mean is larger and has a larger variance, a mean
    cannot give the end (see ``_undominated``). Thousands of means therefore take as long as a sort.

    Args:
        means: independent means.
        variance: their variances.
        level: probability with which the interval covers the range.

    >>> [round(end, 3) for end in range_interval(np.array([1.0, 3.0, 2.0]), np.full(3, 0.25))]
    [0.343, 3.657]
    """
    critical = range_critical_value(len(means), level)
    ends = [_largest_over_pairs(means, variance, sign * critical) for sign in (-1.0, 1.0)]
    return max(ends[0], 0.0), ends[1]


def _largest_over_pairs(
    means: Float[Array, " k"], variance: Float[Array, " k"], times: float
) -> float:
    r"""Return :math:`\max_{i \ne j} m_i - m_j + t \sqrt{v_i + v_j}`, exact over all pairs."""
    firsts, seconds = (_undominated(sign * means, np.sign(times) * variance) for sign in (1, -1))
    largest = -np.inf
    # If variances grow with means, many candidates are left. Blocks of them bound the memory.
    for block in np.array_split(firsts, -(-len(firsts) * len(seconds) // PAIRS_AT_ONCE)):
        pair = means[block, None] - means[seconds]
        pair += times * np.sqrt(variance[block, None] + variance[seconds])
        largest = max(largest, float(pair[block[:, None] != seconds].max(initial=-np.inf)))
    return largest


def _undominated(
    first_scale: Float[Array, " k"], second_scale: Float[Array, " k"]
) -> Int[Array, " c"]:
    """Return the first two layers of places that no other place reaches on both scales.

    Two layers are needed: the best partner of a mean may be dominated by that mean alone.

    >>> _undominated(np.array([3.0, 2.0, 1.0, 0.0]), np.array([3.0, 2.0, 1.0, 9.0])).tolist()
    [0, 1, 3]
    """
    order = np.lexsort((-second_scale, -first_scale))
    layers = []
    for _ in range(2):
        before = np.concatenate([[-np.inf], np.maximum.accumulate(second_scale[order])[:-1]])
        first = second_scale[order] > before
        layers.append(order[first])
        order = order[~first]
    return np.sort(np.concatenate(layers))


def interval(bands: Bands) -> tuple[float, float]:
    """Return the interval of the largest absolute gap, see the docstring of this module.

    >>> interval(Bands(np.array([-0.5, 0.25]), np.array([0.125, 0.125]), 2.0))
    (0.25, 0.75)
    """
    [low], [high] = intervals(Bands(bands.gap[None], bands.se[None], bands.critical))
    return low, high


def intervals(bands: Bands) -> tuple[list[float], list[float]]:
    """Return the lower and the upper ends of :func:`interval` for every run."""
    size, half_width = np.abs(bands.gap), np.reshape(bands.critical, (-1, 1)) * bands.se
    low, high = np.maximum(size - half_width, 0.0).max(axis=1), (size + half_width).max(axis=1)
    return low.tolist(), high.tolist()


def half_widths(bands: Bands, level: float = LEVEL) -> Float[Array, " g"]:
    """Return the half-width of each band alone: each band holds at the level, not all at once.

    >>> half_widths(Bands(np.array([0.5]), np.array([0.125]), 2.0)).round(3)
    array([0.245])
    """
    half_width: Float[Array, " g"] = normal_quantile(level) * bands.se
    return half_width
