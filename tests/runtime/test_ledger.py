"""The ledger has every message once, however often a run was stopped."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfb.algorithms import METHODS
from fedfb.algorithms.tasks import confusion_task
from fedfb.errors import DataError
from fedfb.experiments.conformance.playing import Case, engine, make_clients, start
from fedfb.runtime import Ledger, Saving, carry_unmasked, train
from fedfb.runtime.ledger import as_ranges, from_ranges, read_ledger, settle_ledger
from fedfb.runtime.secure import carry_masked
from runtime.methods import build

NAMES = ("north", "east", "south", "west")
FEDFB = Case(METHODS["fedfb"], "demographic_parity", "plain")


class StoppedError(Exception):
    pass


def go(folder, masked=True, rounds=4, stop=None, dropout=0.0, seed=0):
    """Train FedFB with a ledger; ``stop`` is the round and question at which it breaks off."""
    clients, ledger = make_clients((20, 12, 15, 9)), Ledger(folder / "ledger", "run", seed, NAMES)
    bring = carry_masked(NAMES, dropout, ledger.write) if masked else carry_unmasked(ledger.write)

    def carry(question, uploads):
        if stop == (question.round, question.number):
            raise StoppedError
        return bring(question, uploads)

    algorithm = build(FEDFB, clients, dropout=dropout)
    settings = {"watch": confusion_task(engine()), "carry": carry, "dropout": dropout}
    saving = Saving(folder / f"run-{seed}.npz", "mine", ledger=ledger)
    train(algorithm, clients, start(1), seed=seed, rounds=rounds, saving=saving, **settings)


@given(st.sets(st.integers(0, 60)))
def test_ranges_can_be_read_again(numbers):
    assert set(from_ranges(as_ranges(list(numbers)), below=61)) == numbers


@pytest.mark.parametrize("masked", [True, False], ids=["masked", "unmasked"])
def test_every_question_of_every_round_has_a_line_each_way(tmp_path, masked):
    go(tmp_path, masked)
    [account] = read_ledger(tmp_path / "ledger")
    assert account.clients == NAMES
    asked = [(e.round, e.question, e.task) for e in account.entries if e.way == "up"]
    rounds = [(n, q, t) for n in range(1, 5) for q, t in enumerate(("fit", "measure", "confusion"))]
    assert asked == [(0, 0, "count"), *rounds, (5, 0, "histogram")]
    assert asked == [(e.round, e.question, e.task) for e in account.entries if e.way == "down"]
    assert all(e.clients == (0, 1, 2, 3) for e in account.entries)
    seen = {e.seen for e in account.entries if e.way == "up"}
    assert seen == {"masked" if masked else "unmasked"}


def test_the_bytes_are_those_of_the_wire(tmp_path):
    go(tmp_path, masked=False, rounds=1)
    go(tmp_path, masked=True, rounds=1, seed=1)
    plain, masked = read_ledger(tmp_path / "ledger")
    [fit] = [e for e in plain.entries if (e.task, e.way) == ("fit", "up")]
    numbers = 4 + 1
    assert fit.parts == {"weighted": [1, 4], "weight": [1]}
    assert fit.messages == {"upload": 8 * numbers}
    [hidden] = [e for e in masked.entries if (e.task, e.way) == ("fit", "up")]
    assert hidden.parts == fit.parts
    neighbours = 3
    assert hidden.bytes == 8 * numbers + 171 * neighbours + 743  # as benchmarks/secure.py states
    assert list(hidden.messages) == ["keys", "shares", "masked", "confirmation", "reveal"]


def test_who_fell_silent_has_sent_no_values(tmp_path):
    go(tmp_path, rounds=12, dropout=0.25)
    [account] = read_ledger(tmp_path / "ledger")
    up = [e for e in account.entries if e.way == "up"]
    lost = [e for e in up if e.seen == "no values"]
    assert {e.seen for e in up} == {"masked", "no values"}
    assert any("shares" in e.messages for e in lost)
    assert not any(e.parts or "masked" in e.messages for e in lost)


@pytest.mark.parametrize("torn", ["", '\n{"phase":"run","see'], ids=["whole lines", "a torn line"])
@pytest.mark.parametrize("stop", [(0, 0), (1, 2), (3, 1), (4, 0)])
def test_a_run_that_was_stopped_and_resumed_has_every_message_once(tmp_path, stop, torn):
    undisturbed, disturbed = tmp_path / "one", tmp_path / "other"
    undisturbed.mkdir(), disturbed.mkdir()
    go(undisturbed)
    with pytest.raises(StoppedError):
        go(disturbed, stop=stop)
    path = disturbed / "ledger"
    path.write_text(path.read_text() + torn)
    go(disturbed)
    [expected], [found] = read_ledger(undisturbed / "ledger"), read_ledger(path)
    assert found == expected
    settle_ledger(path)
    settle_ledger(undisturbed / "ledger")
    assert path.read_bytes() == (undisturbed / "ledger").read_bytes()
    assert [found] == read_ledger(path)


def test_a_line_does_not_grow_with_the_clients(tmp_path):
    path = tmp_path / "ledger"
    names = tuple(str(number) for number in range(10_000))
    go(tmp_path, masked=False, rounds=1)
    [account] = read_ledger(path)
    large = Ledger(tmp_path / "large", "run", 0, names)
    large.begin(-1)
    large.write([e._replace(clients=range(10_000)) for e in account.entries])
    *_, last = (tmp_path / "large").read_text().splitlines()
    assert len(last) < 300
    assert json.loads(last)["clients"] == "0-9999"


@pytest.mark.parametrize("line", ["no JSON", '{"phase": "run", "seed": 0, "round": 1}', "[1]"])
def test_a_ledger_that_is_none_is_named(tmp_path, line):
    go(tmp_path, masked=False, rounds=1)
    path = tmp_path / "ledger"
    first, *others = path.read_text().lstrip().split("\n")
    path.write_text("\n".join([first, line, *others]))
    with pytest.raises(DataError, match="cannot be read"):
        read_ledger(path)
