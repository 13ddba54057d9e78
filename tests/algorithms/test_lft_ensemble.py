"""LFT+Ensemble: members trained alone, mixed by votes, scores or chance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federations import make_clients, make_engine, make_solver
from fedfb.algorithms.baselines.lft import LFT_ENSEMBLE as METHOD
from fedfb.algorithms.baselines.lft import ROUNDS_AT_ONCE, LocalFairBatch, lft_ensemble, mix
from fedfb.core import Examples
from fedfb.engine import decide, sigmoid
from fedfb.errors import ConfigError
from fedfb.notions import make_notion
from few_examples import one_in
from local_training import build, chance, client, descend, run

GROUP_NOTIONS = ("dp", "eo", "eod")


def rows_of(clients):
    owner = np.repeat([c.id for c in clients], [len(c.y) for c in clients])
    x, y, group = (
        np.concatenate([getattr(c, name) for c in clients]) for name in ("x", "y", "group")
    )
    return Examples(x, y, group, owner)


def predict(algorithm, trained, clients):
    return algorithm.predict(trained.state, trained.memories, rows_of(clients))


@pytest.mark.parametrize("name", GROUP_NOTIONS)
@given(seed=st.integers(0, 10**6))
@one_in(8)
def test_without_a_step_members_are_local_models(name, seed):
    clients, engine = make_clients(seed), make_engine()
    trained = run(build(METHOD, engine, name, alpha=0.0), clients, engine, seed=seed, rounds=1)
    longer = make_solver(epochs=2 * ROUNDS_AT_ONCE)
    start, ones = engine.model.init(seed)[None], np.ones((1, 2, 2))
    for place, c in enumerate(clients):
        alone = engine.train(start, c, ones, longer, (seed, 1, 0, c.id))
        np.testing.assert_allclose(trained.state.members[:, place], alone, atol=1e-10)


@given(seed=st.integers(0, 10**6), groups=st.sampled_from([2, 3]))
def test_the_gap_of_the_randomised_ensemble_is_the_mean_of_its_members_gaps(seed, groups):
    clients, engine = make_clients(seed, groups=groups), make_engine()
    algorithm = build(METHOD, engine, groups=groups)
    trained = run(algorithm, clients, engine, seed=seed, rounds=1)
    everyone = rows_of(clients)

    def gaps(decision):
        rates = [decision[everyone.group == a].mean() for a in range(groups)]
        return np.array(rates) - rates[0]

    members = [decide(engine.logits(m[None], everyone.x))[0] for m in trained.state.members[0]]
    expected = np.mean([gaps(member) for member in members], axis=0)
    mixture = predict(algorithm, trained, clients).decision[0]
    np.testing.assert_allclose(gaps(mixture), expected, atol=1e-12)


@given(seed=st.integers(0, 10**6), members=st.integers(1, 5))
def test_forms_agree_where_all_members_do_and_with_one_member(seed, members):
    logits = np.random.default_rng(seed).normal(size=(members, 2, 7))
    ones = np.ones(members)
    chances, soft, vote = (mix(logits, ones, m) for m in ("randomised", "soft", "vote"))
    np.testing.assert_allclose(chances.score, sigmoid(logits).mean(axis=0), atol=1e-12)
    np.testing.assert_array_equal(vote.decision, chances.decision >= 0.5)
    sure = (chances.decision == 0) | (chances.decision == 1)
    for other in (soft, vote):
        np.testing.assert_array_equal(other.decision[sure], chances.decision[sure])
        np.testing.assert_array_equal(other.score, chances.score)
    assert sure.all() or members > 1


def test_members_weigh_the_same_or_by_rows():
    clients, engine = make_clients(1, sizes=(30, 10)), make_engine()
    rule = LocalFairBatch(make_notion("dp", 2), np.array([0.1]))
    decisions = {}
    for weighting in ("uniform", "rows"):
        algorithm = lft_ensemble(engine, make_solver(), rule, weighting=weighting)
        trained = run(algorithm, clients, engine, rounds=1)
        decisions[weighting] = predict(algorithm, trained, clients).decision[0]
    first, second = (
        decide(engine.logits(m[None], rows_of(clients).x))[0] for m in trained.state.members[0]
    )
    np.testing.assert_allclose(decisions["uniform"], (first + second) / 2)
    np.testing.assert_allclose(decisions["rows"], (3 * first + second) / 4)


@pytest.mark.parametrize("hidden", [(), (4,)])
@pytest.mark.parametrize("variant", METHOD.variants)
def test_it_runs_from_a_problem_and_asks_once(hidden, variant):
    clients, engine = make_clients(0, groups=3), make_engine(hidden=hidden)
    algorithm = build(METHOD, engine, "eod", groups=3, variant=variant, runs=2)
    once = run(algorithm, clients, engine, rounds=1, runs=2)
    more = run(algorithm, clients, engine, rounds=3, runs=2)
    np.testing.assert_array_equal(once.state.members, more.state.members)
    assert once.state.members.shape == (2, 3, engine.model.size)
    assert algorithm.params(once.state) is None
    assert [task.reduce for task in algorithm.tasks] == ["gather"]
    decision = predict(algorithm, once, clients).decision
    assert np.all((decision >= 0) & (decision <= 1))
    if variant != "randomised":
        assert set(np.unique(decision)) <= {0.0, 1.0}


@pytest.mark.parametrize("name", GROUP_NOTIONS)
def test_a_client_with_nothing_to_compare_trains_plainly(name):
    first, *others = make_clients(2)
    alone = first._replace(group=np.zeros_like(first.group))
    negative = others[0]._replace(y=np.zeros_like(others[0].y))
    engine = make_engine()
    fair = run(build(METHOD, engine, name, alpha=1.0), (alone, negative, others[1]), engine)
    plain = run(build(METHOD, engine, name, alpha=0.0), (alone, negative, others[1]), engine)
    np.testing.assert_allclose(fair.state.members[0, 0], plain.state.members[0, 0], atol=1e-12)
    if name != "dp":
        np.testing.assert_allclose(fair.state.members[0, 1], plain.state.members[0, 1], atol=1e-12)
    assert np.abs(fair.state.members[0, 2] - plain.state.members[0, 2]).max() > 1e-4


@pytest.mark.parametrize("groups", [1, 2])
def test_one_client_and_one_group_are_fine(groups):
    [only], engine = make_clients(0, sizes=(20,), groups=groups), make_engine()
    algorithm = build(METHOD, engine, groups=groups)
    trained = run(algorithm, [only], engine, rounds=1)
    decision = predict(algorithm, trained, [only]).decision
    assert set(np.unique(decision)) <= {0.0, 1.0}


def test_the_ensemble_is_of_those_who_came():
    clients, engine = make_clients(4, sizes=(9, 14, 12, 15)), make_engine()
    trained = run(build(METHOD, engine), clients, engine, rounds=3, participation=0.5)
    assert trained.state.members.shape == (1, 2, engine.model.size)


def test_client_parity_is_refused():
    with pytest.raises(ConfigError, match="--notion dp, eo or eod"):
        build(METHOD, make_engine(), "cp")


def test_ten_epochs_by_hand():
    """One member with one feature, full batches of SGD, demographic parity, signal |y - p|.

    Group 0 has (y=1), group 1 has (y=1, y=0). n = 3, so lambda starts at (1/3, 2/3) and the
    weights of labels 0, 1 are 3 lambda_0, 2 - 3 lambda_0 in group 0 and 3/2 lambda_1,
    2 - 3/2 lambda_1 in group 1. The signal is P_1 - P_0 with P_a the mean probability of group a.
    """
    rows, alpha, lr = [(1.0, 1, 0), (-0.5, 1, 1), (0.25, 0, 1)], 0.4, 0.3
    engine = make_engine(features=1)
    solver = make_solver(lr=lr, epochs=1, batch=10, optimiser="sgd")
    algorithm = build(METHOD, engine, solver=solver, alpha=alpha)
    (w, b), lam = engine.model.init(0), [1 / 3, 2 / 3]
    for epoch in range(1, ROUNDS_AT_ONCE + 1):
        weights = [2 - 3 * lam[0], 2 - 1.5 * lam[1], 1.5 * lam[1]]
        w, b = descend(w, b, rows, weights, sum(weights), lr)
        p = [chance(w, b, x) for x, _, _ in rows]
        gap = (p[1] + p[2]) / 2 - p[0]
        step = alpha / epoch**0.5 * gap
        lam = [min(max(lam[0] - step, 0), 2 / 3), min(max(lam[1] + step, 0), 4 / 3)]
    assert abs(lam[0] - 1 / 3) > 0.05
    trained = run(algorithm, [client(0, rows)], engine, rounds=1)
    np.testing.assert_allclose(trained.state.members[0, 0], [w, b], atol=1e-12)
