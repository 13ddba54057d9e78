"""Laws of all methods with one exchange per gradient step."""

import numpy as np
import pytest

from federations import make_clients, make_engine, make_solver
from fedfb.algorithms.baselines import agnosticfair, fcfl, fedfair, fpfl, zafar
from fedfb.algorithms.method import Problem
from fedfb.core import Examples
from fedfb.errors import ConfigError
from fedfb.experiments.spec import Experiment
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


def build(method, notion, variant, engine, groups=2, runs=1, rounds=3, **knobs):
    values = {name: np.full(runs, knob.default) for name, knob in method.knobs.items()}
    solver, options = make_solver(runs, 0.05), Experiment(rounds=rounds)
    return method.make(
        Problem(engine, solver, make_notion(notion, groups), values | knobs, variant, options)
    )


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
