"""Reweighing: label and group independent in the weighted, pooled rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federations import make_clients, make_engine, make_solver, merge
from fedfb.algorithms.baselines.reweighing import METHOD, independent_weights
from fedfb.algorithms.fedavg import fedavg
from fedfb.engine import cell_counts
from fedfb.errors import ConfigError
from local_training import build, client, descend, run

FULL_BATCH = {"batch": 10**6, "epochs": 1, "optimiser": "sgd"}


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(1, 500)), min_size=1, max_size=6))
def test_weighted_shares_of_positives_are_equal_and_nothing_else_changes(cells):
    counts = np.array(cells).T
    mass = independent_weights(counts) * counts
    np.testing.assert_allclose(mass[1] / mass.sum(axis=0), counts[1].sum() / counts.sum())
    np.testing.assert_allclose(mass.sum(axis=0), counts.sum(axis=0))
    np.testing.assert_allclose(mass.sum(axis=1), counts.sum(axis=1))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4))
def test_empty_cells_leave_finite_weights(cells):
    counts = np.array(cells).T
    assert np.all(np.isfinite(independent_weights(counts)))


@given(seed=st.integers(0, 10**6))
def test_weights_come_from_pooled_counts_however_rows_are_dealt_out(seed):
    clients, engine = make_clients(seed, groups=3), make_engine()
    algorithm = build(METHOD, engine, groups=3)
    counts = sum(map(cell_counts, clients))
    for federation in (clients, [merge(clients)]):
        state = run(algorithm, federation, engine, rounds=1, seed=seed).state
        np.testing.assert_allclose(state.weights, independent_weights(counts), rtol=1e-14)


@given(seed=st.integers(0, 10**6))
def test_one_full_batch_step_is_the_centralised_step(seed):
    clients, engine = make_clients(seed), make_engine()
    algorithm = build(METHOD, engine, solver=make_solver(lr=0.1, **FULL_BATCH))
    many = run(algorithm, clients, engine, rounds=2, seed=seed).state.params
    one = run(algorithm, [merge(clients)], engine, rounds=2, seed=seed).state.params
    np.testing.assert_allclose(many, one, atol=1e-12)


@pytest.mark.parametrize("groups", [1, 2])
def test_where_labels_are_independent_of_groups_it_is_fedavg(groups):
    first, *others = make_clients(0, groups=groups)
    even = first._replace(y=np.arange(30) % 2, group=np.arange(30) // 2 % groups)
    clients = (even._replace(x=even.x[:28], y=even.y[:28], group=even.group[:28]),)
    if groups == 1:
        clients += tuple(others)
    engine = make_engine()
    plain = run(fedavg(engine, make_solver()), clients, engine)
    fair = run(build(METHOD, engine, groups=groups), clients, engine)
    np.testing.assert_allclose(fair.state.params, plain.state.params, atol=1e-12)


@pytest.mark.parametrize("hidden", [(), (4,)])
def test_it_runs_from_a_problem_and_shows_only_sums(hidden):
    clients, engine = make_clients(0, groups=3), make_engine(hidden=hidden)
    lacking = (clients[0]._replace(group=np.zeros_like(clients[0].group)), *clients[1:])
    algorithm = build(METHOD, engine, groups=3, runs=2)
    assert np.all(np.isfinite(run(algorithm, lacking, engine, runs=2).state.params))
    assert {task.reduce for task in algorithm.tasks} == {"sum"}


@pytest.mark.parametrize("name", ["eo", "eod", "cp"])
def test_other_notions_are_refused(name):
    with pytest.raises(ConfigError, match="--notion dp"):
        build(METHOD, make_engine(), name)


def test_two_rounds_by_hand():
    """Pooled cells: n_00 = 1, n_01 = 1, n_10 = 2, n_11 = 1 of five rows.

    So n_0* = 2, n_1* = 3, n_*0 = 3, n_*1 = 2 and omega_00 = 2*3/5, omega_01 = 2*2/5,
    omega_10 = 3*3/10, omega_11 = 3*2/5. Client 0 has mass 6/5 + 9/10 + 9/10 = 3, client 1 has
    4/5 + 6/5 = 2: each trains on its weighted mean and counts with its mass.
    """
    one = [(1.0, 1, 0), (0.4, 1, 0), (-0.2, 0, 0)]
    two = [(-1.0, 0, 1), (0.6, 1, 1)]
    engine, lr = make_engine(features=1), 0.5
    algorithm = build(METHOD, engine, solver=make_solver(lr=lr, **{**FULL_BATCH, "epochs": 2}))
    trained = run(algorithm, [client(0, one), client(1, two)], engine)
    w, b = engine.model.init(0)
    for _ in range(2):
        (u, c), (v, d) = (w, b), (w, b)
        for _ in range(2):
            u, c = descend(u, c, one, [0.9, 0.9, 1.2], 3.0, lr)
            v, d = descend(v, d, two, [0.8, 1.2], 2.0, lr)
        w, b = (3 * u + 2 * v) / 5, (3 * c + 2 * d) / 5
    np.testing.assert_allclose(trained.state.params[0], [w, b], atol=1e-12)
