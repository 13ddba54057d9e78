"""What is exchanged is read off the objects that run."""

import json

import numpy as np
import pytest

from federations import make_clients, make_engine, make_solver
from fedfb.algorithms import METHODS, Outer
from fedfb.algorithms.fedfb import fedfb
from fedfb.experiments.explain import explain, listen
from fedfb.experiments.spec import Experiment
from fedfb.notions import make_notion
from fedfb.report.exchanges import as_record, print_explained, print_methods, sentence


@pytest.mark.parametrize(("notion", "numbers"), [("dp", 3), ("eo", 3), ("eod", 6)], ids=str)
def test_fedfb_asks_twice_and_sends_a_minus_one_numbers_beyond_the_model(notion, numbers):
    explained = explain(Experiment(algorithm="fedfb", notion=notion), groups=4)
    assert [one.question for one in explained.in_a_round] == ["fit", "measure"]
    assert explained.beyond_the_model == numbers
    assert explained.sums_only


def test_quantised_signals_are_told_in_bits():
    explained = explain(Experiment(algorithm="fedfb", bits=10), groups=4)
    [signal] = [s for one in explained.in_a_round for s in one.sent if s.name == "signal"]
    assert signal.bits == 3 * 10
    assert explained.in_a_round[-1].bytes == 4


def test_afl_reveals_single_values():
    explained = explain(Experiment(algorithm="afl", notion="cp"))
    assert not explained.sums_only
    assert "single values are revealed" in sentence(explained)


def test_piggyback_needs_no_exchange_of_its_own():
    explained = explain(Experiment(algorithm="fedfb", timing="piggyback"))
    assert len(explained.in_a_round) == 1


def test_a_changed_upload_changes_the_table():
    engine, clients = make_engine(), make_clients(0)
    algorithm = fedfb(engine, make_solver(), make_notion("dp", 2), Outer(np.array([0.5])))
    fit = algorithm.tasks[1]

    def chatty(broadcast, data, memory, key):
        upload, memory = fit.run(broadcast, data, memory, key)
        return {**upload, "rows": np.ones(5)}, memory

    def round(state, ask):
        return algorithm.round(
            state, lambda t, b: ask(t._replace(run=chatty) if t is fit else t, b)
        )

    start = engine.model.init(0)[None]
    plain = listen(algorithm, clients, start)
    changed = listen(algorithm._replace(round=round), clients, start)
    assert [one.numbers for one in plain][1] + 5 == [one.numbers for one in changed][1]


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda m: m.name)
def test_every_method_and_notion_can_be_explained(method):
    for notion in method.notions:
        for variant in method.variants:
            experiment = Experiment(algorithm=method.name, notion=notion, variant=variant)
            explained = explain(experiment)
            assert explained.in_a_round
            json.dumps(as_record(explained))


def test_tables_fit_eighty_columns(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    found = [
        (m, explain(Experiment(algorithm=m.name, notion=m.notions[0]))) for m in METHODS.values()
    ]
    print_methods(found)
    for method, explained in found:
        print_explained(method.name, explained)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    for name in METHODS:
        assert f"\n{name} " in printed
