"""One diverging setting does not stop a grid, and does not change the others."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedfb.core import ClientTask
from fedfb.errors import ConfigError, DivergenceError
from fedfb.experiments.cache import Store, result_of
from fedfb.experiments.codec import to_builtins
from fedfb.experiments.frontier import frontier
from fedfb.experiments.outcome import load_federations, run, train
from fedfb.experiments.run_folder import claim, load_model, save
from fedfb.experiments.seed_result import Divergence, Statistic
from fedfb.experiments.spec import Experiment
from fedfb.report.folder import Found
from fedfb.report.frontier import print_frontier
from fedfb.report.html import render
from fedfb.report.page import make_page
from fedfb.runtime import DivergedError
from fedfb.runtime.local import make_ask, refuse_non_finite

TINY = Experiment(rows=200, test_rows=200, rounds=2, local_epochs=2, algorithm="fedavg")
WILD = replace(TINY, model="mlp", optimiser="sgd", lr=(0.01, 1e30, 0.1))


def figures(report, lr):
    [record] = [run for run in report.runs if run.settings["lr"] == lr]
    return json.dumps(to_builtins(record), sort_keys=True, allow_nan=False)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"algorithm": "fedfb"},
        {"algorithm": "fedfb", "notion": "cp", "clients": 3},
        {"algorithm": "fedfb-thresholds", "sensitive_at_prediction": True},
        {"algorithm": "ditto", "notion": "cp", "knobs": ("lam=0",)},
        {"algorithm": "cfl"},
        {"secure": True, "clients": 3},
        {"algorithm": "fairfed"},
        {"algorithm": "afl", "notion": "cp", "local_epochs": 30},
        {"algorithm": "lft-ensemble"},
    ],
    ids=str,
)
def test_the_others_have_the_bits_that_they_have_without_it(more):
    wild = replace(WILD, **more)
    report = run(wild, warn=False)
    lost = report.runs[1]
    assert lost.settings["lr"] == 1e30
    assert lost.diverged.round in (1, 2)
    assert lost.accuracy is None
    assert set(lost.disparity.values()) == {None}
    assert report.summaries[1].accuracy == Statistic(mean=None, std=None)
    assert report.summaries[1].diverged.seeds == (0,)
    calm = run(replace(wild, lr=(0.01, 0.1)), warn=False)
    for rate in (0.01, 0.1):
        assert figures(report, rate) == figures(calm, rate)
    assert any("diverged in round" in note for note in report.notes)


def test_a_prediction_that_is_not_finite_is_a_setting_that_diverged():
    """One round in numpy: uploads are finite, and the scores of the averaged model are not."""
    one = replace(WILD, rounds=1, local_epochs=1, engine="numpy")
    report = run(one, warn=False)
    assert report.runs[1].diverged == Divergence(round=1, client=None)
    assert report.runs[0].accuracy is not None


def test_if_all_settings_diverge_it_is_an_error_as_for_one():
    with pytest.raises(DivergenceError, match=r"diverged in round 1 .*lr 1e\+30"):
        run(replace(WILD, lr=(1e30, 1e31)))


def test_a_rate_that_diverges_is_tried_in_vain_and_never_picked():
    picking = replace(WILD, tune=True, lr=(1e30, 0.01))
    report = run(picking, warn=False)
    assert report.tuning.chosen["lr"] == 0.01
    by_rate = {one.setting["lr"]: one for one in report.tuning.candidates}
    assert by_rate[1e30].diverged.round in (1, 2)
    assert by_rate[1e30].accuracy is None
    assert by_rate[1e30].loss is None
    assert report.summary.accuracy.mean is not None
    json.dumps(to_builtins(report), allow_nan=False)


def test_fedfb_that_picks_among_targets_does_without_a_rate_that_diverges():
    solving = replace(WILD, algorithm="fedfb", lr=(), cost=0.05, local_epochs=1, seeds=(0, 1))
    wild = replace(solving, lr=(0.05, 1e30))
    report = run(wild, warn=False)
    assert {one.chosen["lr"] for one in report.picked} == {0.05}


def test_a_seed_on_which_a_setting_diverges_has_no_part_in_a_mean():
    report = run(replace(WILD, seeds=(0, 1)), warn=False)
    assert report.summaries[1].diverged.seeds == (0, 1)
    assert report.summaries[0].accuracy.std is not None


def test_a_kept_grid_is_read_back_without_the_setting_that_diverged(tmp_path):
    with claim(tmp_path / "kept", WILD) as checkpoints:
        outcome = train(WILD, checkpoints=checkpoints)
    save(outcome, tmp_path / "kept")
    third = load_model(tmp_path / "kept", run=2)
    assert third.fitted.settings[third.run]["lr"] == 0.1
    score = third.fitted.predict(outcome.federation.test).score[third.run]
    np.testing.assert_array_equal(
        score, outcome.fitted[0].predict(outcome.federation.test).score[1]
    )
    with pytest.raises(ConfigError, match=r"setting 1 of .* diverged with seed 0 and has no model"):
        load_model(tmp_path / "kept", run=1)


def test_a_run_goes_on_from_the_checkpoint_of_the_smaller_grid(tmp_path):
    told = []

    def stop_in_round_two(progress):
        told.append(progress.round)
        if len(told) == 3:
            raise KeyboardInterrupt

    long = replace(WILD, rounds=6)
    with pytest.raises(KeyboardInterrupt):
        train(long, checkpoints=tmp_path, on_round=stop_in_round_two)
    resumed, whole = train(long, checkpoints=tmp_path).result, run(long, warn=False)
    assert resumed == whole
    assert told == [1, 2, 3]


def test_the_store_keeps_a_setting_that_diverged(tmp_path):
    store = Store(tmp_path)
    first, again = result_of(WILD, store), result_of(WILD, store)
    assert first == again == run(WILD, warn=False)


def test_a_frontier_shows_the_point_as_diverged(capsys):
    record = frontier(replace(WILD, lr=(0.05, 1e30, 1e31)), ["fedavg", "fedprox"], quick=True)
    by_rate = {(p.algorithm, p.settings["lr"]): p for p in record.points}
    assert by_rate["fedavg", 0.05].diverged is None
    for rate in (1e30, 1e31):
        lost = by_rate["fedavg", rate]
        assert (lost.accuracy.mean, lost.pareto) == (None, False)
        assert lost.diverged.round in (1, 2)
    print_frontier(record)
    assert "diverged: fedavg" in capsys.readouterr().out
    assert ">diverged<" in render(make_page(Found((), frontier=record)))


def test_what_a_client_keeps_must_be_finite_too():
    def keep(broadcast, data, memory, key):
        personal = np.array([[1.0], [np.nan if data.id == 1 else 0.0]])
        return {"w": np.zeros((2, 1))}, {"personal": personal}

    clients, memories = load_federations(TINY)[0].clients, {0: {}, 1: {}, 2: {}}
    with pytest.raises(DivergedError, match=r"on client 1: what it keeps \(personal\)") as caught:
        make_ask(clients, memories, 0, 3, runs=2)(ClientTask("keep", "sum", keep), {})
    assert (caught.value.round, caught.value.runs) == (3, [1])
    assert memories == {0: {}, 1: {}, 2: {}}


def test_an_upload_without_a_run_axis_belongs_to_all_runs():
    with pytest.raises(DivergedError) as caught:
        refuse_non_finite({0: {"n": np.array(np.inf)}}, {}, 1, runs=3)
    assert caught.value.runs == [0, 1, 2]
