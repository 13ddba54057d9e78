"""AFL: the saddle point of two mirrored losses, and its steps by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_methods import build, line_client, loss, one_round, run, slope
from federations import make_clients, make_engine, make_solver
from fedfb.algorithms.baselines.afl import ascend, running_mean
from fedfb.algorithms.baselines.client_losses import mean_loss
from fedfb.algorithms.fedavg import fedavg

ROWS = ([(1.0, 1), (-2.0, 0)], [(0.5, 0), (1.5, 0), (-1.0, 1)])
PLAIN = {"optimiser": "sgd"}


def test_mirrored_parabolas_meet_in_the_middle():
    """Losses (w-1)^2 and (w+1)^2: the minimax solution is w = 0, lambda = (1/2, 1/2)."""
    w, lam, mean = np.array([[0.9]]), np.array([[0.9, 0.1]]), np.zeros((1, 1))
    for t in range(1, 4001):
        slopes = np.concatenate([2 * (w - 1), 2 * (w + 1)], axis=1)
        losses = np.concatenate([(w - 1) ** 2, (w + 1) ** 2], axis=1)
        w = w - 0.05 * np.sum(lam * slopes, axis=1, keepdims=True)
        lam = ascend(lam, losses, np.array([0.05]))
        mean = running_mean(mean, w, t)
    assert mean[0, 0] == pytest.approx(0, abs=1e-2)
    np.testing.assert_allclose(lam, [[0.5, 0.5]], atol=0.05)


def test_clients_that_disagree_end_with_equal_losses_whatever_their_sizes():
    """One says y = 1 at x = 1 in nine rows, one y = 0 in a single row: minimax is the logit 0."""
    clients = [line_client(0, [(1.0, 1)] * 9), line_client(1, [(1.0, 0)])]
    engine = make_engine(1)
    for start in ("uniform", "sizes"):
        algorithm = build("afl", engine, make_solver(lr=0.3, **PLAIN), start, gamma=0.3)
        state = run(algorithm, clients, engine, rounds=400).state
        one, other = (mean_loss(engine, state.mean, c)[0] for c in clients)
        assert one == pytest.approx(np.log(2), abs=0.02)
        assert other == pytest.approx(np.log(2), abs=0.02)


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
@given(seed=st.integers(0, 10**6), gamma=st.floats(0, 50))
def test_lambda_stays_on_the_simplex(optimiser, seed, gamma):
    clients, engine = make_clients(seed), make_engine()
    algorithm = build("afl", engine, make_solver(optimiser=optimiser), gamma=gamma)
    for record in run(algorithm, clients, engine, rounds=5, seed=seed).history:
        assert np.all(record.lam >= 0)
        assert record.lam.sum() == pytest.approx(1, abs=1e-12)


@given(seed=st.integers(0, 10**6))
def test_without_ascent_it_is_fedsgd_averaged_over_time(seed):
    """FedAvg with one full-batch step of plain SGD; started at the sizes, lambda stays there."""
    clients, engine = make_clients(seed), make_engine(3, hidden=(4,))
    solver = make_solver(lr=0.1, epochs=1, batch=100, weight_decay=0.01, **PLAIN)
    state = run(build("afl", engine, solver, "sizes", gamma=0), clients, engine, seed=seed).state
    plain = [
        run(fedavg(engine, solver), clients, engine, rounds=t, seed=seed).state.params
        for t in (1, 2, 3)
    ]
    np.testing.assert_allclose(state.params, plain[-1], atol=1e-12)
    np.testing.assert_allclose(state.mean, np.mean(plain, axis=0), atol=1e-12)


def test_two_steps_by_hand():
    """Both players move from the same place; lambda by hand: shift two parts to sum 1."""
    clients, engine = [line_client(i, rows) for i, rows in enumerate(ROWS)], make_engine(1)
    algorithm = build("afl", engine, make_solver(lr=0.5, **PLAIN), gamma=0.3)
    state = run(algorithm, clients, engine, rounds=2).state
    w, b = engine.model.init(0).tolist()
    lam, seen = [0.5, 0.5], []
    for _ in range(2):
        losses, steps = [loss(w, b, r) for r in ROWS], [slope(w, b, r) for r in ROWS]
        w -= 0.5 * (lam[0] * steps[0][0] + lam[1] * steps[1][0])
        b -= 0.5 * (lam[0] * steps[0][1] + lam[1] * steps[1][1])
        first = 0.5 + 0.5 * (lam[0] + 0.3 * losses[0] - lam[1] - 0.3 * losses[1])
        first = min(max(first, 0.0), 1.0)
        lam = [first, 1 - first]
        seen.append((w, b))
    np.testing.assert_allclose(state.params, [[w, b]], atol=1e-12)
    np.testing.assert_allclose(state.lam, [lam], atol=1e-12)
    np.testing.assert_allclose(state.mean, [np.mean(seen, axis=0)], atol=1e-12)


def test_those_who_answer_share_the_weight_they_hold():
    clients, engine = make_clients(0, sizes=(12, 15, 20)), make_engine()
    algorithm = build("afl", engine, make_solver(), gamma=0.5)
    state, memories, _ = run(algorithm, clients, engine, rounds=2)
    after = one_round(algorithm, state, clients[:2], memories, 3)
    assert after.lam[0, 2] == state.lam[0, 2]
    assert after.lam.sum() == pytest.approx(1, abs=1e-12)
    assert np.any(after.lam != state.lam)


def test_without_any_weight_among_those_who_answer_nothing_moves():
    clients, engine = make_clients(0), make_engine()
    algorithm = build("afl", engine, make_solver(**PLAIN), gamma=0.5)
    state, memories, _ = run(algorithm, clients, engine, rounds=1)
    state = state._replace(lam=np.array([[0.0, 0.0, 1.0]]))
    after = one_round(algorithm, state, clients[:2], memories, 2)
    np.testing.assert_array_equal(after.params, state.params)
    np.testing.assert_array_equal(after.lam, state.lam)


def test_uniform_start_does_not_ask_for_sizes():
    clients, engine = make_clients(0), make_engine()
    for variant, sizes in (("uniform", [1, 1, 1]), ("sizes", [30, 12, 24])):
        call = build("afl", engine, make_solver(), variant).tasks[0]
        told = [int(call.run({}, client, {}, (0,))[0]["size"]) for client in clients]
        assert told == sizes
