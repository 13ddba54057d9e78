"""On one instruction set a run has the same bits, whatever it is computed beside."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedfb.engine.native.engine as native_work
from engine_cases import INSTRUCTIONS, engine_cases, instruction_sets, make_case, precisions
from federations import make_clients, make_solver
from fedfb.algorithms import Outer
from fedfb.algorithms.fedfb.fedfb import fedfb
from fedfb.algorithms.tasks import confusion_task
from fedfb.core import ClientTask, PrivateTraining
from fedfb.engine import NativeEngine
from fedfb.errors import ConfigError, DivergenceError
from fedfb.models import Network
from fedfb.notions import make_notion
from fedfb.runtime import Saving, cores, make_ask, train


def one_run(case, place):
    """The case with one of its runs only."""
    only, solver = slice(place, place + 1), case.solver
    pulls = None if solver.prox is None else solver.prox[only]
    solver = solver._replace(learning_rate=solver.learning_rate[only], prox=pulls)
    return case._replace(params=case.params[only], weights=case.weights[only], solver=solver)


def everything(case, engine):
    params, data, weights, solver = case.params, case.data, case.weights, case.solver
    clipped = solver._replace(private=PrivateTraining(0.5, {data.id: 0.0}))
    return {
        "train": engine.train(params, data, weights, solver, (1,)),
        "train, clipped": engine.train(params, data, weights, clipped, (1,)),
        "losses": engine.loss_sums(params, data, "ce"),
        "gradient": engine.gradient(params, data, weights, "prob"),
        "logits": engine.logits(params, data.x),
    }


@precisions
@instruction_sets
@given(drawn=engine_cases(runs=24, epochs=2), place=st.integers(0, 23))
def test_a_run_alone_has_the_bits_it_has_in_a_grid(precision, instructions, drawn, place):
    case = make_case(**drawn)
    engine = case.native(precision, instructions)
    together, alone = everything(case, engine), everything(one_run(case, place), engine)
    for name, found in alone.items():
        np.testing.assert_array_equal(found[0], together[name][place], err_msg=name)


@precisions
@instruction_sets
@pytest.mark.parametrize("hidden", [(), (4,)], ids=str)
@pytest.mark.parametrize("runs", [1, 3, 24, 25])
def test_sparse_rows_have_the_bits_of_dense_ones(
    precision, instructions, hidden, runs, monkeypatch
):
    case = make_case(
        hidden=hidden, inputs=100, density=0.1, rows=300, runs=runs, epochs=3, batch=50
    )
    case.data.read_only()
    engine = case.native(precision, instructions)
    sparse = everything(case, engine)
    assert native_work._KEPT.of((case.data.x,), np.dtype(precision).char, dict).sparse
    monkeypatch.setattr(native_work, "SPARSE_PASSES", 10**9)
    native_work._KEPT.clear()
    for name, found in everything(case, engine).items():
        np.testing.assert_array_equal(found, sparse[name], err_msg=name)


def test_sparse_rows_are_kept_as_long_as_their_array():
    case = make_case(inputs=100, density=0.1, epochs=30)
    case.data.read_only()
    engine = NativeEngine(case.model)
    before = len(native_work._KEPT)
    engine.train(case.params, case.data, case.weights, case.solver, (1,))
    assert len(native_work._KEPT) == before + 1
    del case
    assert len(native_work._KEPT) == before


def test_rows_that_can_be_written_into_are_read_anew():
    case = make_case(inputs=100, density=0.1, epochs=30)
    engine = NativeEngine(case.model)
    flipped = case.data._replace(x=case.data.x * 2, y=1 - case.data.y)
    expected = everything(case._replace(data=flipped), engine)
    everything(case, engine)
    case.data.x[:], case.data.y[:] = flipped.x, flipped.y
    for name, found in everything(case, engine).items():
        np.testing.assert_array_equal(found, expected[name], err_msg=name)


def test_rows_are_made_sparse_where_that_saves_memory():
    def is_sparse(case):
        engine = NativeEngine(case.model)
        work = engine._training(case.params, case.data, case.solver, case.params)
        return "values" in work.behind

    assert is_sparse(make_case(inputs=100, density=0.1, epochs=30))
    assert not is_sparse(make_case(inputs=100, density=1.0, epochs=30))
    assert not is_sparse(make_case(inputs=2, density=0.1, epochs=30))
    assert not is_sparse(make_case(inputs=100, density=0.1, epochs=1))


def go(engine, threads, saving=None, rounds=3):
    clients = make_clients(2, sizes=(40, 25, 31, 17))
    algorithm = fedfb(engine, make_solver(2), make_notion("dp", 2), Outer(np.array([0.5, 0.1])))
    start = np.repeat(engine.model.init(0)[None], 2, axis=0)
    return train(
        algorithm,
        clients,
        start,
        seed=0,
        rounds=rounds,
        watch=confusion_task(engine),
        threads=threads,
        saving=saving,
    )


def assert_same_state(one, other):
    for name, value in one.state._asdict().items():
        np.testing.assert_array_equal(value, getattr(other.state, name), err_msg=name)


@pytest.mark.parametrize("hidden", [(), (4,)], ids=str)
def test_threads_do_not_change_a_bit(hidden):
    engine = NativeEngine(Network(3, hidden))
    assert_same_state(go(engine, threads=2), go(engine, threads=1))


@instruction_sets
def test_a_resumed_run_has_the_same_bits(instructions, tmp_path, capsys):
    engine = NativeEngine(Network(3), np.float32, instructions)
    saving = Saving(tmp_path / "run.npz", "mine", engine.instructions)
    go(engine, 1, saving, rounds=1)
    assert_same_state(go(engine, 2, saving), go(engine, 1))
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(len(INSTRUCTIONS) < 2, reason="this machine has one instruction set only")
def test_going_on_with_other_instructions_is_told_in_one_line(tmp_path, capsys):
    path = tmp_path / "run.npz"
    for instructions in INSTRUCTIONS:
        engine = NativeEngine(Network(3), np.float32, instructions)
        go(engine, 1, Saving(path, "mine", instructions), rounds=1)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert all(instructions in said for instructions in INSTRUCTIONS)


def test_the_first_client_that_diverges_is_named_on_threads_too():
    def run(broadcast, data, memory, key):
        return {"value": np.array([np.nan if data.id in (1, 3) else 0.0])}, memory

    clients = make_clients(0, sizes=(9, 8, 7, 6))
    for threads in (1, 2):
        memories = {client.id: {} for client in clients}
        with pytest.raises(DivergenceError, match="on client 1") as caught:
            make_ask(clients, memories, 0, 4, threads)(ClientTask("odd", "sum", run), {})
        assert caught.value.client == 1


def test_threads_know_how_to_treat_overflow():
    """Overflow is told by what is uploaded; a warning would be an error here."""

    def run(broadcast, data, memory, key):
        return {"value": np.exp(np.full(1, 1e3))}, memory

    clients = make_clients(0)
    task = ClientTask("large", "sum", run)
    with np.errstate(all="ignore"), pytest.raises(DivergenceError):
        make_ask(clients, {client.id: {} for client in clients}, 0, 1, threads=2)(task, {})


def test_the_number_of_threads_can_be_limited(monkeypatch):
    monkeypatch.setenv("FEDFB_THREADS", "1")
    assert cores() == 1
    monkeypatch.setenv("FEDFB_THREADS", "none")
    with pytest.raises(ConfigError, match="FEDFB_THREADS"):
        cores()


def test_instructions_this_machine_lacks_are_refused():
    engine = NativeEngine(Network(2), np.float32, "avx1024")
    with pytest.raises(ConfigError, match="avx1024"):
        engine.logits(np.zeros((1, 3)), np.zeros((1, 2)))
