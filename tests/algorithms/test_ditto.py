"""Ditto: FedAvg's common model, and personal models between it and training alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_methods import build, line_client, run, slope
from federations import make_clients, make_engine, make_solver
from fedfb.algorithms.fedavg import fedavg
from fedfb.core import Examples
from fedfb.errors import ConfigError

ROWS = ([(1.0, 1), (-2.0, 0)], [(0.5, 0), (1.5, 0), (-1.0, 1)])


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
@pytest.mark.parametrize("lam", [0.0, 0.5, 5.0])
def test_the_common_model_has_fedavgs_bits(lam, optimiser):
    clients, engine = make_clients(0), make_engine(3, hidden=(4,))
    solver = make_solver(optimiser=optimiser)
    personal = run(build("ditto", engine, solver, lam=lam), clients, engine)
    plain = run(fedavg(engine, solver), clients, engine)
    np.testing.assert_array_equal(personal.state.params, plain.state.params)


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
@given(seed=st.integers(0, 10**6))
def test_without_pull_every_client_trains_alone(optimiser, seed):
    clients, engine = make_clients(seed), make_engine()
    solver = make_solver(optimiser=optimiser)
    memories = run(build("ditto", engine, solver, lam=0), clients, engine, seed=seed).memories
    for client in clients:
        alone = engine.model.init(seed)[None]
        for number in (1, 2, 3):
            key = (seed, number, 0, client.id, 1)
            alone = engine.train(alone, client, np.ones((1, 2, 2)), solver, key)
        np.testing.assert_allclose(memories[client.id]["personal"], alone, atol=1e-12)


def test_a_strong_pull_makes_personal_models_common():
    clients, engine = make_clients(1), make_engine()
    solver = make_solver(4, lr=0.005, epochs=10, optimiser="sgd")
    algorithm = build("ditto", engine, solver, lam=[0.0, 1.0, 10.0, 100.0])
    before = run(algorithm, clients, engine, rounds=9, runs=4).state.params
    memories = run(algorithm, clients, engine, rounds=10, runs=4).memories
    away = [np.linalg.norm(m["personal"] - before, axis=1) for m in memories.values()]
    distances = np.max(away, axis=0).tolist()
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 0.01 < 0.1 < distances[0]


def test_two_rounds_by_hand():
    """The pull goes to the received model w^t, not to where v_i starts the round."""
    clients, engine = [line_client(i, rows) for i, rows in enumerate(ROWS)], make_engine(1)
    solver = make_solver(lr=0.5, epochs=1, batch=100, optimiser="sgd")
    trained = run(build("ditto", engine, solver, lam=0.8), clients, engine, rounds=2)
    w, b = engine.model.init(0).tolist()
    own = [(w, b), (w, b)]
    for _ in range(2):
        steps = [slope(w, b, rows) for rows in ROWS]
        for i, rows in enumerate(ROWS):
            (v, c), (gv, gc) = own[i], slope(*own[i], rows)
            own[i] = v - 0.5 * (gv + 0.8 * (v - w)), c - 0.5 * (gc + 0.8 * (c - b))
        w -= 0.5 * (2 * steps[0][0] + 3 * steps[1][0]) / 5
        b -= 0.5 * (2 * steps[0][1] + 3 * steps[1][1]) / 5
    np.testing.assert_allclose(trained.state.params, [[w, b]], atol=1e-12)
    for i in (0, 1):
        np.testing.assert_allclose(trained.memories[i]["personal"], [own[i]], atol=1e-12)


def test_rows_are_decided_by_their_clients_model_and_strangers_by_the_common_one():
    clients, engine = make_clients(2), make_engine()
    algorithm = build("ditto", engine, make_solver(), lam=0.1)
    state, memories, _ = run(algorithm, clients, engine)
    x = np.repeat(clients[0].x[:1], 4, axis=0)
    rows = Examples(x, np.zeros(4, int), np.zeros(4, int), np.array([0, 2, -1, 99]))
    logits = np.log(1 / (1 / algorithm.predict(state, memories, rows).score[0] - 1))
    models = [memories[0]["personal"], memories[2]["personal"], state.params, state.params]
    expected = [engine.logits(params, x[:1])[0, 0] for params in models]
    np.testing.assert_allclose(logits, expected, atol=1e-9)
    assert len({round(value, 6) for value in expected}) == 3


def test_a_pull_that_overshoots_is_refused_for_plain_sgd():
    engine = make_engine()
    with pytest.raises(ConfigError, match="below 1, got"):
        build("ditto", engine, make_solver(lr=0.3, optimiser="sgd"), lam=5.0)
    build("ditto", engine, make_solver(lr=0.3), lam=5.0)
