"""The search for the weights: where it must arrive, and what it must survive."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfb.algorithms import Outer
from fedfb.algorithms.fedfb.outer import distances, measured_gaps, solve
from fedfb.algorithms.fedfb.root_search import FARTHEST, empty_record
from fedfb.notions import make_notion, symmetric

NAMES = ("dp", "eo", "eod", "cp")
ROUNDS = 10


def make_world(name, seed, groups):
    """Return a notion, its counts, and rates that fall along a logistic curve in a group's shift.

    Group a starts at a rate of its own, and answers with a steepness of its own: what weighing a
    group does to a logistic regression that knows the group. Losses of clients answer less.
    """
    rng = np.random.default_rng(seed)
    notion = symmetric(make_notion(name, groups))
    counts = rng.integers(50, 500, size=groups if name == "cp" else (2, groups))
    shape = notion.init(counts).shape
    start, steepness = rng.uniform(-1.5, 1.5, shape), rng.uniform(0.5, 1.5, shape)
    height = 0.3 if name == "cp" else 1.0
    return notion, counts, lambda theta: height / (1 + np.exp(-start + steepness * theta))


def search(notion, counts, rates, target=0.0, noise=0.0, seed=0, lag=0.0):
    """Play the rounds; return the disparity and lambda of each."""
    rng, there = np.random.default_rng(seed), np.ones(counts.shape[-1], dtype=bool)
    lam = notion.init(counts)[None]
    seen, model, found = empty_record(lam), None, []
    for _ in range(ROUNDS):
        theta = notion.shift(lam / notion.init(counts))
        model = theta if model is None else lag * model + (1 - lag) * theta
        signal = rates(model) + noise * rng.standard_normal(lam.shape)
        gap, measured = measured_gaps(
            notion, signal - signal.mean(axis=-1, keepdims=True), there, counts
        )
        found.append((notion.disparity(gap)[0], lam))
        lam, seen = solve(Outer(target=target), notion, lam, gap, measured, counts, seen)
    return found


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 10**6), groups=st.integers(2, 6))
def test_gaps_vanish_within_seven_rounds_and_stay_away(name, seed, groups):
    found = search(*make_world(name, seed, groups))
    assert max(disparity for disparity, _ in found[7:]) < 0.02


@pytest.mark.parametrize("name", NAMES)
@given(
    seed=st.integers(0, 10**6),
    groups=st.integers(2, 6),
    noise=st.floats(0, 0.3),
    lag=st.floats(0, 0.9),
)
def test_whatever_the_signal_says_lambda_stays_where_it_may(name, seed, groups, noise, lag):
    notion, counts, rates = make_world(name, seed, groups)
    for _, lam in search(notion, counts, rates, 0.0, noise, seed, lag):
        assert notion.feasible(lam, counts)
        np.testing.assert_allclose(
            lam.sum(axis=-1), notion.init(counts).sum(axis=-1)[None], atol=1e-9
        )


@given(seed=st.integers(0, 10**6))
def test_models_that_lag_behind_their_weights_still_arrive(seed):
    """Half of the way to the new weights a round, as where local training is short."""
    found = search(*make_world("dp", seed, 2), lag=0.5)
    assert found[-1][0] < 0.03


@pytest.mark.parametrize("name", ["dp", "eo", "eod"])
@given(seed=st.integers(0, 10**6), target=st.floats(0.01, 0.2))
def test_a_target_is_reached_from_above_and_left_alone_from_below(name, seed, target):
    notion, counts, rates = make_world(name, seed, 3)
    found = search(notion, counts, rates, target)
    at_start = found[0][0]
    if at_start <= target:
        np.testing.assert_allclose(found[-1][1], notion.init(counts)[None], atol=1e-9)
    else:
        assert abs(found[-1][0] - target) < 0.01


def test_where_no_weight_can_make_groups_equal_the_search_ends_at_its_border():
    notion = symmetric(make_notion("dp", 2))
    counts = np.array([[100, 200], [100, 200]])
    found = search(notion, counts, lambda theta: np.array([[0.1, 0.9]]) + 0 * theta)
    theta = notion.shift(found[-1][1] / notion.init(counts))
    assert np.abs(theta).max() == pytest.approx(FARTHEST)


def test_a_group_that_nobody_has_today_keeps_its_weight():
    notion = symmetric(make_notion("dp", 3))
    counts = np.full((2, 3), 100)
    lam = notion.init(counts)[None] * np.array([[1.2, 0.9, 0.9]])
    there = np.array([True, False, True])
    gap, measured = measured_gaps(notion, np.array([[0.3, 0.0, -0.3]]), there, counts)
    after, _ = solve(Outer(), notion, lam, gap, measured, counts, empty_record(lam))
    assert after[0, 1] == pytest.approx(lam[0, 1])
    assert gap[0, 1] == 0
    assert after.sum() == pytest.approx(notion.init(counts).sum())
    assert after[0, 0] > lam[0, 0]


def test_a_target_of_one_asks_for_nothing_even_of_losses_further_apart():
    notion, counts, rates = make_world("cp", 0, 3)
    found = search(notion, counts, lambda theta: 10 * rates(theta), target=1.0)
    assert min(disparity for disparity, _ in found) > 1
    np.testing.assert_allclose(found[-1][1], found[0][1], rtol=1e-9)
    gap = np.array([[-2.0, 0.0, 2.0]])
    far = distances(Outer(target=1.0), notion, gap, np.array([False]), counts)
    assert np.all(np.stack(far) == 0)
