"""FairFed: clients close to the global gap count more."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federations import make_clients, make_engine, make_solver, merge
from fedfb.algorithms.baselines.fairfed import METHOD
from fedfb.algorithms.baselines.lft import LFT_FEDAVG as LFT_FEDAVG
from fedfb.algorithms.baselines.reweighing import independent_weights
from fedfb.algorithms.fedavg import fedavg
from fedfb.algorithms.tasks import average, fit_task
from fedfb.core import ClientData
from fedfb.engine import cell_counts
from fedfb.errors import ConfigError
from fedfb.runtime import make_ask
from local_training import build, client, descend, run

FULL_BATCH = {"batch": 10**6, "epochs": 2}
"""Questions before the fit draw other batches than FedAvg's; of one batch there is one order."""


def full_batch(runs=1):
    return make_solver(runs, **FULL_BATCH)


def gap_of(engine, params, data, name):
    """P(yhat=1|0) - P(yhat=1|1), by hand; given y = 1 for equal opportunity."""
    positive = engine.logits(params, data.x)[0] >= 0
    among = data.y == 1 if name == "eo" else np.ones(len(data.y), bool)
    return positive[among & (data.group == 0)].mean() - positive[among & (data.group == 1)].mean()


def uploads(algorithm, clients, params, memories=None, seed=0):
    """Ask one round's questions and keep what every client said, by the question's name."""
    memories = memories or {c.id: algorithm.memory(params) for c in clients}
    ask, said = make_ask(clients, memories, seed, 1), {}

    def listen(task, broadcast):
        before = {c.id: dict(memories[c.id]) for c in clients}
        said[task.name] = [
            task.run(broadcast, c, before[c.id], (seed, 1, 0, c.id))[0] for c in clients
        ]
        return ask(task, broadcast)

    state, info = algorithm.round(algorithm.state(params), listen)
    return said, memories, state, info


@pytest.mark.parametrize("variant", ["v3", "v1"])
@given(seed=st.integers(0, 10**6))
def test_without_beta_it_is_fedavg_of_locally_reweighed_rows(variant, seed):
    clients, engine = make_clients(seed), make_engine()
    trained = run(
        build(METHOD, engine, variant=variant, beta=0.0, solver=full_batch()),
        clients,
        engine,
        rounds=2,
        seed=seed,
    )

    def local(broadcast, data):
        return independent_weights(cell_counts(data))[None]

    fit = fit_task(engine, full_batch(), local, "sample")
    params = engine.model.init(seed)[None]
    for number in (1, 2):
        ask = make_ask(clients, {c.id: {} for c in clients}, seed, number)
        params = average(ask(fit, {"params": params}), params)
    np.testing.assert_allclose(trained.state.params, params, atol=1e-10)


@pytest.mark.parametrize("variant", ["v3-fairbatch", "v1-fairbatch"])
@pytest.mark.parametrize("name", ["dp", "eo"])
def test_without_beta_and_with_fairbatch_it_is_lft_fedavg(variant, name):
    clients, engine, knobs = make_clients(1), make_engine(), {"alpha": 0.3, "solver": full_batch()}
    fair = run(build(METHOD, engine, name, variant=variant, beta=0.0, **knobs), clients, engine)
    local = run(build(LFT_FEDAVG, engine, name, **knobs), clients, engine)
    np.testing.assert_allclose(fair.state.params, local.state.params, atol=1e-10)
    for c in clients:
        np.testing.assert_allclose(fair.memories[c.id]["lam"], local.memories[c.id]["lam"])


@given(seed=st.integers(0, 10**6), name=st.sampled_from(["dp", "eo"]))
def test_the_summed_gap_is_the_pooled_gap_however_rows_are_split(seed, name):
    clients, engine = make_clients(seed), make_engine()
    first, cut = clients[0], np.arange(30) < 11
    halves = [
        ClientData(i, first.x[k], first.y[k], first.group[k], 2) for i, k in ((0, cut), (9, ~cut))
    ]
    params = np.random.default_rng(seed).normal(size=(1, engine.model.size))
    algorithm = build(METHOD, engine, name)
    for federation in (clients, (*halves, *clients[1:]), [merge(clients)]):
        *_, info = uploads(algorithm, federation, params)
        expected = gap_of(engine, params, merge(clients), name)
        assert info.signal[0, 0] == pytest.approx(expected, abs=1e-14)


@given(seed=st.integers(0, 10**6), beta=st.floats(0, 3), variant=st.sampled_from(["v3", "v1"]))
def test_weights_sum_to_one_and_v3_keeps_their_sum(seed, beta, variant):
    clients, engine = make_clients(seed), make_engine()
    params = np.random.default_rng(seed).normal(size=(1, engine.model.size))
    algorithm = build(METHOD, engine, variant=variant, beta=beta)
    said, memories, *_ = uploads(algorithm, clients, params)
    assert sum(answer["weight"][0] for answer in said["fit"]) == pytest.approx(1)
    assert all(answer["weight"][0] >= 0 for answer in said["fit"])
    for _ in range(2):
        _, memories, *_ = uploads(algorithm, clients, params, memories)
    assert sum(memory["drift"][0] for memory in memories.values()) == pytest.approx(0, abs=1e-12)


@given(seed=st.integers(0, 10**6), beta=st.floats(0.1, 3))
def test_the_nearer_a_client_is_to_the_global_gap_the_more_it_gains(seed, beta):
    clients, engine = make_clients(seed, sizes=(30, 20, 24)), make_engine()
    params = np.random.default_rng(seed).normal(size=(1, engine.model.size))
    said, memories, *_ = uploads(build(METHOD, engine, beta=beta), clients, params)
    distances = [answer["distance"][0] for answer in said["compare"]]
    drifts = [memories[c.id]["drift"][0] for c in clients]
    np.testing.assert_allclose(drifts, -beta * (distances - np.mean(distances)), atol=1e-12)


@pytest.mark.parametrize("name", ["dp", "eo"])
def test_a_client_lacking_a_group_is_compared_by_accuracy(name):
    clients, engine = make_clients(3), make_engine()
    lacking = clients[1]._replace(group=np.zeros_like(clients[1].group))
    federation = (clients[0], lacking, clients[2])
    params = np.random.default_rng(5).normal(size=(1, engine.model.size))
    said, *_ = uploads(build(METHOD, engine, name), federation, params)

    def accuracy(data):
        return np.mean((engine.logits(params, data.x)[0] >= 0) == data.y)

    gap, everyone = gap_of(engine, params, merge(federation), name), merge(federation)
    expected = [abs(gap_of(engine, params, c, name) - gap) for c in federation[::2]]
    expected.insert(1, abs(accuracy(lacking) - accuracy(everyone)))
    found = [answer["distance"][0] for answer in said["compare"]]
    np.testing.assert_allclose(found, expected, atol=1e-14)


@pytest.mark.parametrize("variant", METHOD.variants)
@pytest.mark.parametrize("name", ["dp", "eo"])
def test_where_one_group_is_left_it_is_fedavg(variant, name):
    engine = make_engine()
    declared_one = make_clients(2, groups=1)
    declared_two = tuple(c._replace(groups=2) for c in declared_one)
    plain = run(fedavg(engine, full_batch()), declared_one, engine)
    for groups, clients in ((1, declared_one), (2, declared_two)):
        algorithm = build(
            METHOD, engine, name, groups=groups, variant=variant, beta=5.0, solver=full_batch()
        )
        fair = run(algorithm, clients, engine)
        np.testing.assert_allclose(fair.state.params, plain.state.params, atol=1e-10)


@pytest.mark.parametrize("variant", METHOD.variants)
def test_one_client_has_all_the_weight(variant):
    [only], engine = make_clients(0, sizes=(30,)), make_engine()
    algorithm = build(METHOD, engine, variant=variant, beta=50.0)
    said, *_ = uploads(algorithm, [only], engine.model.init(0)[None])
    assert said["fit"][0]["weight"] == pytest.approx(1)
    assert said["compare"][0]["distance"] == pytest.approx(0)


def test_a_negative_weight_counts_as_zero_and_without_any_all_count_the_same():
    clients, engine = make_clients(3), make_engine()
    params = np.random.default_rng(5).normal(size=(1, engine.model.size))
    algorithm = build(METHOD, engine, beta=50.0)
    said, memories, *_ = uploads(algorithm, clients, params)
    weights = [answer["weight"][0] for answer in said["fit"]]
    assert min(weights) == 0
    assert sum(weights) == pytest.approx(1)
    assert sum(m["drift"][0] for m in memories.values()) == pytest.approx(0, abs=1e-12)
    # Possible where those drifted above 0 stay away in a later round.
    for memory in memories.values():
        memory["drift"] = np.array([-1e6])
    said, *_ = uploads(algorithm, clients, params, memories)
    np.testing.assert_allclose([answer["weight"][0] for answer in said["fit"]], 1 / 3)


@pytest.mark.parametrize("hidden", [(), (4,)])
@pytest.mark.parametrize("variant", METHOD.variants)
@pytest.mark.parametrize("name", ["dp", "eo"])
def test_it_runs_from_a_problem_on_clients_that_lack_cells(hidden, variant, name):
    first, second, third = make_clients(2)
    lacking = (first, second._replace(y=np.zeros_like(second.y)), third._replace(group=third.y))
    engine = make_engine(hidden=hidden)
    algorithm = build(METHOD, engine, name, variant=variant, runs=2)
    assert np.all(np.isfinite(run(algorithm, lacking, engine, runs=2).state.params))
    assert [(t.name, t.reduce) for t in algorithm.tasks] == [
        (question, "sum") for question in ("look", "compare", "weigh", "fit")
    ]


@pytest.mark.parametrize("variant", METHOD.variants)
def test_clients_that_come_and_go_keep_their_weights_meanwhile(variant):
    clients, engine = make_clients(4, sizes=(9, 4, 12, 5, 7)), make_engine()
    algorithm = build(METHOD, engine, variant=variant, beta=5.0)
    trained = run(algorithm, clients, engine, rounds=6, participation=0.4)
    assert np.all(np.isfinite(trained.state.params))
    drifts = [memory["drift"][0] for memory in trained.memories.values()]
    assert sum(drifts) == pytest.approx(0, abs=1e-12)
    assert any(drifts) == variant.startswith("v3")


def test_what_it_cannot_do_is_refused_with_the_number_found():
    with pytest.raises(ConfigError, match="these data have 4"):
        build(METHOD, make_engine(), groups=4)
    for name in ("eod", "cp"):
        with pytest.raises(ConfigError, match="--notion dp or eo"):
            build(METHOD, make_engine(), name)


@pytest.mark.parametrize("variant", ["v3", "v1"])
def test_two_rounds_by_hand(variant):
    """Two clients with one feature, one full-batch SGD epoch a round, local reweighing, dp.

    Client 0 has cells n_00 = 1, n_10 = 2, n_11 = 1: omega_00 = 1*3/4, omega_10 = 3*3/8,
    omega_11 = 3*1/4. Client 1 has n_00 = 1, n_01 = 1, n_11 = 1: omega_00 = 2*1/3,
    omega_01 = 2*2/3, omega_11 = 1*2/3. F and D are taken at the received model; v3 adds up.
    """
    one = [(1.0, 1, 0), (-0.7, 1, 0), (0.5, 0, 0), (-0.9, 1, 1)]
    two = [(-0.6, 0, 0), (0.9, 0, 1), (-0.4, 1, 1)]
    omega = [[9 / 8, 9 / 8, 3 / 4, 3 / 4], [2 / 3, 4 / 3, 2 / 3]]
    engine, lr, beta = make_engine(features=1), 0.5, 0.8
    solver = make_solver(lr=lr, epochs=1, batch=10, optimiser="sgd")
    algorithm = build(METHOD, engine, variant=variant, solver=solver, beta=beta)
    start, clients = np.array([[1.0, 0.1]]), [client(0, one), client(1, two)]
    memories = {c.id: algorithm.memory(start) for c in clients}
    state = algorithm.state(start)
    for number in (1, 2):
        state, _ = algorithm.round(state, make_ask(clients, memories, 0, number))

    def gap(w, b, rows):
        def rate(group):
            here = [w * x + b >= 0 for x, _, a in rows if a == group]
            return sum(here) / len(here)

        return rate(0) - rate(1)

    (w, b), bar, seen = start[0], [4 / 7, 3 / 7], []
    for _ in range(2):
        pooled = gap(w, b, one + two)
        d = [abs(gap(w, b, rows) - pooled) for rows in (one, two)]
        seen.append(d)
        if variant == "v3":
            bar = [bar[0] - beta * (d[0] - d[1]) / 2, bar[1] - beta * (d[1] - d[0]) / 2]
        else:
            bar = [4 / 7 * math.exp(-beta * d[0]), 3 / 7 * math.exp(-beta * d[1])]
        (u, c), (v, e) = (
            descend(w, b, rows, weights, len(rows), lr)
            for rows, weights in zip((one, two), omega, strict=True)
        )
        share = bar[0] / sum(bar)
        w, b = share * u + (1 - share) * v, share * c + (1 - share) * e
    np.testing.assert_allclose(state.params[0], [w, b], atol=1e-12)
    assert all(abs(d[0] - d[1]) > 0.05 for d in seen)  # distances differ, so weights really move
    assert min(bar) > 0
