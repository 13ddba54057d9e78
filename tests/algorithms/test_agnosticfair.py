"""After AgnosticFair: the adversary's weights, its plain form, two rounds by hand."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federations import make_clients, make_engine, make_solver, merge
from fedfb.algorithms.baselines.agnosticfair import agnosticfair, constant_kernel, gaussian_kernel
from fedfb.algorithms.baselines.zafar import zafar
from fedfb.engine.base import loss
from fedfb.errors import ConfigError
from fedfb.runtime import make_ask
from scalar_logistic import (
    ROWS,
    START,
    gradient_of_mean,
    logit,
    mean,
    minus,
    slope_of_cross_entropy,
)
from step_methods import biased_clients, by_hand, run


def build(engine, tau=0.0, nu=10.0, kernel=None, lr=0.05, optimiser="sgd"):
    kernel = kernel or gaussian_kernel(engine.model.inputs)
    solver = make_solver(lr=lr, optimiser=optimiser)
    return agnosticfair(engine, solver, np.array([tau]), np.array([nu]), kernel)


@pytest.mark.parametrize("hidden", [(), (4,)])
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("groups", [2, 3])
def test_equal_weights_make_it_the_penalty_form_of_zafar(hidden, optimiser, groups):
    clients, engine = make_clients(4, groups=groups), make_engine(hidden=hidden)
    tau, nu = np.array([0.02]), np.array([2.0])
    solver = make_solver(lr=0.05, optimiser=optimiser)
    penalty = zafar(engine, solver, groups, tau, nu, period=None)
    plain = agnosticfair(engine, solver, tau, nu, constant_kernel)
    one, other = run(plain, clients, engine, 12), run(penalty, clients, engine, 12)
    np.testing.assert_allclose(one.state.params, other.state.params, atol=1e-10)
    np.testing.assert_allclose(one.history[-1].signal, other.history[-1].signal, atol=1e-10)


@given(seed=st.integers(0, 10**6), features=st.integers(1, 5))
def test_the_weights_have_mean_one_after_every_step(seed, features):
    clients, engine = make_clients(seed, features=features), make_engine(features)
    kernel = gaussian_kernel(features)
    everyone = kernel(merge(clients).x)
    trained = run(build(engine), clients, engine, 5, seed=seed)
    for record in trained.history:
        assert np.all(record.lam >= 0)
        assert (record.lam @ everyone.T).mean() == pytest.approx(1.0, abs=1e-12)


def test_the_basis_is_public_and_belongs_to_the_number_of_features():
    x = np.random.default_rng(0).normal(size=(7, 3))
    np.testing.assert_array_equal(gaussian_kernel(3)(x), gaussian_kernel(3)(x))
    assert gaussian_kernel(3)(x).shape == (7, 20)
    assert np.all((gaussian_kernel(3)(x) > 0) & (gaussian_kernel(3)(x) <= 1))


@given(seed=st.integers(0, 10**6))
def test_the_first_answer_of_the_adversary_is_the_worst_of_all_it_may_give(seed):
    """No convex mixture of basis functions weighs the rows to a larger loss than the vertex."""
    clients, engine = make_clients(seed), make_engine()
    everyone, kernel = merge(clients), gaussian_kernel(3)
    start = engine.model.init(seed)[None]
    alpha = run(build(engine), clients, engine, 1, seed=seed).history[0].lam[0]
    losses, near = loss(engine.logits(start, everyone.x), everyone.y, "ce")[0], kernel(everyone.x)
    worst = np.mean((near @ alpha) * losses)
    for beta in np.random.default_rng(seed).dirichlet(np.full(20, 0.3), size=20):
        assert np.mean((near @ (beta / near.mean(axis=0))) * losses) <= worst + 1e-12


@pytest.mark.parametrize("kernel", [None, constant_kernel])
def test_the_covariance_falls_on_biased_rows(kernel):
    clients, engine = biased_clients(1), make_engine()

    def largest(nu):
        algorithm = build(engine, 0.0, nu, kernel, lr=0.05, optimiser="adam")
        return np.abs(run(algorithm, clients, engine, 150).history[-1].signal).max()

    assert largest(100.0) < 0.1 * largest(0.0)


@given(seed=st.integers(0, 10**6), constant=st.floats(-5, 5))
def test_a_constant_on_all_logits_leaves_the_reweighted_covariance(seed, constant):
    clients, engine = make_clients(seed), make_engine()
    found = []
    for shift in (0.0, constant):
        start = engine.model.init(seed)[None].copy()
        start[:, -1] += shift
        ask = make_ask(clients, {c.id: {} for c in clients}, seed, 1)
        algorithm = build(engine)
        found.append(algorithm.round(algorithm.setup(start, ask), ask)[1].signal)
    np.testing.assert_allclose(found[0], found[1], atol=1e-12)


def test_basis_functions_without_rows_are_dropped_and_rows_without_any_are_refused():
    [client], engine = make_clients(0, sizes=(30,), features=1), make_engine(1)
    aside = client._replace(x=client.x * 0.1 + 4.5)
    trained = run(build(engine, nu=0.0), (aside,), engine, 3)
    assert np.any(trained.state.kernel_means == 0)
    assert not trained.state.alpha[:, trained.state.kernel_means == 0].any()
    with pytest.raises(ConfigError, match="Standardise"):
        run(build(engine), (client._replace(x=client.x + 100.0),), engine, 1)


def test_two_rounds_by_hand():
    """The plain form on six rows in scalar arithmetic: mean loss + nu sum_a (|C_a| - tau)_+^2."""
    tau, nu, eta, model = 0.05, 2.0, 0.3, START
    pushed = 0.0
    for _ in range(2):
        step = gradient_of_mean(ROWS, lambda r, m=model: slope_of_cross_entropy(m, r))
        for a in (0, 1):
            share = mean(ROWS, lambda r, a=a: float(r.group == a))
            c = mean(ROWS, lambda r, a=a, s=share, m=model: ((r.group == a) - s) * logit(m, r))
            slope = gradient_of_mean(ROWS, lambda r, a=a, s=share: (r.group == a) - s)
            force = 2 * nu * max(0.0, abs(c) - tau) * (1 if c > 0 else -1)
            step, pushed = minus(step, slope, -force), pushed + abs(force)
        model = minus(model, step, eta)
    state = by_hand(build(make_engine(1), tau, nu, constant_kernel, lr=eta))
    np.testing.assert_allclose(state.params[0], model, atol=1e-13)
    assert pushed > 0


def test_two_rounds_of_a_two_function_adversary_by_hand():
    """Basis x^2 and 1, no penalty: theta starts even, then is all the worse function's.

    k = (mean x^2, 1). Round 1: theta = (x^2/k_1 + 1)/2. The vertex is the function with the larger
    mean loss at the start; with weight 1/t = 1 it is the whole mixture of round 2.
    """

    def kernel(x):
        return np.column_stack([x[:, 0] ** 2, np.ones(len(x))])

    def loss_of(model, row):
        z = logit(model, row)
        return np.logaddexp(0, z) - row.y * z

    eta, model = 0.3, START
    k = mean(ROWS, lambda r: r.x**2)
    square = mean(ROWS, lambda r: r.x**2 * loss_of(START, r)) / k
    worse_is_square = square > mean(ROWS, lambda r: loss_of(START, r))
    for number in (1, 2):

        def theta(row, number=number):
            if number == 1:
                return 0.5 * (row.x**2 / k + 1)
            return row.x**2 / k if worse_is_square else 1.0

        step = gradient_of_mean(
            ROWS, lambda r, m=model, t=theta: t(r) * slope_of_cross_entropy(m, r)
        )
        model = minus(model, step, eta)
    state = by_hand(build(make_engine(1), 0.0, 0.0, kernel, lr=eta))
    np.testing.assert_allclose(state.params[0], model, atol=1e-13)


DISPARITY = """
from fedfb import Experiment, run
flags = dict(data="synthetic", algorithm="agnosticfair", model="mlp", seeds=(1,))
print(repr(run(Experiment(**flags)).runs[0].disparity["demographic_parity"]))
"""


@pytest.mark.slow
def test_the_kernel_of_the_blas_does_not_decide_the_reported_digits():
    """OpenBLAS sums in another order on an older processor, which it can be told to take for."""
    found = []
    for processor in ("Haswell", "Prescott"):
        environment = {**os.environ, "OPENBLAS_CORETYPE": processor}
        done = subprocess.run(
            [sys.executable, "-c", DISPARITY], env=environment, capture_output=True, check=True
        )
        found.append(float(done.stdout))
    assert found[0] == pytest.approx(found[1], abs=1e-12)
