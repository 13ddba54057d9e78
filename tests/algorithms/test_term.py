"""TERM: FedAvg at t = 0, a gradient step on the tilted objective, the worst client at large t."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_methods import build, line_client, loss, one_round, run, slope
from federations import make_clients, make_engine, make_solver
from fedfb.algorithms.baselines.client_losses import mean_loss
from fedfb.algorithms.fedavg import fedavg

ROWS = ([(1.0, 1), (-2.0, 0)], [(0.5, 0), (1.5, 0), (-1.0, 1)])


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_without_tilt_it_is_fedavg_bit_for_bit(optimiser):
    clients, engine = make_clients(0), make_engine(3, hidden=(4,))
    solver = make_solver(optimiser=optimiser)
    tilted = run(build("term", engine, solver, t=0), clients, engine)
    plain = run(fedavg(engine, solver), clients, engine)
    np.testing.assert_array_equal(tilted.state.params, plain.state.params)


@pytest.mark.parametrize("t", [0.5, 3.0])
def test_two_rounds_by_hand(t):
    """One full-batch step each; the average has weights n_i exp(t F_i)."""
    clients, engine = [line_client(i, rows) for i, rows in enumerate(ROWS)], make_engine(1)
    solver = make_solver(lr=0.5, epochs=1, batch=100, optimiser="sgd")
    state = run(build("term", engine, solver, t=t), clients, engine, rounds=2).state
    w, b = engine.model.init(0).tolist()
    for _ in range(2):
        weights = [len(rows) * math.exp(t * loss(w, b, rows)) for rows in ROWS]
        slopes = [slope(w, b, rows) for rows in ROWS]
        step = [
            sum(k * g[axis] for k, g in zip(weights, slopes, strict=True)) / sum(weights)
            for axis in (0, 1)
        ]
        w, b = w - 0.5 * step[0], b - 0.5 * step[1]
    np.testing.assert_allclose(state.params, [[w, b]], atol=1e-12)


@given(seed=st.integers(0, 10**6), t=st.floats(0.1, 8))
def test_one_full_batch_step_descends_the_tilted_objective(seed, t):
    """Its gradient is taken here by central differences of (1/t) log sum p_i exp(t F_i)."""
    clients, engine = make_clients(seed), make_engine()
    solver = make_solver(lr=0.1, epochs=1, batch=100, optimiser="sgd")
    algorithm = build("term", engine, solver, t=t)
    start = engine.model.init(seed)[None]
    after = run(algorithm, clients, engine, rounds=1, seed=seed).state.params
    rows = np.array([len(c.y) for c in clients])

    def objective(params):
        losses = np.array([mean_loss(engine, params, c)[0] for c in clients])
        return np.log(np.sum(rows / rows.sum() * np.exp(t * losses))) / t

    for axis in range(engine.model.size):
        nudge = np.zeros_like(start)
        nudge[0, axis] = 1e-5
        derivative = (objective(start + nudge) - objective(start - nudge)) / 2e-5
        assert (start - after)[0, axis] / 0.1 == pytest.approx(derivative, abs=1e-7)


@given(seed=st.integers(0, 10**6), t=st.floats(0, 5), centre=st.floats(0, 5))
def test_the_subtracted_value_does_not_matter(seed, t, centre):
    clients, engine = make_clients(seed), make_engine()
    algorithm = build("term", engine, make_solver(), t=t)
    state = run(algorithm, clients, engine, rounds=1, seed=seed).state
    memories = {c.id: {} for c in clients}
    one, other = (
        one_round(algorithm, state._replace(centre=value), clients, memories, 2, seed)
        for value in (state.centre, np.array([centre]))
    )
    np.testing.assert_allclose(one.params, other.params, rtol=1e-9, atol=1e-12)


def test_huge_losses_do_not_overflow():
    """exp(1e4 * 30) is far outside a float; cut-off weights still average."""
    clients, engine = make_clients(0), make_engine()
    far = tuple(c._replace(x=40 * c.x, y=1 - c.y) for c in clients)
    solver = make_solver(lr=1e-4, epochs=1, optimiser="sgd")
    trained = run(build("term", engine, solver, t=1e4), far, engine, rounds=4)
    assert np.all(np.isfinite(trained.state.params))


def test_a_larger_tilt_brings_the_clients_losses_together():
    clients = [line_client(0, [(1.0, 1)] * 3), line_client(1, [(1.0, 0)])]
    engine, solver = make_engine(1), make_solver(4, lr=0.2, epochs=1, optimiser="sgd")
    algorithm = build("term", engine, solver, t=[0.0, 1.0, 4.0, 16.0])
    params = run(algorithm, clients, engine, rounds=150, runs=4).state.params
    one, other = (mean_loss(engine, params, c) for c in clients)
    spreads = np.abs(one - other)
    assert all(a > b + 0.02 for a, b in pairwise(spreads))
