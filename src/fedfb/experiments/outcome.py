"""Running an experiment: every seed, tuned where asked, evaluated on the test rows."""

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import blake2b
from os import cpu_count
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from fedfb.algorithms import find_method
from fedfb.core import Examples
from fedfb.data import Federation, hold_out, load
from fedfb.errors import ConfigError
from fedfb.experiments.evaluation import Record, evaluate, summarise
from fedfb.experiments.fit import Fitted, fit
from fedfb.experiments.resolve import Setting, given_grid, resolve, tuning_grid
from fedfb.experiments.rounds import round_rows
from fedfb.experiments.spec import Experiment
from fedfb.experiments.tune import HELD_OUT, Choice, candidates, choose, validation_loss
from fedfb.notions import long_name
from fedfb.runtime import Progress, Saving

OnRound = Callable[[Progress], None]


@dataclass(frozen=True)
class Outcome:
    """What an experiment came to: the report as JSON-ready values, and the models by seed."""

    experiment: Experiment
    report: Record
    fitted: tuple[Fitted, ...]
    federation: Federation


def run(
    experiment: Experiment,
    *,
    checkpoints: Path | None = None,
    jobs: int | None = None,
    on_round: OnRound = lambda progress: None,
) -> Outcome:
    """Run an experiment and return its outcome.

    With a folder for checkpoints it goes on where it stopped.

    >>> tiny = Experiment(rows=200, test_rows=200, rounds=1, local_epochs=1)
    >>> sorted(run(tiny).report["summary"])
    ['accuracy', 'disparity']
    """
    tried, experiment = tuning_grid(experiment), resolve(experiment)
    federations = _federations(experiment)
    work = _Work(experiment, federations, checkpoints, jobs or cpu_count() or 1, on_round)
    choice = _tuned(work, tried) if experiment.tune else None
    settings = [choice.setting] if choice else given_grid(experiment)
    fitted = work.for_each_seed(
        lambda seed, on_round: fit(
            experiment, federations[seed], settings, seed, work.saving("run", seed), on_round
        )
    )
    records = [_records(experiment, one, federations[one.seed]) for one in fitted]
    first = federations[experiment.seeds[0]]
    report = _report(experiment, first, settings, records, choice)
    return Outcome(experiment, report, tuple(fitted), first)


@dataclass(frozen=True)
class _Work:
    """What the phases of an experiment have in common."""

    experiment: Experiment
    federations: dict[int, Federation]
    checkpoints: Path | None
    jobs: int
    on_round: OnRound

    def for_each_seed(self, task: Callable[[int, OnRound], Any]) -> list[Any]:
        """Run a task for every seed, on threads; when one fails, the others end with their round.

        Small matrices gain nothing from threads of their own.
        """
        from threadpoolctl import threadpool_limits

        over = Event()

        def on_round(progress: Progress) -> None:
            if over.is_set():
                raise CancelledError
            self.on_round(progress)

        with threadpool_limits(limits=1), ThreadPoolExecutor(self.jobs) as pool:
            try:
                return list(pool.map(lambda seed: task(seed, on_round), self.experiment.seeds))
            finally:
                over.set()

    def saving(self, phase: str, seed: int) -> Saving | None:
        """Return where a seed's checkpoint lies; its owner is the experiment on just these rows."""
        if self.checkpoints is None:
            return None
        owner = f"{self.experiment.hash}-{fingerprint(self.federations[seed])}-{phase}"
        return Saving(self.checkpoints / f"{phase}-seed-{seed}.npz", owner)


def _federations(experiment: Experiment) -> dict[int, Federation]:
    cached = lru_cache(maxsize=None)(lambda split: load(experiment.request, split))
    return {seed: cached(experiment.split_of(seed)) for seed in experiment.seeds}


def fingerprint(federation: Federation) -> str:
    """Return a short name of the training rows: a checkpoint is never continued on others."""
    digest = blake2b(digest_size=8)
    for client in federation.clients:
        for part in (client.x, client.y, client.group):
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def _tuned(work: _Work, settings: Sequence[Setting]) -> Choice:
    """Train the grid on nine tenths of every client's rows and choose on the rest."""
    experiment, notion = work.experiment, long_name(work.experiment.notion)

    def try_out(seed: int, on_round: OnRound) -> tuple[list[Record], list[float], float]:
        federation, validation = hold_out(work.federations[seed], HELD_OUT, seed)
        _refuse_no_rows(validation)
        saving = work.saving("tune", seed)
        fitted = fit(experiment, federation, settings, seed, saving, on_round)
        prediction = fitted.predict(validation)
        records = evaluate(
            prediction, validation, federation.group_names, federation.client_names, minimum=1
        )
        return records, validation_loss(prediction, validation), records[0]["majority_accuracy"]

    tried = work.for_each_seed(try_out)
    records, losses, majorities = zip(*tried, strict=True)
    method = find_method(experiment.algorithm)
    measure = "local_disparity" if method.local else "disparity"
    found = candidates(settings, records, losses, notion, measure)
    return choose(found, method.fair, float(np.mean(majorities)), experiment.accuracy_floor)


def _refuse_no_rows(validation: Examples) -> None:
    if not len(validation.y):
        raise ConfigError(
            f"--tune sets {HELD_OUT:.0%} of every client's rows aside to choose on, and no client "
            "has enough to spare one. Add rows, or leave --tune out."
        )


def _records(experiment: Experiment, fitted: Fitted, federation: Federation) -> list[Record]:
    test = federation.test
    tested = evaluate(fitted.predict(test), test, federation.group_names, federation.client_names)
    notion = long_name(experiment.notion)
    return [
        {
            "seed": fitted.seed,
            "settings": dict(setting),
            **record,
            "rounds": round_rows(fitted.trained.history, run, notion),
        }
        for run, (setting, record) in enumerate(zip(fitted.settings, tested, strict=True))
    ]


def _report(
    experiment: Experiment,
    federation: Federation,
    settings: Sequence[Setting],
    records: Sequence[Sequence[Record]],
    choice: Choice | None,
) -> Record:
    """Put the records of all seeds and settings together; a summary needs one setting to be of."""
    summaries = [
        {"settings": dict(setting), **summarise([of_seed[number] for of_seed in records])}
        for number, setting in enumerate(settings)
    ]
    whole = summarise([of_seed[0] for of_seed in records]) if len(settings) == 1 else None
    return {
        "data": experiment.data,
        "model": experiment.model,
        "algorithm": experiment.algorithm,
        "notion": long_name(experiment.notion),
        "settings": _plain(asdict(experiment)),
        "runs": [record for of_seed in records for record in of_seed],
        "summary": whole,
        "summaries": summaries,
        "tuning": None if choice is None else _tuning_record(choice),
        "notes": list(federation.notes),
        "groups": list(federation.group_names),
        "experiment_hash": experiment.hash,
    }


def _tuning_record(choice: Choice) -> Record:
    return {
        "chosen": dict(choice.setting),
        "accuracy_floor": choice.floor,
        "candidates": [c._asdict() for c in choice.candidates],
    }


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
