"""The report of an experiment: every seed's record, means over seeds, what fairness cost."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from fedfb.core import Prediction
from fedfb.data import Federation
from fedfb.experiments.evaluation import Record, evaluate, mean_and_std
from fedfb.experiments.fit import Fitted
from fedfb.experiments.rounds import round_rows
from fedfb.experiments.seeds import summarise_seeds
from fedfb.experiments.spec import Experiment
from fedfb.experiments.tune import Choice, Choices
from fedfb.notions import long_name


def seed_records(experiment: Experiment, fitted: Fitted, federation: Federation) -> list[Record]:
    """Return one record per setting of one seed: what it is worth on the test rows.

    Where decisions are not simply scores of at least 1/2, ``at_one_half`` says what the scores
    alone would have come to: the rest is what thresholds did.
    """
    prediction, test = fitted.predict(federation.test), federation.test
    names = (federation.group_names, federation.client_names)
    notion = long_name(experiment.notion)
    plain = Prediction(prediction.score, (prediction.score >= 0.5).astype(np.float64))
    by_thresholds = bool(np.any(plain.decision != prediction.decision))
    halves = evaluate(plain, test, *names) if by_thresholds else [None] * len(prediction.score)
    tested = evaluate(prediction, test, *names)
    by_round = round_rows(fitted.trained.history, len(tested), notion)
    return [
        {
            "seed": fitted.seed,
            "settings": dict(setting),
            **record,
            "at_one_half": None if half is None else in_short(half),
            "told": with_names(told, federation.group_names),
            **_privacy_of(fitted, federation),
            "rounds": rounds,
        }
        for setting, record, half, told, rounds in zip(
            fitted.settings, tested, halves, fitted.tell(), by_round, strict=True
        )
    ]


def _privacy_of(fitted: Fitted, federation: Federation) -> Record:
    privacy = fitted.privacy
    return {} if privacy is None else {"privacy": privacy.record(federation.client_names)}


def in_short(record: Mapping[str, Any]) -> Record:
    """Return what is told of a run in a word or two."""
    return {name: record[name] for name in ("accuracy", "disparity")}


def with_names(told: Mapping[str, Any], names: Sequence[str]) -> Record:
    """Call groups by their names: a method knows only their numbers."""
    numbered = ("at_bound", "left_out")
    return {
        key: [names[number] if number < len(names) else number for number in value]
        if key in numbered
        else value
        for key, value in told.items()
    }


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
    summaries = [
        _summary([of_seed[place] for of_seed in records], free, shared) for place in range(number)
    ]
    one = {k: v for k, v in summaries[0].items() if k != "settings"}
    return {
        "data": experiment.data,
        "model": experiment.model,
        "algorithm": experiment.algorithm,
        "notion": long_name(experiment.notion),
        "settings": plain(asdict(experiment)),
        "runs": [record for of_seed in records for record in of_seed[:number]],
        "summary": one if number == 1 else None,
        "summaries": summaries,
        "tuning": None if choices.common is None else _tuning_record(choices.common),
        "picked": [
            {"seed": seed, **_tuning_record(choice)} for seed, choice in choices.by_seed.items()
        ],
        "privacy": _privacy_over_seeds([of_seed[0] for of_seed in records]),
        "notes": list(notes),
        "groups": list(groups),
        "experiment_hash": experiment.hash,
        "shared_test_rows": shared,
    }


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
        "candidates": [c._asdict() for c in choice.candidates],
    }


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return settings as JSON has them.

    >>> plain({"seeds": (0, 1)})
    {'seeds': [0, 1]}
    """
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
