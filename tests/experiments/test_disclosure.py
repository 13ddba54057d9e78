"""What a run lets the server see: the same in the run's ledger, and before it in the words on it."""

import numpy as np
import pytest

from fedfb.experiments.outcome import run
from fedfb.experiments.spec import Experiment
from fedfb.runtime.ledger import read_ledger

TINY = {"rows": 120, "test_rows": 60, "rounds": 4, "local_epochs": 2}


def ledger_of(experiment, folder):
    folder.mkdir(exist_ok=True)
    outcome = run(experiment, checkpoints=folder, ledger=folder / "ledger.jsonl", jobs=1)
    return outcome, read_ledger(folder / "ledger.jsonl")


def single_tasks(accounts):
    return {entry.task for account in accounts for entry in account.entries if entry.seen == "single"}


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
    free = run(Experiment(notion="cp", target=(1.0,), **flags))
    plain = run(Experiment(algorithm="fedavg", notion="cp", **flags))
    beside = run(Experiment(notion="cp", **flags))
    for outcome, setting in ((free, 0), (beside, 1)):
        np.testing.assert_array_equal(
            outcome.fitted[0].trained.state.params[setting],
            plain.fitted[0].trained.state.params[0],
        )
        assert outcome.fitted[0].tell()[setting]["chosen_round"] == TINY["rounds"]


def rms_gap(record):
    """Return the root mean square gap of the clients' mean losses on their test rows."""
    rows, losses = (
        np.array([client[name] for client in record["clients"]]) for name in ("n", "loss")
    )
    mean = np.average(losses, weights=rows)
    return np.sqrt(np.average((losses - mean) ** 2, weights=rows))


def test_a_target_for_client_parity_is_met_between_parity_and_the_free_model():
    targets = (0.0, 0.02, 0.04, 1.0)
    flags = {"lr": (0.005,), "local_epochs": 10, "partition": "group", "rounds": 12}
    outcome = run(Experiment(notion="cp", target=targets, seeds=(0, 1, 2), **flags))
    met = np.mean([[rms_gap(record) for record in of_seed] for of_seed in outcome.records], axis=0)
    assert np.all(np.diff(met) > 0), met
    off = [told["off_target"] for fitted in outcome.fitted for told in fitted.tell()[1:3]]
    assert max(off) < 0.01, off
