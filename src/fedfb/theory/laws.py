"""Laws of the feature in one group of one client, :math:`P_a^{(i)}`.

A law with a density gives density and both tails at many points at once, as numbers and as
logarithms. The logarithms matter: far in a tail the difference of two rates underflows, but the
order of the two rates does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.special import log_ndtr, ndtr

from fedfb.errors import ConfigError
from fedfb.shapes import Array, Float

LOG_ROOT_TWO_PI = 0.5 * np.log(2 * np.pi)


@runtime_checkable
class Law(Protocol):
    """A law with a density; it is smooth between neighbouring ``knots``."""

    @property
    def knots(self) -> Array: ...
    def pdf(self, x: Array) -> Array: ...
    def cdf(self, x: Array) -> Array: ...
    def sf(self, x: Array) -> Array: ...
    def logpdf(self, x: Array) -> Array: ...
    def logcdf(self, x: Array) -> Array: ...
    def logsf(self, x: Array) -> Array: ...


@dataclass(frozen=True)
class Gaussian:
    r"""The normal law :math:`N(\mu, \sigma^2)`.

    >>> float(Gaussian(3.0, 2.0).cdf(np.array(3.0)))
    0.5
    """

    mean: float
    sd: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.mean) and np.isfinite(self.sd) and self.sd > 0):
            raise ConfigError(
                f"a Gaussian law needs a finite mean and a standard deviation above 0, found "
                f"mean = {self.mean}, sd = {self.sd}. For all mass at one point use atoms."
            )

    @property
    def knots(self) -> Array:
        return self.mean + self.sd * np.linspace(-10.0, 10.0, 21)

    def pdf(self, x: Array) -> Array:
        return np.exp(self.logpdf(x))

    def cdf(self, x: Array) -> Array:
        return ndtr((x - self.mean) / self.sd)

    def sf(self, x: Array) -> Array:
        return ndtr((self.mean - x) / self.sd)

    def logpdf(self, x: Array) -> Array:
        return -0.5 * ((x - self.mean) / self.sd) ** 2 - np.log(self.sd) - LOG_ROOT_TWO_PI

    def logcdf(self, x: Array) -> Array:
        return log_ndtr((x - self.mean) / self.sd)

    def logsf(self, x: Array) -> Array:
        return log_ndtr((self.mean - x) / self.sd)


@dataclass(frozen=True)
class Frozen:
    """Any continuous distribution of ``scipy.stats`` with its parameters set.

    >>> from scipy.stats import beta
    >>> float(Frozen(beta(2, 2)).sf(np.array(0.5)))
    0.5
    """

    distribution: Any  # scipy gives its frozen distributions no public type

    def __post_init__(self) -> None:
        required = ("logpdf", "logcdf", "logsf", "ppf", "isf")
        missing = [name for name in required if not hasattr(self.distribution, name)]
        if missing:
            raise ConfigError(
                f"{self.distribution!r} is no frozen continuous distribution of scipy.stats: it "
                f"lacks {', '.join(missing)}. Write for example scipy.stats.norm(3, 1)."
            )

    @property
    def knots(self) -> Array:
        tail = 10.0 ** np.arange(-16, -1, 0.5)
        middle = np.linspace(0.04, 0.96, 24)
        ends = np.array([self.distribution.ppf(0.0), self.distribution.isf(0.0)])
        lower, upper = self.distribution.ppf(tail), self.distribution.isf(tail)
        x = np.concatenate([ends, lower, self.distribution.ppf(middle), upper])
        return np.unique(x[np.isfinite(x)])

    def pdf(self, x: Array) -> Array:
        return np.asarray(self.distribution.pdf(x))

    def cdf(self, x: Array) -> Array:
        return np.asarray(self.distribution.cdf(x))

    def sf(self, x: Array) -> Array:
        return np.asarray(self.distribution.sf(x))

    def logpdf(self, x: Array) -> Array:
        return np.asarray(self.distribution.logpdf(x))

    def logcdf(self, x: Array) -> Array:
        return np.asarray(self.distribution.logcdf(x))

    def logsf(self, x: Array) -> Array:
        return np.asarray(self.distribution.logsf(x))


@dataclass(frozen=True)
class Histogram:
    """Mass that is uniform within each bin: an empirical law, or any step density.

    >>> Histogram([0.0, 0.5, 1.0], [0.25, 0.75]).cdf(np.array([0.25, 0.5]))
    array([0.125, 0.25 ])
    """

    edges: Sequence[float] | Float[Array, " k+1"]
    masses: Sequence[float] | Float[Array, " k"]

    def __post_init__(self) -> None:
        edges, masses = np.asarray(self.edges, float), np.asarray(self.masses, float)
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "masses", masses)
        if edges.ndim != 1 or masses.shape != (len(edges) - 1,) or len(masses) == 0:
            raise ConfigError(
                f"a histogram has one mass for each bin, found {masses.size} masses and "
                f"{edges.size} edges. Give one edge more than masses."
            )
        if np.any(np.diff(edges) <= 0) or not np.all(np.isfinite(edges)):
            raise ConfigError("the edges of a histogram must increase. Sort them, drop doubles.")
        refuse_wrong_masses("a histogram", masses)

    @property
    def knots(self) -> Array:
        return np.asarray(self.edges)

    def pdf(self, x: Array) -> Array:
        heights = np.asarray(self.masses) / np.diff(self.edges)
        x = np.asarray(x, float)
        bin_of = np.searchsorted(self.edges, x, side="right") - 1
        inside = (bin_of >= 0) & (bin_of < len(heights))
        return np.where(inside, heights[np.clip(bin_of, 0, len(heights) - 1)], 0.0)

    def cdf(self, x: Array) -> Array:
        below = np.concatenate([[0.0], np.cumsum(self.masses)])
        return np.interp(x, self.edges, below / below[-1])

    def sf(self, x: Array) -> Array:
        above = np.concatenate([np.cumsum(np.asarray(self.masses)[::-1])[::-1], [0.0]])
        return np.interp(x, self.edges, above / above[0])

    def logpdf(self, x: Array) -> Array:
        return log_or_minus_infinity(self.pdf(x))

    def logcdf(self, x: Array) -> Array:
        return log_or_minus_infinity(self.cdf(x))

    def logsf(self, x: Array) -> Array:
        return log_or_minus_infinity(self.sf(x))


@dataclass(frozen=True)
class Atoms:
    """All mass on finitely many points: scores counted in bins, or any finite feature.

    >>> Atoms([0.2, 0.8], [0.5, 0.5]).points
    array([0.2, 0.8])
    """

    points: Sequence[float] | Float[Array, " k"]
    masses: Sequence[float] | Float[Array, " k"]

    def __post_init__(self) -> None:
        points, masses = np.asarray(self.points, float), np.asarray(self.masses, float)
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "masses", masses)
        if points.ndim != 1 or masses.shape != points.shape or len(points) == 0:
            raise ConfigError(
                f"atoms have one mass for each point, found {masses.size} masses and "
                f"{points.size} points. Give two lists of equal length."
            )
        if np.any(np.diff(points) <= 0) or not np.all(np.isfinite(points)):
            raise ConfigError("the points of atoms must increase. Sort them, merge doubles.")
        refuse_wrong_masses("a law on atoms", masses)


@dataclass(frozen=True)
class Mixture:
    r"""The mixture :math:`\sum_k w_k P_k` of laws with densities.

    >>> Mixture([0.5, 0.5], [Gaussian(0, 1), Gaussian(3, 1)]).weights
    array([0.5, 0.5])
    """

    weights: Sequence[float] | Float[Array, " k"]
    parts: "Sequence[Gaussian | Frozen | Histogram | Mixture]"

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, float)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "parts", tuple(self.parts))
        if weights.shape != (len(self.parts),) or len(self.parts) == 0:
            raise ConfigError(
                f"a mixture has one weight for each part, found {weights.size} weights and "
                f"{len(self.parts)} parts. Give two lists of equal length."
            )
        if any(isinstance(part, Atoms) for part in self.parts):
            raise ConfigError("a mixture takes laws with densities, not atoms. Mix their masses.")
        refuse_wrong_masses("a mixture", weights)


AnyLaw = Gaussian | Frozen | Histogram | Mixture | Atoms


def components(law: AnyLaw) -> list[tuple[float, Law]]:
    """Return the parts of a law that have a density, with their weights.

    >>> [weight for weight, _ in components(Mixture([0.25, 0.75], [Gaussian(0, 1)] * 2))]
    [0.25, 0.75]
    """
    if isinstance(law, Atoms):
        raise ConfigError("atoms have no density, so they cannot stand beside laws that have one.")
    if not isinstance(law, Mixture):
        return [(1.0, law)]
    pairs = zip(law.weights, law.parts, strict=True)
    return [(float(w) * v, part) for w, inner in pairs if w > 0 for v, part in components(inner)]


def log_or_minus_infinity(values: Array) -> Array:
    """Return logarithms, minus infinity for zeros, without a warning.

    >>> log_or_minus_infinity(np.array([0.0, 1.0]))
    array([-inf,   0.])
    """
    return np.where(values > 0, np.log(np.where(values > 0, values, 1.0)), -np.inf)


def refuse_wrong_masses(subject: str, masses: Array) -> None:
    """Refuse negative masses, and masses that do not sum to one.

    Args:
        subject: what has these masses, as named in the error message.
        masses: the masses.

    >>> refuse_wrong_masses("a law", np.array([0.5, 0.5]))
    """
    if not np.all(masses >= 0) or abs(masses.sum() - 1.0) > 1e-9:
        raise ConfigError(
            f"{subject} needs masses of at least 0 that sum to 1, found the sum "
            f"{masses.sum():.12g} and the least {masses.min():g}. Divide counts by their total."
        )
