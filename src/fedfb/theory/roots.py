"""Roots and minima of many smooth functions at once, each within its bracket."""

from collections.abc import Callable

import numpy as np

from fedfb.shapes import Array, Float

Function = Callable[[Array], Array]
GOLDEN = (np.sqrt(5.0) - 1) / 2
ROUNDING = 4e-15


def bracketed_roots(
    function: Function,
    low: Float[Array, " n"],
    high: Float[Array, " n"],
    at_low: Float[Array, " n"],
    at_high: Float[Array, " n"],
    steps: int = 70,
) -> Float[Array, " n"]:
    """Return a root in every bracket whose ends differ in sign (Chandrupatla's method).

    Inverse quadratic interpolation where three points make it safe, bisection elsewhere; a jump
    across zero is found as well. Secants come first: brackets here are short, and mostly they do.

    >>> ends = np.array([0.0]), np.array([2.0])
    >>> bracketed_roots(lambda x: x**3 - 2.0, *ends, np.array([-2.0]), np.array([6.0])).round(12)
    array([1.25992105])
    """
    quick = _by_secants(function, low, high, at_low, at_high)
    if quick is not None:
        return quick
    a, b, fa, fb = high, low, at_high, at_low
    part = np.clip(fa / (fa - fb), 0.001, 0.999)
    for _ in range(steps):
        x = a + part * (b - a)
        fx = function(x)
        same = (fx > 0) == (fa > 0)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = x, fx
        least = (4e-16 * np.abs(a) + 1e-300) / np.maximum(np.abs(b - a), 1e-300)
        if np.all((least > 0.5) | (np.abs(fa) < 1e-15)):
            break
        part = np.clip(_interpolated(a, b, c, fa, fb, fc), np.minimum(least, 0.5), 1 - least)
    return np.where(np.abs(fa) < np.abs(fb), a, b)


def _by_secants(
    function: Function, low: Array, high: Array, at_low: Array, at_high: Array
) -> Array | None:
    """Return the roots if secants find all of them within their brackets, else None."""
    x, fx, inverse_slope = high, at_high, (high - low) / (at_high - at_low)
    at_a_jump = high - low <= 1e-15 * (1.0 + np.abs(high))
    for _ in range(6):
        new = x - fx * inverse_slope
        if not ((new >= low) & (new <= high)).all():
            return None
        f_new = function(new)
        if ((np.abs(f_new) < ROUNDING) | at_a_jump).all():
            return new
        change = f_new - fx
        moved = change != 0
        inverse_slope = np.where(moved, (new - x) / np.where(moved, change, 1.0), inverse_slope)
        x, fx = new, f_new
    return None


def _interpolated(a: Array, b: Array, c: Array, fa: Array, fb: Array, fc: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        xi = (a - b) / (c - b)
        phi = (fa - fb) / (fc - fb)
        safe = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        inverse = fa / (fb - fa) * fc / (fb - fc)
        inverse = inverse + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    return np.where(safe & np.isfinite(inverse), inverse, 0.5)


def crossings_below(
    function: Function,
    points: Float[Array, "3 n"],
    values: Float[Array, "3 n"],
    steps: int = 24,
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Return for every triple with a lower middle a point below zero, or else the least found.

    Parabolas through the three points, golden sections where they do not move. The search ends
    early where a point below zero is found: to part two roots, any will do.

    >>> x = np.array([[0.0], [0.2], [1.0]])
    >>> crossings_below(lambda x: (x - 0.3) ** 2 - 1e-6, x, (x - 0.3) ** 2 - 1e-6)[1] < 0
    array([ True])
    """
    (a, m, b), (fa, fm, fb) = points, values
    for step in range(steps):
        x = _vertex(a, m, b, fa, fm, fb) if step % 3 < 2 else _section(a, m, b)
        fx = function(x)
        lower, left = fx < fm, x < m
        new_a = np.where(lower, np.where(left, a, m), np.where(left, x, a))
        new_b = np.where(lower, np.where(left, m, b), np.where(left, b, x))
        fa, fb = (
            np.where(lower, np.where(left, fa, fm), np.where(left, fx, fa)),
            np.where(lower, np.where(left, fm, fb), np.where(left, fb, fx)),
        )
        a, b, m, fm = new_a, new_b, np.where(lower, x, m), np.where(lower, fx, fm)
        # A parabola's sag between the ends bounds what is still to be gained.
        if np.all((fm <= 0) | (np.maximum(fa, fb) - fm < 0.1 * fm) | (b - a < 1e-13)):
            break
    return m, fm


def _vertex(a: Array, m: Array, b: Array, fa: Array, fm: Array, fb: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        left, right = (m - a) * (fm - fb), (m - b) * (fm - fa)
        x = m - 0.5 * ((m - a) * left - (m - b) * right) / (left - right)
    wrong = ~np.isfinite(x) | (x <= a) | (x >= b) | (x == m)
    return np.where(wrong, _section(a, m, b), x)


def _section(a: Array, m: Array, b: Array) -> Array:
    return np.where(b - m > m - a, m + (1 - GOLDEN) * (b - m), m - (1 - GOLDEN) * (m - a))
