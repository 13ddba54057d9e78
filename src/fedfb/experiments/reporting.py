"""The report of an experiment: every seed's record, means over seeds, what fairness cost."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from fedfb.core import Examples, Prediction
from fedfb.data import Federation
from fedfb.data.notes import ON_TRAINING_ROWS
from fedfb.data.repeats import copied_share
from fedfb.engine import explain_engine
from fedfb.experiments.attained import training_record
from fedfb.experiments.evaluate import (
    Record,
    cross_entropy,
    evaluate,
    few_of,
    mean_and_std,
    summarise,
)
from fedfb.experiments.secure import single_tasks
from fedfb.experiments.seeds import round_rows, summarise_seeds
from fedfb.experiments.shortfalls import as_records, other_notes, shortfalls
from fedfb.experiments.spec import Experiment
from fedfb.experiments.train import Divergence, Fitted, FittedGrid
from fedfb.experiments.tune import Candidate, Choice, Choices
from fedfb.notions import long_name
from fedfb.runtime import RoundRecord
from fedfb.runtime.ledger import NEEDED, RECEIVED
from fedfb.shapes import Array, Float


def seed_records(experiment: Experiment, grid: FittedGrid, federation: Federation) -> list[Record]:
    """Return one record per setting of one seed; one that diverged has no figures."""
    trained = iter(_trained_records(experiment, grid.fitted, grid.prediction, federation))
    records = [
        None if place in grid.diverged else next(trained) for place in range(len(grid.settings))
    ]
    like = next(record for record in records if record is not None)
    return [
        without_figures(like, setting, grid.diverged[place]) if record is None else record
        for place, (setting, record) in enumerate(zip(grid.settings, records, strict=True))
    ]


def without_figures(like: Record, setting: Mapping[str, float], where: Divergence) -> Record:
    """Return the record of a setting that diverged: the rows of another's, and no figures."""
    nothing = dict.fromkeys(like["disparity"])
    kept = ("seed", "majority_accuracy", "constant_loss", "copied", "needs_single", "privacy")
    return {
        **dict.fromkeys(like),
        **{name: like[name] for name in kept if name in like},
        "settings": dict(setting),
        "disparity": nothing,
        "interval": nothing,
        "not_estimable": {name: [] for name in nothing},
        "groups": [_only(group, "name", "n", "positives") for group in like["groups"]],
        "clients": [
            {**_only(client, "name", "n"), "disparity": dict.fromkeys(client["disparity"])}
            for client in like["clients"]
        ],
        "local_disparity": dict.fromkeys(like["local_disparity"]),
        "told": {},
        "rounds": [],
        "diverged": where._asdict(),
    }


def _only(record: Record, *names: str) -> Record:
    return {name: value if name in names else None for name, value in record.items()}


def _trained_records(
    experiment: Experiment, fitted: Fitted, prediction: Prediction, federation: Federation
) -> list[Record]:
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
    halves: list[Any] = [None] * len(prediction.score)
    if otherwise:
        halves = evaluate(plain, test, *names, few=few)
    tested = evaluate(prediction, test, *names, few=few)
    history = fitted.trained.history
    by_round = round_rows(history, len(tested), notion, experiment.minimum_group)
    constant, copied = training_figures(experiment, federation)
    records = [
        {
            "seed": fitted.seed,
            "settings": dict(setting),
            **record,
            **loss_figures(score, test, constant),
            "copied": copied,
            "at_one_half": None if half is None else in_short(half),
            "told": with_names(told, notion, *names),
            "needs_single": single_tasks(fitted.algorithm),
            **_privacy_of(fitted, federation),
            "rounds": rounds,
        }
        for setting, record, score, half, told, rounds in zip(
            fitted.settings,
            tested,
            prediction.score,
            halves,
            fitted.tell(),
            by_round,
            strict=True,
        )
    ]
    return with_training(records, history, experiment)


def with_training(
    records: Sequence[Record], history: Sequence[RoundRecord], experiment: Experiment
) -> list[Record]:
    """Add how near to its target each run came on training rows, where it has a target."""
    notion, minimum = long_name(experiment.notion), experiment.minimum_group
    targets = [record["settings"].get("target", 0.0) for record in records]
    return [
        {**record, "training": training_record(history, run, notion, target, record, minimum)}
        for run, (record, target) in enumerate(zip(records, targets, strict=True))
    ]


def training_figures(
    experiment: Experiment, federation: Federation
) -> tuple[float | None, float | None]:
    """Return the share of positive labels in training, and of test rows with a copy there.

    Neither is told where it is not the run's to tell: of rows that privacy hides, and of copies
    where only sums leave a client, or training rows are judged.
    """
    if experiment.privacy_epsilon is not None:
        return None, None
    rows = sum(len(client.y) for client in federation.clients)
    share = sum(int(client.y.sum()) for client in federation.clients) / rows
    hidden = experiment.secure or ON_TRAINING_ROWS in federation.notes
    return share, None if hidden else copied_share(federation)


def loss_figures(score: Float[Array, " n"], test: Examples, constant: float | None) -> Record:
    """Return the mean loss, that of the constant score, and the standard error of the difference.

    ``loss_spread`` is the standard deviation of the rows' losses.
    """
    loss = cross_entropy(score, test.y)
    found = {"loss": _mean(loss), "loss_spread": float(loss.std()) if len(loss) else None}
    if constant is None or not len(loss):
        return {**found, "constant_loss": None, "loss_error": None}
    plain = cross_entropy(np.full(len(loss), constant), test.y)
    error = float((loss - plain).std() / len(loss) ** 0.5)
    return {**found, "constant_loss": _mean(plain), "loss_error": error}


def _mean(values: Float[Array, " n"]) -> float | None:
    return float(values.mean()) if len(values) else None


def _privacy_of(fitted: Fitted, federation: Federation) -> Record:
    privacy = fitted.privacy
    return {} if privacy is None else {"privacy": privacy.record(federation.client_names)}


def in_short(record: Mapping[str, Any]) -> Record:
    """Return what is told of a run in a word or two."""
    return {name: record[name] for name in ("accuracy", "disparity")}


def with_names(
    told: Mapping[str, Any], notion: str, groups: Sequence[str], clients: Sequence[str]
) -> Record:
    """Call by their names what a method knows by number: groups, under client parity clients."""
    names = clients if notion == "client_parity" else groups
    numbered = {key: told[key] for key in ("at_bound", "left_out") if key in told}
    return {**told, **{key: [names[at] for at in value] for key, value in numbered.items()}}


def make_report(
    experiment: Experiment,
    notes: Sequence[str],
    groups: Sequence[str],
    number: int,
    records: Sequence[Sequence[Record]],
    choices: Choices,
    shared: float,
) -> Record:
    """Put the records of all seeds and settings together; a summary needs one setting to be of.

    ``shared`` is the share of test rows that two seeds have in common. Records beyond the
    ``number`` of settings are of the model that nothing was asked of: what fairness costs.
    """
    free = [of_seed[-1] for of_seed in records if len(of_seed) > number]
    free = [] if any(record.get("diverged") for record in free) else free
    summaries = [
        _summary([of_seed[place] for of_seed in records], free, shared) for place in range(number)
    ]
    one = {k: v for k, v in summaries[0].items() if k != "settings"}
    report = {
        "data": experiment.data,
        "model": experiment.model,
        "algorithm": experiment.algorithm,
        "notion": long_name(experiment.notion),
        "settings": plain(asdict(experiment)),
        "engine": explain_engine(experiment.engine, experiment.model)._asdict(),
        "runs": [record for of_seed in records for record in of_seed[:number]],
        "summary": one if number == 1 else None,
        "summaries": summaries,
        "tuning": None if choices.common is None else _tuning_record(choices.common),
        "picked": [
            {"seed": seed, **_tuning_record(choice)} for seed, choice in choices.by_seed.items()
        ],
        "privacy": _privacy_over_seeds([of_seed[0] for of_seed in records]),
        "notes": [*_diverged_notes(summaries, choices), *notes, *single_notes(experiment, records)],
        "groups": list(groups),
        "experiment_hash": experiment.hash,
        "shared_test_rows": shared,
    }
    return with_shortfalls(report)


def _diverged_notes(summaries: Sequence[Record], choices: Choices) -> list[str]:
    """Say which settings diverged, of those that were asked for and of those that were tried."""
    lost = [summary for summary in summaries if summary.get("diverged")]
    notes = [
        f"training diverged in round {where['round']}, with seed "
        f"{', '.join(map(str, where['seeds']))}: {_in_words(summary['settings'])}"
        for summary in lost
        if (where := summary["diverged"])
    ]
    every = [choices.common, *choices.by_seed.values()]
    tried = [_in_words(one["setting"]) for c in every if c for one in c.diverged]
    if tried:
        notes.append(f"diverged on validation rows, not chosen: {'; '.join(dict.fromkeys(tried))}")
    return notes


def _in_words(setting: Mapping[str, float]) -> str:
    return ", ".join(f"{knob} {value:g}" for knob, value in setting.items())


def with_shortfalls(report: Record) -> Record:
    """Put what a report does not keep at its head: typed, and as the first of its notes."""
    found = as_records(shortfalls(report))
    first = [one["sentence"] for one in found]
    return {**report, "shortfalls": found, "notes": [*first, *other_notes(report)]}


def single_notes(experiment: Experiment, records: Sequence[Sequence[Record]]) -> list[str]:
    """Say for which tasks a method needs every client's own answer; nothing of sums alone."""
    needed = {
        task for of_seed in records for one in of_seed for task in one.get("needs_single", ())
    }
    if not needed:
        return []
    tasks = " and ".join(map(repr, sorted(needed)))
    return [f"{experiment.algorithm}: {NEEDED[1]} ({tasks}), and {RECEIVED[1]}"]


def _privacy_over_seeds(records: Sequence[Record]) -> Record | None:
    """Return what privacy came to: of the seed whose silos spent the most."""
    known = [record["privacy"] for record in records if "privacy" in record]
    return max(known, key=lambda one: one["most"]) if known else None


def _summary(records: Sequence[Record], free: Sequence[Record], shared: float) -> Record:
    """Return means over seeds, and those of the free model with the accuracy given up for it.

    What seeds picked for themselves, and not alike, is left out of the settings.
    """
    first = records[0]["settings"]
    common = {k: v for k, v in first.items() if all(r["settings"][k] == v for r in records)}
    lost = [record for record in records if record.get("diverged")]
    if lost:
        # A mean over the seeds that went well would speak of these alone.
        nothing = summarise([{**record, "accuracy": None} for record in lost])
        seeds = [record["seed"] for record in lost]
        return {"settings": common, **nothing, "diverged": {**lost[0]["diverged"], "seeds": seeds}}
    means = {"settings": common, **summarise_seeds(records, shared)}
    if not free:
        return means
    given_up = [
        other["accuracy"] - one["accuracy"] for one, other in zip(records, free, strict=True)
    ]
    return {**means, "cost": mean_and_std(given_up), "free": summarise_seeds(free, shared)}


def _tuning_record(choice: Choice) -> Record:
    return {
        "chosen": dict(choice.setting),
        "accuracy_floor": choice.floor,
        "candidates": [
            *(candidate._asdict() for candidate in choice.candidates),
            *map(_without_result, choice.diverged),
        ],
    }


def _without_result(diverged: Mapping[str, Any]) -> Record:
    nothing = dict.fromkeys(Candidate._fields)
    where = {name: diverged[name] for name in ("round", "client")}
    return {**nothing, "setting": dict(diverged["setting"]), "diverged": where}


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return settings as JSON has them.

    >>> plain({"seeds": (0, 1)})
    {'seeds': [0, 1]}
    """
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
