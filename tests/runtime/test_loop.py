from typing import NamedTuple

import numpy as np
import pytest

from federations import make_clients, make_engine, make_solver
from fedfb.algorithms import Outer
from fedfb.algorithms.fedavg import fedavg
from fedfb.algorithms.fedfb.fedfb import fedfb
from fedfb.algorithms.tasks import confusion_task
from fedfb.core import ClientTask, Info, LocalSolver
from fedfb.errors import ConfigError, DataError, DivergenceError
from fedfb.notions import make_notion
from fedfb.runtime import Saving, make_ask, train
from fedfb.runtime.archive import load_archive, save_archive


def go(clients, rounds, saving=None, on_round=lambda p: None, name="dp"):
    engine = make_engine()
    algorithm = fedfb(engine, make_solver(), make_notion(name, 2), Outer(np.array([0.5])))
    return train(
        algorithm,
        clients,
        engine.model.init(0)[None],
        seed=0,
        rounds=rounds,
        watch=confusion_task(engine),
        saving=saving,
        on_round=on_round,
    )


@pytest.mark.parametrize("name", ["dp", "eo", "eod", "cp"])
def test_a_resumed_run_has_the_same_bits(tmp_path, name):
    clients, saving = make_clients(0), Saving(tmp_path / "run.npz", "mine")
    whole = go(clients, 5, name=name)
    go(clients, 2, saving, name=name)
    resumed = go(clients, 5, saving, name=name)
    np.testing.assert_array_equal(resumed.state.params, whole.state.params)
    np.testing.assert_array_equal(resumed.state.lam, whole.state.lam)
    assert isinstance(resumed.state.t, int)
    for one, other in zip(resumed.history, whole.history, strict=True):
        np.testing.assert_array_equal(one.signal, other.signal)
        np.testing.assert_array_equal(one.confusion, other.confusion)


def test_a_finished_run_is_not_trained_again(tmp_path):
    saving, rounds = Saving(tmp_path / "run.npz", "mine"), []
    go(make_clients(0), 3, saving, lambda p: rounds.append(p.round))
    go(make_clients(0), 3, saving, lambda p: rounds.append(p.round))
    assert rounds == [1, 2, 3]


class Counted(NamedTuple):
    """Numbers of clients that were asked in each round, and after the last one."""

    asked: np.ndarray
    finished: int


def counting():
    """An algorithm that counts the clients that it is given."""
    ones = ClientTask("one", "sum", lambda b, d, m, k: ({"clients": np.ones(1)}, m))

    def note(state, ask):
        return state._replace(asked=np.append(state.asked, ask(ones, {})["clients"]))

    plain = fedavg(make_engine(), make_solver())
    return plain._replace(
        state=Counted,
        tasks=(ones,),
        setup=lambda params, ask: Counted(np.zeros(0), 0),
        round=lambda state, ask: (note(state, ask), Info()),
        finish=note,
        params=lambda state: None,
    )


@pytest.mark.parametrize("rounds", [1, 4])
def test_all_clients_are_asked_once_after_the_last_round(tmp_path, rounds):
    clients, saving = make_clients(0, sizes=(5,) * 10), Saving(tmp_path / "run.npz", "mine")
    for _ in range(2):  # the second time from the checkpoint of the finished run
        state = train(
            counting(), clients, np.zeros((1, 3)), seed=0, rounds=rounds, watch=None,
            participation=0.3, saving=saving,
        ).state  # fmt: skip
        np.testing.assert_array_equal(state.asked, [*[3] * rounds, 10])


def test_a_run_that_goes_on_is_finished_again(tmp_path):
    clients, saving = make_clients(0, sizes=(5,) * 4), Saving(tmp_path / "run.npz", "mine")
    for rounds in (1, 2):
        state = train(
            counting(), clients, np.zeros((1, 3)), seed=0, rounds=rounds, watch=None,
            participation=0.5, saving=saving,
        ).state  # fmt: skip
    np.testing.assert_array_equal(state.asked, [2, 4, 2, 4])


def test_a_checkpoint_of_another_experiment_is_refused(tmp_path):
    go(make_clients(0), 1, Saving(tmp_path / "run.npz", "mine"))
    with pytest.raises(ConfigError, match="belongs to another experiment"):
        go(make_clients(0), 2, Saving(tmp_path / "run.npz", "yours"))


def test_a_corrupt_checkpoint_is_named(tmp_path):
    path = tmp_path / "run.npz"
    save_archive(path, {"state/x": np.ones(3)}, "mine")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match="cannot be read"):
        load_archive(path, "mine")


def test_a_write_that_fails_leaves_the_old_checkpoint(tmp_path):
    path = tmp_path / "run.npz"
    save_archive(path, {"x": np.ones(3)}, "mine")
    with pytest.raises(TypeError, match="file"):
        save_archive(
            path, {"file": np.ones(2)}, "mine"
        )  # a name that numpy refuses, with the file open
    np.testing.assert_array_equal(load_archive(path, "mine")["x"], np.ones(3))


def test_events_arrive_round_by_round():
    seen = []
    go(make_clients(0), 3, on_round=lambda p: seen.append((p.seed, p.round, p.rounds)))
    assert seen == [(0, 1, 3), (0, 2, 3), (0, 3, 3)]


def test_divergence_names_round_client_and_run():
    engine, clients = make_engine(), make_clients(0)
    steep = LocalSolver(np.array([0.1, 1e308]), epochs=2, batch=8, optimiser="sgd")
    start = np.repeat(engine.model.init(0)[None], 2, axis=0)
    watch, algorithm = confusion_task(engine), fedavg(engine, steep)
    with (
        pytest.raises(DivergenceError, match="round 1, on client 0") as caught,
        np.errstate(all="ignore"),
    ):
        train(algorithm, clients, start, seed=0, rounds=2, watch=watch)
    assert caught.value.runs == [1]


def test_a_client_keeps_its_memory_and_nobody_elses():
    def run(broadcast, data, memory, key):
        seen = {"rows": memory.get("rows", np.zeros(1)) + len(data.y)}
        return {"rows": seen["rows"]}, seen

    clients, memories = make_clients(0), {i: {} for i in range(3)}
    task = ClientTask("remember", "gather", run)
    ask = make_ask(clients, memories, 0, 1)
    ask(task, {})
    np.testing.assert_array_equal(ask(task, {})["rows"].ravel(), [2 * len(c.y) for c in clients])


def test_questions_draw_different_randomness_and_repeat_it():
    def run(broadcast, data, memory, key):
        return {"key": np.array(key)}, memory

    def keys(round):
        ask = make_ask(make_clients(0), {i: {} for i in range(3)}, 7, round)
        task = ClientTask("key", "gather", run)
        return np.stack([ask(task, {})["key"], ask(task, {})["key"]])

    first = keys(1).reshape(-1, 4)
    assert len({tuple(key) for key in first} | {tuple(k) for k in keys(2).reshape(-1, 4)}) == 12
    np.testing.assert_array_equal(first, keys(1).reshape(-1, 4))
