"""The printed digits, seeds 0 to 4, and what is left of them when one cause is switched."""

import json
import os

import numpy as np
import pytest

from fedfb.errors import ConfigError, DivergenceError
from fedfb.experiments.evaluate import summarise
from fedfb.experiments.seed_result import Quality
from fedfb.paper.released import load_released, run_released


def digits(records: list[dict]) -> list[float]:
    summary = summarise(
        [Quality(accuracy=one["accuracy"], disparity=one["disparity"]) for one in records]
    )
    found = (summary.accuracy, summary.disparity["demographic_parity"])
    return [round(getattr(part, name), 4) for part in found for name in ("mean", "std")]


def near(*expected: float):
    """Allow for a row or two that another order of summation decides otherwise."""
    return pytest.approx(list(expected), abs=6e-4)


def test_fedfb_gives_table_1_on_synthetic():
    records = run_released("synthetic", "fedfb", lr=0.005, alpha=0.2)
    assert digits(records) == near(0.7251, 0.0116, 0.0510, 0.0182)
    assert json.loads(json.dumps(records)) == records
    assert [one["round"] for one in records[0]["rounds"]] == list(range(1, 11))


def test_fedfb_gives_table_2_with_low_heterogeneity():
    """The paper prints .669 for .6587: a misprint, its other three digits agree."""
    records = run_released("synthetic-low", "fedfb", lr=0.001, alpha=0.2)
    assert digits(records) == near(0.6587, 0.0399, 0.0578, 0.0422)


def test_fedavg_gives_table_1_on_synthetic():
    assert digits(run_released("synthetic", "fedavg", lr=0.01)) == near(
        0.8859, 0.0017, 0.4091, 0.0111
    )


def test_right_averaging_alone_removes_most_of_the_disparity():
    records = run_released("synthetic", "fedfb", flags={"averaging": "weighted"})
    assert digits(records) == near(0.7127, 0.0048, 0.0064, 0.0060)


def test_the_last_release_mends_itself_with_four_causes_removed():
    right = {"averaging": "weighted", "bound": "own-group", "constant": "once"}
    records = run_released("synthetic", "fedfb-2022", flags={**right, "signal": "zero-one"})
    assert digits(records)[::2] == pytest.approx([0.7125, 0.0060], abs=3e-3)


def test_lambda_follows_a_fixed_schedule_on_synthetic():
    """Alpha * (1 + 1/2 + ... + 1/10), whatever the model does: no round steps back."""
    (record,) = run_released("synthetic", "fedfb", seeds=[0])
    lam = np.array([one["lam"] for one in record["rounds"]])
    np.testing.assert_allclose(lam[:-1, 0, 0] - lam[1:, 0, 0], 0.2 / np.arange(2, 11))
    assert record["reported_round"] == 10


def test_the_round_of_least_disparity_can_be_reported():
    (record,) = run_released(
        "synthetic", "fedfb-2022", seeds=[0], flags={"selection": "least-disparity"}
    )
    least = min(one["training_disparity"] for one in record["rounds"])
    assert record["rounds"][record["reported_round"] - 1]["training_disparity"] == least


def test_the_printed_digits_of_high_heterogeneity_are_those_of_the_slip():
    """Table 2 prints .703 (.012) / .013 (.008)."""
    records = run_released("synthetic-high-slip", "fedfb", lr=0.01, alpha=0.2)
    assert digits(records) == near(0.7029, 0.0115, 0.0126, 0.0076)


def test_a_batch_without_weight_stops_the_run():
    """The second client has one cell only, whose lambda a large step brings to 0."""
    data = load_released("synthetic")
    rows = data.clients[0]
    one_cell = rows.take(np.flatnonzero((rows.y == 0) & (rows.group == 0)))
    with pytest.raises(DivergenceError, match=r"round 2 .* for the seeds \[0\]"):
        run_released(data._replace(clients=(rows, one_cell)), alpha=1.0, seeds=[0], rounds=2)


def test_logistic_regression_runs():
    (record,) = run_released("synthetic", "fedavg", model="logistic", seeds=[0], lr=0.01)
    assert record["accuracy"] == pytest.approx(0.884, abs=0.004)  # tab:dp_lg: .884 (.001)


@pytest.mark.slow
def test_bank_is_the_constant_classifier():
    if not os.environ.get("FEDFB_DATA"):
        pytest.skip("FEDFB_DATA does not name a folder with the published files")
    bank = load_released("bank")
    (record,) = run_released(bank, "fedfb", lr=0.01, alpha=0.2, seeds=[0], rounds=2)
    assert record["accuracy"] == (bank.test.y == 0).mean() == pytest.approx(0.8827, abs=1e-4)
    assert record["disparity"]["demographic_parity"] == 0


@pytest.mark.slow
def test_one_round_on_adult_and_compas_is_that_of_the_authors_code():
    """Measured on that code with torch: .809 / .184 and (two rounds) .653 / .136."""
    if not os.environ.get("FEDFB_DATA"):
        pytest.skip("FEDFB_DATA does not name a folder with the published files")
    (adult,) = run_released("adult", "fedavg", seeds=[0], rounds=1, precision="float32")
    (compas,) = run_released("compas", "fedavg", seeds=[0], rounds=2, precision="float32")
    found = [
        value
        for record in (adult, compas)
        for value in (record["accuracy"], record["disparity"]["demographic_parity"])
    ]
    # Rounding moves these runs: in float64 the last figure is .138.
    assert found == pytest.approx([0.809, 0.184, 0.653, 0.136], abs=3e-3)


def test_an_unknown_model_is_refused():
    with pytest.raises(ConfigError, match="unknown model 'tree'"):
        run_released("synthetic", model="tree")
