r"""Critical values: how many standard errors cover all gaps, or all pairs of means, at once.

A gap is a linear contrast of independent cell means with
:math:`\mathrm{se}_g^2 = \sum_k M_{gk}^2 v_k`.
"""

from functools import cache
from statistics import NormalDist

import numpy as np

from fedfb.core import Key, generator
from fedfb.shapes import Array, Float, Int

LEVEL = 0.95
_DRAWS = 20_000
_KEY: Key = (0,)
"""The key of the Monte Carlo draws. They are the same in every call, so an interval is a function
of its table."""

GRID_END, GRID_POINTS = 9.0, 721
"""The grid on which the normal density is summed: from -9 to 9, where the density is negligible."""

OBLIQUE = -1
"""Stands for a number of directions if two gaps are neither parallel nor independent."""


@cache
def normal_quantile(level: float) -> float:
    """Return the number of standard deviations around the mean that cover a share of a normal law.

    >>> round(normal_quantile(0.95), 3)
    1.96
    """
    return NormalDist().inv_cdf((1 + level) / 2)


def standard_errors(
    contrasts: Float[Array, "*r g k"], variance: Float[Array, "*r k"]
) -> Float[Array, "*r g"]:
    """Return the standard error of each contrast of independent means.

    >>> standard_errors(np.array([[1.0, -1.0]]), np.array([9.0, 16.0]))
    array([5.])
    """
    se: Float[Array, "*r g"] = np.sqrt((contrasts**2 @ variance[..., None])[..., 0])
    return se


def critical_value(
    contrasts: Float[Array, "g k"],
    variance: Float[Array, " k"],
    level: float = LEVEL,
    draws: int = _DRAWS,
) -> float:
    r"""Return the number of standard errors that covers all gaps at once.

    .. math:: P\Big(\max_g |(M \sqrt{v} Z)_g| / \mathrm{se}_g \le c\Big) = 0.95, \qquad
              Z \sim N(0, I)

    If the gaps point in B independent directions, as those of two groups do (one direction per
    block), then :math:`c=\Phi^{-1}\big((1+.95^{1/B})/2\big)`. Otherwise c is a Monte Carlo value
    with fixed draws. Its coverage has the standard error
    :math:`\sqrt{.95 \cdot .05 / 20000} = .0015`, and c has about .013, less for many groups.
    Contrasts without variance are certain and do not count. If all are certain, c is 0.

    Args:
        contrasts: the matrix M, one row per gap.
        variance: variances v of the cell means.
        level: probability with which all bands hold.
        draws: Monte Carlo draws.

    >>> round(critical_value(np.array([[1.0, -1.0]]), np.array([0.2, 0.5])), 2)
    1.96
    """
    [critical] = critical_values(contrasts[None], variance[None], level, draws)
    return float(critical)


def critical_values(
    contrasts: Float[Array, "r g k"],
    variance: Float[Array, "r k"],
    level: float = LEVEL,
    draws: int = _DRAWS,
) -> Float[Array, " r"]:
    """Return :func:`critical_value` for every run. The arguments are those of one run, stacked."""
    se = standard_errors(contrasts, variance)[..., None]
    standardised = contrasts * np.sqrt(variance)[:, None] / np.where(se > 0, se, 1.0)
    directions = independent_directions(standardised)
    critical = np.zeros(len(contrasts))
    for number in set(directions.tolist()) - {0, OBLIQUE}:
        critical[directions == number] = NormalDist().inv_cdf((1 + level ** (1 / number)) / 2)
    for run in np.flatnonzero(directions == OBLIQUE):
        uncertain = standardised[run, se[run, :, 0] > 0]
        largest = np.abs(_normals(draws, variance.shape[1]) @ uncertain.T).max(axis=1)
        critical[run] = _quantile(largest, level)
    return critical


def independent_directions(standardised: Float[Array, "r g k"]) -> Int[Array, " r"]:
    """Return for every run the number of directions in which its gaps point, up to sign.

    Rows have length 1, or length 0 for a gap that is certain. The number is OBLIQUE if any two rows
    are neither parallel nor orthogonal.

    >>> independent_directions(np.array([[[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]])).tolist()
    [2]
    >>> independent_directions(np.array([[[1.0, 0.0], [0.6, 0.8]]])).tolist()
    [-1]
    """
    cosine = np.abs(standardised @ standardised.swapaxes(1, 2))
    same = cosine > 1 - 1e-9
    # k parallel rows count 1/k each, so every direction counts 1.
    alike = same.sum(axis=2)
    # A gap that is certain has length 0, is parallel to nothing, and counts nothing.
    number = np.where(alike > 0, 1.0 / np.maximum(alike, 1), 0.0).sum(axis=1)
    clear = (same | (cosine < 1e-9)).all(axis=(1, 2))
    return np.where(clear, np.rint(number).astype(np.int64), OBLIQUE)


@cache
def _normals(draws: int, columns: int) -> Float[Array, "n k"]:
    """Return the draws of the Monte Carlo. They are always the same, so they are drawn once."""
    return generator(_KEY).standard_normal((draws, columns))


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
    # scipy has this function too, but takes long to be imported.
    cdf = np.vectorize(NormalDist().cdf, otypes=[np.float64])
    weight, up_to_z = means * step * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi), cdf(z)
    least, most = 0.0, 2 * GRID_END
    while most - least > 1e-10:  # bisection: the probability grows with q
        middle = (least + most) / 2
        inside = weight @ (up_to_z - cdf(z - middle)) ** (means - 1)
        least, most = (middle, most) if inside < level else (least, middle)
    return float(most / np.sqrt(2))


def _quantile(values: Float[Array, " n"], level: float) -> float:
    """Return the quantile as ``numpy.quantile`` does, without importing numpy's masked arrays."""
    place, fraction = divmod(level * (len(values) - 1), 1.0)
    ordered = np.sort(values)[int(place) : int(place) + 2]
    return float((1 - fraction) * ordered[0] + fraction * ordered[-1])
