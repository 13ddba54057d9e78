"""Shortfalls as Python warnings: imported where there is one, as scikit-learn takes a while."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.exceptions import ConvergenceWarning


class ShortfallWarning(ConvergenceWarning):  # type: ignore[misc]
    """A result does not keep a promise; ``report["shortfalls"]`` has the figures."""


class TargetNotReachedWarning(ShortfallWarning):
    """Training did not reach the disparity, or kept not to the cost, that was asked for."""


def warn_of(shortfalls: Sequence[Mapping[str, Any]], stacklevel: int) -> None:
    """Raise a warning for every shortfall of a report, for the caller so many levels up."""
    for one in shortfalls:
        of_target = one["kind"] in ("target", "cost")
        category = TargetNotReachedWarning if of_target else ShortfallWarning
        warnings.warn(one["sentence"], category, stacklevel=stacklevel + 1)
