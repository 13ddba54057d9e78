"""LFT+FedAvg: FedAvg whose clients rebalance for themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federations import make_clients, make_engine, make_solver, merge
from fedfb.algorithms.baselines.lft import LFT_FEDAVG as METHOD
from fedfb.algorithms.fedavg import fedavg
from fedfb.algorithms.fedfb.fedfb import fedfb
from fedfb.algorithms.fedfb.outer import Outer
from fedfb.engine import cell_counts
from fedfb.errors import ConfigError
from fedfb.notions import make_notion
from local_training import build, chance, client, descend, run

GROUP_NOTIONS = ("dp", "eo", "eod")


@pytest.mark.parametrize("name", GROUP_NOTIONS)
@given(seed=st.integers(0, 10**6))
def test_without_a_step_it_is_fedavg(name, seed):
    clients, engine = make_clients(seed), make_engine()
    plain = run(fedavg(engine, make_solver()), clients, engine, seed=seed, rounds=3)
    fair = run(build(METHOD, engine, name, alpha=0.0), clients, engine, seed=seed, rounds=3)
    np.testing.assert_allclose(fair.state.params, plain.state.params, atol=1e-10)


@pytest.mark.parametrize("name", GROUP_NOTIONS)
@given(seed=st.integers(0, 10**6))
def test_on_one_client_with_one_epoch_a_round_it_is_cfl(name, seed):
    everyone, engine = merge(make_clients(seed, groups=3)), make_engine()
    notion, solver = make_notion(name, 3), make_solver(epochs=1)
    pooled = run(fedfb(engine, solver, notion, Outer(np.array([0.3]))), [everyone], engine, 5, seed)
    algorithm = build(METHOD, engine, name, groups=3, solver=solver, alpha=0.3)
    trained = run(algorithm, [everyone], engine, 5, seed)
    np.testing.assert_allclose(trained.state.params, pooled.state.params, atol=1e-10)
    np.testing.assert_allclose(trained.memories[0]["lam"], pooled.state.lam, atol=1e-10)


@given(seed=st.integers(0, 10**6), name=st.sampled_from(GROUP_NOTIONS))
def test_every_lambda_is_feasible_and_counts_its_epochs(seed, name):
    clients, engine = make_clients(seed, groups=3), make_engine()
    algorithm = build(METHOD, engine, name, groups=3, alpha=2.0)
    trained = run(algorithm, clients, engine, rounds=3, seed=seed)
    for c in clients:
        memory = trained.memories[c.id]
        assert make_notion(name, 3).feasible(memory["lam"], cell_counts(c))
        assert int(memory["epochs"]) == 3 * 2


def test_the_server_hears_what_it_hears_in_fedavg():
    clients, engine = make_clients(0), make_engine()
    algorithm, params = build(METHOD, engine), engine.model.init(0)[None]
    [fit], [plain] = algorithm.tasks, fedavg(engine, make_solver()).tasks
    assert fit.reduce == "sum"
    said, _ = fit.run({"params": params}, clients[0], {}, (0, 1, 0, 0))
    usual, _ = plain.run({"params": params}, clients[0], {}, (0, 1, 0, 0))
    assert {k: v.shape for k, v in said.items()} == {k: v.shape for k, v in usual.items()}
    np.testing.assert_array_equal(said["weight"], usual["weight"])


def test_lambda_rests_while_its_client_stays_away():
    clients, engine = make_clients(4, sizes=(9, 14, 12, 15)), make_engine()
    algorithm, rounds = build(METHOD, engine, alpha=1.0), 5
    trained = run(algorithm, clients, engine, rounds, participation=0.5)
    came = [int(trained.memories[c.id].get("epochs", 0)) // 2 for c in clients]
    assert sum(came) == rounds * 2
    assert max(came) > min(came)


@pytest.mark.parametrize("name", GROUP_NOTIONS)
def test_with_one_group_it_is_fedavg(name):
    clients, engine = make_clients(4, groups=1), make_engine()
    plain = run(fedavg(engine, make_solver()), clients, engine)
    fair = run(build(METHOD, engine, name, groups=1, alpha=1.0), clients, engine)
    np.testing.assert_allclose(fair.state.params, plain.state.params, atol=1e-10)


def test_client_parity_is_refused():
    with pytest.raises(ConfigError, match="--notion dp, eo or eod"):
        build(METHOD, make_engine(), "cp")


def test_two_rounds_by_hand():
    """Two clients, one feature, two full-batch SGD epochs a round, equal opportunity, |y - p|.

    Client 0: positives in both groups, so the positives' mass 3/4 of its four rows is dealt out:
    lambda = (1/4, 2/4) at the start, weights 4 lambda_0 and 2 lambda_1, and group 1 gets more of
    it while its mean loss is larger. Client 1 has no positive of group 1: plain training. The
    average counts 4 and 2 rows.
    """
    one = [(1.0, 1, 0), (-1.0, 1, 1), (-0.5, 1, 1), (0.5, 0, 0)]
    two = [(0.8, 1, 0), (-0.3, 0, 1)]
    alpha, lr, epochs, rounds = 0.2, 0.5, 2, 2
    engine = make_engine(features=1)
    solver = make_solver(lr=lr, epochs=epochs, batch=10, optimiser="sgd")
    algorithm = build(METHOD, engine, "eo", solver=solver, alpha=alpha)
    trained = run(algorithm, [client(0, one), client(1, two)], engine, rounds)

    (w, b), lam1, update = engine.model.init(0), 2 / 4, 0
    for _ in range(rounds):
        (u, c), (v, d) = (w, b), (w, b)
        for _ in range(epochs):
            weights = [4 * (3 / 4 - lam1), 2 * lam1, 2 * lam1, 1.0]
            assert sum(weights) == pytest.approx(4)
            u, c = descend(u, c, one, weights, 4, lr)
            v, d = descend(v, d, two, [1.0, 1.0], 2, lr)
            miss = [1 - chance(u, c, x) for x, _, _ in one]
            update += 1
            signal = (miss[1] + miss[2]) / 2 - miss[0]
            lam1 = min(max(lam1 + alpha / update**0.5 * signal, 0), 3 / 4)
        w, b = (4 * u + 2 * v) / 6, (4 * c + 2 * d) / 6
    np.testing.assert_allclose(trained.state.params[0], [w, b], atol=1e-12)
    np.testing.assert_allclose(trained.memories[0]["lam"][0], [3 / 4 - lam1, lam1], atol=1e-12)
    np.testing.assert_allclose(trained.memories[1]["lam"][0], [1 / 2, 0], atol=1e-12)
    assert abs(lam1 - 2 / 4) > 0.05  # lambda has really moved, and not onto its border
    assert 0 < lam1 < 3 / 4
