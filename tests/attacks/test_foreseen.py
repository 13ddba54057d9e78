"""Every client's program foresees every broadcast, bit by bit, in another process.

The other process has another hash seed. It runs the program on a client's journal, in which each
total carries the context of its exchange: a hash of task, place, broadcast and all earlier totals.
One bit of difference in one broadcast ends the program with an error.
"""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from fedfb.algorithms import METHODS
from fedfb.experiments.spec import Experiment
from fedfb.notions import long_name
from study.by_hand import CLIENTS, make, run_by_hand

SHORT = {"demographic_parity": "dp", "equal_opportunity": "eo", "equalized_odds": "eod"}

REPLAY = """
import sys
from pathlib import Path
from fedfb.study.client import ClientCarrier
from fedfb.study.journal import Journal
from fedfb.study.keys import read_private_keys
from fedfb.study.ledger import StudyLedger
from fedfb.study.program import Program
from fedfb.study.study import read_study
from fedfb.study.trial import open_rows

folder, name, rows, key = map(Path, sys.argv[1:])
study, keys = read_study(folder / "study.toml"), read_private_keys(key)
journal = Journal(folder, study.seal)
ledger = StudyLedger(study, folder / "again.jsonl")
carrier = ClientCarrier(study, keys, journal, None, ledger, print)
Program(study, carrier, open_rows(study, study.names.index(str(name)), rows)).run()
print(journal.count_totals(), carrier._next, carrier._chain.hex())
"""


def cases():
    for name, method in METHODS.items():
        for notion in method.notions:
            if not method.is_pooled(method.variants[0]):
                yield name, SHORT.get(notion, "cp")


def play(tmp_path, settings, **terms):
    experiment = replace(Experiment(rounds=2, local_epochs=2, batch=32), **settings)
    made = make(tmp_path, experiment, single=True, **terms)
    ends = run_by_hand(made)
    assert not isinstance(ends.server, BaseException), ends.server
    return made


def foresee(made, name="north"):
    from fedfb.study.keys import write_keys

    key, _ = write_keys(made.keys[name], made.folder)
    [rows] = made.files.glob(f"{name}.*")
    arguments = [str(made.state(name)), name, str(rows), str(key)]
    done = subprocess.run(
        [sys.executable, "-c", REPLAY, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    totals, reached, _ = done.stdout.split()
    assert totals == reached
    assert int(totals) > 3


@pytest.mark.slow
@pytest.mark.parametrize(("method", "notion"), list(cases()), ids=str)
def test_every_broadcast_is_foreseen_in_another_process(method, notion, tmp_path):
    settings = {"algorithm": method, "notion": notion}
    if METHODS[method].name in ("fedfb-thresholds", "hardt"):
        settings["sensitive_at_prediction"] = True
    if method in ("fairfed", "fcfl"):  # they compare two groups
        settings["sensitive"] = ("sex",)
    foresee(play(tmp_path, defaults_of(method, settings)))


def defaults_of(method, settings):
    """Leave out settings that the method does not read: they would be refused."""
    reads = METHODS[method].reads
    blank = Experiment()
    quick = {} if "local_epochs" in reads else {"local_epochs": blank.local_epochs}
    batch = {} if "batch" in reads else {"batch": blank.batch}
    return {**settings, **quick, **batch}


def test_the_usual_study_is_foreseen_in_another_process(tmp_path):
    foresee(play(tmp_path, {"solver": "newton", "local_epochs": 30, "batch": 128}))


def test_all_sides_compute_the_same_chain(tmp_path):
    made = play(tmp_path, {"algorithm": "fedavg", "lr": (0.02,)})
    from fedfb.study.journal import Journal

    records = set()
    for folder in (made.run, *(made.state(name) for name in CLIENTS)):
        journal = Journal(folder, made.study.seal)
        totals = [journal.find_total(n) for n in range(journal.count_totals())]
        records.add(tuple(totals))
    assert len(records) == 1


def test_names_of_notions_are_those_of_the_methods():
    assert {long_name(short) for short in SHORT.values()} == set(SHORT)
