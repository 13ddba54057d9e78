"""What is exchanged is read off the objects that run."""

import json

import numpy as np
import pytest

from federations import make_clients, make_engine, make_solver
from fedfb.algorithms import METHODS, Outer
from fedfb.algorithms.fedfb.fedfb import fedfb
from fedfb.experiments.explain import exchanges_of, explain
from fedfb.experiments.spec import Experiment
from fedfb.notions import make_notion
from fedfb.report.ledger import exchanges_record as as_record
from fedfb.report.ledger import exchanges_sentence as sentence
from fedfb.report.ledger import print_explained, print_methods
from fedfb.runtime import Ledger, Saving, carry_unmasked, train
from fedfb.runtime.ledger import read_ledger


@pytest.mark.parametrize(("notion", "numbers"), [("dp", 3), ("eo", 3), ("eod", 6)], ids=str)
def test_fedfb_asks_twice_and_sends_few_numbers_beyond_the_model(notion, numbers):
    """One for each group but one (equalized odds: two), and the number of wrong decisions."""
    explained = explain(Experiment(algorithm="fedfb", notion=notion, solver="local"), groups=4)
    assert [one.question for one in explained.in_a_round] == ["fit", "measure", "confusion"]
    [measure] = [one for one in explained.in_a_round if one.question == "measure"]
    assert explained.settings == 2  # the model asked for, and the free one beside it
    assert measure.beyond_the_model == measure.numbers == 2 * (numbers + 1)
    assert explained.needs_only_sums


def test_quantised_signals_are_told_in_bits():
    explained = explain(Experiment(algorithm="fedfb", bits=10), groups=4)
    [signal] = [one for one in explained.in_a_round if one.question == "measure"]
    assert signal.numbers == 2 * 3
    assert signal.bytes == 8  # 60 bits


def test_afl_needs_single_values():
    explained = explain(Experiment(algorithm="afl", notion="cp"))
    assert not explained.needs_only_sums
    assert "The method needs single values" in sentence(explained)


def test_piggyback_needs_no_exchange_of_its_own():
    explained = explain(Experiment(algorithm="fedfb", timing="piggyback"))
    assert [one.question for one in explained.in_a_round] == ["fit and measure", "confusion"]


def test_a_changed_upload_changes_the_table(tmp_path):
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

    def uploaded(algorithm, path):
        saving = Saving(
            path / "run.npz", "", ledger=Ledger(path / "ledger", "run", 0, ("a", "b", "c"))
        )
        carry = carry_unmasked(saving.ledger.write)
        start = engine.model.init(0)[None]
        train(algorithm, clients, start, seed=0, rounds=2, watch=None, carry=carry, saving=saving)
        [account] = read_ledger(path / "ledger")
        return [one.numbers for one in exchanges_of(account, 2)]

    parts = [tmp_path / "plain", tmp_path / "changed"]
    for path in parts:
        path.mkdir()
    plain = uploaded(algorithm, parts[0])
    assert plain[1] + 5 == uploaded(algorithm._replace(round=round), parts[1])[1]


def test_tables_fit_eighty_columns(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    found = [
        (m, explain(Experiment(algorithm=m.name, notion=m.notions[0]))) for m in METHODS.values()
    ]
    print_methods(found)
    for method, explained in found:
        print_explained(method.name, explained)
        json.dumps(as_record(explained))
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    for name in METHODS:
        assert f"\n{name} " in printed
