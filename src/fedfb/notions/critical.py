"""Critical values of normal laws, and binomial tails as normal quantiles."""

from functools import cache
from statistics import NormalDist

import numpy as np

from fedfb.shapes import Array, Float, Int

LEVEL = 0.95

GRID_END, GRID_POINTS = 9.0, 721
"""The grid on which the normal density is summed: from -9 to 9, where the density is negligible."""


@cache
def normal_quantile(level: float) -> float:
    """Return the number of standard deviations around the mean that cover a share of a normal law.

    >>> round(normal_quantile(0.95), 3)
    1.96
    """
    return NormalDist().inv_cdf((1 + level) / 2)


def binomial_score(
    count: Float[Array, "*#k"], rows: Float[Array, "*#k"], rate: Float[Array, "*#k"]
) -> Float[Array, "*#k"]:
    r"""Return the normal quantile of a binomial probability (Peizer and Pratt 1968).

    .. math:: \Phi^{-1} P(X \le k) \approx \frac{d}{|k + \frac12 - np|}
              \sqrt{\frac{2}{1 + 1/(6n)} \Big((k + \tfrac12) \ln\frac{k + 1/2}{np}
              + (n - k - \tfrac12) \ln\frac{n - k - 1/2}{nq}\Big)}

    .. math:: d = k + \tfrac23 - (n + \tfrac13) p
              + .02 \Big(\frac{q}{k + 1} - \frac{p}{n - k} + \frac{q - 1/2}{n + 1}\Big)

    with :math:`q = 1 - p`. Beyond one standard deviation the error is below .02 from 10 rows on.

    Args:
        count: largest count k, from 0 to n - 1; it need not be whole.
        rows: number of rows n.
        rate: probability p, above 0 and below 1.

    >>> binomial_score(np.array([0.0, 5.0]), np.array([10.0, 10.0]), np.array([0.3, 0.3])).round(2)
    array([-1.92,  1.67])
    """
    above, below, miss = count + 0.5, rows - count - 0.5, 1 - rate
    distance = above - rows * rate
    last = 0.02 * (miss / (count + 1) - rate / (rows - count) + (miss - 0.5) / (rows + 1))
    moved = count + 2 / 3 - (rows + 1 / 3) * rate + last
    deviance = above * np.log(above / (rows * rate)) + below * np.log(below / (rows * miss))
    # Both the deviance and the distance vanish where the count is the mean: take the limit there.
    close = np.abs(distance) < 1e-6 * rows
    steep = np.sqrt(2 * np.maximum(deviance, 0.0)) / np.where(close, 1.0, np.abs(distance))
    score: Float[Array, "*k"] = (
        moved
        * np.where(close, 1 / np.sqrt(rows * rate * miss), steep)
        / np.sqrt(1 + 1 / (6 * rows))
    )
    return score


def standard_errors(
    contrasts: Float[Array, "*r g k"], variance: Float[Array, "*r k"]
) -> Float[Array, "*r g"]:
    """Return the standard error of each contrast of independent means.

    >>> standard_errors(np.array([[1.0, -1.0]]), np.array([9.0, 16.0]))
    array([5.])
    """
    se: Float[Array, "*r g"] = np.sqrt((contrasts**2 @ variance[..., None])[..., 0])
    return se


def simultaneous_level(level: float, block: Int[Array, " k"]) -> float:
    r"""Return the level of each band with which the bands of all gaps hold at once.

    .. math:: .95^{1/B}, \qquad B = \text{number of gaps}

    (Sidak 1967: whatever the correlations, normal bands hold at once at least as often as if they
    were independent.) The two gaps of a block of two groups are one number but for its sign, and
    count once.

    Args:
        level: probability with which all bands hold.
        block: the block of each gap.

    >>> [round(simultaneous_level(0.95, np.zeros(gaps, int)), 3) for gaps in (2, 3)]
    [0.95, 0.983]
    """
    sizes = np.bincount(block)
    return float(level ** (1 / np.where(sizes == 2, 1, sizes).sum()))


@cache
def range_critical_value(means: int, level: float = LEVEL) -> float:
    r"""Return the critical value for all pairs of independent means (Tukey and Kramer).

    .. math:: c = q / \sqrt 2, \qquad P(\max_i Z_i - \min_i Z_i \le q)
              = n \int \varphi(z)\, [\Phi(z) - \Phi(z - q)]^{n-1}\, dz = 0.95

    The value is exact if all variances are equal, and conservative otherwise (Hayter 1984), so it
    needs neither variances nor a list of pairs. The integral is a sum over a grid. Its error is
    below 1e-9, because the integrand is smooth and vanishes at both ends.

    >>> round(range_critical_value(2), 4), round(range_critical_value(10_000), 4)
    (1.96, 5.9931)
    """
    z, step = np.linspace(-GRID_END, GRID_END, GRID_POINTS, retstep=True)
    cdf = np.vectorize(NormalDist().cdf, otypes=[np.float64])
    weight, up_to_z = means * step * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi), cdf(z)
    least, most = 0.0, 2 * GRID_END
    while most - least > 1e-10:  # bisection: the probability grows with q
        middle = (least + most) / 2
        inside = weight @ (up_to_z - cdf(z - middle)) ** (means - 1)
        least, most = (middle, most) if inside < level else (least, middle)
    return float(most / np.sqrt(2))
