r"""The chance of a positive label, :math:`\eta(x) = P(y=1\mid x)`, increasing in the feature.

Thresholds lie where :math:`\eta` takes a value close to 0 or 1, so both tails and their inverses
are kept: :math:`1-\eta` computed from :math:`\eta` would lose all digits there.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from fedfb.errors import ConfigError, unknown_name
from fedfb.shapes import Array, Float

_Function = Callable[[Array], Array]
_FAR = 1e9
"""Where a function without a stated domain is taken to have reached its ends."""


@dataclass(frozen=True)
class Eta:
    r"""An increasing :math:`\eta` with its complement and the inverses of both.

    ``inverse`` maps values below (above) the range to minus (plus) infinity. ``knots`` part the
    line into pieces on which a polynomial of degree 19 describes :math:`\eta` to rounding.

    >>> logistic().inverse_upper(np.array([1e-30])) + logistic().inverse(np.array([1e-30]))
    array([0.])
    """

    name: str
    value: _Function = field(repr=False)
    upper: _Function = field(repr=False)
    inverse: _Function = field(repr=False)
    inverse_upper: _Function = field(repr=False)
    knots: tuple[float, ...] = field(repr=False)


def logistic() -> Eta:
    r"""Return :math:`\eta(x) = 1/(1+e^{-x})`.

    >>> logistic().value(np.array([0.0]))
    array([0.5])
    """
    return Eta(
        "logistic",
        value=expit,
        upper=lambda x: expit(-x),
        inverse=logit,
        inverse_upper=lambda u: -logit(u),
        knots=tuple(np.linspace(-40.0, 40.0, 41)),
    )


def probit() -> Eta:
    r"""Return :math:`\eta(x) = \Phi(x)`, the standard normal distribution function.

    >>> probit().inverse(np.array([0.5]))
    array([0.])
    """
    return Eta(
        "probit",
        value=ndtr,
        upper=lambda x: ndtr(-x),
        inverse=ndtri,
        inverse_upper=lambda u: -ndtri(u),
        knots=tuple(np.linspace(-9.0, 9.0, 19)),
    )


def table(points: Float[Array, " k"], values: Float[Array, " k"], name: str = "table") -> Eta:
    """Return the piecewise linear eta through points; it is constant outside.

    Meant for scores of a model: the fitted, increasing map from a score to the chance of a
    positive.

    Args:
        points: scores, increasing.
        values: eta at the points, increasing, in [0, 1].
        name: name in error messages.

    >>> table(np.array([0.0, 1.0]), np.array([0.0, 1.0])).value(np.array([0.25]))
    array([0.25])
    """
    points, values = np.asarray(points, float), np.asarray(values, float)
    if points.ndim != 1 or points.shape != values.shape or len(points) < 2:
        raise ConfigError(
            f"eta {name!r} needs at least two points and one value for each, "
            f"found shapes {points.shape} and {values.shape}. Give two lists of equal length."
        )
    if np.any(np.diff(points) <= 0) or not np.all(np.isfinite(points)):
        raise ConfigError(f"the points of eta {name!r} must increase. Sort them, drop doubles.")
    refuse_what_is_no_probability(name, points, values)
    refuse_what_falls(name, points, values, strictly=True)
    return Eta(
        name,
        value=lambda x: np.interp(x, points, values),
        upper=lambda x: np.interp(x, points, 1.0 - values),
        inverse=lambda c: np.interp(c, values, points, left=-np.inf, right=np.inf),
        inverse_upper=lambda u: np.interp(1.0 - u, values, points, left=-np.inf, right=np.inf),
        knots=tuple(points),
    )


def identity() -> Eta:
    """Return eta for a feature that is a score in [0, 1] and means what it says.

    >>> identity().inverse(np.array([0.3]))
    array([0.3])
    """
    return table(np.array([0.0, 1.0]), np.array([0.0, 1.0]), "identity")


def increasing(
    function: _Function, low: float = -_FAR, high: float = _FAR, name: str = "own function"
) -> Eta:
    """Return an increasing function as an eta; bisection inverts it.

    ``population`` checks that the function increases where the laws have mass.

    Args:
        function: maps an array of x to an array of probabilities.
        low: lower end of the domain.
        high: upper end of the domain.
        name: name in error messages.

    >>> cube = increasing(lambda x: np.clip(x, 0, 1) ** 3, 0.0, 1.0)
    >>> cube.inverse(np.array([0.125])).round(12)
    array([0.5])
    """
    if not low < high:
        raise ConfigError(f"eta {name!r} has the empty domain [{low}, {high}]. Give low < high.")

    def value(x: Array) -> Array:
        # Far out an exponential may overflow on its way to 0 or 1.
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(function(np.asarray(x, float)), float)

    def inverse(c: Array) -> Array:
        c = np.asarray(c, float)
        left, right = np.full(c.shape, low), np.full(c.shape, high)
        # 110 halvings of a range of 2e9 leave 1e-24: finer than any threshold needs.
        for _ in range(110):
            middle = 0.5 * (left + right)
            above = value(middle) > c
            left, right = np.where(above, left, middle), np.where(above, middle, right)
        return np.select([left == low, right == high], [-np.inf, np.inf], 0.5 * (left + right))

    knots = np.linspace(low, high, 65) if high - low < _FAR else np.linspace(-40.0, 40.0, 81)
    return Eta(
        name,
        value=value,
        upper=lambda x: 1.0 - value(x),
        inverse=inverse,
        inverse_upper=lambda u: inverse(1.0 - np.asarray(u, float)),
        knots=tuple(knots),
    )


def eta_named(name: str) -> Eta:
    """Return logistic, probit or identity by name.

    >>> eta_named("probit").name
    'probit'
    """
    makers = {"logistic": logistic, "probit": probit, "identity": identity}
    if name not in makers:
        raise ConfigError(unknown_name("eta", name, makers))
    return makers[name]()


def refuse_what_is_no_probability(name: str, x: Array, values: Array) -> None:
    """Refuse values of eta outside [0, 1].

    Args:
        name: name of eta in the error message.
        x: points.
        values: eta at the points.

    >>> refuse_what_is_no_probability("half", np.array([0.0]), np.array([0.5]))
    """
    wrong = ~((values >= 0) & (values <= 1))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ConfigError(
            f"eta {name!r} is {values[at]:g} at x = {x[at]:g}; a probability lies in [0, 1]. "
            "Rescale it or pass it through a link such as the logistic one."
        )


def refuse_what_falls(name: str, x: Array, values: Array, strictly: bool) -> None:
    """Refuse an eta that decreases.

    A float is constant where it has reached 0 or 1 up to rounding: this is allowed at both ends.

    Args:
        name: name of eta in the error message.
        x: points, increasing.
        values: eta at the points.
        strictly: whether to refuse an eta that is constant between two points, too.

    >>> refuse_what_falls("rising", np.array([0.0, 1.0]), np.array([0.2, 0.5]), strictly=True)
    """
    step = np.diff(values)
    inside = (values[:-1] > 1e-9) & (values[1:] < 1 - 1e-9)
    apart = np.diff(x) > 1e-9 * (1.0 + np.abs(x[1:]))
    wrong = (step < -1e-15) | (strictly & inside & apart & (step <= 0))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ConfigError(
            f"eta {name!r} must increase, but goes from {values[at]:g} to {values[at + 1]:g} "
            f"between x = {x[at]:g} and {x[at + 1]:g}. Thresholds on x need an increasing eta: "
            "reorder or merge the values of x, or take laws on atoms, where eta may have ties."
        )
