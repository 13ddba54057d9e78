"""Running: threads and company do not change a result, and what is compared is paired."""

from dataclasses import replace

import numpy as np
import pytest
from msgspec.structs import replace as change
from scipy.stats import ttest_rel

from fedfb.data import RawRows
from fedfb.errors import ConfigError, DataError, DivergenceError
from fedfb.experiments.compare import compare, differences
from fedfb.experiments.outcome import run, train
from fedfb.experiments.result import EngineChoice
from fedfb.experiments.run_folder import load_model, round_table, save
from fedfb.experiments.seeds import confusion_of
from fedfb.experiments.spec import Experiment
from fedfb.notions.disparity import notion_bands
from fedfb.notions.over_seeds import mean_disparity

TINY = Experiment(rows=200, test_rows=200, rounds=2, local_epochs=1)


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_the_number_of_threads_does_not_change_a_bit(jobs):
    several = replace(TINY, model="mlp", seeds=(0, 1, 2, 3), alpha=(0.1, 1.0))
    assert run(several, jobs=jobs) == run(several, jobs=3)


@pytest.mark.parametrize(
    ("engine", "variable", "expected"),
    [
        ("auto", "auto", {"name": "native", "reason": "the default"}),
        ("auto", "numpy", {"name": "numpy", "reason": "FEDFB_ENGINE=numpy"}),
        ("numpy", "native", {"name": "numpy", "reason": "--engine numpy"}),
    ],
)
def test_a_report_names_the_engine_and_the_reason(monkeypatch, engine, variable, expected):
    monkeypatch.setenv("FEDFB_ENGINE", variable)
    assert run(replace(TINY, engine=engine)).engine == EngineChoice(**expected)


def test_every_round_of_every_seed_is_told():
    told = []
    run(replace(TINY, seeds=(0, 5), tune=True), on_round=lambda p: told.append((p.seed, p.round)))
    assert sorted(told) == sorted([(seed, number) for seed in (0, 5) for number in (1, 2)] * 2)


def test_when_one_seed_fails_the_others_stop():
    endless, told = replace(TINY, rounds=10**6, seeds=(0, 1)), []

    def on_round(progress):
        told.append(progress)
        if progress.seed == 0 and progress.round == 3:
            raise ConfigError("enough")

    with pytest.raises(ConfigError, match="enough"):
        run(endless, jobs=2, on_round=on_round)
    assert len(told) < 10**5


def test_divergence_tells_only_the_settings_that_diverged():
    wild = replace(TINY, model="mlp", optimiser="sgd", lr=(0.01, 1e30), alpha=(0.1, 0.2))
    lost = [record.settings for record in run(wild).runs if record.diverged]
    assert lost == [{"alpha": 0.1, "lr": 1e30}, {"alpha": 0.2, "lr": 1e30}]
    with pytest.raises(DivergenceError) as caught:
        run(replace(wild, lr=(1e30,)))
    assert "alpha 0.1, lr 1e+30; alpha 0.2, lr 1e+30" in str(caught.value)


def test_a_difference_of_accuracies_is_that_of_the_t_test_where_every_seed_draws_its_rows():
    reports = compare(replace(TINY, seeds=(0, 1, 2)), ["fedavg", "cfl"]).results
    one, other = ([run.accuracy for run in report.runs] for report in reports)
    [found] = differences(reports)
    expected = ttest_rel(one, other).confidence_interval(0.95)
    np.testing.assert_allclose(found.accuracy.interval, expected, atol=1e-9)
    assert reports[0].shared_test_rows == 0


def test_intervals_of_seeds_with_the_same_test_rows_are_no_shorter_than_those_rows_allow():
    """Seeds of one split differ in training alone: their interval must not shrink with them."""
    split = replace(TINY, split_seed=0, seeds=(0, 1, 2, 3, 4))
    reports = compare(split, ["fedavg", "fedfb"]).results
    for report in reports:
        assert report.shared_test_rows == 1
        widths = [np.diff(run.interval["demographic_parity"])[0] for run in report.runs]
        low, high = report.summary.disparity["demographic_parity"].interval
        assert high - low >= 0.95 * min(widths)
    [found] = differences(reports)
    low, high = found.accuracy.interval
    assert high - low > 2 * 1.96 * (0.2 * 0.8 / 200) ** 0.5


def test_one_seed_has_the_interval_of_its_run():
    report = run(TINY)
    assert report.summary.disparity["spd"].interval == report.runs[0].interval["spd"]


def test_what_is_printed_of_several_seeds_is_what_the_simulations_check():
    """tests/notions/test_over_seeds.py checks the coverage of these functions."""
    report = run(replace(TINY, seeds=(0, 1, 2)))
    confusion = np.stack([confusion_of(record.groups) for record in report.runs])
    for notion in ("demographic_parity", "spd", "equal_opportunity", "equalized_odds"):
        values = np.array([record.disparity[notion] for record in report.runs])
        highs = np.array([record.interval[notion][1] for record in report.runs])
        expected = mean_disparity(values, highs, notion_bands(notion, confusion), 0.0)
        found = report.summary.disparity[notion].interval
        assert found == pytest.approx([expected.low, expected.high], abs=1e-12)


def test_differences_leave_out_grids_and_what_is_not_estimable():
    comparison = compare(replace(TINY, alpha=(0.1, 0.5), seeds=(0, 1)), ["fedavg", "fedfb", "cfl"])
    assert comparison.differences == ()
    reports = compare(replace(TINY, seeds=(0, 1)), ["fedavg", "cfl"]).results
    first, *others = reports[0].runs
    nothing = change(first, disparity={**first.disparity, "demographic_parity": None})
    [difference] = differences([change(reports[0], runs=(nothing, *others)), reports[1]])
    assert difference.disparity["demographic_parity"].interval is None
    assert len(difference.accuracy.interval) == 2


def test_a_saved_model_decides_as_the_run_did(tmp_path):
    outcome = train(replace(TINY, model="mlp", seeds=(4, 2), alpha=(0.1, 2.0)))
    save(outcome, tmp_path)
    for fitted in outcome.fitted:
        expected = fitted.predict(outcome.federation.test)
        for setting in range(2):
            model = load_model(tmp_path, fitted.seed, setting)
            found = model.predict(RawRows(outcome.federation.test.x, outcome.federation.test.group))
            np.testing.assert_array_equal(found.score[0], expected.score[setting])
            np.testing.assert_array_equal(found.decision[0], expected.decision[setting])


def test_a_model_of_an_absent_seed_or_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match="holds no finished run"):
        load_model(tmp_path)
    save(train(TINY), tmp_path)
    with pytest.raises(ConfigError, match=r"no model of seed 3; it has \[0\]"):
        load_model(tmp_path, seed=3)


def test_the_round_table_has_one_row_per_run_and_round():
    header, *rows = round_table(run(replace(TINY, alpha=(0.5,), seeds=(0, 1), lr=(0.1, 0.2))))
    assert header[:3] == ["seed", "alpha", "lr"]
    assert [(row[0], row[2], row[3]) for row in rows] == [
        (seed, lr, number) for seed in (0, 1) for lr in (0.1, 0.2) for number in (1, 2)
    ]
