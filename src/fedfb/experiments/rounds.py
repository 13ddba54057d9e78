"""The rounds of a run as rows to look at: signal, lambda, training accuracy and disparity."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedfb.notions.values import disparity_value, known
from fedfb.runtime import RoundRecord
from fedfb.shapes import Array, Float

Row = dict[str, Any]  # JSON values of several types


def round_rows(
    history: Sequence[RoundRecord], runs: int, notion: str, minimum: int = 1
) -> list[list[Row]]:
    """Return for every run of a grid one row per round.

    Groups with fewer training rows than ``minimum`` are not in the disparity.

    A method without a common model has none to look at on the way: accuracy and disparity are None.
    """
    rounds = [
        _rows(number, record, runs, notion, minimum)
        for number, record in enumerate(history, start=1)
    ]
    return [[rows[run] for rows in rounds] for run in range(runs)]


def _rows(number: int, record: RoundRecord, runs: int, notion: str, minimum: int) -> list[Row]:
    """Return one round's row of every run."""
    signal, lam, confusion = record
    nothing = [None] * runs
    if notion == "client_parity":
        disparity = nothing if signal is None else _ranges_with_reference(signal).tolist()
    else:
        disparity = (
            nothing if confusion is None else known(disparity_value(notion, confusion, minimum))
        )
    columns = {
        "round": [number] * runs,
        "signal": nothing if signal is None else signal.tolist(),
        "lambda": nothing if lam is None else lam.tolist(),
        "accuracy": nothing if confusion is None else _accuracies(confusion).tolist(),
        "disparity": disparity,
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _accuracies(confusion: Float[Array, "r 2 2 a"]) -> Float[Array, " r"]:
    right = confusion[:, 0, 0] + confusion[:, 1, 1]
    return right.sum(axis=1) / confusion.sum(axis=(1, 2, 3))


def _ranges_with_reference(signal: Float[Array, "r i"]) -> Float[Array, " r"]:
    """Return the range of the clients' losses from their distances to the reference's.

    The reference's own distance is 0.
    """
    return np.maximum(signal.max(axis=1), 0.0) - np.minimum(signal.min(axis=1), 0.0)
