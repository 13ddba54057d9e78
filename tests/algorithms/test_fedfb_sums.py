"""FedFB for client parity in sums: the same lambda as where the server needs every loss."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_methods import build, line_client, loss, one_round, run, slope
from federations import make_clients, make_engine, make_solver
from fedfb.algorithms.fedfb.fedfb import fedfb
from fedfb.algorithms.fedfb.outer import Outer
from fedfb.errors import ConfigError
from fedfb.experiments.resolve import resolve
from fedfb.experiments.spec import Experiment
from fedfb.notions import ClientParity
from fedfb.runtime import make_ask

ROWS = ([(1.0, 1), (-2.0, 0)], [(0.5, 0), (1.5, 0), (-1.0, 1)])


def lambdas(memories, clients):
    total = sum(len(client.y) for client in clients)
    parts = [memories[c.id]["weight"] * len(c.y) / total for c in clients]
    return np.stack(parts, axis=1)


@pytest.mark.parametrize("hidden", [(), (4,)], ids=["logistic", "mlp"])
@given(seed=st.integers(0, 10**6), alpha=st.floats(0, 20), count=st.integers(1, 6))
def test_lambda_is_that_of_fedfb_in_its_symmetric_form(hidden, seed, alpha, count):
    sizes = np.random.default_rng(seed).integers(5, 30, count)
    clients, engine = make_clients(seed, sizes=sizes), make_engine(3, hidden=hidden)
    solver = make_solver()
    sums = run(build("fedfb-sums", engine, solver, alpha=alpha), clients, engine, 5, seed)
    outer = Outer(np.array([alpha]), surrogate="ce")
    whole = run(
        fedfb(engine, solver, ClientParity(symmetric=True), outer), clients, engine, 5, seed
    )
    np.testing.assert_allclose(lambdas(sums.memories, clients), whole.state.lam, atol=1e-6)
    np.testing.assert_allclose(sums.state.params, whole.state.params, atol=1e-6)


@given(seed=st.integers(0, 10**6))
def test_lambda_is_a_distribution_in_every_run_of_a_grid(seed):
    clients, engine = make_clients(seed, sizes=(9, 14, 7, 20, 11)), make_engine()
    solver = make_solver(3)
    algorithm = build("fedfb-sums", engine, solver, alpha=[0.1, 5.0, 100.0])
    memories = run(algorithm, clients, engine, seed=seed, runs=3).memories
    lam = lambdas(memories, clients)
    assert np.all(lam >= 0)
    np.testing.assert_allclose(lam.sum(axis=1), 1, atol=1e-11)


def test_two_rounds_by_hand():
    """Two clients: v_0 - v_1 = lam_0 - lam_1 + alpha (L_0 - L_1), then shift to sum 1."""
    clients, engine = [line_client(i, rows) for i, rows in enumerate(ROWS)], make_engine(1)
    solver = make_solver(lr=0.5, epochs=1, batch=100, optimiser="sgd")
    trained = run(build("fedfb-sums", engine, solver, alpha=0.4), clients, engine, rounds=2)
    w, b = engine.model.init(0).tolist()
    lam = [0.4, 0.6]
    for u in (1, 2):
        steps = [slope(w, b, rows) for rows in ROWS]
        w -= 0.5 * (lam[0] * steps[0][0] + lam[1] * steps[1][0])
        b -= 0.5 * (lam[0] * steps[0][1] + lam[1] * steps[1][1])
        gap = loss(w, b, ROWS[0]) - loss(w, b, ROWS[1])
        first = 0.5 + 0.5 * (lam[0] - lam[1] + 0.4 / u**0.5 * gap)
        lam = [min(max(first, 0), 1), min(max(1 - first, 0), 1)]
    np.testing.assert_allclose(trained.state.params, [[w, b]], atol=1e-12)
    np.testing.assert_allclose(lambdas(trained.memories, clients), [lam], atol=1e-12)


def test_few_short_questions_find_the_projection():
    """A huge step leaves one client of twelve: still far from the thirty sums of a bisection."""
    clients, engine = make_clients(0, sizes=range(8, 20)), make_engine()
    algorithm = build("fedfb-sums", engine, make_solver(), alpha=1000.0)
    state, memories, _ = run(algorithm, clients, engine, rounds=0)
    ask, asked = make_ask(clients, memories, 0, 1), []

    def counting(task, broadcast):
        asked.append(task.name)
        return ask(task, broadcast)

    algorithm.round(state, counting)
    assert asked[:2] == ["fit", "measure"]
    assert 2 <= asked.count("project") <= 12
    np.testing.assert_array_equal(np.sort(lambdas(memories, clients)[0])[:-1], 0)


def test_those_who_answer_share_the_weight_they_hold():
    clients, engine = make_clients(1, sizes=(12, 15, 20)), make_engine()
    algorithm = build("fedfb-sums", engine, make_solver(), alpha=2.0)
    state, memories, _ = run(algorithm, clients, engine, rounds=2)
    before = lambdas(memories, clients)
    one_round(algorithm, state, clients[1:], memories, 3)
    after = lambdas(memories, clients)
    assert after[0, 0] == before[0, 0]
    assert after.sum() == pytest.approx(1, abs=1e-11)
    assert np.any(after != before)


@pytest.mark.parametrize(
    "options", [{"normalise": "l2"}, {"timing": "local"}, {"period": 2}, {"bits": 4}]
)
def test_options_that_need_single_losses_or_other_times_are_refused(options):
    with pytest.raises(ConfigError, match="has no effect with fedfb-sums"):
        resolve(Experiment(algorithm="fedfb-sums", notion="cp", **options))


def test_the_signals_loss_and_decay_are_options():
    clients, engine = make_clients(0), make_engine()
    ends = [
        run(build("fedfb-sums", engine, make_solver(), options=o), clients, engine).state.params
        for o in ({}, {"signal_loss": None}, {"signal_loss": "prob"}, {"decay": "const"})
    ]
    np.testing.assert_array_equal(ends[0], ends[1])
    assert np.any(ends[0] != ends[2])
    assert np.any(ends[0] != ends[3])
