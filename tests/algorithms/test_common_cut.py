"""The common cut: one cut for all groups, more often right and no less fair than 1/2."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from federations import make_clients, make_engine, make_solver, merge
from fedfb.algorithms.fedfb.common_cut import BINS, SURE, largest_gaps, place_cut
from fedfb.algorithms.fedfb.fedfb import METHOD
from fedfb.algorithms.fedfb.root_search import FREE
from fedfb.algorithms.fedfb.threshold_rules import COMPARED, count_reach, cut, largest_gap
from fedfb.algorithms.method import Problem
from fedfb.core import Examples
from fedfb.errors import ConfigError
from fedfb.experiments.explain import explain
from fedfb.experiments.outcome import run as run_experiment
from fedfb.experiments.outcome import train
from fedfb.experiments.resolve import resolve
from fedfb.experiments.spec import Experiment
from fedfb.notions import make_notion
from local_training import run

NOTIONS = {"dp": "demographic_parity", "eo": "equal_opportunity", "eod": "equalized_odds"}
HISTOGRAMS = npst.arrays(np.float64, (2, 3, 8), elements=st.integers(0, 40).map(float))
PARTS = {
    "rows": HISTOGRAMS,
    "notion": st.sampled_from(sorted(COMPARED)),
    "target": st.sampled_from([0.0, 0.05, 0.3, FREE]),
}


def decide_from(place, bins, groups):
    return np.tile((np.arange(bins) >= place).astype(float), (groups, 1))


def judge(rows, place, compared):
    """Accuracy and disparity of a cut, by the measures of thresholds by group."""
    chance = decide_from(place, rows.shape[2], rows.shape[1])
    right = np.sum(rows[1] * chance) + np.sum(rows[0] * (1 - chance))
    has = np.all([rows[list(labels)].sum(axis=(0, 2)) > 0 for labels in compared], axis=0)
    return right / max(rows.sum(), 1.0), largest_gap(rows[:, has], chance[has], compared)


@given(**PARTS)
def test_a_cut_is_never_less_accurate_nor_less_fair_than_one_half(rows, notion, target):
    compared, half = COMPARED[notion], rows.shape[2] // 2
    placed = place_cut(rows, compared, target)
    accuracy, disparity = judge(rows, placed.place, compared)
    assert placed.accuracy == pytest.approx(accuracy)
    assert placed.disparity == pytest.approx(disparity)
    at_half = judge(rows, half, compared)
    assert accuracy >= at_half[0] - 1e-12
    allowed = max(at_half[1], target if target < FREE else 0.0)
    assert disparity <= allowed + 1e-9


@given(**PARTS)
def test_a_gain_within_its_standard_errors_moves_no_cut(rows, notion, target):
    half = rows.shape[2] // 2
    placed = place_cut(rows, COMPARED[notion], target)
    if placed.place != half:
        by_cut = count_reach(rows).sum(axis=(0, 1))
        changed = abs(by_cut[placed.place] - by_cut[half])
        before = judge(rows, half, COMPARED[notion])[0]
        assert (placed.accuracy - before) * rows.sum() > SURE * np.sqrt(changed) - 1e-9


@given(**PARTS)
def test_a_moved_cut_never_decides_nearly_all_rows_alike(rows, notion, target):
    half = rows.shape[2] // 2
    place = place_cut(rows, COMPARED[notion], target).place
    if place != half:
        above = rows[..., place:].sum()
        rarer = min(above, rows.sum() - above)
        assert rarer >= 0.1 * rows.sum(axis=(1, 2)).min()


@given(**PARTS)
def test_the_gaps_of_all_cuts_are_those_of_each(rows, notion, target):
    compared = COMPARED[notion]
    gaps = largest_gaps(count_reach(rows), compared, 1)
    expected = [judge(rows, place, compared)[1] for place in range(rows.shape[2] + 1)]
    np.testing.assert_allclose(gaps, expected, atol=1e-12)


def test_a_shifted_model_is_cut_where_its_scores_are_even():
    """Scores that are shifted alike in both groups are cut where labels change over."""
    rng = np.random.default_rng(3)
    z, group = rng.normal(size=40_000), rng.integers(0, 2, 40_000)
    y = (rng.random(40_000) < 1 / (1 + np.exp(-3 * z))).astype(int)
    shifted = np.minimum((BINS / (1 + np.exp(-3 * z - 1))).astype(int), BINS - 1)
    rows = np.zeros((2, 2, BINS))
    np.add.at(rows, (y, group, shifted), 1)
    placed = place_cut(rows, COMPARED["demographic_parity"], 0.05)
    assert placed.place / BINS == pytest.approx(1 / (1 + np.exp(-1)), abs=0.04)
    best = cut(rows, COMPARED["demographic_parity"], 1.0).accuracy
    assert placed.accuracy == pytest.approx(best, abs=0.003)


@pytest.mark.parametrize("notion", NOTIONS)
def test_clients_and_pooled_rows_get_the_same_cut(notion):
    """The exchange is a sum: given the same model it does not matter who holds which row."""
    clients, engine = make_clients(5, sizes=(80, 60, 70)), make_engine()
    algorithm = METHOD.make(
        Problem(
            engine,
            make_solver(1),
            make_notion(notion, 2),
            {"target": np.zeros(1)},
            "plain",
            Experiment(outer="solve", cut="common"),
        )
    )
    state = run(algorithm, clients, engine).state
    everyone, task = merge(clients), algorithm.tasks[-1]
    assert (task.reduce, task.name) == ("sum", "histogram")
    [rows] = task.run({"params": state.best}, everyone, {}, (0,))[0]["rows"]
    placed = place_cut(rows, COMPARED[NOTIONS[notion]], 0.0)
    assert state.chance.shape == (1, 1, BINS)
    np.testing.assert_array_equal(state.chance[0, 0], np.arange(BINS) >= placed.place)
    examples = Examples(everyone.x, everyone.y, everyone.group, np.zeros(len(everyone.y), int))
    decision = algorithm.predict(state, {}, examples).decision[0]
    assert np.mean(decision == everyone.y) == pytest.approx(placed.accuracy)
    [told] = algorithm.describe(state)
    assert told["cut"] == pytest.approx(placed.place / BINS)


SMALL = {"rows": 600, "test_rows": 300, "data": "synthetic"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "common"),
        ({"algorithm": "cfl"}, "common"),
        ({"solver": "local"}, "common"),
        ({"cut": "half"}, "half"),
        ({"bits": 8}, "half"),
        ({"bits": 8, "cut": "common"}, "common"),
        ({"outer": "paper"}, None),
        ({"alpha": (0.5,)}, None),
        ({"notion": "cp"}, None),
        ({"algorithm": "fedavg"}, None),
    ],
)
def test_only_solved_weights_have_a_common_cut(settings, expected):
    experiment = resolve(Experiment(**settings))
    assert experiment.cut == expected
    assert resolve(experiment) == experiment


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"outer": "paper"}, "--outer paper. Leave it out, or give --outer solve"),
        ({"notion": "cp"}, "--cut has no effect with --notion cp"),
        ({"algorithm": "fedavg"}, "--cut has no effect with fedavg"),
    ],
)
def test_a_cut_without_effect_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        resolve(Experiment(**settings, cut="common"))


@pytest.mark.slow
def test_a_cut_changes_decisions_and_no_score():
    seeds = range(3)
    moved = 0
    for seed in seeds:
        outcomes = [
            train(Experiment(**SMALL, seeds=(seed,), target=(0.1,), cut=cut))
            for cut in ("half", "common")
        ]
        half, common = (one.fitted[0].predict(one.federation.test) for one in outcomes)
        np.testing.assert_array_equal(half.score, common.score)
        run = outcomes[1].result.runs[0]
        at = run.method.cut
        np.testing.assert_array_equal(common.decision[0], common.score[0] >= at)
        if run.at_one_half is not None:
            moved += 1
            assert run.at_one_half.accuracy == outcomes[0].result.runs[0].accuracy
            assert run.method.training_accuracy >= (
                outcomes[0].result.runs[0].method.training_accuracy
            )
    assert moved


@pytest.mark.slow
def test_ledger_and_explain_tell_the_histogram():
    explained = explain(Experiment(secure=True))
    [after] = [e for e in explained.exchanges if e.when == "after the last round"]
    assert after.question == "histogram"
    assert dict(after.parts) == {"rows": (1, 2, 2, BINS)}
    assert explained.server_receives_only_sums
    assert "histogram" not in [e.question for e in explain(Experiment(cut="half")).exchanges]


@pytest.mark.slow
def test_masked_and_unmasked_sums_place_the_same_cut():
    cuts = {
        run_experiment(Experiment(**SMALL, secure=secure), warn=False).runs[0].method.cut
        for secure in (False, True)
    }
    assert len(cuts) == 1
