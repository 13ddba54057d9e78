"""Running an experiment without training twice: seeds that the store has are read, not trained."""

from collections.abc import Mapping
from dataclasses import replace
from os import cpu_count
from typing import NamedTuple

from fedfb.data import Federation
from fedfb.experiments.evaluation import Record
from fedfb.experiments.outcome import OnRound, load_federations, run
from fedfb.experiments.records import Key, SeedRecord, Store, key_of, rows_digest, seed_records_of
from fedfb.experiments.reporting import make_report
from fedfb.experiments.resolve import resolve
from fedfb.experiments.seeds import shared_test_rows
from fedfb.experiments.spec import Experiment
from fedfb.experiments.tune import Choices


class Rows(NamedTuple):
    """The rows of every seed with their short names: loaded once, for any number of methods."""

    federations: Mapping[int, Federation]
    names: Mapping[int, str]


def load_rows(experiment: Experiment) -> Rows:
    """Read or draw the rows of every seed; seeds of one split share them."""
    federations = load_federations(experiment)
    names = {id(one): rows_digest(one) for one in federations.values()}
    return Rows(federations, {seed: names[id(one)] for seed, one in federations.items()})


def report_of(
    experiment: Experiment,
    store: Store | None,
    rows: Rows | None = None,
    *,
    jobs: int | None = None,
    on_round: OnRound = lambda progress: None,
) -> Record:
    """Return the report of an experiment, as :func:`fedfb.run` makes it, training what is missing.

    Seeds are trained a few at a time and kept at once, so that a kill loses no more than these.

    >>> tiny = Experiment(rows=200, test_rows=200, rounds=1, local_epochs=1)
    >>> report_of(tiny, None) == run(tiny).report
    True
    """
    rows = load_rows(experiment) if rows is None else rows
    resolved = resolve(experiment)
    keys = {seed: key_of(resolved, rows.names[seed], seed) for seed in experiment.seeds}
    found = _known(store, keys)
    missing = [seed for seed in experiment.seeds if seed not in found]
    if missing and experiment.tune:
        missing = list(experiment.seeds)  # what is tuned is chosen for all of them together
    size = len(missing) if experiment.tune else jobs or cpu_count() or 1
    for start in range(0, len(missing), size or 1):
        some = replace(experiment, seeds=tuple(missing[start : start + size]))
        outcome = run(some, jobs=jobs, on_round=on_round, federations=rows.federations, warn=False)
        for seed, record in seed_records_of(outcome).items():
            found[seed] = record
            _keep(store, keys[seed], record)
    return _report(resolved, rows.federations, found)


def _known(store: Store | None, keys: Mapping[int, Key | None]) -> dict[int, SeedRecord]:
    if store is None:
        return {}
    found = {seed: store.get(key) for seed, key in keys.items() if key is not None}
    return {seed: record for seed, record in found.items() if record is not None}


def _keep(store: Store | None, key: Key | None, record: SeedRecord) -> None:
    if store is not None and key is not None:
        store.put(key, record)


def _report(
    experiment: Experiment,
    federations: Mapping[int, Federation],
    found: Mapping[int, SeedRecord],
) -> Record:
    in_order = {seed: found[seed] for seed in experiment.seeds}
    first = found[experiment.seeds[0]]
    chosen = {seed: one.choice for seed, one in in_order.items() if one.choice is not None}
    # Where weights are solved for, every seed picks for itself, tuned or not.
    together = experiment.tune and experiment.outer != "solve"
    choices = Choices(common=first.choice) if together else Choices(by_seed=chosen)
    records = [one.records for one in in_order.values()]
    federation = federations[experiment.seeds[0]]
    shared = shared_test_rows(experiment, federations)
    return make_report(
        experiment, federation.notes, federation.group_names, first.number, records, choices, shared
    )
