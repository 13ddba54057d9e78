"""After FedFair: exact gap, projected multipliers, two rounds by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federations import make_clients, make_engine, make_solver, merge
from fedfb.algorithms.baselines.fedfair import LARGEST, fedfair
from fedfb.algorithms.baselines.group_gaps import LOSS_OF_POSITIVES, SOFT_MISS_RATE
from fedfb.engine import cell_counts
from fedfb.notions import make_notion
from fedfb.runtime import make_ask
from scalar_logistic import ROWS, START, gradient_of_mean, mean, minus, p, slope_of_cross_entropy
from step_methods import biased_clients, by_hand, plain_descent, run

BOTH = pytest.mark.parametrize("statistic", [SOFT_MISS_RATE, LOSS_OF_POSITIVES], ids=["prob", "ce"])


def build(engine, eps, gamma=0.5, statistic=SOFT_MISS_RATE, groups=2, lr=0.1, optimiser="sgd"):
    solver, notion = make_solver(lr=lr, optimiser=optimiser), make_notion("eo", groups)
    return fedfair(engine, solver, notion, np.array([eps]), np.array([gamma]), statistic)


@BOTH
@given(seed=st.integers(0, 10**6), groups=st.sampled_from([2, 3]))
def test_the_gap_is_the_pooled_one(statistic, seed, groups):
    clients, engine = make_clients(seed, groups=groups), make_engine()
    everyone, params = merge(clients), engine.model.init(seed)[None]
    seen = run(build(engine, 0.0, 0.5, statistic, groups), clients, engine, 1, seed=seed)
    means = engine.loss_sums(params, everyone, statistic.loss)[0, 1] / cell_counts(everyone)[1]
    np.testing.assert_allclose(seen.history[0].signal[0], means - means[0], atol=1e-12)


@BOTH
@pytest.mark.parametrize("hidden", [(), (4,)])
def test_without_a_bound_it_is_plain_descent(statistic, hidden):
    clients, engine = make_clients(3), make_engine(hidden=hidden)
    state = run(build(engine, np.inf, statistic=statistic), clients, engine, 6).state
    np.testing.assert_allclose(state.params, plain_descent(clients, engine, 6, 0.1), atol=1e-12)
    assert not state.lam.any()


@given(seed=st.integers(0, 10**6), eps=st.floats(0, 0.3), gamma=st.floats(0.01, 100))
def test_at_most_one_multiplier_of_a_group_grows_and_all_stay_in_range(seed, eps, gamma):
    clients, engine = make_clients(seed, groups=3), make_engine()
    trained = run(build(engine, eps, gamma, groups=3), clients, engine, 4, seed=seed)
    lam = np.stack([np.zeros((1, 2, 3)), *(record.lam for record in trained.history)])
    assert np.all((lam >= 0) & (lam <= LARGEST))
    assert not np.any(np.all(np.diff(lam, axis=0) > 0, axis=2))
    assert not lam[..., 0].any()


@pytest.mark.parametrize("hidden", [(), (4,)])
def test_the_gap_falls_to_the_bound_on_biased_rows(hidden):
    clients, engine = biased_clients(1), make_engine(hidden=hidden)
    solver, notion = make_solver(2, lr=0.05), make_notion("eo", 2)
    algorithm = fedfair(engine, solver, notion, np.array([np.inf, 0.05]), np.full(2, 0.1))
    free, fair = run(algorithm, clients, engine, 200, runs=2).history[-1].signal[:, 1]
    assert abs(free) > 0.1
    assert abs(fair) < 0.06


def test_the_reference_is_the_first_group_with_a_positive_row():
    engine = make_engine()
    clients = tuple(c._replace(y=np.where(c.group == 0, 0, c.y)) for c in make_clients(1, groups=3))
    trained = run(build(engine, 0.0, groups=3), clients, engine, 3)
    assert trained.state.reference == 1
    assert not trained.state.lam[:, :, :2].any()
    assert trained.state.lam[:, :, 2].any()


def test_without_the_reference_nobody_is_compared():
    clients, engine = biased_clients(2), make_engine()
    algorithm = build(engine, 0.0)
    state = run(algorithm, clients, engine, 5).state
    one = clients[0]._replace(group=np.ones_like(clients[0].group))
    after, info = algorithm.round(state, make_ask((one,), {0: {}}, 0, 6))
    np.testing.assert_array_equal(after.lam, state.lam)
    assert not info.signal.any()
    step = 0.1 * engine.gradient(state.params, one, np.ones((1, 2, 2))) / len(one.y)
    np.testing.assert_allclose(after.params, state.params - step, atol=1e-13)


def test_two_rounds_by_hand():
    """On six rows in scalar arithmetic: the multipliers move first, then the model by them."""
    eps, gamma, eta, model, one, two = 0.01, 0.5, 0.3, START, 0.0, 0.0
    positives = [[row for row in ROWS if row.y == 1 and row.group == a] for a in (0, 1)]
    for _ in range(2):
        miss = [mean(rows, lambda r, m=model: 1 - p(m, r)) for rows in positives]
        d = miss[1] - miss[0]
        one = min(max(one + gamma * (d - eps), 0.0), 10.0)
        two = min(max(two + gamma * (-d - eps), 0.0), 10.0)

        def slope(row, m=model):
            return -p(m, row) * (1 - p(m, row))

        tilt = minus(gradient_of_mean(positives[1], slope), gradient_of_mean(positives[0], slope))
        step = gradient_of_mean(ROWS, lambda r, m=model: slope_of_cross_entropy(m, r))
        model = minus(model, minus(step, tilt, two - one), eta)
    state = by_hand(build(make_engine(1), eps, gamma, lr=eta))
    np.testing.assert_allclose(state.params[0], model, atol=1e-13)
    np.testing.assert_allclose(state.lam[0, :, 1], [one, two], atol=1e-13)
    assert one + two > 0
