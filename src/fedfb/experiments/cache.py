"""The cache of experiments: the record of every seed, so that no seed is trained twice.

The key of a record contains all that the record depends on: settings, rows, seed, code, libraries
and processor instructions. A record therefore needs no date and is never out of date.
"""

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from os import cpu_count
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

import fedfb
from fedfb.algorithms import find_method
from fedfb.data import Federation
from fedfb.errors import WriteError
from fedfb.experiments.outcome import OnRound, Outcome, fingerprint, load_federations, train
from fedfb.experiments.reporting import make_result
from fedfb.experiments.resolve import resolve
from fedfb.experiments.result import Result
from fedfb.experiments.run_folder import versions
from fedfb.experiments.seed_result import SeedResult, Value
from fedfb.experiments.seeds import shared_test_rows
from fedfb.experiments.spec import Experiment, Resolved
from fedfb.experiments.tune import Choice, Choices
from fedfb.files import CHANGED, say, write_whole, writing
from fedfb.models import is_own

_Key = Mapping[str, Any]
"""All that a record depends on, as JSON values."""

WITHOUT_RESULTS = ("cli", "report", "theory")
"""Parts of the library that no result depends on."""


class SeedRecord(Value, frozen=True, kw_only=True):
    """The record of one seed: a result for each setting, then one for the free model.

    ``number`` is how many settings were asked for, ``choice`` what the seed chose for itself.
    """

    number: int
    results: tuple[SeedResult, ...]
    choice: Choice | None = None


class _Entry(SeedRecord, frozen=True, kw_only=True):
    """A record as the store writes it."""

    key: Mapping[str, Any]


def seed_records_of(outcome: Outcome) -> dict[int, SeedRecord]:
    """Return the records of an outcome, by seed."""
    number, choices = len(outcome.result.summaries), outcome.choices
    return {
        seed: SeedRecord(
            number=number,
            results=tuple(results),
            choice=choices.common or choices.by_seed.get(seed),
        )
        for seed, results in zip(outcome.experiment.seeds, outcome.by_seed, strict=True)
    }


def default_folder() -> Path:
    """Return the folder of records: ``$FEDFB_STORE``, else in the user's cache."""
    named = os.environ.get("FEDFB_STORE")
    if named:
        return Path(named)
    cached = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cached) / "fedfb" / "runs"


def key_of(experiment: Resolved, rows: str, seed: int) -> _Key | None:
    """Return all that the record of a seed depends on; None where part of it is unknown.

    A method or model from a user's own file may change without a change of its name. What is tuned,
    and the features, are chosen for all seeds together, so all of them belong to the key.

    Args:
        experiment: a resolved experiment.
        rows: the name of its rows, see :func:`rows_digest`.
        seed: the seed of the record.
    """
    if find_method(experiment.algorithm).make.__module__.partition(".")[0] != fedfb.__name__:
        return None
    if is_own(experiment.model):
        return None
    in_company = experiment.tune or experiment.features == "auto"
    return {
        "experiment": experiment.hash,
        "rows": rows,
        "seed": seed,
        "company": list(experiment.seeds) if in_company else [],
        "code": code_digest(),
        "versions": versions(experiment),
    }


def rows_digest(federation: Federation) -> str:
    """Return a digest of all rows, test rows included, and of the names of groups and clients."""
    digest = hashlib.blake2b(fingerprint(federation).encode(), digest_size=16)
    for part in federation.test:
        digest.update(np.ascontiguousarray(part).data)
    names = [federation.group_names, federation.client_names, federation.notes]
    digest.update(json.dumps(names).encode())
    return digest.hexdigest()


@cache
def code_digest() -> str:
    """Return a digest of the code that makes results: other code never reads these records."""
    root = Path(fedfb.__file__).parent
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if path.suffix in (".py", ".c", ".h") and inside.parts[0] not in WITHOUT_RESULTS:
            digest.update(str(inside).encode() + path.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Store:
    """A folder of records. A record that cannot be read or written is trained again."""

    folder: Path
    say: Callable[[str], None] = say

    def get(self, key: _Key) -> SeedRecord | None:
        """Return the record of a key; None if no record can be read."""
        path = self.path(key)
        try:
            entry = msgspec.json.decode(gzip.decompress(path.read_bytes()), type=_Entry)
            if entry.key != key:
                raise ValueError("it belongs to another experiment")
            return SeedRecord(number=entry.number, results=entry.results, choice=entry.choice)
        except FileNotFoundError:
            return None
        except (OSError, EOFError, zlib.error, *CHANGED) as error:
            self.say(f"The record {path} cannot be read ({error}): trained again.")
            return None

    def put(self, key: _Key, seed: SeedRecord) -> None:
        """Write a record: the whole file, or nothing."""
        path = self.path(key)
        entry = _Entry(key=key, **msgspec.structs.asdict(seed))
        content = json.dumps(msgspec.to_builtins(entry), allow_nan=False).encode()
        try:
            with writing(path.parent):
                path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, gzip.compress(content, compresslevel=4, mtime=0))
        except WriteError as error:
            self.say(f"A record is not kept: {error}")

    def path(self, key: _Key) -> Path:
        """Return the file of a record."""
        name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:40]
        return self.folder / name[:2] / f"{name}.json.gz"


class _Rows(NamedTuple):
    """The rows of every seed with their short names: loaded once, for any number of methods."""

    federations: Mapping[int, Federation]
    names: Mapping[int, str]


def load_rows(experiment: Experiment) -> _Rows:
    """Read or draw the rows of every seed; seeds of one split share them."""
    federations = load_federations(experiment)
    # Seeds of one split share one object: its rows are read once for all of them.
    names = {id(federation): rows_digest(federation) for federation in federations.values()}
    return _Rows(
        federations, {seed: names[id(federation)] for seed, federation in federations.items()}
    )


def result_of(
    experiment: Experiment,
    store: Store | None,
    rows: _Rows | None = None,
    *,
    jobs: int | None = None,
    on_round: OnRound = lambda progress: None,
) -> Result:
    """Return the result of an experiment, as :func:`fedfb.run` makes it, training what is missing.

    Seeds are trained a few at a time and stored at once, so that a crash loses only these few.

    Args:
        experiment: the experiment; resolved here.
        store: where records are read and written; None trains every seed.
        rows: rows that were loaded before, see :func:`load_rows`.
        jobs: how many seeds are trained at a time (default: one for each processor).
        on_round: is called after every round of training.

    >>> tiny = Experiment(rows=200, test_rows=200, rounds=1, local_epochs=1)
    >>> result_of(tiny, None) == train(tiny).result
    True
    """
    rows = load_rows(experiment) if rows is None else rows
    resolved = resolve(experiment)
    keys = {seed: key_of(resolved, rows.names[seed], seed) for seed in experiment.seeds}
    records = _stored_records(store, keys)
    missing = [seed for seed in experiment.seeds if seed not in records]
    if missing and experiment.tune:
        missing = list(experiment.seeds)  # what is tuned is chosen for all of them together
    size = len(missing) if experiment.tune else jobs or cpu_count() or 1
    for start in range(0, len(missing), size or 1):
        some = replace(experiment, seeds=tuple(missing[start : start + size]))
        outcome = train(some, jobs=jobs, on_round=on_round, federations=rows.federations)
        for seed, record in seed_records_of(outcome).items():
            records[seed] = record
            _keep(store, keys[seed], record)
    return _result(resolved, rows.federations, records)


def _stored_records(store: Store | None, keys: Mapping[int, _Key | None]) -> dict[int, SeedRecord]:
    if store is None:
        return {}
    records = {seed: store.get(key) for seed, key in keys.items() if key is not None}
    return {seed: record for seed, record in records.items() if record is not None}


def _keep(store: Store | None, key: _Key | None, record: SeedRecord) -> None:
    if store is not None and key is not None:
        store.put(key, record)


def _result(
    experiment: Resolved,
    federations: Mapping[int, Federation],
    records: Mapping[int, SeedRecord],
) -> Result:
    in_order = {seed: records[seed] for seed in experiment.seeds}
    first = records[experiment.seeds[0]]
    chosen = {seed: record.choice for seed, record in in_order.items() if record.choice is not None}
    # Where weights are solved for, every seed picks for itself, tuned or not.
    together = experiment.tune and experiment.outer != "solve"
    choices = Choices(common=first.choice) if together else Choices(by_seed=chosen)
    results = [record.results for record in in_order.values()]
    federation = federations[experiment.seeds[0]]
    shared = shared_test_rows(experiment, federations)
    return make_result(
        experiment, federation.notes, federation.group_names, first.number, results, choices, shared
    )
