"""Secure sums change nothing but who sees what: the run is the plain one, to 1e-5 and closer."""

import numpy as np
import pytest

from fedfb.algorithms import METHODS
from fedfb.algorithms.tasks import confusion_task
from fedfb.core import ClientTask
from fedfb.errors import ConfigError, DisclosureError, DivergenceError
from fedfb.experiments.conformance.playing import (
    Case,
    PlayedRun,
    engine,
    make_clients,
    results,
    start,
)
from fedfb.experiments.resolve import resolve
from fedfb.experiments.spec import Experiment
from fedfb.experiments.train import check_runnable
from fedfb.runtime import Saving, as_arrays, make_ask, reduce_uploads, train
from fedfb.runtime import loop as training_loop
from fedfb.runtime.boundary import TURNS, Leaving, draw_leavings, is_counted, silent_in
from fedfb.runtime.secure import carry_masked, refuse_too_few
from fedfb.secure import RangeError, ThresholdError
from runtime.methods import build

SIZES = (30, 18, 24, 20)
NAMES = ("north", "east", "south", "west")
ROUNDS, SEED = 10, 7


def go(case, clients, carry=None, **more):
    changes = {name: more[name] for name in ("dropout", "participation") if name in more}
    algorithm = build(case, clients, **changes)
    settings = {"seed": SEED, "rounds": ROUNDS, "watch": confusion_task(engine()), **more}
    with np.errstate(all="ignore"):
        trained = train(algorithm, clients, start(1), carry=carry, **settings)
    return PlayedRun(algorithm, trained)


def assert_same_run(one, other, clients):
    found, expected = results(one, clients), results(other, clients)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-5, err_msg=name)
    for client, memory in other.trained.memories.items():
        for name, value in memory.items():
            mine = one.trained.memories[client][name]
            np.testing.assert_allclose(mine, value, rtol=1e-5, atol=1e-5, err_msg=name)


def sums_only(case):
    if case.method.is_pooled(case.variant):
        return False
    tasks = build(case, make_clients(SIZES)).tasks
    return all(task.reduce == "sum" for task in tasks)


CASES = [
    Case(method, method.notions[0], variant)
    for method in METHODS.values()
    for variant in method.variants
]
SUMMED = [case for case in CASES if sums_only(case)]
FEDFB = Case(METHODS["fedfb"], "demographic_parity", "plain")
FEDAVG = Case(METHODS["fedavg"], "demographic_parity", "plain")


def name_of(case):
    return f"{case.method.name}-{case.variant}"


@pytest.mark.parametrize("case", SUMMED, ids=name_of)
def test_a_method_of_sums_runs_the_same_under_masks(case):
    clients = make_clients(SIZES)
    assert_same_run(go(case, clients, carry_masked(NAMES)), go(case, clients), clients)


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
def test_fedfb_with_four_groups_runs_the_same_under_masks(notion):
    case, clients = FEDFB._replace(notion=notion), make_clients((40, 31, 27), groups=4)
    assert_same_run(go(case, clients, carry_masked(NAMES[:3])), go(case, clients), clients)


@pytest.mark.parametrize("case", [c for c in CASES if c not in SUMMED], ids=name_of)
def test_a_method_that_needs_more_than_sums_is_refused_before_training(case):
    experiment = Experiment(
        algorithm=case.method.name,
        notion=case.notion,
        variant=case.variant,
        secure=True,
        sensitive_at_prediction=True,
    )
    pooled = case.method.is_pooled(case.variant)
    with pytest.raises(ConfigError if pooled else DisclosureError, match=case.method.name):
        check_runnable(resolve(experiment))


def test_the_methods_of_the_paper_are_among_those_that_sum():
    assert {"fedfb", "fedfb-sums", "fedavg", "fairfed", "q-ffl"} <= {c.method.name for c in SUMMED}
    # A target for the root mean square gap of the losses needs only sums too.
    check_runnable(resolve(Experiment(algorithm="fedfb", notion="cp", target=(0.1,), secure=True)))


@pytest.mark.parametrize("name", ["fedfb", "fairfed", "q-ffl", "fedfb-sums", "fedavg"])
def test_a_run_with_dropouts_is_the_plain_run_over_the_same_survivors(name):
    method, clients = METHODS[name], make_clients((20, 12, 15, 9, 16))
    case = Case(method, method.notions[0], method.variants[0])
    masked = go(case, clients, carry_masked((*NAMES, "middle"), dropout=0.2), dropout=0.2)
    assert_same_run(masked, go(case, clients, dropout=0.2), clients)
    assert_same_run(masked, over_survivors(case, clients, 0.2), clients)


def over_survivors(case, clients, share):
    """Train by a loop of its own, in which those who are not in a sum are not asked."""
    algorithm = build(case, clients, dropout=share)
    memories = {client.id: algorithm.memory(start(1)) for client in clients}
    state, history, lost = algorithm.setup(start(1), make_ask(clients, memories, SEED, 0)), [], 0
    for number in range(1, ROUNDS + 1):
        leaving = draw_leavings(range(len(clients)), share, SEED, number, len(algorithm.tasks))
        asked = iter(range(1000))

        def ask(task, broadcast, number=number, leaving=leaving, asked=asked):
            nonlocal lost
            question, uploads = next(asked), []
            silent = silent_in(leaving, question)
            for client in clients:
                if is_counted(silent.get(client.id)):
                    key = (SEED, number, question, client.id)
                    upload, kept = task.run(broadcast, client, memories[client.id], key)
                    memories[client.id] = kept
                    uploads.append(upload)
            lost += len(clients) - len(uploads)
            return reduce_uploads(task, uploads)

        state, info = algorithm.round(state, ask)
        confusion = ask(confusion_task(engine()), {"params": algorithm.params(state)})["confusion"]
        history.append(training_loop.RoundRecord(info.signal, info.lam, confusion))
    assert lost > ROUNDS / 2
    return PlayedRun(algorithm, training_loop.Trained(state, memories, history))


def remember(broadcast, data, memory, key):
    times = memory.get("times", 0) + 1
    return {"rows": np.asarray(len(data.y)), "half": np.array([0.5, -data.id])}, {"times": times}


@pytest.mark.parametrize("masked", [True, False], ids=["masked", "unmasked"])
@pytest.mark.parametrize("turn", TURNS)
def test_who_falls_silent_before_its_vector_is_not_in_the_sum_nor_changed(turn, masked):
    clients, memories = make_clients(SIZES), {i: {} for i in range(4)}
    carry = carry_masked(NAMES) if masked else None
    ask = make_ask(clients, memories, 0, 1, leaving={2: Leaving(1, turn)}, carry=carry)
    task = ClientTask("remember", "sum", remember)
    everyone, some, later = (ask(task, {}) for _ in range(3))
    stays = turn in ("confirmation", "reveal")
    assert everyone["rows"] == sum(SIZES)
    assert some["rows"] == sum(SIZES) - (0 if stays else SIZES[2])
    assert later["rows"] == sum(SIZES) - SIZES[2]
    assert everyone["rows"].dtype == np.int64
    np.testing.assert_array_equal(later["half"], [1.5, -4.0])
    assert [memories[i]["times"] for i in range(4)] == [3, 3, 2 if stays else 1, 3]


def test_a_question_for_single_values_is_never_carried():
    ask = make_ask(make_clients(SIZES), {i: {} for i in range(4)}, 0, 1, carry=carry_masked(NAMES))
    with pytest.raises(DisclosureError, match="'remember' needs every client's own upload"):
        ask(ClientTask("remember", "gather", remember), {})


def test_a_round_may_ask_some_of_the_clients():
    clients = make_clients((20, 12, 15, 9, 16))
    carry = carry_masked((*NAMES, "middle"))
    masked = go(FEDFB, clients, carry, participation=0.6)
    assert_same_run(masked, go(FEDFB, clients, participation=0.6), clients)


def test_many_clients_are_tied_to_some_of_the_others_only():
    clients = make_clients((9,) * 55)
    names = [f"branch {number}" for number in range(55)]
    masked = go(FEDAVG, clients, carry_masked(names, dropout=0.1), rounds=1, dropout=0.1)
    assert_same_run(masked, go(FEDAVG, clients, rounds=1, dropout=0.1), clients)


def test_a_sum_of_too_few_stops_the_run_and_loses_nothing(tmp_path, monkeypatch):
    clients, saving = make_clients(SIZES), Saving(tmp_path / "run.npz", "mine")
    go(FEDFB, clients, carry_masked(NAMES), rounds=2, saving=saving)
    kept = saving.path.read_bytes()
    gone = {client: Leaving(1, "shares") for client in (1, 2)}
    with monkeypatch.context() as patched:
        patched.setattr(training_loop, "draw_leavings", lambda *_: gone)
        with pytest.raises(ThresholdError, match="round 3, exchange 1: 2 clients shared"):
            go(FEDFB, clients, carry_masked(NAMES), saving=saving)
    assert saving.path.read_bytes() == kept
    resumed = go(FEDFB, clients, carry_masked(NAMES), saving=saving)
    alone = go(FEDFB, clients, carry_masked(NAMES))
    for name, value in as_arrays(alone.trained).items():
        np.testing.assert_array_equal(as_arrays(resumed.trained)[name], value)


@pytest.mark.parametrize(
    ("clients", "participation", "dropout", "words"),
    [
        (2, 1.0, 0.0, "at least 3 clients in every round, and 2 of 2 take part"),
        (5, 0.4, 0.0, "2 of 5 take part.*raise --participation"),
        (6, 1.0, 0.4, "2 of the 6 clients.*needs 5 to its end, so at most 1 may"),
    ],
)
def test_rounds_of_too_few_are_refused_before_training(clients, participation, dropout, words):
    with pytest.raises(ConfigError, match=words):
        refuse_too_few(clients, participation, dropout)
    refuse_too_few(5, 1.0, 0.1)


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (3.0, RangeError, "round 4: 'east' cannot answer 'tell'.*'value' exceeds its bound 2"),
        (np.nan, DivergenceError, "round 4, on client 1"),
        (np.zeros(2), RangeError, "'east' cannot answer 'tell'.*shape"),
    ],
)
def test_what_fixed_point_cannot_carry_is_refused_by_name(value, error, words):
    def run(broadcast, data, memory, key):
        return {"value": np.asarray(value if data.id == 1 else 1.0)}, memory

    task = ClientTask("tell", "sum", run, bounds={"value": 2.0})
    ask = make_ask(make_clients(SIZES), {i: {} for i in range(4)}, 0, 4, carry=carry_masked(NAMES))
    with pytest.raises(error, match=words):
        ask(task, {})


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9, 1e20])
def test_a_wide_bound_keeps_small_and_large_values(scale):
    def run(broadcast, data, memory, key):
        return {"value": scale * np.array([1.0, -0.1]) / (data.id + 1)}, memory

    task = ClientTask("tell", "sum", run, bounds={"value": 2.0**72})
    clients, memories = make_clients(SIZES), {i: {} for i in range(4)}
    masked = make_ask(clients, memories, 0, 1, carry=carry_masked(NAMES))(task, {})["value"]
    plain = make_ask(clients, memories, 0, 1)(task, {})["value"]
    np.testing.assert_allclose(masked, plain, rtol=1e-12, atol=4 * 2.0**-30)


def test_secure_sums_ask_for_their_package(monkeypatch):
    monkeypatch.setattr("fedfb.extras.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'fedfb\[privacy\]'"):
        check_runnable(resolve(Experiment(secure=True)))
