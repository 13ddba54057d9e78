"""How a check says what is broken."""

import numpy as np

from fedfb.core import Arrays


class ConformanceError(AssertionError):
    """A method breaks what every method must hold to; the message says how."""


def same(one: Arrays, other: Arrays, broken: str) -> None:
    differing = [n for n in one if n not in other or not np.array_equal(one[n], other[n])]
    demand(not differing and len(one) == len(other), f"{broken} ({', '.join(differing[:3])})")


def close(one: Arrays, other: Arrays, tolerance: float, broken: str) -> None:
    for name, value in one.items():
        same_shape = name in other and np.shape(value) == np.shape(other[name])
        demand(same_shape, f"{broken} ({name} has another shape)")
        gap = float(np.max(np.abs(value - other[name]), initial=0.0))
        demand(gap <= tolerance, f"{broken} ({name} by {gap:.1e})")


def finite(found: Arrays, where: str) -> None:
    for name, value in found.items():
        demand(bool(np.isfinite(value).all()), f"{where}: {name} is not finite")


def demand(holds: bool, broken: str) -> None:
    if not holds:
        raise ConformanceError(broken)
