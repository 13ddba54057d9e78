"""Clients of one group each that train by themselves drift apart, and the report says so."""

import numpy as np
import pytest

from federations import make_rows
from fedfb.algorithms.fedfb.root_search import LineRecord, ignores_weight
from fedfb.data.own import federation_from_frames
from fedfb.experiments.outcome import run
from fedfb.experiments.spec import Experiment

GROUPS = np.array(list("wxyz"), object)


def one_group_a_client(dealt_at_random=False):
    data = make_rows(3, 9000, 4)
    owner = data.group
    if dealt_at_random:
        owner = np.random.default_rng(0).integers(0, 4, len(owner))
    columns = {
        "first": data.x[:, 0],
        "second": data.x[:, 1],
        "group": GROUPS[data.group],
        "label": np.where(data.y == 1, "yes", "no"),
        "bank": np.array([f"bank {number}" for number in owner], object),
    }
    rows, test = (
        {name: of[part] for name, of in columns.items()}
        for part in (slice(3000), slice(3000, None))
    )
    more = {"client_column": "bank", "test": test, "sensitive_at_prediction": True}
    return federation_from_frames(rows, "label", "yes", "group", **more)


def result_of(federation, **settings):
    experiment = Experiment(data="frames.csv", sensitive_at_prediction=True, **settings)
    return run(experiment, federations={0: federation}, warn=False)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "solver"), [("logistic", "newton"), ("mlp", "lbfgs")])
def test_a_gap_that_does_not_answer_is_said_and_by_sums_it_answers(model, solver):
    federation = one_group_a_client()
    apart = result_of(federation, model=model, solver="local", lr=(0.02,))
    assert apart.runs[0].method.idle
    [sentence] = [one.sentence for one in apart.shortfalls if one.kind == "target"]
    assert "not answer to" in sentence
    assert f"drift apart. Fit by sums (--solver {solver})." in sentence
    together = result_of(federation, model=model)
    assert not together.runs[0].method.idle
    assert together.runs[0].training.disparity < 0.01 < 0.05 < apart.runs[0].training.disparity
    assert not any("drift" in one.sentence for one in together.shortfalls)


@pytest.mark.slow
def test_where_rows_are_dealt_at_random_nobody_drifts():
    result = result_of(one_group_a_client(dealt_at_random=True), solver="local", lr=(0.02,))
    assert not result.runs[0].method.idle
    assert not any("drift" in one.sentence for one in result.shortfalls)


def record_of(moves, slope):
    """Return the record of a gap that falls by a slope as its shift moves."""
    moves = np.array(moves)
    nought = np.zeros((1, 1))
    fields = dict.fromkeys(LineRecord._fields, nought)
    fields |= {"spread": nought + np.sum(moves**2), "drop": nought + slope * np.sum(moves**2)}
    return np.stack(LineRecord(**fields), axis=1)


@pytest.mark.parametrize(
    ("moves", "slope", "idle"),
    [
        ([1.0, 1.0], 0.0, True),
        ([1.0, 1.0], 0.1, False),
        ([0.1, 0.1], 0.0, False),
        ([1.5], -0.1, True),
    ],
)
def test_a_gap_is_idle_if_its_shift_moved_far_and_it_did_not_fall(moves, slope, idle):
    assert ignores_weight(record_of(moves, slope), np.array([0.12]))[0, 0] == idle
