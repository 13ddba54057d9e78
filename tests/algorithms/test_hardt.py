"""Post-processing: thresholds by group make rates equal at the fewest mistakes."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federations import make_clients, make_engine, make_solver, merge
from fedfb.algorithms.baselines.hardt import METHOD
from fedfb.algorithms.fedavg import fedavg
from fedfb.algorithms.fedfb.threshold_rules import COMPARED, cut, decide_at_half
from fedfb.core import Examples
from fedfb.engine import sigmoid
from fedfb.errors import ConfigError
from fedfb.runtime import make_ask
from local_training import build, run

SHORT = {"dp": "demographic_parity", "eo": "equal_opportunity", "eod": "equalized_odds"}


def tables(seed, groups=2, bins=5, most=6):
    """Rows by label, group and bin; every label of every group has some."""
    rows = np.random.default_rng(seed).integers(0, most, (2, groups, bins)).astype(float)
    rows[:, :, 0] += 1
    return rows


def equalise(rows, compared):
    return cut(rows, compared).chance


def rates(rows, chance, labels):
    among = rows[list(labels)].sum(axis=0)
    return (among * chance).sum(axis=1) / among.sum(axis=1)


def mistakes(rows, chance):
    return np.sum(rows[0] * chance + rows[1] * (1 - chance))


def examples_of(data):
    return Examples(data.x, data.y, data.group, np.zeros(len(data.y), int))


@pytest.mark.parametrize("compared", COMPARED.values(), ids=COMPARED)
@given(seed=st.integers(0, 10**6), groups=st.sampled_from([1, 2, 3]))
def test_rates_are_equal_and_chances_rise_with_the_score(compared, seed, groups):
    rows = tables(seed, groups)
    chance = equalise(rows, compared)
    for labels in compared:
        np.testing.assert_allclose(np.ptp(rates(rows, chance, labels)), 0, atol=1e-8)
    assert np.all((chance >= 0) & (chance <= 1))
    assert np.all(np.diff(chance, axis=1) >= -1e-9)


@pytest.mark.parametrize("name", ["demographic_parity", "equal_opportunity"])
@given(seed=st.integers(0, 10**6))
def test_the_programme_finds_what_brute_force_over_pairs_of_thresholds_finds(name, seed):
    """With one rate to equalise, an optimum mixes two thresholds in each of two groups.

    Error is convex and piecewise linear in the common rate c, with corners only where c is the rate
    of a single threshold of some group: so try every such c, and every pair of thresholds around it
    in each group.
    """
    rows, [labels] = tables(seed, bins=4), COMPARED[name]
    steps = np.array([(np.arange(4) >= k).astype(float) for k in range(5)])
    among = rows[list(labels)].sum(axis=0)
    rate = np.array([[(among[a] * s).sum() / among[a].sum() for s in steps] for a in (0, 1)])
    cost = np.array(
        [[np.sum(rows[0, a] * s + rows[1, a] * (1 - s)) for s in steps] for a in (0, 1)]
    )

    def cheapest(a, c):
        found = []
        for k, other in itertools.product(range(5), repeat=2):
            low, high = rate[a, k], rate[a, other]
            if abs(high - low) < 1e-12:
                if abs(c - low) < 1e-12:
                    found.append(min(cost[a, k], cost[a, other]))
            elif low - 1e-12 <= c <= high + 1e-12:
                q = (c - low) / (high - low)
                found.append((1 - q) * cost[a, k] + q * cost[a, other])
        return min(found)

    best = min(cheapest(0, c) + cheapest(1, c) for c in rate.ravel())
    assert mistakes(rows, equalise(rows, COMPARED[name])) == pytest.approx(best, abs=1e-8)


@given(seed=st.integers(0, 10**6))
def test_no_random_mixture_with_equal_odds_makes_fewer_mistakes(seed):
    """Points (FPR, TPR) on a fine grid that both groups reach: under both upper hulls.

    A point is reached where no line through two points of the group's curve, or its ends, passes
    below it. The best of the grid is at most its pitch away from the programme's optimum.
    """
    rows, pitch = tables(seed, bins=3), 1 / 50
    hulls = []
    for a in (0, 1):
        n = rows[:, a].sum(axis=1)
        points = [(rows[0, a, k:].sum() / n[0], rows[1, a, k:].sum() / n[1]) for k in range(4)]
        grid = np.arange(51) / 50
        tops = []
        for x in grid:
            top = 0.0
            for (x0, y0), (x1, y1) in itertools.product(points, repeat=2):
                if x0 <= x <= x1:
                    top = max(top, y0 + (y1 - y0) * (x - x0) / (x1 - x0) if x1 > x0 else y1)
            tops.append(top)
        hulls.append(np.array(tops))
    total = rows.sum(axis=(1, 2))
    best = np.min(total[0] * grid + total[1] * (1 - np.minimum(*hulls)))
    found = mistakes(rows, equalise(rows, COMPARED["equalized_odds"]))
    assert found <= best + 1e-8
    assert best - found <= pitch * total[0] + 1e-8


def test_a_known_table_by_hand():
    """Equal opportunity of two groups in four bins.

    Group 0 has positives (0, 0, 2, 2), negatives (4, 0, 0, 0): TPR 1 costs nothing. Group 1 has
    positives (2, 0, 0, 2), negatives (0, 3, 0, 0): its threshold at the top has TPR 1/2 and two
    mistakes, deciding all has TPR 1 and three; between them a TPR of 1/2 + q/2 costs 2 + q. Group 0
    at TPR t costs 4(1 - t), at 1/2 two. So TPR 1 costs 3, TPR 1/2 costs 4: group 1 is let in.
    """
    rows = np.array([[[4.0, 0, 0, 0], [0, 3.0, 0, 0]], [[0, 0, 2.0, 2.0], [2.0, 0, 0, 2.0]]])
    chance = equalise(rows, COMPARED["equal_opportunity"])
    np.testing.assert_allclose(rates(rows, chance, (1,)), [1, 1])
    np.testing.assert_allclose(chance[1], 1)
    assert chance[0, 0] == 0
    assert mistakes(rows, chance) == pytest.approx(3)


def test_groups_that_cannot_be_compared_keep_one_half():
    rows = tables(0, groups=3, bins=6)
    rows[1, 1] = 0  # no positives
    for name in ("equal_opportunity", "equalized_odds"):
        chance = equalise(rows, COMPARED[name])
        np.testing.assert_array_equal(chance[1], decide_at_half(6))
        both = equalise(rows[:, [0, 2]], COMPARED[name])
        np.testing.assert_allclose(chance[[0, 2]], both)
    rows[:, 1] = 0
    chance = equalise(rows, COMPARED["demographic_parity"])
    np.testing.assert_array_equal(chance[1], decide_at_half(6))
    np.testing.assert_array_equal(
        equalise(np.zeros((2, 2, 6)), COMPARED["equal_opportunity"]),
        np.tile(decide_at_half(6), (2, 1)),
    )


@pytest.mark.parametrize("hidden", [(), (4,)])
@pytest.mark.parametrize("name", SHORT)
def test_the_model_is_that_of_plain_training_and_rates_are_equal_on_training_rows(name, hidden):
    """Exactly so: the bins hold the same rows in choosing and in predicting."""
    pooled, engine = merge(make_clients(4, sizes=(60, 40))), make_engine(hidden=hidden)
    algorithm = build(METHOD, engine, name)
    trained = run(algorithm, (pooled,), engine)
    plain = run(fedavg(engine, make_solver()), (pooled,), engine)
    np.testing.assert_array_equal(trained.state.params, plain.state.params)
    prediction = algorithm.predict(trained.state, {}, examples_of(pooled))
    logits = engine.logits(plain.state.params, pooled.x)
    np.testing.assert_array_equal(prediction.score, sigmoid(logits))
    for labels in COMPARED[SHORT[name]]:
        among = np.isin(pooled.y, labels)
        by_group = [prediction.decision[0, among & (pooled.group == a)].mean() for a in (0, 1)]
        assert by_group[0] == pytest.approx(by_group[1], abs=1e-8)


@given(seed=st.integers(0, 10**6))
def test_before_the_first_round_decisions_are_the_usual_ones(seed):
    [data], engine = make_clients(seed, sizes=(30,)), make_engine()
    algorithm = build(METHOD, engine)
    memories = {data.id: {}}
    state = algorithm.setup(engine.model.init(seed)[None], make_ask([data], memories, 0, 0))
    decision = algorithm.predict(state, {}, examples_of(data)).decision
    np.testing.assert_array_equal(decision, engine.logits(state.params, data.x) >= 0)


def test_the_histogram_is_a_sum_and_does_not_see_how_rows_are_split():
    clients, engine = make_clients(2), make_engine()
    task = build(METHOD, engine).tasks[-1]
    assert task.reduce == "sum"
    params = {"params": engine.model.init(2)[None]}
    parts = sum(task.run(params, c, {}, (0,))[0]["rows"] for c in clients)
    whole = task.run(params, merge(clients), {}, (0,))[0]["rows"]
    np.testing.assert_array_equal(parts, whole)
    assert whole.shape == (1, 2, 2, 1024)


def test_clients_are_not_its_concern():
    with pytest.raises(ConfigError, match="Choose --notion dp, eo or eod"):
        build(METHOD, make_engine(), "cp")
