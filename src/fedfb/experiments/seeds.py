"""Several seeds together: means with intervals over trainings and test rows, and tables of rounds.

What an interval covers, and what not, is in :mod:`fedfb.notions.over_seeds` as equations and in
:func:`coverage` as the sentence that stands wherever intervals are printed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from fedfb.data import Federation
from fedfb.data.request import DRAWN
from fedfb.experiments.evaluate import summarise
from fedfb.experiments.result import Figures
from fedfb.experiments.seed_result import (
    Estimate,
    Evaluation,
    GroupRates,
    Interval,
    Round,
    Statistic,
)
from fedfb.experiments.spec import Experiment
from fedfb.notions.disparity import notion_bands, notion_blocks
from fedfb.notions.over_seeds import (
    MeanDisparity,
    difference_of_disparities,
    difference_of_rates,
    mean_disparity,
    mean_range,
    mean_rate,
)
from fedfb.notions.values import (
    MINIMUM_ROWS,
    Chance,
    disparity_value,
    draw_blind_disparities,
    expect_losses_by_chance,
    nan_to_none,
    summarize_draws,
)
from fedfb.runtime import RoundRecord
from fedfb.shapes import Array, Float

TEST_SHARE = 0.3
"""The share of a file that a split sets aside to test on: two splits share as much of it."""


def shared_test_rows(experiment: Experiment, federations: Mapping[int, Federation]) -> float:
    """Return the share of test rows that two seeds have in common.

    The share is 1 where all seeds test on the same rows, 0 where each seed draws its own rows, and
    the test's share of the file where each seed splits one file anew.
    """
    # Seeds of one split share one object, see `load_federations`: no rows need to be compared.
    if len({id(federations[seed].test.y) for seed in experiment.seeds}) == 1:
        return 1.0
    return 0.0 if experiment.data in DRAWN else TEST_SHARE


def coverage(seeds: int, shared: float) -> str:
    """Say in a sentence what 95% intervals cover, and what not.

    Args:
        seeds: number of seeds.
        shared: share of test rows that two seeds have in common, 0 to 1.

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


def confusion_of(groups: Sequence[GroupRates]) -> Float[Array, "2 2 a"]:
    """Return the confusion table that the rates of groups come from.

    >>> rates = {"positive_rate": 0.6, "tpr": 0.75, "fpr": 0.5, "accuracy": 0.6}
    >>> confusion_of([GroupRates(name="all", n=10, positives=4, **rates)])[:, :, 0]
    array([[3., 3.],
           [1., 3.]])
    """
    labels = np.array(
        [[group.n - group.positives, group.positives] for group in groups], dtype=np.float64
    )
    rates = np.array([[group.fpr or 0.0, group.tpr or 0.0] for group in groups])
    positives = labels * rates
    return np.stack([labels - positives, positives]).transpose(2, 0, 1)


def _is_compared(run: Evaluation, name: str) -> Float[Array, "2 1 a"]:
    """Return 0 for the cells (label, group) that enter no disparity of that name, else 1."""
    names = [group.name for group in run.groups]
    left_out = {notion: np.isin(names, groups) for notion, groups in run.not_estimable.items()}
    of_group = left_out["demographic_parity"]
    if name in ("demographic_parity", "spd"):
        by_label = [of_group, of_group]
    else:
        positive = left_out["equal_opportunity"]
        # A group that equalized odds leaves out for its positives may have enough negatives.
        by_label = [of_group | (left_out["equalized_odds"] & ~positive), of_group | positive]
    return (~np.array(by_label)).astype(np.float64)[:, None]


def accuracy_interval(runs: Sequence[Evaluation], shared: float) -> Interval:
    """Return the interval of the mean accuracy.

    Args:
        runs: one evaluation for each seed.
        shared: share of test rows that two seeds have in common, 0 to 1.
    """
    return _plain(mean_rate(*_accuracies(runs), shared))


def rate_interval(
    rates: Sequence[float | None], rows: Sequence[float | None], shared: float
) -> Interval | None:
    """Return the interval of the mean of a rate over the seeds that have one; None without any.

    Args:
        rates: one for each seed; None where the seed has no such rate.
        rows: number of rows behind each rate.
        shared: share of test rows that two seeds have in common, 0 to 1.
    """
    pairs = [(rate, n) for rate, n in zip(rates, rows, strict=True) if rate is not None and n]
    if not pairs:
        return None
    estimable, n = np.array(pairs, dtype=np.float64).T
    return _plain(mean_rate(estimable, n, shared))


def disparity_over_seeds(
    runs: Sequence[Evaluation], name: str, shared: float
) -> MeanDisparity | None:
    """Return a disparity's mean over the seeds where it is estimable; None if there are too few.

    Of several seeds at least two are needed: one covers its test rows only, not other trainings.

    Args:
        runs: one evaluation for each seed.
        name: of the disparity.
        shared: share of test rows that two seeds have in common, 0 to 1.
    """
    estimable = [run for run in runs if run.disparity[name] is not None]
    if len(estimable) < max(min(len(runs), 2), 1):
        return None
    values = np.array([run.disparity[name] for run in estimable], dtype=np.float64)
    ends = np.array([run.interval[name] for run in estimable], dtype=np.float64)
    if name == "client_parity":
        disparity = mean_range(values, ends[:, 1], *_client_losses(estimable), shared)
    else:
        tables = [confusion_of(run.groups) * _is_compared(run, name) for run in estimable]
        bands = notion_bands(name, np.stack(tables))
        disparity = mean_disparity(values, ends[:, 1], bands, shared)
    # One run's interval is its own: read again from rounded counts it might differ in a digit.
    return disparity._replace(low=ends[0, 0], high=ends[0, 1]) if len(estimable) == 1 else disparity


def least_disparity(
    runs: Sequence[Evaluation], name: str, shared: float, level: float
) -> float | None:
    """Return the lower end of a disparity's interval at a level of choice; None if not estimable.

    Args:
        runs: one evaluation for each seed.
        name: of the disparity; the interval of client parity has the usual level.
        shared: share of test rows that two seeds have in common, 0 to 1.
        level: share of intervals that cover the disparity.
    """
    if name == "client_parity" or any(run.disparity[name] is None for run in runs):
        disparity = disparity_over_seeds(runs, name, shared)
        return None if disparity is None else float(disparity.low)
    tables = [confusion_of(run.groups) * _is_compared(run, name) for run in runs]
    values = np.array([run.disparity[name] for run in runs], dtype=np.float64)
    bands = notion_bands(name, np.stack(tables), level=level)
    return float(mean_disparity(values, values, bands, shared).low)


def chance_of(run: Evaluation) -> dict[str, Chance | None]:
    """Return what chance alone shows beside every disparity of a run; None where not estimable."""
    return {
        name: None if value is None else chance_beside(run, name, value)
        for name, value in run.disparity.items()
    }


def chance_beside(run: Evaluation, name: str, value: float) -> Chance | None:
    """Return what chance alone shows beside one disparity.

    Args:
        run: the evaluation.
        name: of the disparity.
        value: the disparity.
    """
    if name == "client_parity":
        _, [variance] = _client_losses([run])
        return expect_losses_by_chance(variance, value)
    k, n = notion_blocks(name, (confusion_of(run.groups) * _is_compared(run, name))[None])
    if len(run.groups) < 2:
        return None
    draws = draw_blind_disparities(k[0], n[0], MINIMUM_ROWS)
    # Two groups' largest gap is their difference times the larger share of the rows.
    return summarize_draws(draws * n.sum() / n.max() if name == "spd" else draws, value)


def summarise_seeds(runs: Sequence[Evaluation], shared: float) -> Figures:
    """Return mean, standard deviation and interval of accuracy and of each disparity over seeds.

    Args:
        runs: one evaluation for each seed.
        shared: share of test rows that two seeds have in common.

    """
    means = summarise(runs)
    return Figures(
        accuracy=_with_interval(means.accuracy, accuracy_interval(runs, shared)),
        disparity={
            name: _with_interval(mean, interval_of(disparity_over_seeds(runs, name, shared)))
            for name, mean in means.disparity.items()
        },
    )


def _with_interval(statistic: Statistic, interval: Interval | None) -> Statistic:
    return msgspec.structs.replace(statistic, ends=interval)


def interval_of(disparity: MeanDisparity | None) -> Interval | None:
    """Return the ends of an interval as plain values."""
    return None if disparity is None else _plain((disparity.low, disparity.high))


def _plain(ends: tuple[Any, Any]) -> Interval:
    low, high = ends
    return float(low), float(high)


def accuracy_difference(
    runs: Sequence[Evaluation], other_runs: Sequence[Evaluation], shared: float
) -> Estimate:
    """Return the mean difference of two methods' accuracies, seed by seed, with its interval.

    Args:
        runs: evaluations of the first method, by seed.
        other_runs: evaluations of the second method, for the same seeds.
        shared: share of test rows that two seeds have in common, 0 to 1.
    """
    (rates, rows), (others, _) = _accuracies(runs), _accuracies(other_runs)
    ends = difference_of_rates(rates, others, rows, shared)
    return Estimate(mean=float(np.mean(rates - others)), interval=_plain(ends))


def disparity_difference(
    runs: Sequence[Evaluation], other_runs: Sequence[Evaluation], name: str, shared: float
) -> Estimate:
    """Return the mean difference of two methods' disparities, over seeds where both have one.

    Args:
        runs: evaluations of the first method, by seed.
        other_runs: evaluations of the second method, for the same seeds.
        name: of the disparity.
        shared: share of test rows that two seeds have in common, 0 to 1.
    """
    pairs = [
        pair
        for pair in zip(runs, other_runs, strict=True)
        if all(run.disparity[name] is not None for run in pair)
    ]
    values = np.array([[run.disparity[name] for run in pair] for pair in pairs], dtype=np.float64)
    by_seed = values[:, 0] - values[:, 1] if pairs else np.zeros(0)
    mean = float(by_seed.mean()) if pairs else None
    ours, theirs = (
        disparity_over_seeds([pair[side] for pair in pairs], name, shared) for side in (0, 1)
    )
    if ours is None or theirs is None or len(pairs) < min(len(runs), 2):
        return Estimate(mean=mean, interval=None)
    ends = difference_of_disparities(ours, theirs, by_seed)
    return Estimate(mean=mean, interval=_plain(ends))


def _accuracies(runs: Sequence[Evaluation]) -> tuple[Float[Array, " s"], Float[Array, " s"]]:
    rates = np.array([run.accuracy for run in runs], dtype=np.float64)
    return rates, np.array([run.rows for run in runs], dtype=np.float64)


def _client_losses(
    runs: Sequence[Evaluation],
) -> tuple[Float[Array, "s i"], Float[Array, "s i"]]:
    """Return mean losses and their variances by seed, of the clients that all seeds have."""
    losses = np.array([[client.loss for client in run.clients] for run in runs], np.float64)
    variances = np.array(
        [[client.loss_variance for client in run.clients] for run in runs], np.float64
    )
    left_out = {name for run in runs for name in run.not_estimable["client_parity"]}
    compared = np.array([client.name not in left_out for client in runs[0].clients], dtype=bool)
    return losses[:, compared], variances[:, compared]


def round_rows(
    history: Sequence[RoundRecord], runs: int, notion: str, minimum: int = 1
) -> list[tuple[Round, ...]]:
    """Return the rounds of every run of a grid.

    Accuracy and disparity are None for a method without a common model: a round has no model to
    look at.

    Args:
        history: the rounds of one seed.
        runs: number of runs of the grid.
        notion: long name of the notion whose disparity is returned.
        minimum: least training rows of a group that enters the disparity.
    """
    rounds = [
        _rows(number, record, runs, notion, minimum)
        for number, record in enumerate(history, start=1)
    ]
    return [tuple(of_runs[run] for of_runs in rounds) for run in range(runs)]


def _rows(number: int, record: RoundRecord, runs: int, notion: str, minimum: int) -> list[Round]:
    """Return one round of every run."""
    signal, lam, confusion = record
    nothing: list[Any] = [None] * runs
    if notion == "client_parity":
        disparity = nothing if signal is None else _ranges_with_reference(signal).tolist()
    else:
        disparity = (
            nothing
            if confusion is None
            else nan_to_none(disparity_value(notion, confusion, minimum))
        )
    signals = nothing if signal is None else signal.tolist()
    weights = nothing if lam is None else lam.tolist()
    accuracies = nothing if confusion is None else _round_accuracies(confusion).tolist()
    return [
        Round(round=number, signal=s, lam=weight, accuracy=accuracy, disparity=d)
        for s, weight, accuracy, d in zip(signals, weights, accuracies, disparity, strict=True)
    ]


def _round_accuracies(confusion: Float[Array, "r 2 2 a"]) -> Float[Array, " r"]:
    right = confusion[:, 0, 0] + confusion[:, 1, 1]
    return right.sum(axis=1) / confusion.sum(axis=(1, 2, 3))


def _ranges_with_reference(signal: Float[Array, "r i"]) -> Float[Array, " r"]:
    """Return the range of the clients' losses from their distances to the reference's.

    The reference's own distance is 0.
    """
    return np.maximum(signal.max(axis=1), 0.0) - np.minimum(signal.min(axis=1), 0.0)
