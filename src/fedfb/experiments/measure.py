"""What one seed came to: measured on test rows, and training beside its target."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import asdict as fields_of

from fedfb.core import Examples, Prediction
from fedfb.data import Federation
from fedfb.data.notes import ON_TRAINING_ROWS
from fedfb.data.repeats import copied_share
from fedfb.experiments.evaluate import (
    cross_entropy,
    evaluate,
    few_of,
)
from fedfb.experiments.secure import single_tasks
from fedfb.experiments.seed_result import (
    Divergence,
    Evaluation,
    MethodAccount,
    Quality,
    SeedResult,
    Setting,
    Training,
)
from fedfb.experiments.seeds import round_rows
from fedfb.experiments.spec import Resolved
from fedfb.experiments.train import Fitted, FittedGrid
from fedfb.notions import long_name
from fedfb.notions.values import enough
from fedfb.runtime import RoundRecord
from fedfb.shapes import Array, Float


def seed_results(
    experiment: Resolved, grid: FittedGrid, federation: Federation
) -> list[SeedResult]:
    """Return one result for each setting of one seed; a setting that diverged has no figures.

    Args:
        experiment: what was trained.
        grid: the trained settings, and those that diverged.
        federation: the rows of the seed.
    """
    trained = iter(_trained_results(experiment, grid.fitted, grid.prediction, federation))
    results = [
        None if place in grid.diverged else next(trained) for place in range(len(grid.settings))
    ]
    # At least one setting has a result: `fit_grid` raises where all that are needed diverge.
    like = next(result for result in results if result is not None)
    return [
        without_figures(like, setting, grid.diverged[place]) if result is None else result
        for place, (setting, result) in enumerate(zip(grid.settings, results, strict=True))
    ]


def without_figures(like: SeedResult, setting: Setting, where: Divergence) -> SeedResult:
    """Return the result of a setting that diverged: without figures.

    Args:
        like: a result of the same seed, for its rows and names.
        setting: the setting that diverged.
        where: round and client of the divergence.
    """
    no_rates = dict.fromkeys(("positive_rate", "tpr", "fpr", "accuracy"))
    no_quality = dict.fromkeys(("accuracy", "loss", "loss_variance"))
    return SeedResult(
        seed=like.seed,
        settings=dict(setting),
        accuracy=None,
        balanced_accuracy=None,
        auc=None,
        disparity=dict.fromkeys(like.disparity),
        interval=dict.fromkeys(like.disparity),
        groups=tuple(msgspec.structs.replace(group, **no_rates) for group in like.groups),
        clients=tuple(
            msgspec.structs.replace(client, **no_quality, disparity=dict.fromkeys(client.disparity))
            for client in like.clients
        ),
        local_disparity=dict.fromkeys(like.local_disparity),
        four_fifths=None,
        not_estimable=dict.fromkeys(like.disparity, ()),
        majority_accuracy=like.majority_accuracy,
        loss=None,
        loss_spread=None,
        constant_loss=like.constant_loss,
        loss_error=None,
        copied=like.copied,
        at_one_half=None,
        method=MethodAccount(),
        needs_single=like.needs_single,
        rounds=(),
        training=None,
        privacy=like.privacy,
        diverged=where,
    )


def _trained_results(
    experiment: Resolved, fitted: Fitted, prediction: Prediction, federation: Federation
) -> list[SeedResult]:
    """Return what every trained setting is worth on the test rows.

    Where decisions are not simply scores of at least 1/2, ``at_one_half`` says what the scores
    alone would have come to: the rest is what thresholds did, or how models were mixed.
    """
    test = federation.test
    names = (federation.group_names, federation.client_names)
    notion = long_name(experiment.notion)
    plain = Prediction(prediction.score, (prediction.score >= 0.5).astype(np.float64))
    otherwise = bool(np.any(plain.decision != prediction.decision))
    few = few_of(federation, experiment.minimum_group)
    halves: list[Quality | None] = [None] * len(prediction.score)
    if otherwise:
        halves = [in_short(half) for half in evaluate(plain, test, *names, few=few)]
    tested = evaluate(prediction, test, *names, few=few)
    history = fitted.trained.history
    by_round = round_rows(history, len(tested), notion, experiment.minimum_group)
    constant, copied = training_figures(experiment, federation)
    privacy = fitted.privacy and fitted.privacy.account(federation.client_names)
    results = [
        SeedResult(
            seed=fitted.seed,
            settings=dict(setting),
            **fields_of(evaluation),
            **measure_loss(score, test, constant)._asdict(),
            copied=copied,
            at_one_half=half,
            method=with_names(account, notion, *names),
            needs_single=tuple(single_tasks(fitted.algorithm)),
            rounds=rounds,
            training=None,
            privacy=privacy,
        )
        for setting, evaluation, score, half, account, rounds in zip(
            fitted.settings,
            tested,
            prediction.score,
            halves,
            fitted.tell(),
            by_round,
            strict=True,
        )
    ]
    return with_training(results, history, experiment)


def with_training(
    results: Sequence[SeedResult], history: Sequence[RoundRecord], experiment: Resolved
) -> list[SeedResult]:
    """Return results with the distance of each run to its target on training rows.

    Args:
        results: one for each run of the grid.
        history: the rounds of the seed.
        experiment: names the notion and the least rows of a group.
    """
    notion, minimum = long_name(experiment.notion), experiment.minimum_group
    targets = [result.settings.get("target", 0.0) for result in results]
    trainings = [
        measure_training(history, run, notion, target, result, minimum, experiment.participation)
        for run, (result, target) in enumerate(zip(results, targets, strict=True))
    ]
    return [
        msgspec.structs.replace(result, training=training)
        for result, training in zip(results, trainings, strict=True)
    ]


def training_figures(
    experiment: Resolved, federation: Federation
) -> tuple[float | None, float | None]:
    """Return the share of positive labels in training, and of test rows with a copy there.

    Both are None where privacy hides rows. The share of copies is None also where only sums leave a
    client, or where training rows are evaluated.
    """
    if experiment.privacy_epsilon is not None:
        return None, None
    rows = sum(len(client.y) for client in federation.clients)
    share = sum(int(client.y.sum()) for client in federation.clients) / rows
    hidden = experiment.secure or ON_TRAINING_ROWS in federation.notes
    return share, None if hidden else copied_share(federation)


class Losses(NamedTuple):
    """Losses on test rows, as :class:`fedfb.experiments.result.SeedResult` has them."""

    loss: float | None = None
    loss_spread: float | None = None
    constant_loss: float | None = None
    loss_error: float | None = None


def measure_loss(score: Float[Array, " n"], test: Examples, constant: float | None) -> Losses:
    """Return the mean loss and its spread, and those of a constant score where one is given.

    Args:
        score: probability of the positive label.
        test: the rows.
        constant: the constant score, usually the share of positive labels in training.
    """
    loss = cross_entropy(score, test.y)
    if not len(loss):
        return Losses()
    losses = Losses(float(loss.mean()), float(loss.std()))
    if constant is None:
        return losses
    plain = cross_entropy(np.full(len(loss), constant), test.y)
    error = float((loss - plain).std() / len(loss) ** 0.5)
    return losses._replace(constant_loss=float(plain.mean()), loss_error=error)


def in_short(evaluation: Evaluation) -> Quality:
    """Return accuracy and disparities alone."""
    return Quality(accuracy=evaluation.accuracy, disparity=evaluation.disparity)


def with_names(
    account: Mapping[str, Any], notion: str, groups: Sequence[str], clients: Sequence[str]
) -> MethodAccount:
    """Return a method's account with names for its numbers: of groups, or of clients.

    Args:
        account: what ``Algorithm.tell`` returns for one run; what no field stands for is left out.
        notion: under client parity numbers are those of clients.
        groups: names of the groups.
        clients: names of the clients.
    """
    names = clients if notion == "client_parity" else groups
    named = {
        key: tuple(names[number] for number in account[key])
        for key in ("at_bound", "idle", "left_out")
        if key in account
    }
    return msgspec.convert({**account, **named}, MethodAccount)


REACHED = 0.005
"""A training disparity this near to the target counts as the target."""

_LEVEL = 0.95
"""Gaps that so many draws of groups with equal rates stay below are within chance."""

CLIENT_PARITY = "client_parity"


def measure_training(
    history: Sequence[RoundRecord],
    run: int,
    notion: str,
    target: float,
    result: SeedResult,
    minimum: int = 1,
    share: float = 1.0,
) -> Training | None:
    """Return the training disparity of a run that has a target, and whether it missed the target.

    A group's gap counts as a miss only beyond the target and what chance shows for so many rows.

    Args:
        history: the rounds of the seed; with training rows by label, decision and group, or
            without, where nobody looked at them.
        run: the place of the run on the run axis.
        notion: the long name of the notion that was trained for.
        target: the disparity that was asked for.
        result: the run, with the method's account and test figures.
        minimum: least training rows of a group that is compared.
        share: share of the clients that the history is of. Where it is below 1 all clients have
            measured the disparity of the chosen round, and it is not known of which group.
    """
    off = result.method.off_target
    if off is None:
        return None

    def training(missed: bool) -> Training:
        return Training(target=target, disparity=target + off, missed=missed)

    if off <= REACHED:
        return training(missed=False)
    if result.method.thresholds is not None:
        rows = _rows_and_positives(result)[0] if notion != CLIENT_PARITY else np.ones((2, 1))
        return training(missed=off > _one_row(rows))
    if notion == CLIENT_PARITY:
        return training(missed=off > _client_chance(history, result))
    gaps, rows, rate = _gaps(history, run, notion, result, minimum)
    allowed = np.maximum(chance(rows / share, rate), REACHED)
    if share < 1:
        return training(missed=bool(off > allowed[np.isfinite(allowed)].max(initial=REACHED)))
    beyond = np.abs(gaps) - target > allowed
    return training(missed=bool(beyond.any()))


def chance(rows: Float[Array, "b a"], rate: Float[Array, "b 1"]) -> Float[Array, "b a"]:
    r"""Return how far the rates of groups may lie from the common rate by chance.

    .. math:: z\sqrt{p(1-p)\left(\tfrac1{n_a}-\tfrac1n\right)}

    with the normal quantile z of ``_LEVEL`` for all k gaps together (Bonferroni).

    Args:
        rows: rows by block and group; 0 where the group is not compared.
        rate: common rate of each block.

    >>> chance(np.array([[1000.0, 1000.0]]), np.array([[0.5]])).round(3)
    array([[0.025, 0.025]])
    """
    from statistics import NormalDist  # here: few runs need it

    compared = rows > 0
    z = NormalDist().inv_cdf(1 - (1 - _LEVEL) / 2 / max(int(compared.sum()), 1))
    inverse = 1 / np.where(compared, rows, 1.0) - 1 / np.maximum(rows.sum(axis=1), 1.0)[:, None]
    return np.where(compared, z * np.sqrt(rate * (1 - rate) * np.maximum(inverse, 0.0)), np.inf)


def _gaps(
    history: Sequence[RoundRecord], run: int, notion: str, result: SeedResult, minimum: int
) -> tuple[Float[Array, "b a"], Float[Array, "b a"], Float[Array, "b 1"]]:
    """Return the training gaps of the chosen round by block and group, their rows and rates.

    Where nobody looked at training rows, the gaps are the signal's, and the rows those of the test.
    """
    number = result.method.chosen_round or len(history)
    signal, _, confusion = history[number - 1]
    rows, positives = (
        _rows_and_positives(result)
        if confusion is None
        else (confusion[run].sum(axis=1), confusion[run][:, 1])
    )
    rows, positives = _blocks(notion, rows), _blocks(notion, positives)
    if confusion is not None:
        compared = enough(rows, minimum)
        rows, positives = np.where(compared, rows, 0.0), np.where(compared, positives, 0.0)
    rate = positives.sum(axis=1, keepdims=True) / np.maximum(rows.sum(axis=1, keepdims=True), 1.0)
    if confusion is not None or signal is None or signal[run].size != rows.size:
        return positives / np.where(rows > 0, rows, 1.0) - rate, rows, rate
    gaps = signal[run].reshape(rows.shape)
    centre = (gaps * rows).sum(axis=1, keepdims=True) / np.maximum(rows.sum(axis=1), 1.0)[:, None]
    return gaps - centre, rows, rate


def _blocks(notion: str, by_label: Float[Array, "2 a"]) -> Float[Array, "b a"]:
    """Return counts by label and group as the notion compares them: by label, or all together."""
    if notion == "equalized_odds":
        return by_label
    return by_label[1:] if notion == "equal_opportunity" else by_label.sum(axis=0, keepdims=True)


def _rows_and_positives(result: SeedResult) -> tuple[Float[Array, "2 a"], Float[Array, "2 a"]]:
    """Return the test rows by label and group, and how many of them are decided positively."""
    groups = result.groups
    rows = np.array([[g.n - g.positives, g.positives] for g in groups], float).T
    rates = np.array([[g.fpr or 0.0, g.tpr or 0.0] for g in groups]).T
    return rows, rows * rates


def _one_row(rows: Float[Array, "2 a"]) -> float:
    """Return by how much one row moves a rate: no threshold can come nearer."""
    return max(REACHED, float(1 / rows[rows > 0].min(initial=np.inf)))


def _client_chance(history: Sequence[RoundRecord], result: SeedResult) -> float:
    """Return how far clients' mean losses lie apart by chance: their range, or its mean square."""
    clients = result.clients
    rows = sum(client.n for client in clients)
    if not rows or result.loss_spread is None:
        return REACHED
    error = result.loss_spread * (len(clients) / rows) ** 0.5
    signal = history[-1].signal
    is_mean_square = signal is not None and signal[0].size == 1
    return max(REACHED, (2 if is_mean_square else 4) * float(error))
