"""GIFAIR: the ranks' identity, positive weights, and its rounds by hand."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from client_methods import build, line_client, loss, one_round, run, slope
from federations import make_clients, make_engine, make_solver
from fedfb.algorithms.baselines.client_losses import mean_loss
from fedfb.algorithms.baselines.gifair import rank_scores
from fedfb.errors import ConfigError

ROWS = ([(1.0, 1), (-2.0, 0)], [(0.5, 0), (1.5, 0), (-1.0, 1)], [(2.0, 0)])
LOSSES = arrays(float, st.integers(1, 8), elements=st.floats(0, 4).map(lambda v: round(v, 1)))


@given(losses=LOSSES)
def test_the_gaps_of_all_pairs_are_the_scored_losses(losses):
    """sum_{i<j} |F_i - F_j| = sum_i r_i F_i, with many ties among rounded losses."""
    scores = rank_scores(losses[None])[0]
    pairs = sum(abs(a - b) for i, a in enumerate(losses) for b in losses[:i])
    assert scores @ losses == pytest.approx(pairs, abs=1e-12)
    assert scores.sum() == 0
    assert np.all(np.abs(scores) <= len(losses) - 1)
    for value in losses:
        assert len(set(scores[losses == value])) == 1


@given(seed=st.integers(0, 10**6), lam=st.floats(0, 0.999))
def test_weights_are_positive_and_sum_to_one(seed, lam):
    sizes = np.random.default_rng(seed).integers(3, 30, 4)
    clients, engine = make_clients(seed, sizes=sizes, full=False), make_engine()
    trained = run(build("gifair", engine, make_solver(), lam=lam), clients, engine, seed=seed)
    for number, record in enumerate(trained.history):
        assert np.all(record.lam > 0)
        assert record.lam.sum() == pytest.approx(1, abs=1e-12)
        if number == 0:
            np.testing.assert_allclose(record.lam[0], sizes / sizes.sum(), atol=1e-15)


def test_three_rounds_by_hand():
    """rho_i = p_i + lam min(p)/(I-1) r_i, the scores those of the losses at the received model."""
    clients, engine = [line_client(i, rows) for i, rows in enumerate(ROWS)], make_engine(1)
    solver = make_solver(lr=0.5, epochs=1, batch=100, optimiser="sgd")
    state = run(build("gifair", engine, solver, lam=0.9), clients, engine, rounds=3).state
    w, b = engine.model.init(0).tolist()
    p, score = [2 / 6, 3 / 6, 1 / 6], [0, 0, 0]
    for _ in range(3):
        rho = [share + 0.9 * (1 / 6) / 2 * r for share, r in zip(p, score, strict=True)]
        steps = [slope(w, b, rows) for rows in ROWS]
        w -= 0.5 * sum(k * g for k, (g, _) in zip(rho, steps, strict=True))
        b -= 0.5 * sum(k * g for k, (_, g) in zip(rho, steps, strict=True))
        found = [loss(w, b, rows) for rows in ROWS]
        score = [sum((a > c) - (a < c) for c in found) for a in found]
    np.testing.assert_allclose(state.params, [[w, b]], atol=1e-12)
    assert state.score.tolist() == [score]
    assert sorted(score) == [-2, 0, 2]


def test_a_client_that_does_not_answer_is_not_compared():
    clients, engine = make_clients(0, sizes=(12, 15, 20)), make_engine()
    algorithm = build("gifair", engine, make_solver())
    state, memories, _ = run(algorithm, clients, engine, rounds=1)
    after = one_round(algorithm, state, clients[1:], memories, 2)
    assert after.score[0, 0] == 0
    assert sorted(after.score[0, 1:]) == [-1, 1]


def test_a_larger_fraction_brings_the_clients_losses_together():
    """With lam -> 1 the larger client's weight falls from 3/4 to 1/2."""
    clients = [line_client(0, [(1.0, 1)] * 3), line_client(1, [(1.0, 0)])]
    engine, solver = make_engine(1), make_solver(3, lr=0.2, epochs=1, optimiser="sgd")
    algorithm = build("gifair", engine, solver, lam=[0.0, 0.4, 0.8])
    params = run(algorithm, clients, engine, rounds=150, runs=3).state.params
    one, other = (mean_loss(engine, params, c) for c in clients)
    spreads = np.abs(one - other)
    assert all(a > b + 0.02 for a, b in pairwise(spreads))


def test_a_fraction_of_one_is_refused():
    with pytest.raises(ConfigError, match="below 1, got 1"):
        build("gifair", make_engine(), make_solver(), lam=1.0)
