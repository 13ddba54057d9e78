"""Laws of all methods with one exchange per gradient step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from federations import make_clients, make_engine, make_solver
from fedfb.algorithms.baselines import agnosticfair, fcfl, fedfair, fpfl, zafar
from fedfb.algorithms.method import Problem
from fedfb.core import Examples
from fedfb.errors import ConfigError
from fedfb.notions import make_notion
from fedfb.runtime import make_ask
from step_methods import run

CASES = [
    (module.METHOD, notion, variant)
    for module, notions in (
        (zafar, ("dp", "eo")),
        (agnosticfair, ("dp",)),
        (fpfl, ("dp", "eo")),
        (fedfair, ("eo",)),
        (fcfl, ("dp", "eo")),
    )
    for notion in notions
    for variant in module.METHOD.variants
]
every_case = pytest.mark.parametrize(
    ("method", "notion", "variant"), CASES, ids=[f"{m.name}-{n}-{v}" for m, n, v in CASES]
)


def build(method, notion, variant, engine, groups=2, runs=1, rounds=3, lr=0.05, **knobs):
    values = {name: np.full(runs, knob.default) for name, knob in method.knobs.items()}
    solver = make_solver(runs, lr)
    if "learning_rate" in knobs:
        solver = solver._replace(learning_rate=knobs.pop("learning_rate"))
    values |= knobs
    options = {"rounds": rounds}
    return method.make(
        Problem(engine, solver, make_notion(notion, groups), values, variant, options)
    )


def assert_same(one, other, **tolerance):
    for name, value in one._asdict().items():
        np.testing.assert_allclose(value, getattr(other, name), err_msg=name, **tolerance)


@every_case
@pytest.mark.parametrize("hidden", [(), (4,)])
def test_default_knobs_run_and_predict_with_both_models(method, notion, variant, hidden):
    clients, engine = make_clients(0), make_engine(hidden=hidden)
    algorithm = build(method, notion, variant, engine, runs=2, rounds=2)
    trained = run(algorithm, clients, engine, rounds=2, runs=2)
    c = clients[0]
    rows = Examples(c.x, c.y, c.group, np.zeros_like(c.y))
    prediction = algorithm.predict(trained.state, trained.memories, rows)
    assert prediction.score.shape == (2, 30)
    assert set(np.unique(prediction.decision)) <= {0.0, 1.0}
    assert algorithm.params(trained.state).shape == (2, engine.model.size)


@every_case
def test_the_order_of_clients_does_not_change_a_bit(method, notion, variant):
    clients, engine = make_clients(5), make_engine()
    algorithm = build(method, notion, variant, engine)
    assert_same(
        run(algorithm, clients, engine).state,
        run(algorithm, clients[::-1], engine).state,
        rtol=0,
        atol=0,
    )


@every_case
@pytest.mark.parametrize("hidden", [(), (4,)])
def test_a_run_alone_is_the_run_in_a_grid(method, notion, variant, hidden):
    clients, engine = make_clients(2), make_engine(hidden=hidden)
    rates, factor = np.array([0.01, 0.05, 0.1]), np.array([0.5, 1.0, 2.0])
    knobs = {name: knob.default * factor for name, knob in method.knobs.items()}
    grid = build(method, notion, variant, engine, runs=3, learning_rate=rates, **knobs)
    together = run(grid, clients, engine, runs=3).state
    for k in range(3):
        one = {name: value[k : k + 1] for name, value in knobs.items()}
        alone = build(method, notion, variant, engine, learning_rate=rates[k : k + 1], **one)
        state = run(alone, clients, engine).state
        np.testing.assert_allclose(state.params[0], together.params[k], atol=1e-10)


@every_case
def test_runs_repeat_themselves_under_a_seed(method, notion, variant):
    clients, engine = make_clients(2), make_engine()
    algorithm = build(method, notion, variant, engine)
    assert_same(
        run(algorithm, clients, engine).state,
        run(algorithm, clients, engine).state,
        rtol=0,
        atol=0,
    )


@every_case
@given(seed=st.integers(0, 10**6))
@settings(max_examples=10)
def test_clients_that_lack_groups_or_cells_are_no_trouble(method, notion, variant, seed):
    """Client 0 has one group, client 1 one cell, client 2 one row."""
    a, b, c = make_clients(seed, sizes=(20, 12, 1), full=False)
    b = b._replace(y=np.ones_like(b.y), group=np.ones_like(b.group))
    clients, engine = (a._replace(group=np.zeros_like(a.group)), b, c), make_engine()
    algorithm = build(method, notion, variant, engine)
    assert np.all(np.isfinite(run(algorithm, clients, engine, seed=seed).state.params))


@every_case
def test_one_client_or_one_group_is_enough(method, notion, variant):
    clients, engine = make_clients(1), make_engine()
    run(build(method, notion, variant, engine), clients[:1], engine)
    run(build(method, notion, variant, engine, groups=1), make_clients(1, groups=1), engine)


@every_case
def test_with_one_group_left_fairness_is_void(method, notion, variant):
    """Knobs play no part: a strict and a lax run are one (FCFL then is plain min-max)."""
    clients, engine = make_clients(1), make_engine()
    alone = tuple(c._replace(group=np.ones_like(c.group)) for c in clients)
    bound = "eps" if "eps" in method.knobs else "tau"
    algorithm = build(method, notion, variant, engine, runs=2, **{bound: np.array([0.0, 1.0])})
    strict, lax = run(algorithm, alone, engine, runs=2).state.params
    np.testing.assert_allclose(strict, lax, atol=1e-12)


@every_case
def test_other_clients_may_answer_in_every_round(method, notion, variant):
    """A group that is away for a round leaves no trace but in the rows that are asked."""
    clients, engine = make_clients(7), make_engine()
    only = clients[1]._replace(group=np.zeros_like(clients[1].group))
    algorithm, memories = build(method, notion, variant, engine), {c.id: {} for c in clients}
    federation = (clients[0], only, clients[2])
    state = algorithm.setup(engine.model.init(0)[None], make_ask(federation, memories, 0, 0))
    for number, present in enumerate([federation, (only,), federation[1:], (only,)], start=1):
        state, _ = algorithm.round(state, make_ask(present, memories, 0, number))
        assert np.all(np.isfinite(state.params))


@every_case
def test_only_fcfl_shows_the_server_single_clients(method, notion, variant):
    algorithm = build(method, notion, variant, make_engine())
    seen = {task.reduce for task in algorithm.tasks}
    assert seen == ({"gather"} if method.name == "fcfl" else {"sum"})


@pytest.mark.parametrize(
    ("method", "notion"),
    [
        (zafar.METHOD, "eod"),
        (agnosticfair.METHOD, "eo"),
        (fpfl.METHOD, "cp"),
        (fedfair.METHOD, "dp"),
        (fcfl.METHOD, "eod"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_other_notions_are_refused_with_a_way_out(method, notion):
    with pytest.raises(ConfigError, match="Choose"):
        build(method, notion, method.variants[0], make_engine())


@pytest.mark.parametrize(
    ("method", "notion"),
    [
        (zafar.METHOD, "eo"),
        (agnosticfair.METHOD, "dp"),
        (fpfl.METHOD, "dp"),
        (fedfair.METHOD, "eo"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_any_number_of_groups(method, notion):
    clients, engine = make_clients(3, groups=4), make_engine()
    algorithm = build(method, notion, method.variants[0], engine, groups=4)
    assert np.all(np.isfinite(run(algorithm, clients, engine).state.params))
