"""What a method needs and the server receives: in explain, in a run's words and its ledger."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedfb.algorithms import METHODS
from fedfb.estimator import FedFBClassifier
from fedfb.experiments.compare import make_comparison
from fedfb.experiments.effect import is_read
from fedfb.experiments.explain import exchanges_of, explain
from fedfb.experiments.outcome import run, train
from fedfb.experiments.spec import Experiment
from fedfb.report.ledger import as_record as ledger_record
from fedfb.report.ledger import exchanges_sentence as sentence
from fedfb.report.ledger import needs
from fedfb.report.ledger import sentence as ledger_sentence
from fedfb.report.text import findings, print_comparison, print_run
from fedfb.runtime.ledger import read_ledger

TINY = {
    **{"rows": 120, "test_rows": 60, "rounds": 4, "local_epochs": 2},
    "sensitive_at_prediction": True,
}


def ledger_of(experiment, folder):
    folder.mkdir(exist_ok=True)
    outcome = train(experiment, checkpoints=folder, ledger=folder / "ledger.jsonl", jobs=1)
    return outcome, read_ledger(folder / "ledger.jsonl")


def single_tasks(accounts):
    return {
        entry.task for account in accounts for entry in account.entries if entry.seen == "single"
    }


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"lr": (0.005,)},
        {"target": (0.0, 0.02, 1.0)},
        {"target": (0.05,), "period": 2},
        {"cost": 0.01},
        {"tune": True},
        {"seeds": (0, 1), "participation": 0.67},
        {"dropout": 0.3},
        {"lr": (0.005, 0.01), "target": (0.1,)},
    ],
    ids=str,
)
def test_client_parity_is_solved_from_sums_whatever_else_is_asked(changes, tmp_path):
    _, accounts = ledger_of(Experiment(notion="cp", **{**TINY, **changes}), tmp_path)
    assert {account.phase for account in accounts} >= {"run"}
    assert single_tasks(accounts) == set()


def test_client_parity_runs_with_secure_sums_and_no_other_flag(tmp_path):
    _, accounts = ledger_of(Experiment(notion="cp", secure=True, **TINY), tmp_path)
    up = {e.seen for account in accounts for e in account.entries if e.way == "up"}
    assert {account.phase for account in accounts} == {"tune", "run"}
    assert up == {"masked"}


def test_the_free_model_beside_client_parity_is_that_of_fedavg():
    """Weights stay 1, and the last round is taken: a target of 1 asks for nothing."""
    flags = {**TINY, "lr": (0.005,), "partition": "group"}
    free = train(Experiment(notion="cp", target=(1.0,), **flags))
    plain = train(Experiment(algorithm="fedavg", notion="cp", **flags))
    beside = train(Experiment(notion="cp", **flags))
    for outcome, setting in ((free, 0), (beside, 1)):
        np.testing.assert_array_equal(
            outcome.fitted[0].trained.state.params[setting],
            plain.fitted[0].trained.state.params[0],
        )
        assert outcome.fitted[0].tell()[setting]["chosen_round"] == TINY["rounds"]


def rms_gap(record):
    """Return the root mean square gap of the clients' mean losses on their test rows."""
    rows, losses = (
        np.array([getattr(client, name) for client in record.clients]) for name in ("n", "loss")
    )
    mean = np.average(losses, weights=rows)
    return np.sqrt(np.average((losses - mean) ** 2, weights=rows))


def test_a_target_for_client_parity_is_met_between_parity_and_the_free_model():
    targets = (0.0, 0.02, 0.04, 1.0)
    flags = {"lr": (0.005,), "local_epochs": 10, "partition": "group", "rounds": 12}
    flags["sensitive_at_prediction"] = True
    outcome = train(Experiment(notion="cp", target=targets, seeds=(0, 1, 2), **flags))
    met = np.mean([[rms_gap(record) for record in of_seed] for of_seed in outcome.by_seed], axis=0)
    assert np.all(np.diff(met) > 0), met
    off = [told["off_target"] for fitted in outcome.fitted for told in fitted.tell()[1:3]]
    assert max(off) < 0.01, off


def every_case():
    for method in METHODS.values():
        # FedFB tries learning rates itself; the others that do are as slow as they are alike.
        rate = {"lr": (0.005,)} if method.outer_rules == ("solve",) else {}
        for notion in method.notions:
            yield method.name, {"notion": notion, **rate}
        for variant in method.variants[1:]:
            yield method.name, {"notion": method.notions[0], "variant": variant, **rate}
        for rule in method.outer_rules[1:]:
            yield from ((method.name, {"notion": notion, "outer": rule}) for notion in ("dp", "cp"))


MORE_CASES = [
    ("fedfb", {"notion": "dp", "period": 2}),
    ("fedfb", {"notion": "cp", "period": 2, "target": (0.05,)}),
    ("fedfb", {"notion": "dp", "timing": "piggyback", "lr": (0.01,)}),
    ("fedfb", {"notion": "eod", "bits": 9}),
    ("fedfb", {"notion": "dp", "cost": 0.01}),
    ("fedfb", {"notion": "cp", "bits": 4}),
    ("fedfb", {"notion": "cp", "tune": True}),
    ("fedfb", {"notion": "dp", "secure": True, "lr": (0.01,)}),
    ("fedfb", {"notion": "cp", "secure": True, "lr": (0.01,)}),
    ("fedfb", {"notion": "dp", "participation": 0.67, "lr": (0.01,)}),
    ("fedfb", {"notion": "dp", "privacy_epsilon": np.inf}),
    ("fedfb", {"notion": "dp", "model": "mlp", "target": (0.0, 0.1)}),
    ("q-ffl", {"notion": "cp", "knobs": ("q=0.1,1",)}),
    ("ditto", {"notion": "cp", "tune": True}),
]

UNKNOWN_NUMBER = {"project"}
"""Newton's method asks as often as the rows need it."""


def facts(exchange):
    often = None if exchange.question in UNKNOWN_NUMBER else exchange.times
    when = "rounds" if exchange.when.startswith("rounds") else exchange.when
    return (*exchange._replace(when=when, models=frozenset())[:-2], often)


@pytest.mark.parametrize(("name", "changes"), [*every_case(), *MORE_CASES], ids=str)
def test_what_explain_says_is_what_a_run_writes_down(name, changes, tmp_path):
    """Questions, when and how often, what is needed and received, shapes and bytes."""
    experiment = Experiment(algorithm=name, **{**TINY, "rounds": 5, **changes, "local_epochs": 30})
    if is_read(experiment, "solver"):
        experiment = replace(experiment, solver="local")
    if is_read(experiment, "local_epochs"):
        experiment = replace(experiment, local_epochs=1)
    outcome, accounts = ledger_of(experiment, tmp_path)
    rows = outcome.federation
    size = (len(rows.group_names), len(rows.clients), len(rows.feature_names))
    explained = explain(experiment, *size)
    held = [facts(one) for account in accounts for one in exchanges_of(account, 5)]
    assert [facts(one) for one in explained.exchanges] == held
    single = {one.question for one in explained.exchanges if one.seen == "single"}
    assert single == single_tasks(accounts)
    usual = [
        e for a in accounts for e in a.entries if (a.phase, e.way, e.round) == ("run", "up", 4)
    ]
    if name != "fedfb-sums" and experiment.participation == 1:
        assert explained.exchanges_a_round == len(usual)
        assert explained.bytes_a_round == sum(entry.bytes for entry in usual)


def kinds(exchanges):
    """Return what is sent, but for how often, and of how many settings: that depends on rows."""
    return {
        (one.phase, one.question, one.seen, tuple((name, shape[1:]) for name, shape in one.parts))
        for one in exchanges
    }


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("fedavg", {}),
        ("fedfb", {"notion": "eod"}),
        ("fedfb", {"notion": "dp", "period": 2}),
        ("fedfb", {"notion": "cp", "target": (0.05,)}),
        ("fedfb", {"notion": "dp", "cost": 0.01}),
        ("fedfb", {"notion": "dp", "secure": True}),
        ("fedfb-thresholds", {"variant": "combined"}),
        ("reweighing", {}),
        ("cfl", {}),
    ],
    ids=str,
)
def test_explain_shows_what_an_exact_fit_sends(name, changes, tmp_path):
    flags = {"rows": 120, "test_rows": 60, "rounds": 5, "sensitive_at_prediction": True}
    experiment = Experiment(algorithm=name, **flags, **changes)
    outcome, accounts = ledger_of(experiment, tmp_path)
    rows = outcome.federation
    explained = explain(
        experiment, len(rows.group_names), len(rows.clients), len(rows.feature_names)
    )
    held = [one for account in accounts for one in exchanges_of(account, 5)]
    assert kinds(explained.exchanges) == kinds(held)
    [*newton] = [one for one in explained.in_a_round if one.question == "newton"]
    assert newton
    assert "depends on the rows" in sentence(explained)
    inputs = len(rows.feature_names) + 1
    assert dict(newton[0].parts)["second"][1:] == (inputs * (inputs + 1) // 2,)


def test_what_is_beyond_the_model_is_told_by_what_does_not_grow_with_it():
    """With 64 features a model is as long as a search: 65 numbers."""
    told = {n: explain(Experiment(notion="cp", lr=(0.01,)), features=n) for n in (8, 64)}
    assert told[8].beyond_the_model == told[64].beyond_the_model
    [fit] = [one for one in told[64].in_a_round if one.question == "fit"]
    assert (fit.numbers, fit.beyond_the_model) == (2 * 66, 0)
    [search] = [one for one in told[64].in_a_round if one.question == "search"]
    assert (search.numbers, search.beyond_the_model, search.times) == (131, 131, (3, 3))


@pytest.mark.parametrize(
    ("changes", "tasks"),
    [
        ({"notion": "cp"}, None),
        ({"notion": "cp", "secure": True}, None),
        ({"notion": "cp", "outer": "step"}, "'count' and 'measure'"),
        ({"notion": "cp", "bits": 8}, "'count' and 'measure'"),
        ({"notion": "cp", "algorithm": "afl", "local_epochs": 30}, "'losses' and 'roll call'"),
    ],
    ids=str,
)
def test_a_run_says_itself_that_single_values_were_needed(changes, tasks, capsys):
    outcome = run(Experiment(**{**TINY, "lr": (0.005,), **changes}))
    print_run(outcome)
    printed = " ".join(capsys.readouterr().out.split())
    said = f"needs single values ({tasks}), and the server received each client's upload"
    assert (said in printed) == (tasks is not None)
    assert ("single values" in printed) == (tasks is not None)


def test_a_comparison_says_it_of_every_method(capsys):
    reports = [
        run(Experiment(algorithm=name, notion="cp", lr=(0.005,), **{**TINY, "local_epochs": 30}))
        for name in ("fedavg", "afl")
    ]
    print_comparison(make_comparison(reports), {})
    assert "afl: the method needs single values" in " ".join(capsys.readouterr().out.split())


def test_a_target_for_client_parity_says_what_it_is_for():
    report = run(Experiment(notion="cp", target=(0.03,), lr=(0.005,), **TINY))
    assert any("root mean square gap" in line for line in findings(report))


def test_without_masks_nothing_says_that_the_server_received_only_sums(tmp_path):
    """The same method, with and without masks: it needs only sums, and the runs differ."""
    for secure, words in (
        (False, "but nothing was masked: the server received each client's upload"),
        (True, "and everything was masked: the server received only sums"),
    ):
        experiment = Experiment(lr=(0.005,), secure=secure, **TINY)
        _, accounts = ledger_of(experiment, tmp_path / str(secure))
        assert ledger_sentence(accounts).startswith(f"The method needs only sums, {words}.")
        record = ledger_record(accounts, published=True)
        assert (record["needs_only_sums"], record["server_received_only_sums"]) == (True, secure)
        explained = explain(experiment)
        assert (explained.needs_only_sums, explained.server_receives_only_sums) == (True, secure)
        assert ("the server receives only sums (--secure)" in sentence(explained)) == secure


HOME = Path(__file__).parents[2]
MIXED = re.compile(
    r"\b(sees?|saw)\s+(only\s+)?sums|sums\s+only|server\s+(sees|saw)\b|learns only sums"
)


def test_no_page_mixes_what_a_method_needs_with_what_the_server_received():
    """Without masks the server receives each upload: "it sees sums only" would be false."""
    pages = [HOME / "README.md", *(HOME / "docs").glob("*.md"), *(HOME / "src").rglob("*.py")]
    found = {
        (page.relative_to(HOME).as_posix(), match.group())
        for page in pages
        for match in MIXED.finditer(page.read_text(encoding="utf-8"))
        if page.name != "errata.md"
    }
    assert found == set()


def test_list_explain_ledger_and_run_agree_on_client_parity(tmp_path, capsys):
    experiment = Experiment(notion="cp", **TINY)
    outcome, accounts = ledger_of(experiment, tmp_path)
    explained = explain(experiment)
    assert needs(explained) == "sums"
    assert explained.needs_only_sums
    assert ledger_record(accounts, published=True)["needs_only_sums"]
    assert not ledger_record(accounts, published=True)["server_received_only_sums"]
    print_run(outcome.result)
    assert "single values" not in capsys.readouterr().out


def test_the_estimator_for_client_parity_needs_only_sums():
    rng = np.random.default_rng(0)
    x, owner = rng.normal(size=(120, 3)), np.repeat([0, 1, 2], 40)
    y = (x[:, 0] + 0.5 * owner + rng.normal(size=120) > 0.5).astype(int)
    model = FedFBClassifier(notion="cp", rounds=3, local_epochs=2)
    model.fit(x, y, sensitive_features=owner % 2, client=owner)
    assert not any("single values" in note for note in model.result_.notes)
    assert model.result_.runs[0].needs_single == ()
