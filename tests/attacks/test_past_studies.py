"""Two studies on the same rows whose clients differ: their results show what the others sent."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from attacks.liars import QUICK, prepare
from fedfb.errors import ConfigError
from fedfb.study.keys import make_private_keys
from fedfb.study.past import check_past, describe_study, read_key
from fedfb.study.study import make_study
from fedfb.study.trial import join_tables
from study.by_hand import CLIENTS, TERMS


@pytest.fixture
def past(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFB_STATE", str(tmp_path / "state"))
    return tmp_path / "state" / "studies"


def study_of(made, names, **settings):
    terms = {**TERMS, "code": made.study.code}
    keys = [make_private_keys(name).public for name in names]
    experiment = replace(QUICK, **settings)
    return make_study(terms, made.study.schema, experiment, made.server.public, keys)


def test_a_study_without_one_client_needs_consent(tmp_path, past):
    made = prepare(tmp_path)
    table = join_tables(made.rows("east"))
    check_past(made.study, table, "east.csv", again=False)
    check_past(made.study, table, "east.csv", again=False)  # the same study goes on
    check_past(
        study_of(made, CLIENTS, rounds=5), table, "east.csv", again=False
    )  # the same clients
    smaller = study_of(made, CLIENTS[:3])
    with pytest.raises(ConfigError, match="whose clients differ by west: both results together"):
        check_past(smaller, table, "east.csv", again=False)
    check_past(smaller, table, "east.csv", again=True)
    assert past.stat().st_mode & 0o77 == 0
    assert all(path.stat().st_mode & 0o77 == 0 for path in past.iterdir())


@pytest.mark.parametrize("change", ["order", "some rows less", "another file"])
def test_most_of_the_rows_are_recognised(change, tmp_path, past):
    made = prepare(tmp_path)
    table = join_tables(made.rows("east"))
    check_past(made.study, table, "east.csv", again=False)
    rng, n = np.random.default_rng(0), len(table)
    rows = {
        "order": rng.permutation(n),
        "some rows less": np.sort(rng.permutation(n)[: n * 2 // 3]),
        "another file": np.arange(n),
    }[change]
    with pytest.raises(ConfigError, match="these rows took part in the study"):
        check_past(study_of(made, CLIENTS[:3]), table.take(rows), "copy.csv", again=False)


def test_other_rows_are_not_refused(tmp_path, past):
    made = prepare(tmp_path)
    check_past(made.study, join_tables(made.rows("east")), "east.csv", again=False)
    other = join_tables(made.rows("west"))
    check_past(study_of(made, CLIENTS[:3]), other, "west.csv", again=False)


def test_what_is_remembered_holds_no_row(tmp_path, past):
    made = prepare(tmp_path)
    table = join_tables(made.rows("east"))
    check_past(made.study, table, "east.csv", again=False)
    text = "".join(path.read_text() for path in past.iterdir())
    assert "acute" not in text
    assert "rural" not in text
    # Hashes are keyed by a secret of the machine: who has the file of another learns nothing.
    key = read_key(past)
    one, other = (describe_study(made.study, table, "x", k).hashes for k in (key, key + 1))
    assert not set(one) & set(other)


def test_clients_that_join_at_once_share_one_secret(past):
    """Four processes on a new machine: none of them may read a key that is half written."""
    draw = "from pathlib import Path; from fedfb.study.past import read_key; import sys\n"
    draw += "print(read_key(Path(sys.argv[1])))"
    command = [sys.executable, "-c", draw, str(past)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    keys = {process.communicate(timeout=60)[0] for process in running}
    assert len(keys) == 1
    assert keys.pop().strip().isdecimal()
    assert [path.name for path in past.iterdir()] == ["key"]
