r"""Exact intervals of rates, bands for signed gaps, and the interval of the largest absolute gap.

The gap of a group with rate p and with a share :math:`\pi` of the rows is the distance of its rate
from the pooled rate. With the rate r of all other rows,

.. math:: d_g = p_g - p = (1 - \pi_g)(p_g - r_g)

Two independent counts give :math:`p_g` and :math:`r_g`. Their intervals give the band of the gap
(:func:`gap_ends`). Bands are wider upwards or downwards where rates are near 0 or 1. From
simultaneous lower and upper ends :math:`l_g, u_g` of all gaps, and from ends :math:`u'_g` of
:math:`|\delta_g|` that hold for each gap alone,

.. math:: \max_g \max(0, l_g, -u_g) \;\le\; \max_g |\delta_g| \;\le\; \max_g u'_g

The lower end selects the group that looks worst, so all bands have to hold at once. The upper end
fails only if the band of one group fails, that of the largest true gap, so it needs no correction
for many groups. The interval contains 0 exactly when every simultaneous band does.
"""

from typing import NamedTuple

import numpy as np

from fedfb.notions.critical import (
    LEVEL,
    binomial_score,
    normal_quantile,
    range_critical_value,
    simultaneous_level,
)
from fedfb.shapes import Array, Float, Int

POOLED_ROWS = 20
"""The number of rows that the pooled variance counts for, besides a cell's own rows."""

PAIRS_AT_ONCE = 1_000_000
"""The number of pairs of means that are in memory at a time."""

_HALVINGS = 26
"""Halvings of the unit interval until the end of an interval is exact to seven digits."""


class Bands(NamedTuple):
    """Signed gaps with their bands, of one run or of many runs with a leading run axis.

    ``low`` and ``high`` hold for all gaps at once, at the normal critical value ``critical``. The
    ends ``alone_low`` and ``alone_high`` hold for each gap alone.
    """

    gap: Float[Array, "*r g"]
    low: Float[Array, "*r g"]
    high: Float[Array, "*r g"]
    alone_low: Float[Array, "*r g"]
    alone_high: Float[Array, "*r g"]
    critical: float


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
    r"""Return the ends of the exact interval of each rate taken alone (Clopper and Pearson 1934).

    .. math:: P(X \ge k \mid n, p_{low}) = P(X \le k \mid n, p_{high}) = \frac{1 - .95}{2}

    It covers at least 94.7 % at every rate and number of rows, and stays within [0, 1]. At the
    levels that many simultaneous bands need, intervals from a normal law cover too little for rates
    near 0 and 1.

    Departs from the exact interval: tails are those of ``binomial_score``
    (``notions/critical.py``), which needs no special functions and takes fractional counts. Ends
    differ by less than .003 from 10 rows on.

    Args:
        positives: positive decisions k, whole or fractional.
        rows: rows n, at least 1.
        level: share of intervals that cover the true rate.

    >>> [end.round(3).tolist() for end in rate_ends(np.array([0.0, 48.0]), np.array([96.0, 96.0]))]
    [[0.0, 0.396], [0.037, 0.604]]
    """
    k = np.clip(positives, 0.0, rows)
    below, above = _low_end(np.stack([k, rows - k]), rows, level)
    return below, 1 - above


def _low_end(k: Float[Array, "2 *k"], n: Float[Array, "*k"], level: float) -> Float[Array, "2 *k"]:
    """Return the rate at which a count of at least k has half of the probability left out."""
    # With fractional counts below 1 the next smaller count would be negative.
    smaller, critical = np.maximum(k - 1, -0.4), normal_quantile(level)
    low, high = np.zeros(k.shape), k / n
    for _ in range(_HALVINGS):
        middle = np.clip((low + high) / 2, 1e-15, 1 - 1e-15)
        beyond = binomial_score(smaller, n, middle) > critical
        low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
    return np.where(k > 0, low, 0.0)


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


def gap_ends(
    first: tuple[Float[Array, "*k"], Float[Array, "*k"]],
    second: tuple[Float[Array, "*k"], Float[Array, "*k"]],
    level: float,
) -> tuple[Float[Array, "*k"], Float[Array, "*k"]]:
    r"""Return by how much a difference of two independent rates may be smaller, and larger.

    .. math:: \sqrt{(p - l)^2 + (u' - p')^2} \quad\text{and}\quad
              \sqrt{(u - p)^2 + (p' - l')^2}

    (Newcombe 1998, method 10; Zou and Donner 2008), with the ends l and u of the two rates.

    Departs from Newcombe: ends are those of :func:`rate_ends` instead of Wilson's, so that the
    bands hold at the critical values of many groups.

    Args:
        first: positive decisions and rows of the first rate.
        second: those of the second rate.
        level: share of intervals that cover the difference.
    """
    positives, rows = (np.stack(part) for part in zip(first, second, strict=True))
    rates, (low, high) = positives / rows, rate_ends(positives, rows, level)
    down, up = rates - low, high - rates
    return np.hypot(down[0], up[1]), np.hypot(up[0], down[1])


def difference_band(positives: Float[Array, "r 2"], rows: Float[Array, "r 2"]) -> Bands:
    """Return the band of the difference of two groups' rates, for every run.

    >>> band = difference_band(np.array([[15.0, 25.0]]), np.array([[50.0, 50.0]]))
    >>> band.gap.round(3).tolist(), band.low.round(3).tolist(), band.high.round(3).tolist()
    ([[-0.2]], [[-0.389]], [[0.006]])
    """
    first, second = ((positives[:, [group]], rows[:, [group]]) for group in (0, 1))
    gap, (down, up) = first[0] / first[1] - second[0] / second[1], gap_ends(first, second, LEVEL)
    return Bands(gap, gap - down, gap + up, gap - down, gap + up, normal_quantile(LEVEL))


def parity_bands(
    positives: Float[Array, "*r k"],
    rows: Float[Array, "*r k"],
    block: Int[Array, " k"],
    drawn_mix: bool = True,
    level: float = LEVEL,
) -> Bands:
    r"""Return the bands of the gaps of rates from the pooled rate of their block.

    .. math:: d = (1 - \pi)(p - r), \qquad h^2 = (1 - \pi)^2 h_{p - r}^2
              + z^2 \frac{\pi (1 - \pi)}{N} (p - r)^2

    with the distances :math:`h_{p-r}` of :func:`gap_ends`. The last term is there if the mix of
    groups is random: then the share :math:`\pi` varies too. The rows of all other groups count as
    one binomial. If the mix is fixed, this is an upper bound.

    Args:
        positives: positive decisions of each cell.
        rows: rows of each cell.
        block: the block of each cell; every block has at least two cells.
        drawn_mix: whether the number of rows of each group is random too.
        level: probability with which all bands hold.

    >>> bands = parity_bands(np.array([15.0, 25.0]), np.array([50.0, 50.0]), np.array([0, 0]))
    >>> bands.gap.round(3), bands.low.round(3), bands.high.round(3)
    (array([-0.1,  0.1]), array([-0.196, -0.005]), array([0.005, 0.196]))
    """
    inside = (block[:, None] == block[None, :]).astype(np.float64)
    total = rows @ inside
    share, others = rows / total, (positives @ inside - positives, total - rows)
    difference = positives / rows - others[0] / others[1]
    by_mix = share * (1 - share) / total * difference**2 if drawn_mix else np.zeros(rows.shape)
    gap, all_hold = (1 - share) * difference, simultaneous_level(level, block)

    def ends(each: float) -> tuple[Array, Array]:
        down, up = ((1 - share) * half for half in gap_ends((positives, rows), others, each))
        mix = normal_quantile(each) * np.sqrt(by_mix)
        return gap - np.hypot(down, mix), gap + np.hypot(up, mix)

    return Bands(gap, *ends(all_hold), *ends(level), critical=normal_quantile(all_hold))


def range_interval(
    means: Float[Array, " k"], variance: Float[Array, " k"], level: float = LEVEL
) -> tuple[float, float]:
    r"""Return the interval of the range of independent means, from the bands of pairs.

    .. math:: \max_{i \ne j} \big(m_i - m_j - c \sqrt{v_i + v_j}\big) \quad\text{to}\quad
              \max_{i \ne j} \big(m_i - m_j + z \sqrt{v_i + v_j}\big), \qquad
              \text{the lower end at least } 0

    with the critical value c of all pairs at once, and z of one pair (see the docstring of this
    module).

    Most pairs need not be computed. If another mean is larger and has a larger variance, a mean
    cannot give the end (see ``_undominated``). Thousands of means therefore take as long as a sort.

    Args:
        means: independent means.
        variance: their variances.
        level: probability with which the interval covers the range.

    >>> [round(end, 3) for end in range_interval(np.array([1.0, 3.0, 2.0]), np.full(3, 0.25))]
    [0.343, 3.386]
    """
    low = _largest_over_pairs(means, variance, -range_critical_value(len(means), level))
    return max(low, 0.0), _largest_over_pairs(means, variance, normal_quantile(level))


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


def intervals(bands: Bands) -> tuple[Float[Array, "*r"], Float[Array, "*r"]]:
    """Return both ends of every run's largest absolute gap, see the docstring of this module.

    >>> ends = [np.array([[value]]) for value in (-0.1, 0.2, -0.05, 0.15)]
    >>> intervals(Bands(np.array([[0.05]]), *ends, critical=2.0))
    (array([0.]), array([0.15]))
    """
    low = np.maximum(np.maximum(bands.low, -bands.high), 0.0).max(axis=-1)
    high = np.maximum(bands.alone_high, -bands.alone_low).max(axis=-1)
    return np.asarray(low), np.asarray(high)
