r"""Intervals of means over several seeds, which include the variance of training and of test rows.

The seeds :math:`s = 1 \dots K` have the values :math:`x_s`. The test rows give each value a
variance :math:`w`. The share of test rows that two runs have in common is :math:`\rho`. It is 0 if
every seed draws its own test rows, and 1 if all seeds use one test file. If every seed splits one
file again, :math:`\rho` is the test part of the file. With the variance :math:`s^2` between runs,

.. math:: \mathrm{Var}(\bar x) = \frac{s^2}{K} + \rho\, w

because :math:`s^2` contains the effect of training and of rows that differ between runs, but not
the effect of shared rows, which is the same in all runs (compare Nadeau and Bengio 2003). The
half-width is

.. math:: h^2 = \frac{\max\big(t_{K-1}^2 s^2,\; (1 - \rho)\, c^2 w\big)}{K} + \rho\, c^2 w

with Student's t at the level of the normal critical value c. K runs estimate :math:`s^2` roughly;
the estimate is at least the variance of the rows that differ. One run has :math:`h^2 = c^2 w`: it
contains no information on the variance of training.

A disparity is the largest of several absolute gaps, so its mean over runs is too large where gaps
are small. The interval covers the mean, over trainings, of the models' true disparities

.. math:: \mathrm{E}\, \max_g |\delta_g| \;\ge\; \max_g |\mathrm{E}\, \delta_g|

The lower end comes from the bands of the mean signed gaps (the right-hand side). The upper end
comes from the mean of the measured disparities, whose bias is upwards. At parity the interval
contains 0.
"""

from typing import NamedTuple

import numpy as np

from fedfb.notions.critical import LEVEL, normal_quantile, range_critical_value
from fedfb.notions.intervals import Bands, range_interval, rate_ends, rate_variance
from fedfb.shapes import Array, Float


class MeanDisparity(NamedTuple):
    """The mean of several runs' disparities, its 95 % interval, and the mean signed gaps.

    Either of one experiment, or of many experiments with leading axes.
    """

    mean: Float[Array, "*e"]
    low: Float[Array, "*e"]
    high: Float[Array, "*e"]
    gaps: Float[Array, "*e g"]


Ends = tuple[Float[Array, "*e"], Float[Array, "*e"]]


def student_quantile(critical: Float[Array, "*e"], freedom: float | int) -> Float[Array, "*e"]:
    """Return Student's quantile with the same tail probability as a normal critical value.

    >>> student_quantile(np.array(1.959964), 4).round(3)
    np.float64(2.776)
    """
    from scipy.special import ndtr, stdtrit  # imported here: scipy takes long to import

    quantile: Float[Array, "*e"] = np.asarray(-stdtrit(freedom, ndtr(-critical)))
    return quantile


def _half_widths(
    values: Float[Array, "s *k"],
    half_by_rows: Float[Array, "*k"],
    critical: Float[Array, "*c"],
    shared: float,
    *,
    paired: bool = False,
) -> Float[Array, "*k"]:
    """Return the half-width of every mean over runs, see the docstring of this module.

    Args:
        values: the values of every run.
        half_by_rows: half-width of one run's value from its test rows alone, c times sqrt(w).
        critical: normal critical value c.
        shared: share of test rows that two runs have in common, rho.
        paired: whether the values are differences on the same rows. Then half_by_rows is only an
            upper bound, and the variance between runs has no lower limit.
    """
    runs = len(values)
    if runs == 1:
        return half_by_rows
    by_runs = student_quantile(critical, runs - 1) ** 2 * np.var(values, axis=0, ddof=1)
    least = 0.0 if paired else (1 - shared) * half_by_rows**2
    half = np.asarray(np.sqrt(np.maximum(by_runs, least) / runs + shared * half_by_rows**2))
    return half


def mean_rate(rates: Float[Array, "s *e"], rows: Float[Array, "s *e"], shared: float) -> Ends:
    r"""Return the interval of a rate's mean over runs.

    It is the interval of one rate (:func:`fedfb.notions.intervals.rate_ends`) with the number of
    rows that gives the same half-width (Korn and Graubard 1998):

    .. math:: n' = n \Big/ \Big(\rho + \frac{1}{K}
              \max\big(1 - \rho,\; \frac{t_{K-1}^2 s^2}{z^2 w}\big)\Big)

    Args:
        rates: by seed, and by experiment.
        rows: test rows of each rate.
        shared: share of test rows that two runs have in common, rho.

    >>> [end.round(3).item() for end in mean_rate(np.array([0.5]), np.array([96.0]), 1.0)]
    [0.396, 0.604]
    """
    if rates.ndim == 1:
        low, high = mean_rate(rates[:, None], rows[:, None], shared)
        return low.reshape(()), high.reshape(())
    mean, n = rates.mean(axis=0), len(rows) / np.sum(1 / rows, axis=0)
    z = np.array(normal_quantile(LEVEL))
    alone = z * np.sqrt(rate_variance(mean * n, n))
    # Seeds far apart tell less than a single row; the interval of one row is nearly everything.
    effective = np.maximum(n * (alone / _half_widths(rates, alone, z, shared)) ** 2, 1.0)
    return rate_ends(mean * effective, effective)


def difference_of_rates(
    rates: Float[Array, "s *e"],
    other_rates: Float[Array, "s *e"],
    rows: Float[Array, "s *e"],
    shared: float,
) -> Ends:
    """Return the interval of the mean difference of two methods' rates, first less second.

    Both methods decide on the same rows. How often their decisions agree is unknown. For shared
    rows both variances are added, as if decisions were independent. If decisions mostly agree, the
    interval is longer than necessary.

    Args:
        rates: rates of the first method by seed, and by experiment.
        other_rates: rates of the second method.
        rows: test rows of each rate.
        shared: share of test rows that two runs have in common, rho.
    """
    variance = sum(
        rate_variance(method_rates * rows, rows).mean(axis=0)
        for method_rates in (rates, other_rates)
    )
    z, differences = np.array(normal_quantile(LEVEL)), rates - other_rates
    half = _half_widths(differences, z * np.sqrt(variance), z, shared, paired=True)
    mean = differences.mean(axis=0)
    return mean - half, mean + half


def mean_disparity(
    values: Float[Array, "s *e"],
    highs: Float[Array, "s *e"],
    bands: Bands | None,
    shared: float,
) -> MeanDisparity:
    r"""Return the mean of the runs' disparities with its interval.

    .. math:: \max_g \max(0, |\bar d_g| - h_g) \;\le\; \mathrm{E} \max_g |\delta_g| \;\le\;
              \max\big(\bar D + h_D,\; \max_g (|\bar d_g| + h_g)\big)

    with the mean signed gaps :math:`\bar d`, the mean disparity :math:`\bar D` and half-widths h.
    The lower end has the bands that hold at once, the upper end those that hold alone; the
    half-width of the rows is that of a run's band on this side, its root mean square over runs.

    Args:
        values: every run's disparity.
        highs: the upper ends of every run's own interval.
        bands: signed gaps and bands of all runs (an axis of runs in front); None if the runs have
            no gap in common: then the lower end is 0.
        shared: share of test rows that two runs have in common.

    """
    mean, high = values.mean(axis=0), _upper_end(values, highs, shared)
    if bands is None:
        return MeanDisparity(mean, np.zeros_like(mean), high, np.zeros((*mean.shape, 0)))
    gaps = bands.gap.mean(axis=0)

    def half(ends: Float[Array, "s *e"], critical: float) -> Array:
        """Return the half-width on the side of these ends of the runs' bands."""
        alone = np.sqrt(np.mean((ends - bands.gap) ** 2, axis=0))
        return _half_widths(bands.gap, alone, np.array(critical), shared)

    z = normal_quantile(LEVEL)
    low = np.maximum(
        gaps - half(bands.low, bands.critical), -gaps - half(bands.high, bands.critical)
    )
    low = np.maximum(low, 0.0).max(axis=-1)
    ends = np.maximum(gaps + half(bands.alone_high, z), half(bands.alone_low, z) - gaps)
    high = np.maximum(high, ends.max(axis=-1))
    return MeanDisparity(mean, low, np.minimum(high, 1.0), gaps)


def mean_range(
    values: Float[Array, " s"],
    highs: Float[Array, " s"],
    means: Float[Array, "s i"],
    variance: Float[Array, "s i"],
    shared: float,
) -> MeanDisparity:
    r"""Return the mean range of the clients' mean losses with its interval.

    The lower end is that of the clients' means over runs, :math:`\bar L_i`, with

    .. math:: \mathrm{Var}(\bar L_i) = \frac{\tau^2 + (1 - \rho) w_i}{K} + \rho\, w_i

    where :math:`\tau^2` is the variance of training for one client relative to the mean of all
    clients, pooled over clients.

    Args:
        values: every run's range.
        highs: the upper ends of every run's own interval.
        means: mean losses by run and client, of the clients that occur in all runs.
        variance: variances of these means from the client's test rows.
        shared: share of test rows that two runs have in common.

    """
    runs, clients = means.shape
    mean, high = values.mean(axis=0), _upper_end(values, highs, shared)
    by_client, rows = means.mean(axis=0), variance.mean(axis=0)
    if clients < 2:
        return MeanDisparity(mean, np.zeros_like(mean), high, by_client)
    if runs > 1:
        # What is left of a loss without the run's mean and without the client's mean is training.
        apart = means - means.mean(axis=1, keepdims=True) - (by_client - by_client.mean())
        freedom = (runs - 1) * (clients - 1)
        trained = max(float(np.sum(apart**2)) / freedom - (1 - shared) * float(rows.mean()), 0.0)
        critical = np.array(range_critical_value(clients))
        wider = float(student_quantile(critical, freedom) / critical) ** 2
        rows = wider * (trained + (1 - shared) * rows) / runs + shared * rows
    low = np.array(range_interval(by_client, rows)[0])
    return MeanDisparity(mean, low, high, by_client - by_client.mean())


def _upper_end(
    values: Float[Array, "s *e"], highs: Float[Array, "s *e"], shared: float
) -> Float[Array, "*e"]:
    alone = np.asarray(np.mean(highs - values, axis=0))
    z = np.array(normal_quantile(LEVEL))
    end = np.asarray(values.mean(axis=0) + _half_widths(values, alone, z, shared))
    return end


def difference_of_disparities(
    first: MeanDisparity, second: MeanDisparity, differences: Float[Array, "s *e"]
) -> Ends:
    r"""Return the interval of a mean disparity less another one, from both intervals.

    .. math:: \bar D - \bar D' - \sqrt{(\bar D - l)^2 + (u' - \bar D')^2} \;\text{ to }\;
              \bar D - \bar D' + \sqrt{(u - \bar D)^2 + (\bar D' - l')^2}

    (Zou and Donner 2008), and at least :math:`t_{K-1} s/\sqrt K` of the differences by seed. The
    two distances are added, not squared, in two cases. If a disparity may be 0, its error is
    upwards only. If the gaps of the two have opposite signs, the same rows move the disparities
    apart. In both cases errors do not cancel.

    Args:
        first: mean disparity D with its interval.
        second: mean disparity D' with its interval.
        differences: D - D' for every seed.
    """
    mean = differences.mean(axis=0)
    z, nothing = np.array(normal_quantile(LEVEL)), np.zeros_like(mean)
    seeds = _half_widths(differences, nothing, z, 0.0)
    opposite = np.zeros(mean.shape, dtype=bool)
    if first.gaps.shape == second.gaps.shape:
        opposite = np.sum(first.gaps * second.gaps, axis=-1) < 0

    def join_distances(
        of_first: Float[Array, "*e"], of_second: Float[Array, "*e"], one_sided: Array
    ) -> Float[Array, "*e"]:
        distance = np.where(
            one_sided | opposite, of_first + of_second, np.hypot(of_first, of_second)
        )
        return np.maximum(distance, seeds)

    below = join_distances(first.mean - first.low, second.high - second.mean, first.low == 0)
    above = join_distances(first.high - first.mean, second.mean - second.low, second.low == 0)
    return mean - below, mean + above
