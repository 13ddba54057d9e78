"""Thresholds from summed histograms: as fair as asked, as few mistakes as bins allow."""

from itertools import product
from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.optimize import linprog

from federations import deal, make_clients, make_engine, make_rows, make_solver, merge
from fedfb.algorithms import fedavg
from fedfb.algorithms.fedfb import fedfb
from fedfb.algorithms.fedfb.threshold_rules import (
    COMPARED,
    cut,
    decide_at_half,
    mixtures,
    roc_corners,
)
from fedfb.algorithms.fedfb.thresholds import LEVELS, METHOD, are_large_enough
from fedfb.core import Examples
from fedfb.errors import ConfigError
from fedfb.experiments.explain import explain
from fedfb.experiments.outcome import run as run_experiment
from fedfb.experiments.spec import Experiment
from local_training import build, run

NOTIONS = tuple(COMPARED)
PARTS = {
    "seed": st.integers(0, 10**6),
    "groups": st.sampled_from([2, 3]),
    "notion": st.sampled_from(NOTIONS),
}
TINY = {"rows": 400, "test_rows": 200, "rounds": 2, "local_epochs": 2, "lr": (0.05,)}
GIVEN = {"sensitive_at_prediction": True}


def pooled_rows(seed, groups, n=300):
    """Scores of rows with labels and groups; groups differ in how scores lie."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, groups, n)
    group[: 2 * groups], y = np.arange(2 * groups) % groups, rng.integers(0, 2, n)
    y[: 2 * groups] = np.arange(2 * groups) // groups
    score = 1 / (1 + np.exp(-rng.normal(1.2 * (2 * y - 1) + 0.7 * group - 0.5, 1.0, n)))
    return score, y, group


def histogram(score, y, group, groups, bins):
    number = np.minimum((score * bins).astype(int), bins - 1)
    rows = np.zeros((2, groups, bins))
    np.add.at(rows, (y, group, number), 1)
    return rows


def on_scores(score, y, group, groups):
    """The finest histogram there is: a bin for every score."""
    rows = np.zeros((2, groups, len(score)))
    rows[y[np.argsort(score)], group[np.argsort(score)], np.arange(len(score))] = 1
    return rows


@given(**PARTS, target=st.sampled_from([0.0, 0.02, 0.1, 0.4]), mixed=st.booleans())
def test_mixtures_meet_the_target_and_single_thresholds_up_to_half_a_bin(
    seed, groups, notion, target, mixed
):
    compared, rows = COMPARED[notion], histogram(*pooled_rows(seed, groups), groups, 64)
    found = cut(rows, compared, target, mixed)
    assert np.all(np.diff(found.chance, axis=1) >= -1e-9)
    slack = 1e-7
    if not mixed and len(compared) == 1:
        assert set(np.unique(found.chance)) <= {0.0, 1.0}
        among = rows[list(compared[0])].sum(axis=0)
        # Its own rate moves by half a bin at most, that of all by no more.
        slack += (among.max(axis=1) / among.sum(axis=1)).max()
    assert found.disparity <= target + slack


@given(**PARTS)
def test_a_looser_target_never_costs_accuracy(seed, groups, notion):
    rows = histogram(*pooled_rows(seed, groups), groups, 32)
    accuracies = [cut(rows, COMPARED[notion], level).accuracy for level in LEVELS]
    assert np.all(np.diff(accuracies) >= -1e-9)


@given(**PARTS, target=st.sampled_from([0.0, 0.05]))
def test_bins_cost_no_more_than_the_stated_bound(seed, groups, notion, target):
    """Wider bins are never better, and come as near to the scores' own thresholds as stated."""
    score, y, group = pooled_rows(seed, groups)
    compared = COMPARED[notion]
    exact = cut(on_scores(score, y, group, groups), compared, target).accuracy
    before = 0.0
    for bins in (64, 256, 1024):
        rows = histogram(score, y, group, groups, bins)
        found = cut(rows, compared, target).accuracy
        assert before - 1e-9 <= found <= exact + 1e-9
        fullest = rows.sum(axis=0).max(axis=1).sum() / len(y)
        if notion == "demographic_parity":
            assert exact - found <= fullest / 2 + 1e-9
        among = [rows[list(labels)].sum(axis=0) for labels in compared]
        looser = target + 2 * max((one.max(axis=1) / one.sum(axis=1)).max() for one in among)
        assert cut(rows, compared, looser).accuracy >= exact - fullest - 1e-9
        before = found


def test_the_bound_shrinks_with_the_bins():
    score, y, group = pooled_rows(1, 2, n=20_000)
    exact = cut(histogram(score, y, group, 2, 2**14), COMPARED["demographic_parity"]).accuracy
    lost = [
        exact - cut(histogram(score, y, group, 2, bins), COMPARED["demographic_parity"]).accuracy
        for bins in (16, 64, 256)
    ]
    assert lost[0] > lost[1] > lost[2] >= 0
    assert lost[2] < 1e-3


@pytest.mark.parametrize("notion", ["dp", "eo", "eod"])
@pytest.mark.parametrize("variant", METHOD.variants)
def test_clients_and_pooled_rows_get_the_same_thresholds(notion, variant):
    """The exchange is a sum: given the same model it does not matter who holds which row."""
    clients, engine = make_clients(5, sizes=(80, 60, 70)), make_engine()
    algorithm = build(METHOD, engine, notion, variant=variant, minimum=0)
    trained = run(algorithm, clients, engine)
    everyone = merge(clients)
    task, params = algorithm.tasks[-1], {"params": model_of(trained.state, variant)}
    assert (task.reduce, task.name) == ("sum", "histogram")
    [rows] = task.run(params, everyone, {}, (0,))[0]["rows"]
    compared = COMPARED[long(notion)]
    expected = cut(rows, compared, 0.0, mixed="mixed" in variant)
    np.testing.assert_array_equal(trained.state.chance[0], expected.chance)
    examples = Examples(everyone.x, everyone.y, everyone.group, np.zeros(len(everyone.y), int))
    decision = algorithm.predict(trained.state, {}, examples).decision[0]
    right = np.where(everyone.y == 1, decision, 1 - decision).mean()
    assert right == pytest.approx(expected.accuracy, abs=1e-9)
    [told] = algorithm.describe(trained.state)
    assert told["curve"][0]["accuracy"] == pytest.approx(expected.accuracy)
    assert told["off_target"] == pytest.approx(expected.disparity)


def long(notion):
    return {"dp": NOTIONS[0], "eo": NOTIONS[1], "eod": NOTIONS[2]}[notion]


def model_of(state, variant):
    return state.best if variant.startswith("combined") else state.params


@pytest.mark.parametrize(
    ("variant", "within"), [("plain", fedavg.METHOD), ("combined", fedfb.METHOD)]
)
def test_training_is_that_of_the_method_within(variant, within):
    clients, engine = make_clients(6, sizes=(50, 60)), make_engine()
    found = run(build(METHOD, engine, variant=variant), clients, engine).state
    expected = run(build(within, engine), clients, engine).state
    np.testing.assert_array_equal(model_of(found, variant), model_of(expected, variant))


def test_small_groups_are_not_counted_and_keep_one_half():
    clients, engine = make_clients(7, sizes=(60, 60)), make_engine()
    # Three rows of group 1 have label 0: fewer than the minimum.
    few = [c._replace(group=np.where(c.y == 0, 0, c.group)) for c in clients]
    few[0].group[np.flatnonzero(few[0].y == 0)[:3]] = 1
    algorithm = build(METHOD, engine, minimum=10)
    state = run(algorithm, few, engine).state
    asked = {"params": state.params, "wanted": are_large_enough(state.counts, ((0, 1),), 10)}
    upload, _ = algorithm.tasks[-1].run(asked, few[0], {}, (0,))
    assert upload["rows"][0, :, 1].sum() == 0
    assert upload["rows"][0, :, 0].sum() > 0
    np.testing.assert_array_equal(state.chance[0, 1], decide_at_half(1024))
    assert algorithm.describe(state)[0]["left_out"] == [1]


def scattered(rows=900, clients=30):
    """Clients of 30 rows each, one in ten of group 1."""
    drawn = make_rows(3, rows, 2)
    group = (np.arange(rows) % 10 == 0).astype(int)
    return deal(drawn._replace(group=group), "iid", clients, 0)


def test_with_some_clients_a_round_all_are_counted_in_the_histogram():
    clients, engine = scattered(), make_engine(4)
    algorithm = build(METHOD, engine, minimum=0, solver=make_solver(epochs=1))
    state = run(algorithm, clients, engine, participation=0.1).state
    everyone = merge(clients)
    upload, _ = algorithm.tasks[-1].run({"params": state.params}, everyone, {}, (0,))
    expected = cut(upload["rows"][0], COMPARED["demographic_parity"], 0.0, mixed=False)
    np.testing.assert_array_equal(state.chance[0], expected.chance)
    [told] = algorithm.describe(state)
    assert told["off_target"] == pytest.approx(expected.disparity)


def test_the_minimum_is_of_the_rows_that_the_histogram_has():
    """All clients have enough rows of group 1 together; those that stay to the end do not."""
    clients, engine = scattered(), make_engine(4)
    least = int(min(np.bincount(merge(clients).y[merge(clients).group == 1])))
    algorithm = build(METHOD, engine, minimum=least, solver=make_solver(epochs=1))
    whole, some = (run(algorithm, clients, engine, dropout=share).state for share in (0.0, 0.5))
    assert algorithm.describe(whole)[0]["left_out"] == []
    assert algorithm.describe(some)[0]["left_out"] == [1]
    np.testing.assert_array_equal(some.chance[0, 1], decide_at_half(1024))


def test_it_needs_the_group_and_one_number_of_bins():
    for algorithm in ("fedfb-thresholds", "hardt"):
        with pytest.raises(ConfigError, match="only weighs rows, such as fedfb"):
            run_experiment(Experiment(algorithm=algorithm, **TINY))
    several = Experiment(algorithm="fedfb-thresholds", knobs=("bins=64,128",), **TINY, **GIVEN)
    with pytest.raises(ConfigError, match="--set bins takes one whole number"):
        run_experiment(several)


@pytest.mark.parametrize(
    ("algorithm", "notion"),
    [
        *product(("fedfb", "cfl", "fedfb-thresholds"), ("dp", "eo", "eod")),
        *product(("fedfb", "cfl", "fedfb-sums"), ("cp",)),
    ],
)
def test_only_sums_are_used(algorithm, notion):
    explained = explain(Experiment(algorithm=algorithm, notion=notion), groups=4)
    assert explained.needs_only_sums
    assert "round" in {one.when for one in explained.exchanges}


def test_the_report_tells_what_thresholds_did_and_what_fairness_cost():
    given = Experiment(algorithm="fedfb-thresholds", target=(0.05,), **TINY, **GIVEN)
    report = run_experiment(given)
    [run_record] = report.runs
    assert run_record.at_one_half.accuracy > 0
    assert len(run_record.method.thresholds) == 2
    free, cost = report.summary.free, report.summary.cost
    gained = free.accuracy.mean - report.summary.accuracy.mean
    assert cost.mean == pytest.approx(gained)


def over_all_thresholds(reach, compared, target):
    """The fewest mistakes by the programme as it is stated: a weight for every threshold."""
    _, groups, thresholds = reach.shape
    of_group = np.kron(np.eye(groups), np.ones(thresholds))
    gaps = []
    for labels in compared:
        among = reach[list(labels)].sum(axis=0)
        rate = of_group * (among / among[:, :1]).ravel()
        gaps.append(rate - (among[:, 0] / among[:, 0].sum()) @ rate)
    bounded = np.vstack([*gaps, *(-gap for gap in gaps)])
    solution = linprog(
        (reach[0] - reach[1]).ravel(), bounded, np.full(len(bounded), target),
        of_group, np.ones(groups), method="highs",
    )  # fmt: skip
    return solution.fun


@given(
    data=st.data(),
    notion=st.sampled_from(NOTIONS),
    target=st.sampled_from([0.0, 0.01, 0.1, 1.0]),
    groups=st.integers(1, 5),
    bins=st.integers(1, 12),
)
def test_corners_of_the_curves_reach_what_all_thresholds_reach(data, notion, target, groups, bins):
    """With ties, empty cells, a label that a group lacks where it may, and a single bin."""
    few = st.one_of(st.integers(0, 2), st.integers(0, 400)).map(float)
    rows = data.draw(npst.arrays(float, (2, groups, bins), elements=few))
    compared = COMPARED[notion]
    for labels in compared:
        lacking = rows[list(labels)].sum(axis=(0, 2)) == 0
        rows[labels[-1], lacking, 0] = 1.0
    reach = np.zeros((2, groups, bins + 1))
    reach[..., :-1] = np.cumsum(rows[..., ::-1], axis=2)[..., ::-1]
    weights = mixtures(reach, compared, target)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-9)
    assert (weights >= -1e-9).all()
    mistakes = np.sum(weights * (reach[0] - reach[1]))
    slack = 1e-6 * max(rows.sum(), 1.0)
    assert mistakes == pytest.approx(over_all_thresholds(reach, compared, target), abs=slack)
    # The weights are those of a feasible rule: their rates differ by no more than the target.
    for labels in compared:
        among = reach[list(labels)].sum(axis=0)
        positives = np.sum(weights * among, axis=1)
        apart = positives / among[:, 0] - positives.sum() / among[:, 0].sum()
        assert np.abs(apart).max() <= target + 1e-6


@given(npst.arrays(float, (2, 9), elements=st.integers(0, 5).map(float)))
def test_every_threshold_lies_within_the_corners(rows):
    reach = np.zeros((2, 10))
    reach[:, :-1] = np.cumsum(rows[:, ::-1], axis=1)[:, ::-1]
    corners = reach[:, roc_corners(reach)]
    for direction in np.linspace(0, 2 * np.pi, 25):
        ahead = np.array([np.cos(direction), np.sin(direction)])
        assert (ahead @ reach).max() <= (ahead @ corners).max() + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("notion", NOTIONS)
def test_the_whole_curve_of_24_groups_takes_less_than_a_second(notion):
    rows = histogram(*pooled_rows(0, 24, 60_000), 24, 1_024)
    start = process_time()
    accuracies = [cut(rows, COMPARED[notion], level).accuracy for level in LEVELS]
    assert process_time() - start < 1.0
    assert np.all(np.diff(accuracies) >= -1e-9)
