"""What several seeds say together: means with intervals for trainings and test rows.

What an interval covers, and what not, is in :mod:`fedfb.notions.over_seeds` as equations and in
:func:`coverage` as the sentence that stands wherever intervals are printed.

The rounds of a run as rows to look at: signal, lambda, training accuracy and disparity.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedfb.data import Federation
from fedfb.data.request import DRAWN
from fedfb.experiments.evaluate import summarise
from fedfb.experiments.spec import Experiment
from fedfb.notions.disparity import notion_bands
from fedfb.notions.over_seeds import (
    MeanDisparity,
    difference_of_disparities,
    difference_of_rates,
    mean_disparity,
    mean_range,
    mean_rate,
)
from fedfb.notions.values import disparity_value, nan_to_none
from fedfb.runtime import RoundRecord
from fedfb.shapes import Array, Float

Record = Mapping[str, Any]

Interval = list[float]

TEST_SHARE = 0.3
"""The share of a file that a split sets aside to test on: two splits share as much of it."""


def shared_test_rows(experiment: Experiment, federations: Mapping[int, Federation]) -> float:
    """Return the share of test rows that two seeds have in common.

    1 where all seeds test on the same rows, 0 where each draws its own, and the test's share of
    the file where each splits one file anew.
    """
    if len({id(federations[seed].test.y) for seed in experiment.seeds}) == 1:
        return 1.0
    return 0.0 if experiment.data in DRAWN else TEST_SHARE


def shared_rows_of(report: Record) -> float:
    """Return the share that a report tells; reports of before told none, and 1 is the safe one."""
    return float(report.get("shared_test_rows", 1.0))


def coverage(seeds: int, shared: float) -> str:
    """Say in a sentence what 95% intervals cover, and what not.

    >>> coverage(1, 1.0)
    '95% intervals cover the true value of this one model: other test rows, not another training.'
    """
    if seeds == 1:
        return (
            "95% intervals cover the true value of this one model: other test rows, not another "
            "training."
        )
    mean = "95% intervals cover the true mean over trainings: other seeds and other test rows"
    if shared == 0:
        return f"{mean}, as every seed draws its own."
    if shared < 1:
        return f"{mean}; that splits of one file overlap is counted."
    return f"{mean} than those that all seeds share; not other training rows (--resplit)."


def confusion_of(record: Record) -> Float[Array, "2 2 a"]:
    """Return the confusion table that a record's groups tell.

    >>> group = {"n": 10, "positives": 4, "tpr": 0.75, "fpr": 0.5}
    >>> confusion_of({"groups": [group]})[:, :, 0]
    array([[3., 3.],
           [1., 3.]])
    """
    groups = record["groups"]
    labels = np.array(
        [[one["n"] - one["positives"], one["positives"]] for one in groups], dtype=np.float64
    )
    rates = np.array([[one["fpr"] or 0.0, one["tpr"] or 0.0] for one in groups])
    positives = labels * rates
    return np.stack([labels - positives, positives]).transpose(2, 0, 1)


def _is_compared(record: Record, name: str) -> Float[Array, "2 1 a"]:
    """Return 0 for the cells (label, group) that enter no disparity of that name, else 1."""
    names = [group["name"] for group in record["groups"]]
    left_out = {
        notion: np.isin(names, groups) for notion, groups in record["not_estimable"].items()
    }
    of_group = left_out["demographic_parity"]
    if name in ("demographic_parity", "spd"):
        by_label = [of_group, of_group]
    else:
        positive = left_out["equal_opportunity"]
        # A group that equalized odds leaves out for its positives may have enough negatives.
        by_label = [of_group | (left_out["equalized_odds"] & ~positive), of_group | positive]
    return (~np.array(by_label)).astype(np.float64)[:, None]


def accuracy_interval(records: Sequence[Record], shared: float) -> Interval:
    """Return the interval of the mean accuracy."""
    return _plain(mean_rate(*_accuracies(records), shared))


def rate_interval(
    rates: Sequence[float | None], rows: Sequence[float | None], shared: float
) -> Interval | None:
    """Return the interval of the mean of a rate over the seeds that have one; None without any."""
    pairs = [(rate, n) for rate, n in zip(rates, rows, strict=True) if rate is not None and n]
    if not pairs:
        return None
    own, n = np.array(pairs, dtype=np.float64).T
    return _plain(mean_rate(own, n, shared))


def disparity_over_seeds(
    records: Sequence[Record], name: str, shared: float
) -> MeanDisparity | None:
    """Return a disparity's mean over the seeds where it is estimable; None if there are too few.

    One seed of several would tell of its test rows only, and not what is said of several.
    """
    nan_to_none = [record for record in records if record["disparity"][name] is not None]
    if len(nan_to_none) < max(min(len(records), 2), 1):
        return None
    values = np.array([record["disparity"][name] for record in nan_to_none], dtype=np.float64)
    ends = np.array([record["interval"][name] for record in nan_to_none], dtype=np.float64)
    if name == "client_parity":
        found = mean_range(values, ends[:, 1], *_client_losses(nan_to_none), shared)
    else:
        tables = [confusion_of(record) * _is_compared(record, name) for record in nan_to_none]
        bands = notion_bands(name, np.stack(tables))
        found = mean_disparity(values, ends[:, 1], bands, shared)
    # One run's interval is its own: read again from rounded counts it might differ in a digit.
    return found._replace(low=ends[0, 0], high=ends[0, 1]) if len(nan_to_none) == 1 else found


def summarise_seeds(records: Sequence[Record], shared: float) -> dict[str, Any]:
    """Return mean, standard deviation and interval of accuracy and of each disparity over seeds.

    Args:
        records: what every seed came to.
        shared: share of test rows that two seeds have in common.

    """
    summary = summarise(records)
    return {
        "accuracy": {**summary["accuracy"], "interval": accuracy_interval(records, shared)},
        "disparity": {
            name: {**own, "interval": interval_of(disparity_over_seeds(records, name, shared))}
            for name, own in summary["disparity"].items()
        },
    }


def interval_of(found: MeanDisparity | None) -> Interval | None:
    """Return the ends of an interval as plain values."""
    return None if found is None else _plain((found.low, found.high))


def _plain(ends: tuple[Any, Any]) -> Interval:
    return [float(end) for end in ends]


def accuracy_difference(one: Sequence[Record], other: Sequence[Record], shared: float) -> Record:
    """Return the mean difference of two methods' accuracies, seed by seed, with its interval."""
    (rates, rows), (others, _) = _accuracies(one), _accuracies(other)
    ends = difference_of_rates(rates, others, rows, shared)
    return {"mean": float(np.mean(rates - others)), "interval": _plain(ends)}


def disparity_difference(
    one: Sequence[Record], other: Sequence[Record], name: str, shared: float
) -> Record:
    """Return the mean difference of two methods' disparities, over seeds where both have one."""
    pairs = [
        pair
        for pair in zip(one, other, strict=True)
        if all(record["disparity"][name] is not None for record in pair)
    ]
    by_seed = np.array([a["disparity"][name] - b["disparity"][name] for a, b in pairs])
    mean = float(by_seed.mean()) if pairs else None
    ours, theirs = (
        disparity_over_seeds([pair[side] for pair in pairs], name, shared) for side in (0, 1)
    )
    if ours is None or theirs is None or len(pairs) < min(len(one), 2):
        return {"mean": mean, "interval": None}
    ends = difference_of_disparities(ours, theirs, by_seed)
    return {"mean": mean, "interval": _plain(ends)}


def _accuracies(records: Sequence[Record]) -> tuple[Float[Array, " s"], Float[Array, " s"]]:
    rates = np.array([record["accuracy"] for record in records], dtype=np.float64)
    rows = [sum(group["n"] for group in record["groups"]) for record in records]
    return rates, np.array(rows, dtype=np.float64)


def _client_losses(
    records: Sequence[Record],
) -> tuple[Float[Array, "s i"], Float[Array, "s i"]]:
    """Return mean losses and their variances by seed, of the clients that all seeds have."""
    parts = [
        np.array([[client[key] for client in record["clients"]] for record in records], np.float64)
        for key in ("loss", "loss_variance")
    ]
    left_out = {name for record in records for name in record["not_estimable"]["client_parity"]}
    names = [client["name"] for client in records[0]["clients"]]
    there = np.array([name not in left_out for name in names], dtype=bool)
    return parts[0][:, there], parts[1][:, there]


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
            nothing
            if confusion is None
            else nan_to_none(disparity_value(notion, confusion, minimum))
        )
    columns = {
        "round": [number] * runs,
        "signal": nothing if signal is None else signal.tolist(),
        "lambda": nothing if lam is None else lam.tolist(),
        "accuracy": nothing if confusion is None else _round_accuracies(confusion).tolist(),
        "disparity": disparity,
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _round_accuracies(confusion: Float[Array, "r 2 2 a"]) -> Float[Array, " r"]:
    right = confusion[:, 0, 0] + confusion[:, 1, 1]
    return right.sum(axis=1) / confusion.sum(axis=(1, 2, 3))


def _ranges_with_reference(signal: Float[Array, "r i"]) -> Float[Array, " r"]:
    """Return the range of the clients' losses from their distances to the reference's.

    The reference's own distance is 0.
    """
    return np.maximum(signal.max(axis=1), 0.0) - np.minimum(signal.min(axis=1), 0.0)
