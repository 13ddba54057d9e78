"""The server's step repeats the clients' own optimiser."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federations import make_clients, make_engine, make_solver
from fedfb.algorithms.baselines.server_step import descend, no_moments


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
@pytest.mark.parametrize("hidden", [(), (4,)])
def test_steps_at_the_server_are_full_batch_epochs_of_the_engine(optimiser, hidden):
    [client], engine = make_clients(1, sizes=(30,)), make_engine(hidden=hidden)
    solver = make_solver(2, epochs=4, batch=30, optimiser=optimiser, weight_decay=0.1)
    params = np.stack([engine.model.init(0), engine.model.init(1)])
    weights = np.ones((2, 2, 2))
    local = engine.train(params, client, weights, solver, (0,))
    moments = no_moments(params)
    for t in range(1, 5):
        gradient = engine.gradient(params, client, weights) / 30
        params, moments = descend(params, gradient, moments, solver, t)
    np.testing.assert_allclose(params, local, atol=1e-12)


@given(seed=st.integers(0, 10**6))
def test_plain_descent_is_linear_in_the_gradient_and_keeps_no_moments(seed):
    rng = np.random.default_rng(seed)
    params, one, other = rng.normal(size=(3, 2, 5))
    solver = make_solver(2, optimiser="sgd")
    moved, moments = descend(params, one + other, no_moments(params), solver, 1)
    alone = (
        descend(params, one, moments, solver, 1)[0] + descend(0 * one, other, moments, solver, 1)[0]
    )
    np.testing.assert_allclose(moved, alone, atol=1e-14)
    assert not moments.any()
