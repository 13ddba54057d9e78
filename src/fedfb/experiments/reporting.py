"""The report of an experiment: every seed's record, means over seeds, what fairness cost."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from fedfb.core import Prediction
from fedfb.data import Federation
from fedfb.experiments.evaluation import Record, evaluate, few_of, mean_and_std, summarise
from fedfb.experiments.fit import Fitted
from fedfb.experiments.rounds import round_rows
from fedfb.experiments.secure import single_tasks
from fedfb.experiments.spec import Experiment
from fedfb.experiments.tune import Choice, Choices
from fedfb.notions import long_name
from fedfb.runtime.ledger import NEEDED, RECEIVED


def seed_records(experiment: Experiment, fitted: Fitted, federation: Federation) -> list[Record]:
    """Return one record per setting of one seed: what it is worth on the test rows.

    Where decisions are not simply scores of at least 1/2, ``at_one_half`` says what the scores
    alone would have come to: the rest is what thresholds did, or how models were mixed.
    """
    prediction, test = fitted.predict(federation.test), federation.test
    names = (federation.group_names, federation.client_names)
    notion = long_name(experiment.notion)
    plain = Prediction(prediction.score, (prediction.score >= 0.5).astype(np.float64))
    otherwise = bool(np.any(plain.decision != prediction.decision))
    few = few_of(federation, experiment.minimum_group)
    halves: list[Any] = [None] * len(prediction.score)
    if otherwise:
        halves = evaluate(plain, test, *names, few=few)
    tested = evaluate(prediction, test, *names, few=few)
    by_round = round_rows(fitted.trained.history, len(tested), notion, experiment.minimum_group)
    return [
        {
            "seed": fitted.seed,
            "settings": dict(setting),
            **record,
            "at_one_half": None if half is None else in_short(half),
            "told": with_names(told, notion, *names),
            "needs_single": single_tasks(fitted.algorithm),
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
) -> Record:
    """Put the records of all seeds and settings together; a summary needs one setting to be of.

    Records beyond the ``number`` of settings are of the model that nothing was asked of: what
    fairness costs.
    """
    free = [of_seed[-1] for of_seed in records if len(of_seed) > number]
    summaries = [_summary([of_seed[place] for of_seed in records], free) for place in range(number)]
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
        "notes": [*notes, *single_notes(experiment, records)],
        "groups": list(groups),
        "experiment_hash": experiment.hash,
    }


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


def _summary(records: Sequence[Record], free: Sequence[Record]) -> Record:
    """Return means over seeds, and those of the free model with the accuracy given up for it.

    What seeds picked for themselves, and not alike, is left out of the settings.
    """
    first = records[0]["settings"]
    common = {k: v for k, v in first.items() if all(r["settings"][k] == v for r in records)}
    means = {"settings": common, **summarise(records)}
    if not free:
        return means
    given_up = [
        other["accuracy"] - one["accuracy"] for one, other in zip(records, free, strict=True)
    ]
    return {**means, "cost": mean_and_std(given_up), "free": summarise(free)}


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
