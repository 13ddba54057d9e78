"""The store: what was trained is read, what differs is trained, what is broken is trained again."""

from dataclasses import replace

import pytest

from fedfb.algorithms import METHODS, register
from fedfb.experiments import cache as recorded
from fedfb.experiments.cache import Store, key_of, load_rows, result_of, rows_digest
from fedfb.experiments.outcome import load_federations, run, train
from fedfb.experiments.resolve import resolve
from fedfb.experiments.spec import Experiment

TINY = Experiment(rows=200, test_rows=200, rounds=2, local_epochs=1, seeds=(0, 1, 2))


@pytest.fixture
def said():
    return []


@pytest.fixture
def store(tmp_path, said):
    return Store(tmp_path / "store", said.append)


@pytest.fixture
def trained(monkeypatch):
    """The seeds that were trained."""
    seeds = []

    def listened(experiment, **options):
        seeds.extend(experiment.seeds)
        return train(experiment, **options)

    monkeypatch.setattr(recorded, "train", listened)
    return seeds


FORMS = {
    "a picked rate": TINY,
    "a grid": replace(TINY, target=(0.0, 0.1, 1.0)),
    "bounded cost": replace(TINY, cost=0.05),
    "tuned": replace(TINY, algorithm="zafar", tune=True, local_epochs=30),
    "own thresholds": replace(TINY, algorithm="hardt", lr=(0.01,), sensitive_at_prediction=True),
    "clients": replace(TINY, algorithm="q-ffl", notion="cp"),
}


@pytest.mark.parametrize("experiment", FORMS.values(), ids=FORMS)
def test_a_report_is_the_same_whether_trained_or_read(store, trained, experiment):
    fresh = run(experiment)
    assert result_of(experiment, store) == fresh
    assert sorted(trained) == [0, 1, 2]
    assert result_of(experiment, store) == fresh
    assert sorted(trained) == [0, 1, 2]


def test_only_missing_seeds_are_trained(store, trained):
    result_of(replace(TINY, seeds=(1,)), store)
    assert result_of(TINY, store) == run(TINY)
    assert sorted(trained) == [0, 1, 2]
    result_of(replace(TINY, seeds=(2, 0)), store)
    assert sorted(trained) == [0, 1, 2]


def test_what_is_tuned_for_all_seeds_belongs_to_all_of_them(store, trained):
    tuned = FORMS["tuned"]
    result_of(replace(tuned, seeds=(0, 1)), store)
    assert result_of(tuned, store) == run(tuned)
    assert trained == [0, 1, 0, 1, 2]


@pytest.mark.parametrize(
    "change", [{"notion": "eo"}, {"lr": (0.01,)}, {"test_rows": 300}, {"precision": "float64"}]
)
def test_other_settings_are_other_records(store, trained, change):
    result_of(TINY, store)
    result_of(replace(TINY, **change), store)
    assert len(trained) == 6


def test_defaults_that_are_spelled_out_are_the_same_record(store, trained):
    plain = replace(TINY, algorithm="fedavg", lr=(0.005,))
    result_of(plain, store)
    result_of(replace(plain, solver="local", variant="plain", rounds=2), store)
    assert len(trained) == 3


def test_other_rows_are_other_records_also_if_only_test_rows_differ():
    one, other = (load_federations(replace(TINY, test_rows=n))[0] for n in (200, 201))
    assert rows_digest(one) != rows_digest(other)


@pytest.mark.parametrize("damage", [b"", b"\x1f\x8b broken", b"half"])
def test_a_broken_record_is_told_once_and_trained_again(store, said, trained, damage):
    alone = replace(TINY, seeds=(0,))
    fresh = result_of(alone, store)
    [path] = store.folder.rglob("*.gz")
    path.write_bytes(path.read_bytes()[:100] if damage == b"half" else damage)
    assert result_of(alone, store) == fresh
    assert len(said) == 1
    assert str(path) in said[0]
    assert trained == [0, 0]
    assert result_of(alone, store) == fresh
    assert len(said) == 1


def test_a_record_under_a_wrong_name_is_not_believed(store, said, trained):
    alone = replace(TINY, seeds=(0,))
    result_of(alone, store)
    [path] = store.folder.rglob("*.gz")
    rows = load_rows(replace(alone, seeds=(1,)))
    elsewhere = store.path(key_of(resolve(alone), rows.names[1], 1))
    elsewhere.parent.mkdir(exist_ok=True)
    elsewhere.write_bytes(path.read_bytes())
    result_of(replace(alone, seeds=(1,)), store)
    assert "another experiment" in said[0]
    assert trained == [0, 1]


def test_nothing_half_written_is_left(store):
    result_of(TINY, store)
    assert len(list(store.folder.rglob("*.gz"))) == 3
    assert not list(store.folder.rglob("*.partial"))


def test_a_store_that_cannot_be_written_costs_no_result(tmp_path, said):
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "store", said.append)
    alone = replace(TINY, seeds=(0,))
    assert result_of(alone, store) == run(alone)
    assert "not kept" in said[-1]


def test_a_method_of_ones_own_is_never_kept(store, trained, monkeypatch):
    def mine(problem):
        return METHODS["fedavg"].make(problem)

    monkeypatch.setattr("fedfb.algorithms.method.METHODS", METHODS)
    register(METHODS["fedavg"]._replace(name="mine", make=mine))
    try:
        own = replace(TINY, algorithm="mine", seeds=(0,))
        result_of(own, store)
        result_of(own, store)
    finally:
        del METHODS["mine"]
    assert trained == [0, 0]
    assert not store.folder.exists()
