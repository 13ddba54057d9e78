import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federations import make_clients, make_solver, merge
from fedfb.core import ClientData, LocalSolver
from fedfb.engine import (
    NumpyEngine,
    Rebalance,
    cell_counts,
    choose_engine,
    minibatches,
    sigmoid,
)
from fedfb.engine.base import loss
from fedfb.engine.optimise import pack_layers, unpack_layers
from fedfb.errors import ConfigError
from fedfb.models import Network, TorchModel, name_of
from fedfb.notions import make_notion

HIDDEN = [(), (4,), (5, 3)]
hidden_sizes = pytest.mark.parametrize("hidden", HIDDEN, ids=str)


@pytest.fixture(params=["numpy", "native", "torch"])
def make_engine(request):
    """What is said of the reference holds for all engines in double precision."""

    def make(features: int = 3, hidden=()):
        if request.param == "torch":
            nets = pytest.importorskip("torch_nets", reason="torch is not installed")
            model = TorchModel(name_of(nets.OF_HIDDEN[tuple(hidden)]), features)
            return choose_engine("auto", model, np.float64)
        return choose_engine(request.param, Network(features, tuple(hidden)), np.float64)

    return make


def start(engine, runs=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(scale=0.5, size=(runs, engine.model.size))


def naive_logits(params, x, model):
    """One run, one row at a time, no packing."""
    logits = []
    for run in params:
        layers = model.split(run[None])
        for row in x:
            value = row
            for number, (weight, bias) in enumerate(layers):
                value = value @ weight[0] + bias[0]
                value = np.maximum(value, 0) if number < len(layers) - 1 else value
            logits.append(value[0])
    return np.reshape(logits, (len(params), len(x)))


@hidden_sizes
def test_logits_are_those_of_a_plain_loop(make_engine, hidden):
    engine, data = make_engine(3, hidden), merge(make_clients(1))
    params = start(engine, runs=3)
    expected = naive_logits(params, data.x, Network(3, hidden))
    np.testing.assert_allclose(engine.logits(params, data.x), expected, atol=1e-12)


@hidden_sizes
@given(seed=st.integers(0, 10**6))
def test_packing_and_unpacking_is_the_identity(hidden, seed):
    model = Network(3, hidden)
    params = np.random.default_rng(seed).normal(size=(3, model.size))
    np.testing.assert_array_equal(unpack_layers(pack_layers(params, model), model), params)


@hidden_sizes
@pytest.mark.parametrize("surrogate", ["ce", "prob", "logit", "steep", "mistake"])
def test_gradients_agree_with_finite_differences(make_engine, hidden, surrogate):
    engine, data = make_engine(3, hidden), merge(make_clients(2, groups=3))
    params, rng = start(engine), np.random.default_rng(3)
    weights = rng.uniform(0, 2, size=(2, 2, 3))

    def objective(at):
        return np.sum(weights * engine.loss_sums(at, data, surrogate), axis=(1, 2))

    gradient = engine.gradient(params, data, weights, surrogate)
    for place in range(engine.model.size):
        nudge = np.zeros_like(params)
        nudge[:, place] = 1e-6
        numeric = (objective(params + nudge) - objective(params - nudge)) / 2e-6
        np.testing.assert_allclose(gradient[:, place], numeric, rtol=2e-6, atol=2e-5)


def test_a_row_may_carry_a_weight_of_its_own(make_engine):
    engine, data = make_engine(3, (4,)), merge(make_clients(2))
    params, cells = start(engine), np.random.default_rng(0).uniform(size=(2, 2, 2))
    rows = np.zeros((2, len(data.y)))
    rows[:, 5], one = 2.0, np.array([5])
    only = ClientData(0, data.x[one], data.y[one], data.group[one], 2)
    np.testing.assert_allclose(
        engine.gradient(params, data, cells, "ce", rows),
        2 * engine.gradient(params, only, cells),
        atol=1e-12,
    )


@pytest.mark.parametrize("name", ["dp", "eo", "eod"])
def test_rebalancing_moves_lambda_after_every_epoch(make_engine, name):
    """Two epochs in one call are two calls of one epoch in between which lambda is moved."""
    engine, data = make_engine(), merge(make_clients(4))
    notion, counts = make_notion(name, 2), cell_counts(data)
    lam, alpha = notion.init(counts)[None], np.array([0.3])
    solver = make_solver(optimiser="sgd", epochs=2, batch=10**6)
    rule = Rebalance(notion, counts, alpha)
    params, moved = engine.train_rebalancing(start(engine, 1), data, lam, rule, solver, (1,))
    expected = start(engine, 1)
    for epoch in (1, 2):
        omega = notion.weights(lam, counts)
        local = omega * len(data.y) / np.sum(omega * counts)
        once = solver._replace(epochs=1)
        expected = engine.train(expected, data, local, once, (epoch,))
        losses = engine.loss_sums(expected, data, "prob")
        signal = notion.signal(notion.share(losses, counts, 0), counts)
        lam = notion.step(lam, signal, counts, alpha / epoch**0.5)
    np.testing.assert_allclose(params, expected, atol=1e-12)
    np.testing.assert_allclose(moved, lam, atol=1e-12)


@hidden_sizes
def test_gradients_by_cell_sum_to_the_whole(make_engine, hidden):
    engine, data = make_engine(3, hidden), merge(make_clients(2, groups=3))
    params, weights = start(engine), np.random.default_rng(0).uniform(size=(2, 2, 3))
    by_cell = engine.cell_gradients(params, data)
    whole = np.einsum("rya,ryap->rp", weights, by_cell)
    np.testing.assert_allclose(engine.gradient(params, data, weights), whole, atol=1e-11)


def test_the_zero_one_loss_has_no_gradient(make_engine):
    engine, data = make_engine(), merge(make_clients(0))
    with pytest.raises(ConfigError, match="no gradient"):
        engine.gradient(start(engine), data, np.ones((2, 2, 2)), "zero_one")


@pytest.mark.parametrize("surrogate", ["zero_one", "prob", "ce"])
def test_loss_sums_are_sums_over_the_rows_of_each_cell(make_engine, surrogate):
    engine, data = make_engine(), merge(make_clients(5, sizes=(3000, 2500)))
    params = start(engine)
    losses = loss(
        engine.logits(params, data.x), np.broadcast_to(data.y, (2, len(data.y))), surrogate
    )
    sums = engine.loss_sums(params, data, surrogate)
    for y in (0, 1):
        for a in (0, 1):
            rows = (data.y == y) & (data.group == a)
            np.testing.assert_allclose(sums[:, y, a], losses[:, rows].sum(axis=1), rtol=1e-12)


def test_confusion_counts_rows_and_a_tie_is_positive(make_engine):
    engine = make_engine(1)
    x, y = np.array([[-1.0], [0.0], [2.0], [2.0]]), np.array([1, 1, 1, 0])
    data = ClientData(0, x, y, np.array([0, 0, 1, 1]), 2)
    confusion = engine.confusion(np.array([[1.0, 0.0]]), data)[0]
    np.testing.assert_array_equal(confusion[:, :, 0], [[0, 0], [1, 1]])
    np.testing.assert_array_equal(confusion[:, :, 1], [[0, 1], [0, 1]])
    np.testing.assert_array_equal(confusion.sum(axis=1), cell_counts(data))


def test_one_full_batch_step_of_gradient_descent_by_hand(make_engine):
    """x = (1, -1), y = (1, 0), w = b = 0: p = 1/2, the mean gradient is -1/2 for w and 0 for b."""
    engine = make_engine(1)
    data = ClientData(0, np.array([[1.0], [-1.0]]), np.array([1, 0]), np.array([0, 0]), 1)
    solver = LocalSolver(np.array([0.2]), epochs=1, batch=2, optimiser="sgd")
    trained = engine.train(np.zeros((1, 2)), data, np.ones((1, 2, 1)), solver, (0,))
    np.testing.assert_allclose(trained, [[0.1, 0.0]], atol=1e-15)


@hidden_sizes
@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_training_is_the_textbook_solver_step_by_step(make_engine, hidden, optimiser):
    engine, data = make_engine(3, hidden), merge(make_clients(4, sizes=(37,)))
    params, weights = start(engine, runs=1), np.array([[[0.5, 1.5], [2.0, 0.7]]])
    solver = make_solver(
        lr=0.1, optimiser=optimiser, weight_decay=0.3, prox=np.array([0.2]), epochs=2
    )
    expected = textbook(engine, params, data, weights, solver, (7, 1))
    trained = engine.train(params, data, weights, solver, (7, 1))
    np.testing.assert_allclose(trained, expected, rtol=1e-9, atol=1e-11)


def textbook(engine, params, data, weights, solver, key):
    """Adam as its paper states it (or plain descent), on gradients of single minibatches."""
    value, first, second, time = params.copy(), 0.0, 0.0, 0
    for rows in minibatches(len(data.y), solver, key):
        batch = ClientData(0, data.x[rows], data.y[rows], data.group[rows], data.groups)
        gradient = engine.gradient(value, batch, weights) / len(rows)
        gradient += solver.weight_decay * value + solver.prox[:, None] * (value - params)
        if solver.optimiser == "sgd":
            value = value - 0.1 * gradient
            continue
        time += 1
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        mean, square = first / (1 - 0.9**time), second / (1 - 0.999**time)
        value = value - 0.1 * mean / (np.sqrt(square) + 1e-8)
    return value


@hidden_sizes
def test_a_run_is_the_same_alone_and_inside_a_grid(make_engine, hidden):
    engine, data = make_engine(3, hidden), merge(make_clients(4))
    params, rates = start(engine, runs=5), np.array([0.01, 0.05, 0.1, 0.02, 0.3])
    weights = np.random.default_rng(1).uniform(0, 2, size=(5, 2, 2))
    together = engine.train(params, data, weights, LocalSolver(rates, epochs=3), (1, 2))
    alone = [
        engine.train(
            params[r : r + 1],
            data,
            weights[r : r + 1],
            LocalSolver(rates[r : r + 1], epochs=3),
            (1, 2),
        )
        for r in range(5)
    ]
    np.testing.assert_allclose(together, np.concatenate(alone), atol=1e-10)


@given(st.integers(1, 50), st.integers(1, 60), st.integers(0, 5))
def test_every_epoch_visits_every_row_once(rows, batch, seed):
    solver = LocalSolver(np.ones(1), epochs=2, batch=batch)
    order = np.concatenate(list(minibatches(rows, solver, (seed,))))
    for epoch in np.split(order, 2):
        np.testing.assert_array_equal(np.sort(epoch), np.arange(rows))


def test_rows_of_weight_zero_do_not_count(make_engine):
    engine, data = make_engine(), merge(make_clients(6))
    only = (data.group == 1).nonzero()[0]
    weights = np.array([[[0.0, 1.0], [0.0, 1.0]]])
    part = ClientData(0, data.x[only], data.y[only], data.group[only], 2)
    params = start(engine, runs=1)
    np.testing.assert_allclose(
        engine.gradient(params, data, weights), engine.gradient(params, part, weights), atol=1e-12
    )


def test_single_precision_follows_double():
    data = merge(make_clients(8))
    model = Network(3, (4,))
    double, single = NumpyEngine(model), NumpyEngine(model, np.float32)
    params = np.repeat(model.init(0)[None], 2, axis=0)
    solver, weights = make_solver(runs=2, lr=0.01), np.ones((2, 2, 2))
    close = single.train(params, data, weights, solver, (3,))
    np.testing.assert_allclose(close, double.train(params, data, weights, solver, (3,)), atol=1e-4)


def test_the_sigmoid_does_not_overflow():
    np.testing.assert_array_equal(sigmoid(np.array([-1e5, 0.0, 1e5])), [0.0, 0.5, 1.0])


def test_a_network_counts_its_parameters_and_refuses_empty_layers():
    from fedfb.models import make_model

    assert make_model("mlp", 3, (4, 2)).size == 3 * 4 + 4 + 4 * 2 + 2 + 2 + 1
    with pytest.raises(ConfigError, match="at least one unit"):
        make_model("mlp", 3, ())
    with pytest.raises(ConfigError, match="did you mean 'logistic'"):
        make_model("logistik", 3)
