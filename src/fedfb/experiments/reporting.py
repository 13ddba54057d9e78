"""The result of an experiment: every seed's results, means over seeds, what fairness cost."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import asdict as fields_of

from fedfb.core import Examples, Prediction
from fedfb.data import Federation
from fedfb.data.notes import ON_TRAINING_ROWS
from fedfb.data.repeats import copied_share
from fedfb.engine import explain_engine
from fedfb.experiments.attained import measure_training
from fedfb.experiments.codec import SCHEMA
from fedfb.experiments.evaluate import (
    cross_entropy,
    evaluate,
    few_of,
    mean_and_std,
    summarise,
)
from fedfb.experiments.result import (
    EngineChoice,
    Figures,
    Picked,
    Result,
    Summary,
    TriedSetting,
    Tuning,
)
from fedfb.experiments.secure import single_tasks
from fedfb.experiments.seed_result import (
    DivergedSeeds,
    Divergence,
    Evaluation,
    MethodAccount,
    Privacy,
    Quality,
    SeedResult,
    Setting,
)
from fedfb.experiments.seeds import chance_of, round_rows, summarise_seeds
from fedfb.experiments.shortfalls import find_shortfalls, other_notes, unshown_misses
from fedfb.experiments.spec import Resolved
from fedfb.experiments.train import Fitted, FittedGrid
from fedfb.experiments.tune import Choice, Choices
from fedfb.notions import long_name
from fedfb.runtime import RoundRecord
from fedfb.runtime.ledger import NEEDED, RECEIVED
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
        measure_training(history, run, notion, target, result, minimum)
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
        for key in ("at_bound", "left_out")
        if key in account
    }
    return msgspec.convert({**account, **named}, MethodAccount)


def make_result(
    experiment: Resolved,
    notes: Sequence[str],
    groups: Sequence[str],
    number: int,
    results: Sequence[Sequence[SeedResult]],
    choices: Choices,
    shared: float,
) -> Result:
    """Return the result of all seeds and settings together.

    There is one summary for the whole result only where there is one setting.

    Args:
        experiment: a resolved experiment.
        notes: what reading the data has to report.
        groups: names of the groups.
        number: how many settings were asked for. Results beyond belong to the free model, which
            shows what fairness costs.
        results: by seed, then by setting.
        choices: what was chosen on validation rows.
        shared: share of test rows that two seeds have in common, 0 to 1.
    """
    free = [of_seed[-1] for of_seed in results if len(of_seed) > number]
    # A cost of fairness needs the free model of every seed.
    free = [] if any(run.diverged for run in free) else free
    summaries = [
        _summary([of_seed[place] for of_seed in results], free, shared) for place in range(number)
    ]
    result = Result(
        schema=SCHEMA,
        data=experiment.data,
        model=experiment.model,
        algorithm=experiment.algorithm,
        notion=long_name(experiment.notion),
        settings=plain(asdict(experiment)),
        engine=EngineChoice(**explain_engine(experiment.engine, experiment.model)._asdict()),
        runs=tuple(
            msgspec.structs.replace(run, chance=chance_of(run)) if number == 1 else run
            for of_seed in results
            for run in of_seed[:number]
        ),
        summary=figures_of(summaries[0]) if number == 1 else None,
        summaries=tuple(summaries),
        tuning=None if choices.common is None else Tuning(**_choice(choices.common)),
        picked=tuple(
            Picked(seed=seed, **_choice(choice)) for seed, choice in choices.by_seed.items()
        ),
        privacy=_privacy_over_seeds([of_seed[0] for of_seed in results]),
        notes=(*_diverged_notes(summaries, choices), *notes, *single_notes(experiment, results)),
        groups=tuple(groups),
        experiment_hash=experiment.hash,
        shared_test_rows=shared,
        shortfalls=(),
    )
    return with_shortfalls(result)


def figures_of(summary: Summary) -> Figures:
    """Return the figures of a summary, without its setting."""
    return Figures(**{name: getattr(summary, name) for name in Figures.__struct_fields__})


def _diverged_notes(summaries: Sequence[Summary], choices: Choices) -> list[str]:
    """Say which settings diverged, of those that were asked for and of those that were tried."""
    notes = [
        f"training diverged in round {where.round}, with seed "
        f"{', '.join(map(str, where.seeds))}: {_in_words(summary.settings)}"
        for summary in summaries
        if (where := summary.diverged)
    ]
    every = [choices.common, *choices.by_seed.values()]
    tried = [_in_words(setting) for choice in every if choice for setting, _ in choice.diverged]
    if tried:
        notes.append(f"diverged on validation rows, not chosen: {'; '.join(dict.fromkeys(tried))}")
    return notes


def _in_words(setting: Mapping[str, float]) -> str:
    return ", ".join(f"{knob} {value:g}" for knob, value in setting.items())


def with_shortfalls(result: Result) -> Result:
    """Put what a result does not keep at its head: typed, and as the first of its notes."""
    shortfalls = tuple(find_shortfalls(result))
    first = [shortfall.sentence for shortfall in shortfalls]
    notes = tuple(dict.fromkeys([*first, *unshown_misses(result), *other_notes(result)]))
    return msgspec.structs.replace(result, shortfalls=shortfalls, notes=notes)


def single_notes(experiment: Resolved, results: Sequence[Sequence[SeedResult]]) -> list[str]:
    """Say for which tasks a method needs each client's upload; empty where sums are enough.

    Args:
        experiment: names the method.
        results: by seed, then by setting.
    """
    needed = {task for of_seed in results for run in of_seed for task in run.needs_single}
    if not needed:
        return []
    tasks = " and ".join(map(repr, sorted(needed)))
    return [f"{experiment.algorithm}: {NEEDED[1]} ({tasks}), and {RECEIVED[1]}"]


def _privacy_over_seeds(runs: Sequence[SeedResult]) -> Privacy | None:
    """Return the privacy of a result: that of the seed whose clients spent the most."""
    reports = [run.privacy for run in runs if run.privacy is not None]
    return max(reports, key=lambda privacy: privacy.most) if reports else None


def _summary(runs: Sequence[SeedResult], free: Sequence[SeedResult], shared: float) -> Summary:
    """Return means over seeds, and those of the free model with the accuracy given up for it.

    What seeds picked for themselves, and not alike, is left out of the settings.
    """
    first = runs[0].settings
    common = {k: v for k, v in first.items() if all(run.settings[k] == v for run in runs)}
    lost = [run for run in runs if run.diverged]
    if lost and (where := lost[0].diverged):
        # A mean over the seeds that went well would speak of these alone.
        seeds = tuple(run.seed for run in lost)
        diverged = DivergedSeeds(round=where.round, client=where.client, seeds=seeds)
        return _of_setting(msgspec.structs.replace(summarise(lost), diverged=diverged), common)
    means = summarise_seeds(runs, shared)
    if free:
        given_up = [
            other.accuracy - run.accuracy
            for run, other in zip(runs, free, strict=True)
            if other.accuracy is not None and run.accuracy is not None
        ]
        cost, of_free = mean_and_std(given_up), summarise_seeds(free, shared)
        means = msgspec.structs.replace(means, cost=cost, free=of_free)
    return _of_setting(means, common)


def _of_setting(figures: Figures, setting: Setting) -> Summary:
    return Summary(settings=setting, **fields_of(figures))


def _choice(choice: Choice) -> dict[str, Any]:
    """Return the fields of a choice that results have."""
    nothing = dict.fromkeys(("accuracy", "disparity", "loss", "off_target"))
    return {
        "chosen": dict(choice.setting),
        "accuracy_floor": choice.floor,
        "candidates": (
            *(TriedSetting(**candidate._asdict()) for candidate in choice.candidates),
            *(
                TriedSetting(setting=setting, **nothing, diverged=where)
                for setting, where in choice.diverged
            ),
        ),
    }


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return settings as JSON has them.

    >>> plain({"seeds": (0, 1)})
    {'seeds': [0, 1]}
    """
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
