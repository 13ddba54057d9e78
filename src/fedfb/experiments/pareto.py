"""The Pareto set: what nothing else is both as accurate and as fair as."""

from collections.abc import Sequence
from typing import NamedTuple


class Place(NamedTuple):
    """Where a classifier stands; its disparity is None where it cannot be estimated."""

    accuracy: float
    disparity: float | None


def dominates(one: Place, other: Place) -> bool:
    """Tell whether one is at least as good on both axes and better on one of them.

    >>> dominates(Place(0.9, 0.1), Place(0.8, 0.1)), dominates(Place(0.9, 0.1), Place(0.9, 0.1))
    (True, False)
    """
    if one.disparity is None or other.disparity is None:
        return False
    as_good = one.accuracy >= other.accuracy and one.disparity <= other.disparity
    return as_good and (one.accuracy, one.disparity) != (other.accuracy, other.disparity)


def pareto(places: Sequence[Place]) -> list[bool]:
    """Tell of every place whether no other dominates it; equal ones stay or go together.

    A place whose disparity is not known is never in the set.

    >>> pareto([Place(0.9, 0.2), Place(0.8, 0.1), Place(0.7, 0.15), Place(0.8, None)])
    [True, True, False, False]
    """
    return [
        place.disparity is not None and not any(dominates(other, place) for other in places)
        for place in places
    ]
