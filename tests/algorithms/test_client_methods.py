"""What holds for every method that compares clients."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_methods import METHODS, build, one_round, run
from federations import make_clients, make_engine, make_solver
from fedfb.algorithms.fedavg import fedavg
from fedfb.core import Examples
from few_examples import one_in

NAMES = tuple(METHODS)
FORMS = tuple((name, variant) for name, method in METHODS.items() for variant in method.variants)


def everyones_rows(clients):
    parts = [(c.x, c.y, c.group, np.full(len(c.y), c.id)) for c in clients]
    return Examples(*(np.concatenate(part) for part in zip(*parts, strict=True)))


@pytest.mark.parametrize("hidden", [(), (4,)], ids=["logistic", "mlp"])
@pytest.mark.parametrize(("name", "variant"), FORMS)
def test_defaults_train_and_predict_both_models(name, variant, hidden):
    clients, engine = make_clients(0), make_engine(3, hidden=hidden)
    algorithm = build(name, engine, make_solver(), variant)
    trained = run(algorithm, clients, engine, rounds=2)
    rows = everyones_rows(clients)
    found = algorithm.predict(trained.state, trained.memories, rows)
    assert algorithm.name == name
    assert algorithm.params(trained.state).shape == (1, engine.model.size)
    assert found.score.shape == found.decision.shape == (1, len(rows.y))
    assert np.all((found.score > 0) & (found.score < 1))
    np.testing.assert_array_equal(found.decision, found.score >= 0.5)


@pytest.mark.parametrize("name", NAMES)
def test_declared_knobs_are_in_their_range_and_notions_are_known(name):
    method = METHODS[name]
    for knob in method.knobs.values():
        assert all(knob.low <= value <= knob.high for value in (knob.default, *knob.grid))
        assert knob.default in knob.grid
    assert method.notions == ("client_parity",) or not method.fair


@pytest.mark.parametrize(("name", "variant"), FORMS)
def test_small_federations_are_served(name, variant):
    """A single client; a single group; clients that lack a group or a label; odd client ids."""
    full = make_clients(3)
    one_group = tuple(c._replace(group=np.zeros_like(c.group), groups=1) for c in full)
    lacking = (
        full[0]._replace(group=np.zeros_like(full[0].group)),
        full[1]._replace(y=np.ones_like(full[1].y)),
        full[2]._replace(id=17),
    )
    engine = make_engine()
    algorithm = build(name, engine, make_solver(), variant)
    for clients in (full[:1], one_group, lacking):
        trained = run(algorithm, clients, engine)
        found = algorithm.predict(trained.state, trained.memories, everyones_rows(clients))
        assert np.all(np.isfinite(found.score))
        assert np.all(np.isfinite(algorithm.params(trained.state)))


NEUTRAL = {
    "q-ffl": {"q": 0.0},
    "ditto": {"lam": 0.5},
    "term": {"t": 0.0},
    "fedprox": {"mu": 0.0},
    "gifair": {"lam": 0.0},
    "fedfb-sums": {"alpha": 0.0},
}


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
@pytest.mark.parametrize("name", NEUTRAL)
@given(seed=st.integers(0, 10**6))
@one_in(5)
def test_a_neutral_knob_gives_fedavg_whoever_takes_part(name, optimiser, seed):
    """q = 0, t = 0, mu = 0, lam = 0, alpha = 0; Ditto's common model is FedAvg's with any lam."""
    clients, engine = make_clients(seed), make_engine()
    solver = make_solver(optimiser=optimiser)
    algorithm, plain = build(name, engine, solver, **NEUTRAL[name]), fedavg(engine, solver)
    fair, memories, _ = run(algorithm, clients, engine, rounds=2, seed=seed)
    same_as = run(plain, clients, engine, rounds=2, seed=seed).state
    np.testing.assert_allclose(fair.params, same_as.params, atol=1e-12)
    some = clients[1:]
    fair = one_round(algorithm, fair, some, memories, 3, seed)
    same_as = one_round(plain, same_as, some, {c.id: {} for c in some}, 3, seed)
    np.testing.assert_allclose(fair.params, same_as.params, atol=1e-12)


def test_only_what_must_be_known_of_single_clients_is_gathered():
    engine, solver = make_engine(), make_solver()
    gathered = {
        name: {t.name for t in build(name, engine, solver).tasks if t.reduce == "gather"}
        for name in NAMES
    }
    assert gathered == {
        "q-ffl": set(),
        "ditto": set(),
        "term": set(),
        "fedprox": set(),
        "fedfb-sums": set(),
        "gifair": {"roll call", "losses"},
        "afl": {"roll call", "losses"},
    }
