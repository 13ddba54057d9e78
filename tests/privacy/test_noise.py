"""Noise on answers: of the stated scale, shared under secure sums, for what a row moves little."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfb.core import ClientData, ClientTask
from fedfb.errors import DisclosureError
from fedfb.experiments.explain import random_client
from fedfb.experiments.resolve import given_grid, resolve
from fedfb.experiments.spec import Experiment
from fedfb.experiments.train import QUIET, build, make_engine, training_notion
from fedfb.privacy import Protection, noise_scales, protect
from fedfb.runtime import make_ask

ROW = ClientData(0, np.zeros((1, 1)), np.zeros(1, int), np.zeros(1, int), 1)


def answers(task, protection, count):
    noisy = protect(task, protection)
    return [noisy.run({}, ROW, {}, (seed, 1, 0, 0))[0] for seed in range(count)]


def zeros(size, sensitivity):
    told = {name: np.zeros(size) for name in sensitivity}
    return ClientTask("ask", "sum", lambda *_: (told, {}), sensitivity=sensitivity)


@pytest.mark.parametrize("shared", [1, 4])
def test_noise_on_answers_has_the_stated_scale(shared):
    """Of m normal numbers the mean square is within 5 deviations, sqrt(2/m) of the variance."""
    task = zeros(50, {"a": 1.0, "b": 0.5, "public": 0.0})
    found = answers(task, Protection(3.0, shared), 400)
    for name, size in (("a", 1.0), ("b", 0.5)):
        drawn = np.concatenate([upload[name] for upload in found])
        variance = 2 * (3.0 * size) ** 2 / shared  # two arrays are moved at once
        assert abs(np.mean(drawn**2) / variance - 1) < 5 * (2 / drawn.size) ** 0.5
        assert abs(drawn.mean()) < 5 * (variance / drawn.size) ** 0.5
    both = [np.stack([upload["a"], upload["b"]]) for upload in found]
    together = np.mean([one[0] @ one[1] for one in both]) / 50
    assert abs(together) < 5 * 3.0 * 3.0 / (400 * 50) ** 0.5
    assert not any(upload["public"].any() for upload in found)


def test_shares_of_several_clients_add_up_to_the_whole():
    scale = noise_scales(zeros(1, {"a": 1.0}), {"a": np.zeros(1)}, Protection(6.0, shared=4))
    assert 4 * scale["a"] ** 2 == pytest.approx(6.0**2)


def test_a_secret_changes_the_noise():
    task = zeros(5, {"a": 1.0})
    [known], [secret] = (answers(task, Protection(1.0, secret=s), 1) for s in ((), (9, 9)))
    assert not np.any(known["a"] == secret["a"])


def test_what_is_not_declared_is_refused():
    undeclared = ClientTask("ask", "sum", lambda *_: ({"x": np.zeros(1)}, {}))
    partly = undeclared._replace(sensitivity={"other": 1.0})
    for task in (undeclared, partly):
        with pytest.raises(DisclosureError, match="'ask' sends x"):
            answers(task, Protection(1.0), 1)


# Every question that a private run puts, with what it broadcasts.

KINDS = [
    *({"algorithm": "fedfb", "notion": notion} for notion in ("dp", "eo", "eod")),
    {"algorithm": "fedfb", "notion": "dp", "signal_loss": "prob"},
    {"algorithm": "fedfb", "notion": "dp", "timing": "piggyback"},
    {"algorithm": "fedfb-thresholds", "notion": "dp", "variant": "combined"},
    {"algorithm": "reweighing", "notion": "dp"},
    {"algorithm": "fedprox", "notion": "dp"},
]


def questions(settings, groups):
    given = {"rounds": 2, "local_epochs": 1, "lr": (0.005,), "engine": "numpy", **settings}
    given["sensitive_at_prediction"] = True
    experiment = resolve(Experiment(privacy_epsilon=1.0, precision="float64", **given))
    engine = make_engine(experiment, 3)
    notion = training_notion(experiment, groups, 3)
    algorithm = build(experiment, engine, notion, given_grid(experiment), QUIET)
    clients = [random_client(number, groups, 3) for number in range(3)]
    heard, memories = {}, {client.id: {} for client in clients}
    params = engine.model.init(0)[None]
    state = None
    for number in range(3):
        ask = make_ask(clients, memories, 0, number)

        def listening(task, broadcast, ask=ask):
            heard[task.name] = (task, broadcast)
            return ask(task, broadcast)

        if number == 0:
            state = algorithm.setup(params, listening)
        else:
            state, _ = algorithm.round(state, listening)
    return list(heard.values())


ASKED = {(str(kind), groups): questions(kind, groups) for kind in KINDS for groups in (2, 3)}


@st.composite
def clients(draw, groups):
    rows = draw(st.integers(2, 12))
    seed = draw(st.integers(0, 2**32 - 1))
    scale = draw(st.sampled_from([0.0, 1.0, 1e3]))
    rng = np.random.default_rng(seed)
    return (
        scale * rng.normal(size=(rows, 3)),
        rng.integers(0, 2, rows),
        rng.integers(0, groups, rows),
        draw(st.integers(0, rows - 1)),
    )


@pytest.mark.parametrize("kind", KINDS[:-1], ids=str)
@settings(derandomize=True)
@given(st.data())
def test_one_row_moves_no_answer_further_than_declared(kind, data):
    groups = data.draw(st.sampled_from([2, 3]))
    x, y, group, out = data.draw(clients(groups))
    model = 10.0 ** data.draw(st.integers(-2, 3))
    whole = ClientData(0, x, y, group, groups)
    kept = np.arange(len(y)) != out
    less = ClientData(0, x[kept], y[kept], group[kept], groups)
    for task, broadcast in ASKED[str(kind), groups]:
        moved = {name for name, size in task.sensitivity.items() if size > 0}
        if not moved or task.epochs:
            continue  # what training reveals is another matter
        told = {k: v * model if k == "params" else v for k, v in broadcast.items()}
        full, _ = task.run(told, whole, {}, (0, 0, 0, 0))
        fewer, _ = task.run(told, less, {}, (0, 0, 0, 0))
        assert set(full) == set(task.sensitivity)
        for name in moved:
            change = np.linalg.norm(full[name] - fewer[name])
            assert change <= task.sensitivity[name] + 1e-9


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_weight_of_a_client_tells_only_how_many_rows_it_has(kind):
    whole = random_client(0, 2, 3)
    other = whole._replace(y=1 - whole.y, group=1 - whole.group, x=-whole.x)
    for task, broadcast in ASKED[str(kind), 2]:
        if task.epochs:
            one, _ = task.run(broadcast, whole, {}, (0, 0, 0, 0))
            two, _ = task.run(broadcast, other, {}, (0, 0, 0, 0))
            assert one["weight"].tolist() == two["weight"].tolist() == [len(whole.y)]


def test_noise_on_a_client_has_the_stated_scale():
    """As above: within 5 standard deviations of a mean square."""
    params = np.zeros((1, 100))
    told = {"weighted": params, "weight": np.ones(1), "losses": np.zeros((1, 2, 50))}
    task = ClientTask("fit", "sum", lambda *_: (told, {}), sensitivity={"losses": 1.0}, epochs=1)
    noisy = protect(task, Protection(2.0, shared=4, clip=0.5, training=3.0))
    found = [noisy.run({"params": params}, ROW, {}, (seed, 1, 0, 0))[0] for seed in range(100)]
    for name, scale in (("weighted", 3.0 * 0.5 / 2), ("losses", 2.0 / 2)):
        drawn = np.concatenate([upload[name].ravel() for upload in found])
        assert abs(np.mean(drawn**2) / scale**2 - 1) < 5 * (2 / drawn.size) ** 0.5
    assert all(upload["weight"] == 1 for upload in found)


def test_a_client_is_cut_to_its_length_however_far_it_went():
    params = np.zeros((1, 4))
    told = {"weighted": np.full((1, 4), 1e6), "weight": np.ones(1), "losses": np.full((1, 2), 1e9)}
    task = ClientTask("fit", "sum", lambda *_: (told, {}), sensitivity={"losses": 1.0}, epochs=1)
    noisy = protect(task, Protection(0.0, clip=0.5, training=0.0))
    found, _ = noisy.run({"params": params}, ROW, {}, (0, 0, 0, 0))
    assert np.linalg.norm(found["weighted"]) == pytest.approx(0.5)
    assert np.linalg.norm(found["losses"]) == pytest.approx(1.0)
    assert found["weight"].tolist() == [1.0]
