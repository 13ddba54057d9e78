"""A coordinator and four silos as separate processes, TLS and node authentication on."""

import json
import subprocess

import httpx
import numpy as np
import pytest

from fedfb.runtime.ledger import read_ledger
from flower.by_hand import SILOS, federation
from flower.processes import Federation
from flower.replay import assert_same_bits

pytestmark = pytest.mark.slow


def fedfb(*arguments):
    return subprocess.run([*federation.FEDFB, *map(str, arguments)], capture_output=True, text=True)


@pytest.mark.parametrize("algorithm", ["fedfb", "fedavg"])
def test_five_processes_have_the_bits_of_one(algorithm, tmp_path):
    settings = ["--algorithm", algorithm, "--notion", "dp", "--rounds", "2"]
    with Federation(tmp_path, settings) as there:
        there.start()
        there.wait_for("round 1 of 2")
        address = there.study.read_text().split('address = "')[1].split('"')[0]
        for route in ("/v1/control/start-run", "/v1/runtime/get-nodes", "/docs", "/health"):
            got = httpx.post(f"https://{address}{route}", verify=False)
            assert got.status_code in (404, 415), route  # nothing there, or not even a look
        assert there.finish() == 0, there.out("coordinator")
        for silo in SILOS:
            assert there.running[silo].wait(timeout=30) == 0, there.out(silo)
    alone = federation.in_one_process(there.study, there.silos)
    state = federation.final_state(there.study)
    assert_same_bits(state, alone.fitted[0].trained.state._asdict())
    assert algorithm == "fedavg" or np.ptp(state["lam"]) > 0
    accounts = read_ledger(there.study.parent / "run" / "ledger.jsonl")
    assert [account.phase for account in accounts] == ["data", "run"]
    seen = {entry.seen for account in accounts for entry in account.entries}
    assert seen == {"masked", "public"}
    report = json.loads((there.study.parent / "run" / "result.json").read_text())
    assert report["runs"][0]["accuracy"] == pytest.approx(alone.records[0][0]["accuracy"])
    said = fedfb("status", there.study)
    assert "2 of 2 rounds, finished" in said.stdout
    for source, name in ((there.study, "a"), (_bundle(there, "west"), "b")):
        assert fedfb("fetch", source, "--to", tmp_path / name).returncode == 0
        rows = there.silos / "north.csv"
        assert fedfb("predict", tmp_path / name, rows).stdout.count("\n") == 81
    assert "sums only" in fedfb("ledger", tmp_path / "a").stdout


def _bundle(there, silo):
    return there.study.parent / "bundles" / f"{silo}.bundle"
