"""Every method by the same messages: the state, the ledgers and the results of one process."""

import json
from dataclasses import replace

import pytest

from fedfb.experiments.spec import Experiment
from fedfb.runtime.ledger import read_ledger
from study.by_hand import CLIENTS, federation, make, run_by_hand
from study.replay import assert_same_bits

QUICK = Experiment(rounds=2, local_epochs=2, lr=(0.02,))
EXACT = {"lr": (), "local_epochs": 30, "solver": "newton"}


@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm": "fedfb"},
        {"algorithm": "fedfb", "notion": "eod", "participation": 0.75, "rounds": 3},
        {"algorithm": "fedavg"},
        {"algorithm": "q-ffl", "notion": "cp"},
        {"algorithm": "fedfb-thresholds", "sensitive_at_prediction": True},
        {"algorithm": "fedfb", "sensitive_at_prediction": True},
        {"algorithm": "fedfb-sums", "notion": "cp"},
        {"algorithm": "fedfb", "notion": "cp", "participation": 0.75, "rounds": 3},
        {"algorithm": "fedfb", "notion": "cp", "lr": (), "target": (0.05,)},
        {"algorithm": "lft-fedavg"},
        {"algorithm": "ditto", "notion": "cp"},
        {"algorithm": "fairfed", "sensitive": ("sex",)},
        {"algorithm": "fedfb", "notion": "eod", **EXACT},
        {"algorithm": "fedfb", "participation": 0.75, "rounds": 3, **EXACT},
        {"algorithm": "fedfb", "notion": "cp", **EXACT},
        {"algorithm": "fedfb", "features": "binned", **EXACT},
        {"algorithm": "fedfb", "model": "mlp", **EXACT, "solver": "lbfgs", "rounds": 1},
    ],
    ids=lambda s: "-".join(map(str, s.values())),
)
def test_a_study_ends_in_the_bits_of_the_run_in_one_process(settings, tmp_path):
    experiment = replace(QUICK, **settings)
    made = make(tmp_path, experiment, allow_differences=experiment.participation < 1)
    ends = run_by_hand(made)
    alone = federation.train_alone(made.study, tmp_path, made.files)
    expected = alone.fitted[0].trained.state._asdict()
    for folder in (made.run, *(made.state(name) for name in CLIENTS)):
        assert_same_bits(federation.final_state(folder), expected)
        [account] = [a for a in read_ledger(folder / "ledger.jsonl") if a.phase == "run"]
        assert {entry.seen for entry in account.entries} == {"masked", "public"}
        result = json.loads((folder / "result.json").read_text())["runs"][0]
        assert result["accuracy"] == pytest.approx(alone.by_seed[0][0].accuracy, abs=1e-12)
    assert not isinstance(ends.server, BaseException)
