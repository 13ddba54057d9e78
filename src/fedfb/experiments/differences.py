"""What sets our figures apart from printed ones, shown by runs that switch one cause each."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Figures = Mapping[str, Any]
"""Accuracy and disparity, each with mean and standard deviation over seeds."""

NOISE = 2.0
"""A difference counts from this many standard errors of the two means on."""

SMALLEST = 0.005
"""Differences below this are not worth a word."""

AXES = ("accuracy", "disparity")

DIGITS = 3
"""The paper prints so many digits after the point."""


class Cause(NamedTuple):
    """A cause by name, and the rows of a table whose runs differ by it alone.

    ``columns`` are those where it is one; none are all of them.
    """

    name: str
    before: str
    after: str
    columns: tuple[str, ...] = ()


class Step(NamedTuple):
    """A cause as it showed: the figures before it was switched, and after."""

    cause: str
    before: Figures
    after: Figures


class Explanation(NamedTuple):
    """Why ours is not the printed figure: steps that lead from there to here, and what is left.

    ``left`` is what no step covers: how far the first begins from the printed figure, every other
    from the end of the one before it, and ours from the end of the last, on the axis where that is
    most. ``apart`` is how far ours and the printed figure are.
    """

    steps: tuple[Step, ...]
    apart: float
    left: float

    @property
    def verdict(self) -> str:
        """Say in a word whether the steps explain the difference.

        >>> Explanation((), 0.05, 0.05).verdict
        'unexplained'
        """
        if self.left <= max(SMALLEST, 0.2 * self.apart):
            return "explained"
        return "explained in part" if self.left <= 0.6 * self.apart else "unexplained"


def better(ours: Figures, paper: Figures) -> bool:
    """Return True if ours is at least as good on both axes and better on one, as printed.

    Both are compared at the paper's digits: what was rounded away there is not ours to win by.

    >>> paper = {"accuracy": {"mean": 0.8}, "disparity": {"mean": 0.2}}
    >>> better({"accuracy": {"mean": 0.8}, "disparity": {"mean": 0.1}}, paper)
    True
    >>> better({"accuracy": {"mean": 0.8004}, "disparity": {"mean": 0.1996}}, paper)
    False
    """
    (accuracy, disparity), (printed_accuracy, printed_disparity) = (
        [round(one[axis]["mean"], DIGITS) for axis in AXES] for one in (ours, paper)
    )
    worse = accuracy < printed_accuracy or disparity > printed_disparity
    return not worse and (accuracy, disparity) != (printed_accuracy, printed_disparity)


def differs(ours: Figures, paper: Figures, seeds: int = 5) -> bool:
    """Tell whether two means are further apart than their noise, on either axis."""
    for axis in AXES:
        spreads = [one[axis]["std"] or 0.0 for one in (ours, paper)]
        error = (sum(std**2 for std in spreads) / seeds) ** 0.5
        if _apart(ours, paper, axis) > max(NOISE * error, SMALLEST):
            return True
    return False


def explain(
    ours: Figures, paper: Figures, found: Mapping[str, Figures], causes: Sequence[Cause]
) -> Explanation:
    """Follow the causes whose runs were found, from the printed figure to ours."""
    steps = tuple(
        Step(one.name, found[one.before], found[one.after])
        for one in causes
        if one.before in found and one.after in found
    )
    apart = max(_apart(ours, paper, axis) for axis in AXES)
    ends = [paper, *(step.after for step in steps)]
    begins = [*(step.before for step in steps), ours]
    gaps = list(zip(ends, begins, strict=True))
    left = max(sum(_apart(end, begin, axis) for end, begin in gaps) for axis in AXES)
    return Explanation(steps, apart, left)


def _apart(one: Figures, other: Figures, axis: str) -> float:
    return float(abs(one[axis]["mean"] - other[axis]["mean"]))
