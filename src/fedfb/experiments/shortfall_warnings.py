"""Shortfalls as Python warnings: imported where there is one, as scikit-learn takes a while."""

import warnings
from collections.abc import Sequence

from sklearn.exceptions import ConvergenceWarning

from fedfb.experiments.result import Shortfall


class ShortfallWarning(ConvergenceWarning):  # type: ignore[misc]
    """A result does not keep a promise; ``result.shortfalls`` has the figures."""


class TargetNotReachedWarning(ShortfallWarning):
    """Training did not reach the disparity, or kept not to the cost, that was asked for."""


def warn_of(shortfalls: Sequence[Shortfall], stacklevel: int) -> None:
    """Raise a warning for every shortfall of a result.

    Args:
        shortfalls: of the result.
        stacklevel: how many calls above the warning is attributed to.
    """
    for shortfall in shortfalls:
        of_target = shortfall.kind in ("target", "cost")
        category = TargetNotReachedWarning if of_target else ShortfallWarning
        warnings.warn(shortfall.sentence, category, stacklevel=stacklevel + 1)
