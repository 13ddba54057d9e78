"""q-FFL: its step by hand, its safety, and what q does."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_methods import build, line_client, loss, one_round, run, slope
from federations import make_clients, make_engine, make_solver
from fedfb.algorithms.baselines.client_losses import mean_loss
from fedfb.algorithms.baselines.q_ffl import q_ffl
from fedfb.core import ClientData

ROWS = ([(1.0, 1), (-2.0, 0)], [(0.5, 0), (1.5, 0), (-1.0, 1)])


def one_step(lr=0.5):
    """One local step of plain SGD over all rows: then L (w - w_i) is the gradient."""
    return make_solver(lr=lr, epochs=1, batch=100, optimiser="sgd")


@pytest.mark.parametrize("variant", ["avg", "sgd"])
@pytest.mark.parametrize("q", [0.0, 0.5, 2.0])
def test_two_rounds_by_hand(q, variant):
    """Scalars only: Delta_i = F^q g, h_i = q F^(q-1) |g|^2 + L F^q, weighted by n_i."""
    clients, engine = [line_client(i, rows) for i, rows in enumerate(ROWS)], make_engine(1)
    algorithm = build("q-ffl", engine, one_step(), variant, q=q)
    state, L = run(algorithm, clients, engine, rounds=2).state, 1 / 0.5
    w, b = engine.model.init(0).tolist()
    for _ in range(2):
        top_w = top_b = bottom = 0.0
        for rows in ROWS:
            F, (gw, gb) = loss(w, b, rows), slope(w, b, rows)
            top_w += len(rows) * F**q * gw
            top_b += len(rows) * F**q * gb
            bottom += len(rows) * (q * F ** (q - 1) * (gw * gw + gb * gb) + L * F**q)
        w, b = w - top_w / bottom, b - top_b / bottom
    np.testing.assert_allclose(state.params, [[w, b]], atol=1e-8)


@given(seed=st.integers(0, 10**6), q=st.floats(0, 20))
def test_one_local_step_makes_both_variants_the_same(seed, q):
    clients, engine = make_clients(seed), make_engine(3, hidden=(4,))
    solver = one_step()._replace(weight_decay=0.01)
    runs = [
        run(build("q-ffl", engine, solver, v, q=q), clients, engine, rounds=2, seed=seed)
        for v in ("avg", "sgd")
    ]
    np.testing.assert_allclose(runs[0].state.params, runs[1].state.params, atol=1e-9)


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
@given(seed=st.integers(0, 10**6), q=st.floats(0, 10))
def test_a_single_client_steps_towards_its_model_and_never_past_it(optimiser, seed, q):
    clients, engine = make_clients(seed, sizes=(20,)), make_engine()
    solver = make_solver(optimiser=optimiser)
    whole = run(build("q-ffl", engine, solver, q=0), clients, engine, rounds=1, seed=seed)
    short = run(build("q-ffl", engine, solver, q=q), clients, engine, rounds=1, seed=seed)
    start = engine.model.init(seed)
    there, here = whole.state.params[0] - start, short.state.params[0] - start
    factor = here @ there / (there @ there)
    assert 0 < factor <= 1 + 1e-9
    np.testing.assert_allclose(here, factor * there, atol=1e-9)


@pytest.mark.parametrize("variant", ["avg", "sgd"])
@given(seed=st.integers(0, 10**6), q=st.floats(0, 5), unit=st.floats(0.05, 20))
def test_the_unit_of_the_losses_does_not_matter(variant, seed, q, unit):
    clients, engine = make_clients(seed), make_engine()
    algorithm = build("q-ffl", engine, make_solver(), variant, q=q)
    state = run(algorithm, clients, engine, rounds=1, seed=seed).state
    memories = {c.id: {} for c in clients}
    one, other = (
        one_round(algorithm, state._replace(unit=value), clients, memories, 2, seed)
        for value in (state.unit, np.array([unit]))
    )
    np.testing.assert_allclose(one.params, other.params, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("q", [50.0, 400.0])
def test_large_powers_of_large_losses_stay_finite(q):
    """Plain F^q would be 20^400 > 1e500 here; confident and wrong rows have such losses."""
    clients, engine = make_clients(0), make_engine()
    far = tuple(c._replace(x=40 * c.x, y=1 - c.y) for c in clients)
    solver = make_solver(lr=1e-4, epochs=1, optimiser="sgd")
    for variant in ("avg", "sgd"):
        algorithm = q_ffl(engine, solver, np.array([q]), variant)
        assert np.all(np.isfinite(run(algorithm, far, engine, rounds=4).state.params))


def test_a_perfectly_fitted_client_does_no_harm_for_small_q():
    sure = line_client(0, [(1000.0, 1), (-1000.0, 0)])
    other = line_client(1, ROWS[1])
    engine = make_engine(1)
    for variant in ("avg", "sgd"):
        algorithm = build("q-ffl", engine, one_step(), variant, q=0.5)
        state = algorithm.state(np.array([[1.0, 0.0]]), np.array([0.5]))
        after = one_round(algorithm, state, (sure, other), {0: {}, 1: {}})
        assert np.all(np.isfinite(after.params))


def test_larger_q_brings_the_clients_losses_together():
    """Two clients that disagree about the label of x = 1, one with three times the rows."""
    clients = [line_client(0, [(1.0, 1)] * 3), line_client(1, [(1.0, 0)])]
    engine = make_engine(1)
    algorithm = build("q-ffl", engine, make_solver(4, lr=1.0), "sgd", q=[0.0, 1.0, 4.0, 16.0])
    params = run(algorithm, clients, engine, rounds=150, runs=4).state.params
    one, other = (mean_loss(engine, params, c) for c in clients)
    spreads = np.abs(one - other)
    assert all(a > b + 0.02 for a, b in pairwise(spreads))
    assert spreads[0] == pytest.approx(np.log(3), abs=1e-3)


def test_the_fixed_point_solves_the_problem():
    """p0 F0^q F0' + p1 F1^q F1' = 0, solved here by bisection over the common logit."""
    rows, q = ([(1.0, 1)] * 3, [(1.0, 0)]), 2.0
    clients, engine = [line_client(i, r) for i, r in enumerate(rows)], make_engine(1)
    state = run(build("q-ffl", engine, one_step(), "sgd", q=q), clients, engine, rounds=200).state
    low, high = 0.0, 2.0
    for _ in range(60):
        z = (low + high) / 2
        pull = sum(len(r) * loss(z, 0.0, r) ** q * slope(z, 0.0, r)[0] for r in rows)
        low, high = (z, high) if pull < 0 else (low, z)
    assert state.params.sum() == pytest.approx(z, abs=1e-6)


@given(seed=st.integers(0, 10**6))
def test_with_q_zero_splitting_a_client_changes_nothing(seed):
    clients, engine = make_clients(seed, sizes=(30, 20)), make_engine()
    first = clients[0]
    halves = [
        ClientData(i, first.x[k], first.y[k], first.group[k], 2)
        for i, k in ((0, slice(0, 11)), (2, slice(11, 30)))
    ]
    algorithm = build("q-ffl", engine, make_solver(), "sgd", q=0)
    whole = run(algorithm, clients, engine, seed=seed).state
    split = run(algorithm, (*halves, clients[1]), engine, seed=seed).state
    np.testing.assert_allclose(whole.params, split.params, atol=1e-12)
    np.testing.assert_allclose(whole.unit, split.unit, atol=1e-12)
