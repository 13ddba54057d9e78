"""The rounds of a run as rows to look at: signal, lambda, training accuracy and disparity."""

from collections.abc import Sequence
from typing import Any

from fedfb.notions.disparity import disparity_value
from fedfb.runtime import RoundRecord
from fedfb.shapes import Array, Float

Row = dict[str, Any]  # JSON values of several types


def round_rows(history: Sequence[RoundRecord], run: int, notion: str) -> list[Row]:
    """Return one row per round of one run of a grid.

    A method without a common model has none to look at on the way: accuracy and disparity are None.
    """
    return [_row(number, record, run, notion) for number, record in enumerate(history, start=1)]


def _row(number: int, record: RoundRecord, run: int, notion: str) -> Row:
    confusion = None if record.confusion is None else record.confusion[run]
    signal = None if record.signal is None else record.signal[run]
    if notion == "client_parity":
        disparity = None if signal is None else _range_with_reference(signal)
    else:
        disparity = None if confusion is None else disparity_value(notion, confusion, minimum=1)
    return {
        "round": number,
        "signal": None if signal is None else signal.tolist(),
        "lambda": None if record.lam is None else record.lam[run].tolist(),
        "accuracy": None if confusion is None else _accuracy(confusion),
        "disparity": disparity,
    }


def _accuracy(confusion: Float[Array, "2 2 a"]) -> float:
    return float((confusion[0, 0] + confusion[1, 1]).sum() / confusion.sum())


def _range_with_reference(signal: Float[Array, " i"]) -> float:
    """Return the range of the clients' losses from their distances to the reference's.

    The reference's own distance is 0.
    """
    return float(max(signal.max(), 0.0) - min(signal.min(), 0.0))
