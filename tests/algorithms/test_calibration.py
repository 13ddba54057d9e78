"""Probabilities from histograms of scores: exact where the truth is a map, gentle to few rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from fedfb.algorithms.fedfb.calibration import apply_maps, fit_maps, log_odds
from fedfb.engine import sigmoid
from fedfb.experiments.calibrate import calibration_error, measure_calibration
from fedfb.experiments.outcome import run
from fedfb.experiments.spec import Experiment

BINS = 256
CENTRES = (np.arange(BINS) + 0.5) / BINS


def expected_rows(slope, intercept, rows):
    """A histogram in which every bin has the share of positives that a map says."""
    p = sigmoid(slope * log_odds(CENTRES) + intercept)
    return rows / BINS * np.stack([1 - p, p])


@given(slope=st.floats(0.3, 2.0), intercept=st.floats(-2.0, 2.0), other=st.floats(-1.0, 1.0))
def test_maps_of_many_rows_are_the_truth(slope, intercept, other):
    truth = [(slope, intercept), (1.0, other)]
    rows = np.stack([expected_rows(*one, rows=1e7) for one in truth], axis=1)
    maps = fit_maps(rows)
    np.testing.assert_allclose(maps[:2], truth, atol=0.01)


@given(rows=npst.arrays(np.float64, (2, 3, 16), elements=st.integers(0, 30).map(float)))
def test_maps_are_finite_and_the_order_of_groups_does_not_matter(rows):
    maps = fit_maps(rows)
    assert np.isfinite(maps).all()
    turned = fit_maps(rows[:, ::-1])
    np.testing.assert_allclose(turned[:-1][::-1], maps[:-1], atol=1e-6)
    np.testing.assert_allclose(turned[-1], maps[-1], atol=1e-6)


def test_a_group_without_rows_and_an_unknown_group_have_the_map_of_all():
    rows = np.stack([expected_rows(1.5, 1.0, 1e5), np.zeros((2, BINS))], axis=1)
    maps = fit_maps(rows)
    np.testing.assert_array_equal(maps[1], maps[2])
    score = np.array([0.2, 0.7])
    unknown = apply_maps(maps, np.array([-1, -1]), score)
    np.testing.assert_array_equal(unknown, apply_maps(maps, np.array([1, 1]), score))


@pytest.mark.parametrize("rows", [1, 10, 100])
def test_few_rows_of_one_label_move_a_map_little(rows):
    """All positive rows of a tiny group do not make every score certain."""
    everyone = expected_rows(1.0, 0.0, 1e6)
    tiny = np.zeros((2, BINS))
    tiny[1, BINS // 2] = rows
    [_, small, _] = fit_maps(np.stack([everyone, tiny], axis=1))
    assert 0 < small[1] < np.log1p(rows)


def test_a_finer_histogram_of_the_same_scores_has_nearly_the_same_maps():
    rng = np.random.default_rng(5)
    z = rng.normal(size=20_000)
    y = (rng.random(20_000) < sigmoid(2 * z - 1)).astype(int)
    maps = []
    for bins in (64, 1024):
        rows = np.zeros((2, 1, bins))
        np.add.at(rows, (y, 0, (sigmoid(z) * bins).astype(int)), 1)
        maps.append(fit_maps(rows)[0])
    np.testing.assert_allclose(*maps, atol=0.03)
    np.testing.assert_allclose(maps[1], [2.0, -1.0], atol=0.1)


def test_calibrated_scores_of_the_truth_have_no_error():
    rng = np.random.default_rng(6)
    score = rng.random(200_000)
    y = (rng.random(200_000) < score).astype(int)
    assert calibration_error(score, y) < 0.005
    assert calibration_error(np.clip(score + 0.2, 0, 1), y) == pytest.approx(0.18, abs=0.02)


def test_the_report_shows_a_smaller_error_after_calibration():
    result = run(Experiment(data="synthetic", sensitive_at_prediction=True, seeds=(41,)))
    by_name = {group.name: group for group in result.runs[0].calibration}
    assert list(by_name) == ["all", "0", "1"]
    assert by_name["0"].before > 0.2
    assert all(group.after < 0.07 for group in by_name.values())


def test_methods_without_a_histogram_have_no_calibration():
    small = {"rows": 300, "test_rows": 100}
    for settings in ({"algorithm": "fedavg"}, {"cut": "half"}):
        assert run(Experiment(**small, **settings), warn=False).runs[0].calibration == ()


def test_groups_of_few_test_rows_have_no_calibration_error():
    from fedfb.core import Examples

    group = np.repeat([0, 1], [50, 9])
    examples = Examples(np.zeros((59, 1)), np.tile([0, 1], 30)[:59], group, np.zeros(59, int))
    maps = np.tile([1.0, 0.0], (3, 1))
    found = measure_calibration(np.full(59, 0.5), examples, ("a", "b"), maps)
    assert [one.name for one in found] == ["all", "a"]
    assert found[0].before == pytest.approx(found[0].after)
