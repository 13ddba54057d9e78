"""Exact fits by sums: the federated fit is the pooled fit, for every split of the rows."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from federations import deal, make_engine, make_rows, merge
from fedfb.algorithms import newton
from fedfb.algorithms.fedavg import fedavg
from fedfb.algorithms.fedfb.fedfb import fedfb
from fedfb.algorithms.fedfb.outer import Outer
from fedfb.algorithms.fedfb.search import fedfb_by_sums
from fedfb.core import ClientData, LocalSolver
from fedfb.errors import ConfigError
from fedfb.experiments.outcome import train as train_experiment
from fedfb.experiments.resolve import resolve
from fedfb.experiments.spec import Experiment
from fedfb.notions import PooledClientParity, make_notion, symmetric
from fedfb.runtime import reduce_uploads, train
from fedfb.runtime.secure import carry_masked

EXACT = LocalSolver(np.zeros(1), newton=True)
SPLITS = ("iid", "dirichlet", "one group a client")


def fit(algorithm, clients, features=4, rounds=1, runs=1, **more):
    start = np.zeros((runs, features + 1))
    return train(algorithm, clients, start, seed=1, rounds=rounds, watch=None, **more).state


def assert_same_params(found, expected):
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7 * scale)


@given(
    seed=st.integers(0, 10**6),
    split=st.sampled_from(SPLITS),
    clients=st.sampled_from([2, 3, 10, 50]),
    groups=st.integers(1, 4),
)
def test_the_federated_fit_is_the_pooled_fit(seed, split, clients, groups):
    data = make_rows(seed, 150, groups)
    algorithm = fedavg(make_engine(4), EXACT)
    pooled = fit(algorithm, (data,)).params
    assert_same_params(fit(algorithm, deal(data, split, clients, seed)).params, pooled)
    gradient = make_engine(4).gradient(pooled, data, np.ones((1, 2, groups)))
    ridge = np.array([*[newton.RIDGE] * 4, newton.RIDGE_OF_BIAS])
    assert np.abs(gradient + ridge * pooled).max() < 1e-6


@pytest.mark.parametrize("notion", ["dp", "eo", "eod"])
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(
    "clients", [2, 30, pytest.param(1000, marks=pytest.mark.slow)], ids=lambda n: f"{n} clients"
)
def test_fedfb_is_cfl(notion, split, clients):
    data = make_rows(3, 2000, 4)
    rule = symmetric(make_notion(notion, 4))
    algorithm = fedfb(make_engine(4), EXACT, rule, Outer(surrogate="zero_one"))
    cfl = fit(algorithm, (data,), rounds=8)
    state = fit(algorithm, deal(data, split, clients, 5), rounds=8)
    assert_same_params(state.best, cfl.best)
    assert_same_params(state.lam, cfl.lam)
    assert np.ptp(cfl.lam / rule.init(cfl.counts)) > 0.1  # the weights did move


@pytest.mark.parametrize("split", SPLITS)
def test_client_parity_is_fitted_exactly_from_sums_alone(split):
    clients = [client for client in deal(make_rows(4, 600, 3), split, 6, 2) if len(client.y)]
    clients = tuple(client._replace(id=number) for number, client in enumerate(clients))
    owner = np.repeat(np.arange(len(clients)), [len(client.y) for client in clients])
    pooled = merge(clients)._replace(group=owner, groups=len(clients))
    outer, rule = Outer(surrogate="ce"), PooledClientParity(len(clients), symmetric=True)
    cfl = fit(fedfb(make_engine(4), EXACT, rule, outer), (pooled,), rounds=4)
    found = fit(fedfb_by_sums(make_engine(4), EXACT), clients, rounds=4)
    # The level at which lines meet is known up to the width of its grid.
    np.testing.assert_allclose(found.params, cfl.params, atol=0.01)


def test_it_is_the_fit_of_scikit_learn():
    data = make_rows(5, 400, 2)
    found = fit(fedavg(make_engine(4), EXACT), deal(data, "iid", 3, 0)).params[0]
    theirs = LogisticRegression(tol=1e-10, max_iter=1000).fit(data.x, data.y)
    # Theirs has no ridge on the bias.
    np.testing.assert_allclose(found, [*theirs.coef_[0], *theirs.intercept_], atol=1e-4)


def count_exchanges(algorithm, clients, rounds, features=4):
    number = Counter()

    def carry(exchange, uploads):
        number[exchange.round] += exchange.task.name == "newton"
        return reduce_uploads(exchange.task, list(uploads.values()))

    state = fit(algorithm, clients, features, rounds, carry=carry)
    return state, [number[round] for round in range(1, rounds + 1)]


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_the_first_fit_takes_few_exchanges_and_later_fits_fewer(seed):
    data = make_rows(seed, 800, 3)
    outer = Outer(surrogate="zero_one")
    algorithm = fedfb(make_engine(4), EXACT, symmetric(make_notion("dp", 3)), outer)
    _, exchanges = count_exchanges(algorithm, deal(data, "dirichlet", 5, seed), 8)
    assert exchanges[0] <= 9
    assert max(exchanges[4:]) <= 4


def separable() -> ClientData:
    data = make_rows(6, 60, 2)
    return data._replace(y=(data.x[:, 0] > 0).astype(np.int64))


def collinear() -> ClientData:
    data = make_rows(7, 60, 2)
    return data._replace(x=data.x[:, [0, 0, 1, 1]])


def one_label() -> ClientData:
    data = make_rows(8, 60, 2)
    return data._replace(y=np.ones_like(data.y))


def rare_and_large() -> ClientData:
    """A column that is far from 0 on two rows of one label: full steps from far away overshoot."""
    data, rare = make_rows(9, 3000, 2), np.zeros(3000)
    rare[:2] = 300.0
    x = np.column_stack([rare, data.x[:, 1:]])
    return data._replace(x=x, y=np.where(rare > 0, 1, data.y))


@pytest.mark.parametrize("make", [separable, collinear, one_label, rare_and_large])
def test_odd_rows_have_one_finite_fit(make):
    data, algorithm = make(), fedavg(make_engine(4), EXACT)
    state, [exchanges] = count_exchanges(algorithm, (data,), 1)
    assert np.isfinite(state.params).all()
    assert exchanges <= 20
    assert_same_params(fit(algorithm, deal(data, "dirichlet", 7, 1)).params, state.params)
    from_away = fit_of_all_rows(data, state.params[0] + 3.0, [])
    np.testing.assert_allclose(from_away, state.params[0], rtol=1e-4, atol=1e-4)


def fit_of_all_rows(data, start, losses):
    """Fit rows of one place from a start; note the loss at every point that is asked for."""

    def ask_sums(points, _):
        upload = newton.curvature_upload(make_engine(4), points, data, np.ones((1, 2, 2)))
        of_run = {name: value[0] for name, value in upload.items()}
        losses.append(newton.read_sums(of_run, points[0], 0.0).loss)
        return upload

    return newton.fit_exactly(ask_sums, start[None], 0.0)[0][0]


def test_a_step_that_raises_the_loss_is_halved():
    """From far away, Newton's full steps for logistic loss may lead further away."""
    data, losses = rare_and_large(), []
    params = fit_of_all_rows(data, np.array([0.5, -3.0, 4.0, 3.0, -5.0]), losses)
    assert any(np.diff(losses) > 0), "no step was too long: choose a harder start"
    assert losses[-1] == pytest.approx(min(losses))
    expected = fit(fedavg(make_engine(4), EXACT), (data,)).params[0]
    np.testing.assert_allclose(params, expected, rtol=1e-4, atol=1e-4)


def test_rows_of_weight_zero_and_no_rows_at_all_leave_the_model():
    nobody = make_rows(1, 40, 2)._replace(
        x=np.zeros((0, 4)), y=np.zeros(0, int), group=np.zeros(0, int)
    )
    state, [exchanges] = count_exchanges(fedavg(make_engine(4), EXACT), (nobody,), 1)
    assert exchanges == 1
    assert not state.params.any()


def test_weight_decay_is_added_once_for_each_row():
    data = make_rows(2, 300, 2)
    decayed = fit(fedavg(make_engine(4), EXACT._replace(weight_decay=0.1)), (data,)).params
    gradient = make_engine(4).gradient(decayed, data, np.ones((1, 2, 2)))
    ridge = np.array([*[newton.RIDGE] * 4, newton.RIDGE_OF_BIAS]) + 0.1 * 300
    assert np.abs(gradient + ridge * decayed).max() < 1e-6


@pytest.mark.parametrize("split", SPLITS)
def test_with_many_features_the_diagonal_suffices(split, monkeypatch):
    """Above a number of parameters clients upload the diagonal of the second derivatives only."""
    data = make_rows(3, 500, 3, features=12)
    whole = fit(fedavg(make_engine(12), EXACT), (data,), 12).params
    monkeypatch.setattr(newton, "MOST_PARAMETERS", 5)
    algorithm = fedavg(make_engine(12), EXACT)
    state, [exchanges] = count_exchanges(algorithm, deal(data, split, 9, 3), 1, 12)
    assert exchanges <= 40
    assert_same_params(state.params, whole)


def test_a_run_that_is_done_is_not_asked_for_again():
    data, sizes = make_rows(3, 500, 3), []
    rule = symmetric(make_notion("dp", 3))
    outer = Outer(surrogate="zero_one", target=np.array([0.0, 1.0, 0.1]))

    def carry(exchange, uploads):
        if exchange.task.name == "newton":
            sizes.append((exchange.round, len(exchange.broadcast["params"])))
        return reduce_uploads(exchange.task, list(uploads.values()))

    algorithm = fedfb(make_engine(4), EXACT, rule, outer)
    grid = fit(algorithm, (data,), rounds=4, runs=3, carry=carry)
    assert (1, 3) in sizes
    assert all(runs < 3 for round, runs in sizes[-2:])
    alone = fit(
        fedfb(make_engine(4), EXACT, rule, Outer(surrogate="zero_one", target=np.array([0.1]))),
        (data,),
        rounds=4,
    )
    np.testing.assert_array_equal(grid.params[2:], alone.params)


def test_secure_sums_end_at_the_same_fit_and_order_changes_no_bit():
    clients = deal(make_rows(11, 400, 2), "iid", 5, 0)
    algorithm = fedfb(
        make_engine(4), EXACT, symmetric(make_notion("eo", 2)), Outer(surrogate="zero_one")
    )
    plain = fit(algorithm, clients, rounds=5).params
    names = tuple("abcde")
    masked = [
        fit(algorithm, order, rounds=5, carry=carry_masked(names)).params
        for order in (clients, clients[::-1])
    ]
    np.testing.assert_allclose(masked[0], plain, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(masked[0], masked[1])


def test_earlier_rounds_count_where_others_take_part():
    """Cohort after cohort: with memory models are nearer to that of all rows. Seeds are fixed."""
    clients = deal(make_rows(12, 2000, 2), "iid", 40, 0)
    start, off = np.zeros((1, 5)), {0.0: [], newton.FADING: []}
    whole = fit(fedavg(make_engine(4), EXACT), clients).params
    for fading, distances in off.items():
        algorithm = fedavg(make_engine(4), EXACT._replace(fading=fading))
        for seed in range(6):
            state = train(
                algorithm, clients, start, seed=seed, rounds=12, watch=None, participation=0.1
            ).state
            distances.append(np.abs(state.params - whole).max())
    assert np.mean(off[newton.FADING]) < 0.6 * np.mean(off[0.0]), off


@pytest.mark.parametrize("fading", [0.0, 0.8])
def test_with_everybody_and_memory_the_fit_stays_the_pooled_fit(fading):
    data = make_rows(12, 500, 2)
    expected = fit(fedavg(make_engine(4), EXACT), (data,)).params
    found = fit(fedavg(make_engine(4), EXACT._replace(fading=fading)), (data,), rounds=4).params
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("more", [{"participation": 0.4}, {"dropout": 0.4}], ids=str)
def test_sums_are_over_the_clients_that_answer(more):
    clients = deal(make_rows(12, 900, 2), "iid", 10, 0)
    rule, outer = symmetric(make_notion("dp", 2)), Outer(surrogate="zero_one", everyone=False)
    state = fit(fedfb(make_engine(4), EXACT, rule, outer), clients, rounds=5, **more)
    whole = fit(fedavg(make_engine(4), EXACT), clients)
    assert np.isfinite(state.params).all()
    assert np.abs(state.params - whole.params).max() < 1.5  # a fit of some rows, not another thing


SHORT = {"data": "synthetic", "rows": 300, "test_rows": 200, "rounds": 3}


@pytest.mark.parametrize("algorithm", ["fedavg", "fedfb", "cfl", "reweighing"])
def test_seeds_of_the_same_rows_end_in_the_same_model(algorithm):
    experiment = Experiment(
        algorithm=algorithm, solver="newton", seeds=(0, 1), split_seed=5, **SHORT
    )
    first, second = train_experiment(experiment, watched=False).fitted
    np.testing.assert_array_equal(first.trained.state.params, second.trained.state.params)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lr": (0.1,)}, "--lr has no effect with --solver newton"),
        ({"local_epochs": 3}, "--local-epochs has no effect"),
        ({"batch": 12}, "--batch has no effect"),
        ({"optimiser": "sgd"}, "--optimiser has no effect"),
        ({"scaling": "sample"}, "--scaling has no effect"),
        ({"model": "mlp"}, "fits logistic regressions"),
        ({"timing": "piggyback"}, "--timing piggyback asks for one"),
        ({"privacy_epsilon": 1.0}, "Noise that hides a row"),
        ({"tune": True}, "no learning rate to choose"),
        ({"algorithm": "fpfl"}, "--solver has no effect with fpfl"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_does_not_fit_the_exact_solver_is_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        resolve(Experiment(solver="newton", **changes))
