"""Zafar's constraint: covariances from sums, and what the bound does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federations import make_clients, make_engine, make_solver, merge
from fedfb.algorithms.baselines.group_gaps import MEAN_LOGIT, MISTAKE_OF_POSITIVES
from fedfb.algorithms.baselines.zafar import zafar
from fedfb.runtime import make_ask
from few_examples import one_in
from scalar_logistic import (
    ROWS,
    START,
    gradient_of_mean,
    logit,
    mean,
    minus,
    slope_of_cross_entropy,
)
from step_methods import biased_clients, by_hand, plain_descent, run


def build(engine, tau, nu=1.0, groups=2, solver=None, **more):
    solver = solver or make_solver(lr=0.1, optimiser="sgd")
    return zafar(engine, solver, groups, np.array([tau]), np.array([nu]), **more)


@given(seed=st.integers(0, 10**6), groups=st.sampled_from([2, 3]))
def test_client_covariances_sum_to_the_pooled_one(seed, groups):
    """(1/n) sum_j (1[a_j = a] - share_a) z_j; of two groups it is pi_0 pi_1 times the gap."""
    clients, engine = make_clients(seed, groups=groups), make_engine()
    params, everyone = engine.model.init(seed)[None], merge(clients)
    share = np.bincount(everyone.group, minlength=groups) / len(everyone.y)

    def covariance_sum(client):
        z = engine.logits(params, client.x)[0]
        return (np.eye(groups)[client.group] - share).T @ z

    ask = make_ask(clients, {c.id: {} for c in clients}, seed, 1)
    algorithm = build(engine, 0.0, groups=groups)
    _, info = algorithm.round(algorithm.setup(params, ask), ask)
    by_client = sum(map(covariance_sum, clients)) / len(everyone.y)
    np.testing.assert_allclose(info.signal[0], by_client, atol=1e-12)
    np.testing.assert_allclose(by_client, covariance_sum(everyone) / len(everyone.y), atol=1e-12)
    if groups == 2:
        z = engine.logits(params, everyone.x)[0]
        gap = z[everyone.group == 1].mean() - z[everyone.group == 0].mean()
        assert info.signal[0, 1] == pytest.approx(share[0] * share[1] * gap, abs=1e-12)


@given(seed=st.integers(0, 10**6), constant=st.floats(-5, 5))
def test_a_constant_on_all_logits_leaves_the_covariance(seed, constant):
    clients, engine = make_clients(seed, groups=3), make_engine()
    params = engine.model.init(seed)[None]
    shifted = params.copy()
    shifted[:, -1] += constant
    found = []
    for start in (params, shifted):
        ask = make_ask(clients, {c.id: {} for c in clients}, seed, 1)
        algorithm = build(engine, 0.0, groups=3)
        found.append(algorithm.round(algorithm.setup(start, ask), ask)[1].signal)
    np.testing.assert_allclose(found[0], found[1], atol=1e-12)


@pytest.mark.parametrize("statistic", [MEAN_LOGIT, MISTAKE_OF_POSITIVES])
@pytest.mark.parametrize("nu", [0.0, 10.0])
@given(seed=st.integers(0, 10**6))
@one_in(5)
def test_without_a_bound_it_is_plain_descent(statistic, nu, seed):
    clients, engine = make_clients(seed), make_engine()
    fair = run(build(engine, np.inf, nu, statistic=statistic), clients, engine, 12, seed=seed).state
    w = plain_descent(clients, engine, 12, 0.1, seed)
    np.testing.assert_allclose(fair.params, w, atol=1e-12)
    assert not fair.multipliers.any()


@pytest.mark.parametrize("hidden", [(), (4,)])
def test_summed_is_pooled(hidden):
    clients, engine = make_clients(3), make_engine(hidden=hidden)
    algorithm = build(engine, 0.01, 5.0, period=10)
    apart = run(algorithm, clients, engine, 25).state
    pooled = run(algorithm, (merge(clients),), engine, 25).state
    np.testing.assert_allclose(apart.params, pooled.params, atol=1e-10)
    np.testing.assert_allclose(apart.multipliers, pooled.multipliers, atol=1e-10)


@pytest.mark.parametrize(("statistic", "nu"), [(MEAN_LOGIT, 3.0), (MISTAKE_OF_POSITIVES, 30.0)])
@pytest.mark.parametrize("groups", [2, 3])
def test_the_bound_binds_where_the_free_model_breaks_it(statistic, nu, groups):
    """Mistakes are a tenth of logits, so their squared excess weighs more to settle as soon."""
    clients, engine = biased_clients(8, groups=groups), make_engine()

    def largest(tau, steps):
        more = {"groups": groups, "solver": make_solver(lr=0.03), "statistic": statistic}
        trained = run(build(engine, tau, nu, **more), clients, engine, steps)
        return np.abs(trained.history[-1].signal).max()

    tau = largest(np.inf, 80) / 4
    assert largest(tau, 600) == pytest.approx(tau, rel=0.05)


def test_zero_bound_makes_the_mean_logits_of_two_groups_equal():
    clients, engine = biased_clients(8), make_engine()
    trained = run(build(engine, 0.0, 3.0, solver=make_solver(lr=0.03)), clients, engine, 250)
    everyone = merge(clients)
    z = engine.logits(trained.state.params, everyone.x)[0]
    assert abs(z[everyone.group == 1].mean() - z[everyone.group == 0].mean()) < 0.01


def test_two_rounds_by_hand():
    """Scalar arithmetic on six rows; multipliers move after the first step (period 1)."""
    tau, nu, eta, model = 0.05, 2.0, 0.3, START
    above, below = [0.0, 0.0], [0.0, 0.0]
    for _ in range(2):
        step = gradient_of_mean(ROWS, lambda r, m=model: slope_of_cross_entropy(m, r))
        for a in (0, 1):
            share = mean(ROWS, lambda r, a=a: float(r.group == a))
            covariance = mean(
                ROWS, lambda r, a=a, s=share, m=model: ((r.group == a) - s) * logit(m, r)
            )
            slope = gradient_of_mean(ROWS, lambda r, a=a, s=share: (r.group == a) - s)
            above[a] = max(0.0, above[a] + 2 * nu * (covariance - tau))
            below[a] = max(0.0, below[a] + 2 * nu * (-covariance - tau))
            step = minus(step, slope, below[a] - above[a])
        model = minus(model, step, eta)
    solver = make_solver(lr=eta, optimiser="sgd")
    state = by_hand(build(make_engine(1), tau, nu, solver=solver, period=1))
    np.testing.assert_allclose(state.params[0], model, atol=1e-13)
    np.testing.assert_allclose(state.multipliers[0], [above, below], atol=1e-13)
    assert above[1] > 0
    assert below[0] > 0
