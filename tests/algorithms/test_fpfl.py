"""After FPFL: centralised multipliers, their limits, two rounds by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federations import make_clients, make_engine, make_solver, merge
from fedfb.algorithms.baselines.fpfl import Multipliers, fpfl
from fedfb.algorithms.baselines.group_gaps import SOFT_MISS_RATE, SOFT_POSITIVE_RATE
from fedfb.engine import sigmoid
from fedfb.runtime import make_ask
from scalar_logistic import ROWS, START, gradient_of_mean, mean, minus, p, slope_of_cross_entropy
from step_methods import biased_clients, by_hand, plain_descent, run

BOTH = pytest.mark.parametrize("statistic", [SOFT_POSITIVE_RATE, SOFT_MISS_RATE], ids=["dp", "eo"])


def build(engine, statistic, tau, damping=1.0, gamma=0.5, groups=2, lr=0.1, optimiser="sgd"):
    rule = Multipliers(np.array([tau]), np.array([damping]), np.array([gamma]))
    return fpfl(engine, make_solver(lr=lr, optimiser=optimiser), groups, statistic, rule)


def centralised(rows, engine, w, statistic, tau, c, gamma, steps):
    """MMDM on pooled rows of logistic regression, written with the rows themselves."""
    x = np.column_stack([rows.x, np.ones(len(rows.y))])
    lam = np.zeros(rows.groups)
    compared = rows.y == 1 if statistic is SOFT_MISS_RATE else np.ones(len(rows.y), dtype=bool)
    sign = -1.0 if statistic is SOFT_MISS_RATE else 1.0
    for _ in range(steps):
        prob = sigmoid(x @ w)
        step = x.T @ (prob - rows.y) / len(rows.y)
        value = sign * prob
        slope = (sign * prob * (1 - prob))[:, None] * x
        h, grad_h = value[compared].mean(), slope[compared].mean(axis=0)
        for a in range(rows.groups):
            mine = compared & (rows.group == a)
            gap = value[mine].mean() - h
            g = abs(gap) - tau
            force = max(0.0, lam[a] + c * g) * np.sign(gap)
            step = step + force * (slope[mine].mean(axis=0) - grad_h)
            lam[a] = max(0.0, lam[a] + gamma * g)
        w = w - 0.1 * step
    return w, lam


@BOTH
@given(seed=st.integers(0, 10**6), groups=st.sampled_from([2, 3]))
def test_with_all_clients_it_is_the_centralised_method(statistic, seed, groups):
    clients, engine = make_clients(seed, groups=groups), make_engine()
    state = run(build(engine, statistic, 0.02, groups=groups), clients, engine, 6, seed=seed).state
    w, lam = centralised(
        merge(clients), engine, engine.model.init(seed), statistic, 0.02, 1.0, 0.5, 6
    )
    np.testing.assert_allclose(state.params[0], w, atol=1e-12)
    np.testing.assert_allclose(state.lam[0], lam, atol=1e-12)


@BOTH
@pytest.mark.parametrize("tau", [1.0, np.inf])
@pytest.mark.parametrize("hidden", [(), (4,)])
def test_a_bound_that_no_gap_reaches_leaves_plain_descent(statistic, tau, hidden):
    clients, engine = make_clients(3), make_engine(hidden=hidden)
    state = run(build(engine, statistic, tau, damping=0.0), clients, engine, 6).state
    np.testing.assert_allclose(state.params, plain_descent(clients, engine, 6, 0.1), atol=1e-12)
    assert not state.lam.any()


@BOTH
@given(seed=st.integers(0, 10**6), tau=st.floats(0, 0.3))
def test_multipliers_are_never_negative(statistic, seed, tau):
    clients, engine = make_clients(seed), make_engine()
    trained = run(build(engine, statistic, tau, gamma=3.0), clients, engine, 6, seed=seed)
    assert all(np.all(record.lam >= 0) for record in trained.history)


@BOTH
def test_without_damping_it_is_descent_and_ascent(statistic):
    clients, engine = biased_clients(0), make_engine()
    state = run(build(engine, statistic, 0.0, damping=0.0), clients, engine, 5).state
    w, lam = centralised(merge(clients), engine, engine.model.init(0), statistic, 0.0, 0.0, 0.5, 5)
    np.testing.assert_allclose(state.params[0], w, atol=1e-12)
    np.testing.assert_allclose(state.lam[0], lam, atol=1e-12)


@BOTH
@pytest.mark.parametrize("hidden", [(), (4,)])
def test_the_gap_falls_to_the_bound_on_biased_rows(statistic, hidden):
    clients, engine = biased_clients(1), make_engine(hidden=hidden)
    rule = Multipliers(np.array([np.inf, 0.02]), np.ones(2), np.full(2, 0.1))
    algorithm = fpfl(engine, make_solver(2, lr=0.03), 2, statistic, rule)
    free, fair = run(algorithm, clients, engine, 250, runs=2).history[-1].signal
    assert np.abs(free).max() > 0.1
    assert np.abs(fair).max() < 0.03


@BOTH
def test_a_group_that_does_not_answer_keeps_its_multiplier(statistic):
    clients, engine = biased_clients(2), make_engine()
    algorithm = build(engine, statistic, 0.0)
    state = run(algorithm, clients, engine, 5).state
    assert state.lam.min() > 0
    zero = clients[0]._replace(group=np.zeros_like(clients[0].group))
    after, info = algorithm.round(state, make_ask((zero,), {0: {}}, 0, 6))
    assert after.lam[0, 1] == state.lam[0, 1]
    assert not info.signal.any()


def test_two_rounds_by_hand():
    """Equal opportunity on six rows in scalar arithmetic: h is the mean of 1 - p on positives."""
    tau, c, gamma, eta, model, lam = 0.01, 2.0, 0.5, 0.3, START, [0.0, 0.0]
    positives = [row for row in ROWS if row.y == 1]
    for _ in range(2):
        miss = [1 - p(model, row) for row in positives]

        def slope(row, m=model):
            return -p(m, row) * (1 - p(m, row))

        step = gradient_of_mean(ROWS, lambda r, m=model: slope_of_cross_entropy(m, r))
        for a in (0, 1):
            mine = [row for row in positives if row.group == a]
            gap = mean(mine, lambda r, m=model: 1 - p(m, r)) - sum(miss) / len(miss)
            g = abs(gap) - tau
            force = max(0.0, lam[a] + c * g) * (1 if gap > 0 else -1)
            tilt = minus(gradient_of_mean(mine, slope), gradient_of_mean(positives, slope))
            step = minus(step, tilt, -force)
            lam[a] = max(0.0, lam[a] + gamma * g)
        model = minus(model, step, eta)
    state = by_hand(build(make_engine(1), SOFT_MISS_RATE, tau, c, gamma, lr=eta))
    np.testing.assert_allclose(state.params[0], model, atol=1e-13)
    np.testing.assert_allclose(state.lam[0], lam, atol=1e-13)
    assert min(lam) > 0
