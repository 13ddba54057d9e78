"""Networks by summed gradients: the fit does not depend on who has which row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federations import deal, make_engine, make_rows, merge
from fedfb.algorithms import descent
from fedfb.algorithms.fedavg import fedavg
from fedfb.algorithms.fedfb.fedfb import fedfb
from fedfb.algorithms.fedfb.outer import Outer
from fedfb.algorithms.fedfb.search import fedfb_by_sums
from fedfb.core import ClientData, LocalSolver
from fedfb.engine import choose_engine, is_native
from fedfb.errors import ConfigError
from fedfb.experiments.resolve import resolve
from fedfb.experiments.spec import Experiment
from fedfb.models import Network
from fedfb.notions import make_notion, symmetric
from fedfb.runtime import reduce_uploads, train
from fedfb.runtime.secure import carry_masked

SUMS = LocalSolver(np.zeros(1), lbfgs=True)
SPLITS = ("iid", "dirichlet", "one group a client")
HIDDEN = (3,)


def fit(algorithm, clients, features=4, hidden=HIDDEN, rounds=1, runs=1, **more):
    start = np.repeat(make_engine(features, hidden).model.init(0)[None], runs, axis=0)
    clients = tuple(client.read_only() for client in clients)
    return train(algorithm, clients, start, seed=1, rounds=rounds, watch=None, **more).state


def network(hidden=HIDDEN, features=4):
    return fedavg(make_engine(features, hidden), SUMS)


def curved(seed, rows, groups):
    """Rows whose labels no logistic regression tells; the group is an input."""
    data = make_rows(seed, rows, groups)
    x = np.column_stack([data.x[:, :2], np.eye(3)[data.group][:, 1:]])
    logit = 2 * np.abs(x[:, 0]) - 1.6 + x[:, 1] + 0.5 * x[:, 2]
    noise = np.random.default_rng(seed).logistic(size=rows)
    return data._replace(x=x, y=(logit + noise > 0).astype(np.int64))


def first_part(data, seed):
    return descent.fold_of_rows(data, seed) == 1


@given(
    seed=st.integers(0, 10**6),
    split=st.sampled_from(SPLITS),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_the_same_rows_are_held_out_however_rows_are_distributed(seed, split, dtype):
    data = make_rows(seed, 120, 3)
    data = data._replace(x=data.x.astype(dtype))
    held = {row.tobytes() for row in data.x[first_part(data, seed)]}
    dealt = set()
    for client in deal(data, split, 7, seed):
        dealt |= {row.tobytes() for row in client.x[first_part(client, seed)]}
    assert dealt == held
    twice = merge((data, data))
    drawn = first_part(twice, seed)
    np.testing.assert_array_equal(drawn[:120], drawn[120:])


def test_about_a_tenth_is_held_out_and_another_seed_holds_out_other_rows():
    data = make_rows(0, 20_000, 2)
    drawn = [first_part(data, seed) for seed in range(5)]
    for held in drawn:
        assert abs(held.mean() - 0.1) < 0.01
        assert abs(held[data.y == 1].mean() - 0.1) < 0.015
    assert (drawn[0] & drawn[1]).mean() < 0.02
    zeros_and_ones = data._replace(x=(data.x > 0).astype(float) @ np.diag([1, 2, 4, 8.0]))
    assert 0 < first_part(zeros_and_ones, 0).mean() < 0.5


@given(seed=st.integers(0, 10**6), split=st.sampled_from(SPLITS), clients=st.sampled_from([2, 9]))
def test_a_client_more_or_less_does_not_change_the_sums(seed, split, clients):
    data, engine = make_rows(seed, 150, 3), make_engine(4, HIDDEN)
    params = np.stack([engine.model.init(seed), engine.model.init(seed + 1)])
    weights = np.random.default_rng(seed).uniform(0, 2, (2, 2, 3))

    def upload(rows: ClientData):
        broadcast = {"params": params, "fold": np.array([0, 2])}
        return descent.gradient_upload(engine, broadcast, rows, weights, (seed, 1, 0, rows.id))

    parts = [upload(client) for client in deal(data, split, clients, seed)]
    for name, whole in upload(data).items():
        np.testing.assert_allclose(sum(part[name] for part in parts), whole, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(
    "clients",
    [2, *(pytest.param(number, marks=pytest.mark.slow) for number in (30, 1000))],
    ids=lambda n: f"{n} clients",
)
def test_the_federated_network_is_the_pooled_network(split, clients):
    data = curved(3, 1500, 3)
    pooled, found = fit(network(), (data,)), fit(network(), deal(data, split, clients, 5))
    np.testing.assert_array_equal(found.past, pooled.past)
    engine = make_engine(4, HIDDEN)
    assert pooled.past[0, 0] != descent.LINEAR
    z, expected = (engine.logits(state.params, data.x) for state in (found, pooled))
    assert np.abs(z - expected).max() < 0.05  # a network magnifies rounding
    assert np.std(expected) > 0.5


@pytest.mark.parametrize("ridge", [1.0, 30.0])
def test_without_hidden_layers_it_ends_where_the_objective_is_least(ridge, monkeypatch):
    monkeypatch.setattr(descent, "RIDGES", (ridge,))
    monkeypatch.setattr(descent, "USUAL_RIDGE", ridge)
    data, engine = make_rows(2, 400, 2), make_engine(4)
    found = fit(network(()), deal(data, "dirichlet", 4, 0), hidden=()).params
    gradient = engine.gradient(found, data, np.ones((1, 2, 2))) + ridge * found
    assert np.abs(gradient).max() / 400 < 1e-3


def test_the_ridge_is_that_of_least_loss_on_the_rows_held_out(monkeypatch):
    monkeypatch.setattr(descent, "FEW", 0)
    data, engine, tried = curved(9, 900, 2), make_engine(4, HIDDEN), {}
    train_rows, held = descent.split_rows(data, 1, 1)
    alone = LocalSolver(np.zeros(1), lbfgs=True)
    for ridge in descent.RIDGES:
        monkeypatch.setattr(descent, "RIDGES", (ridge,))
        monkeypatch.setattr(descent, "USUAL_RIDGE", ridge)
        monkeypatch.setattr(descent, "contains_logistic", lambda model: False)
        monkeypatch.setattr(descent, "PATIENCE", 10**6)
        params = fit(fedavg(engine, alone), (train_rows,)).params
        tried[ridge] = engine.loss_sums(params, held, "ce").sum()
    monkeypatch.undo()
    monkeypatch.setattr(descent, "FEW", 0)
    chosen = fit(network(), (data,)).past[0, 0]
    best = min(tried.values())
    assert tried[chosen] < best + 0.03 * len(held.y)  # the paths differ a little, ridges far apart
    assert max(tried.values()) > best + 0.06 * len(held.y)


def test_where_labels_follow_a_line_the_network_is_the_logistic_regression():
    data = make_rows(2, 500, 2)
    clients = deal(data, "dirichlet", 4, 0)
    state = fit(network((4, 3)), clients, hidden=(4, 3))
    assert state.past[0, 0] == descent.LINEAR
    exact = fit(fedavg(make_engine(4), LocalSolver(np.zeros(1), newton=True)), clients, hidden=())
    z = make_engine(4, (4, 3)).logits(state.params, data.x)
    np.testing.assert_allclose(z, make_engine(4).logits(exact.params, data.x), atol=0.03)


@pytest.mark.parametrize("hidden", [(2,), (5,), (3, 2), (2, 4, 3)])
def test_a_network_contains_every_logistic_regression(hidden):
    rng = np.random.default_rng(0)
    point, x = rng.normal(size=5), rng.normal(size=(50, 4))
    params = descent.embed_logistic(point, Network(4, hidden))
    z = make_engine(4, hidden).logits(params[None], x)[0]
    np.testing.assert_allclose(z, x @ point[:4] + point[4], atol=1e-12)


@pytest.mark.parametrize(("hidden", "contains"), [((), False), ((1,), False), ((4, 1), False)])
def test_a_network_of_one_unit_does_not(hidden, contains):
    assert descent.contains_logistic(Network(4, hidden)) == contains


@pytest.mark.skipif(not is_native("auto"), reason="numpy rounds by the number of runs")
def test_a_run_does_not_depend_on_the_grid_it_is_in():
    data, rule = curved(3, 500, 3), symmetric(make_notion("dp", 3))
    engine = choose_engine("native", Network(4, HIDDEN), np.float64)

    def grid(*targets):
        outer = Outer(surrogate="zero_one", target=np.array(targets))
        algorithm = fedfb(engine, SUMS, rule, outer)
        return fit(algorithm, (data,), rounds=4, runs=len(targets))

    np.testing.assert_array_equal(grid(0.0, 1.0, 0.1).params[2:], grid(0.1).params)


@pytest.mark.slow
def test_secure_sums_end_at_the_same_network_and_order_changes_no_bit():
    clients, names = deal(make_rows(11, 400, 2), "iid", 4, 0), tuple("abcd")
    plain = fit(network(), clients)
    masked = [
        fit(network(), order, carry=carry_masked(names)) for order in (clients, clients[::-1])
    ]
    np.testing.assert_array_equal(masked[0].past, plain.past)
    np.testing.assert_array_equal(masked[0].params, masked[1].params)
    np.testing.assert_allclose(masked[0].params, plain.params, atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("notion", ["dp", "eo"])
def test_gaps_of_a_network_answer_to_their_weights_under_any_split(split, notion):
    data, rule = curved(3, 3000, 3), symmetric(make_notion(notion, 3))
    algorithm = fedfb(make_engine(4, HIDDEN), SUMS, rule, Outer(surrogate="zero_one"))
    state = fit(algorithm, deal(data, split, 20, 5), rounds=8)
    assert state.distance[0] < 0.01


def test_client_parity_fits_a_network_by_sums_alone():
    clients = deal(make_rows(4, 600, 3), "iid", 4, 2)
    asked = []

    def carry(exchange, uploads):
        asked.append((exchange.round, exchange.task.name, exchange.task.reduce))
        return reduce_uploads(exchange.task, list(uploads.values()))

    state = fit(fedfb_by_sums(make_engine(4, HIDDEN), SUMS), clients, rounds=3, carry=carry)
    assert np.isfinite(state.params).all()
    assert {name for _, name, _ in asked} == {"descend", "measure", "search"}
    assert {reduce for *_, reduce in asked} == {"sum"}


def one_label() -> ClientData:
    data = make_rows(8, 60, 2)
    return data._replace(y=np.ones_like(data.y))


def one_row() -> ClientData:
    return ClientData(0, np.ones((1, 4)), np.array([1]), np.array([0]), 2)


def copies() -> ClientData:
    return ClientData(0, np.ones((50, 4)), np.arange(50) % 2, np.arange(50) % 2, 2)


def far_away() -> ClientData:
    data = make_rows(8, 200, 2)
    return data._replace(x=1e4 * data.x)


@pytest.mark.parametrize("make", [one_label, one_row, copies, far_away])
def test_odd_rows_have_a_finite_network(make):
    data = make()
    for clients in ((data,), deal(data, "iid", 3, 0)):
        state = fit(network(), clients)
        assert np.isfinite(state.params).all()
        assert state.past[0, 0] in (*descent.RIDGES, descent.LINEAR)


@pytest.mark.slow
def test_sums_are_over_the_clients_that_answer():
    clients = deal(make_rows(12, 900, 2), "iid", 10, 0)
    state = fit(network(), clients, dropout=0.4)
    assert np.isfinite(state.params).all()
    engine, data = make_engine(4, HIDDEN), merge(clients)
    loss = engine.loss_sums(state.params, data, "ce").sum()
    assert loss < 1.05 * engine.loss_sums(fit(network(), clients).params, data, "ce").sum()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lr": (0.1,)}, "--lr has no effect with --solver lbfgs"),
        ({"local_epochs": 3}, "--local-epochs has no effect with --solver lbfgs"),
        ({"timing": "piggyback"}, "--timing piggyback asks for one"),
        ({"participation": 0.5}, "rows of all clients"),
        ({"privacy_epsilon": 1.0}, "noise would hide each"),
        ({"model": "nets:build"}, "is a torch model"),
        ({"tune": True}, "no learning rate to choose"),
        ({"algorithm": "fpfl"}, "--solver has no effect with fpfl"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_does_not_fit_is_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        resolve(Experiment(**{"solver": "lbfgs", "model": "mlp", **changes}))
