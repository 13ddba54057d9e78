"""What holds for any federation: client sums are pooled quantities, limits are known methods."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federations import NOTIONS, make_clients, make_engine, make_solver, merge
from fedfb.algorithms import Outer
from fedfb.algorithms.fedavg import fedavg
from fedfb.algorithms.fedfb.fedfb import fedfb
from fedfb.algorithms.fedfb.signals import summed_signal
from fedfb.algorithms.tasks import average, confusion_task, count_task
from fedfb.core import ClientData
from fedfb.engine import cell_counts
from fedfb.notions import make_notion
from fedfb.runtime import make_ask, train
from few_examples import one_in


def run(algorithm, clients, engine, rounds=3, seed=0, runs=1):
    start = np.repeat(engine.model.init(seed)[None], runs, axis=0)
    return train(algorithm, clients, start, seed=seed, rounds=rounds, watch=confusion_task(engine))


def build(engine, notion, alpha=0.5, runs=1, **more):
    return fedfb(engine, make_solver(runs), notion, Outer(np.full(runs, alpha), **more))


@pytest.mark.parametrize("name", NOTIONS)
@pytest.mark.parametrize("groups", [2, 3, 5])
@given(seed=st.integers(0, 10**6))
@one_in(5)
def test_client_objectives_and_gradients_sum_to_the_pooled_ones(name, groups, seed):
    """For both scalings sum_i p_i F_i is proportional to (1/n) sum_j omega_j l_j."""
    clients, engine = make_clients(seed, groups=groups), make_engine()
    notion, rng = make_notion(name, groups), np.random.default_rng(seed)
    counts = (
        np.array([len(c.y) for c in clients]) if name == "cp" else sum(map(cell_counts, clients))
    )
    start = notion.init(counts)[None]
    lam = notion.step(start, rng.normal(size=start.shape), counts, np.array([0.3]))
    omega = notion.weights(lam, counts)
    params, n = rng.normal(size=(1, engine.model.size)), sum(len(c.y) for c in clients)

    def objective(client, cells):
        return np.sum(cells * engine.loss_sums(params, client, "ce"))

    cells = [notion.cell_weights(omega, c.id, groups) for c in clients]
    mass = [np.sum(w * cell_counts(c)) for w, c in zip(cells, clients, strict=True)]
    rows = [len(c.y) for c in clients]
    pairs = list(zip(cells, clients, strict=True))
    pooled = sum(objective(c, w) for w, c in pairs) / n
    if name != "cp":
        assert objective(merge(clients), omega) / n == pytest.approx(pooled, rel=1e-12)
    slope = sum(engine.gradient(params, c, w) for w, c in pairs) / n
    for size, total in ((mass, sum(mass)), (rows, n)):
        share = [s / total for s in size]
        summed = sum(
            p * objective(c, w) / s
            for p, s, (w, c) in zip(share, size, pairs, strict=True)
            if s > 0
        )
        assert summed == pytest.approx(pooled * n / total, rel=1e-12)
        gradient = sum(
            p * engine.gradient(params, c, w) / s
            for p, s, (w, c) in zip(share, size, pairs, strict=True)
            if s > 0
        )
        np.testing.assert_allclose(gradient, slope * n / total, atol=1e-12)


@pytest.mark.parametrize("scaling", ["mass", "sample"])
@given(seed=st.integers(0, 10**6))
def test_one_full_batch_step_is_a_centralised_gradient_step(scaling, seed):
    clients, engine = make_clients(seed), make_engine()
    notion = make_notion("dp", 2)
    solver = make_solver(lr=0.1, epochs=1, batch=10**6, optimiser="sgd")
    algorithm = fedfb(engine, solver, notion, Outer(np.array([0.5])), scaling)
    counts = sum(map(cell_counts, clients))
    lam = np.random.default_rng(seed).uniform(0.1, 0.9, size=(1, 2)) * notion.upper(counts)
    params, omega = engine.model.init(seed)[None], notion.weights(lam, counts)
    ask = make_ask(clients, {c.id: {} for c in clients}, seed, 1)
    after, _ = algorithm.round(algorithm.setup(params, ask)._replace(lam=lam), ask)
    total = np.sum(omega * counts) if scaling == "mass" else counts.sum()
    step = 0.1 * engine.gradient(params, merge(clients), omega) / total
    np.testing.assert_allclose(after.params, params - step, atol=1e-13)


@pytest.mark.parametrize("name", NOTIONS)
@given(seed=st.integers(0, 10**6))
def test_without_a_step_fedfb_is_fedavg(name, seed):
    clients, engine = make_clients(seed), make_engine()
    plain = run(fedavg(engine, make_solver()), clients, engine, seed=seed)
    for algorithm in (
        build(engine, make_notion(name, 2), alpha=0.0),
        build(engine, make_notion(name, 2), period=4),
    ):
        fair = run(algorithm, clients, engine, seed=seed)
        np.testing.assert_allclose(fair.state.params, plain.state.params, atol=1e-10)


@given(seed=st.integers(0, 10**6), weights=st.lists(st.floats(0.1, 50), min_size=1, max_size=6))
def test_averaging_equal_models_is_the_identity(seed, weights):
    params = np.random.default_rng(seed).normal(size=(2, 7))
    total = {
        "weighted": np.sum([w * params for w in weights], axis=0),
        "weight": np.full(2, np.sum(weights)),
    }
    np.testing.assert_allclose(average(total, np.zeros_like(params)), params, rtol=1e-12)


def test_a_client_without_weight_is_left_out_and_nobody_keeps_the_model():
    params = np.ones((1, 3))
    nobody = {"weighted": np.zeros((1, 3)), "weight": np.zeros(1)}
    np.testing.assert_array_equal(average(nobody, params), params)
    engine, clients = make_engine(), make_clients(0)
    alone = tuple(c._replace(group=np.zeros_like(c.group)) for c in clients[:1])
    notion = make_notion("eo", 2)
    algorithm = build(engine, notion, alpha=5.0)
    trained = run(algorithm, (*alone, *clients[1:]), engine)
    assert np.all(np.isfinite(trained.state.params))


@pytest.mark.parametrize("timing", ["post", "piggyback", "local"])
@pytest.mark.parametrize("name", ["dp", "eo", "eod"])
def test_summed_signals_are_the_pooled_signal(name, timing):
    """Taken at a common model the sum is pooled exactly; taken at each client's own it is not."""
    clients, engine = make_clients(3, sizes=(80, 60, 90), groups=3), make_engine()
    notion = make_notion(name, 3)
    algorithm = build(engine, notion, timing=timing, surrogate="zero_one")
    trained = run(algorithm, clients, engine, rounds=2)
    state, records = trained.state, trained.history
    before = run(algorithm, clients, engine, rounds=1).state.params
    at = {"post": state.params, "piggyback": before, "local": state.params}[timing]
    pooled = notion.share(engine.loss_sums(at, merge(clients), "zero_one"), state.counts, 0)
    expected = notion.signal(pooled, state.counts)
    if timing == "local":
        assert np.abs(records[-1].signal - expected).max() > 1e-6
    else:
        np.testing.assert_allclose(records[-1].signal, expected, atol=1e-14)


@given(seed=st.integers(0, 10**6), groups=st.sampled_from([2, 3, 5]))
def test_splitting_a_client_in_two_changes_no_summed_statistic(seed, groups):
    clients, engine = make_clients(seed, sizes=(30, 20), groups=groups), make_engine()
    cut = np.random.default_rng(seed).random(30) < 0.5
    first = clients[0]
    halves = [
        ClientData(i, first.x[k], first.y[k], first.group[k], groups)
        for i, k in ((0, cut), (2, ~cut))
        if k.any()
    ]
    split = (*halves, clients[1])
    params = engine.model.init(seed)[None]
    for name in ("dp", "eo", "eod"):
        notion = make_notion(name, groups)
        answers = []
        for federation in (clients, split):
            ask = make_ask(federation, {c.id: {} for c in federation}, seed, 0)
            counts = ask(count_task(notion), {})["counts"]
            broadcast = {"params": params, "counts": counts}
            measure = summed_signal(engine, notion, "ce", None)
            answers.append((counts, measure.read(ask(measure.task, broadcast), counts)))
        np.testing.assert_array_equal(answers[0][0], answers[1][0])
        np.testing.assert_allclose(answers[0][1], answers[1][1], atol=1e-12)


def test_client_parity_refuses_to_mix_losses_with_models():
    from fedfb.errors import ConfigError

    with pytest.raises(ConfigError, match="--timing post"):
        build(make_engine(), make_notion("cp", 2), timing="local")


def test_a_sum_task_shows_the_server_only_the_sum():
    clients, engine = make_clients(0), make_engine()
    algorithm = build(engine, make_notion("dp", 2))
    assert [task.reduce for task in algorithm.tasks] == ["sum"] * 3
    revealing = build(engine, make_notion("cp", 2))
    assert {t.name for t in revealing.tasks if t.reduce == "gather"} == {"count", "measure"}
    ask = make_ask(clients, {c.id: {} for c in clients}, 0, 0)
    counts = ask(count_task(make_notion("dp", 2)), {})["counts"]
    assert counts.shape == (2, 2)
