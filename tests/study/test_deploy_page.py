"""docs/deploy.md is followed word for word: FedFB by five processes, to its result in files."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedfb.experiments.codec import to_builtins
from fedfb.runtime.ledger import read_ledger
from study.by_hand import federation
from study.replay import assert_same_bits

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_walk_through_works_as_written(tmp_path):
    """FedFB of four groups for demographic parity; one federation serves all checks."""
    script = re.search(r"```sh\n(.*?)```", PAGE, re.DOTALL).group(1)
    script = script.replace("9443", str(federation.free_port()))  # others may listen there
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    said = subprocess.run(
        ["bash", "-euc", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=290,
    )
    assert said.returncode == 0, said.stderr
    assert "3 of 3 rounds, finished" in said.stdout
    assert "the server received only sums" in " ".join(said.stdout.split())
    assert (tmp_path / "decisions.csv").read_text().count("\n") == 401
    it_has_the_bits_of_one_process(tmp_path)
    both_sides_have_report_and_audit(tmp_path)


def it_has_the_bits_of_one_process(folder):
    study = folder / "triage" / "study.toml"
    alone = federation.in_one_process(study, folder / "clients")
    state = federation.final_state(study)
    assert_same_bits(state, alone.fitted[0].trained.state._asdict())
    assert np.ptp(state["lam"]) > 0
    [found] = json.loads((folder / "result" / "result.json").read_text())["runs"]
    own = json.loads(json.dumps(to_builtins(alone.result.runs[0])))
    for name in ("accuracy", "groups", "four_fifths", "told"):
        assert found[name] == own[name]
    accounts = read_ledger(study.parent / "run" / "ledger.jsonl")
    assert {entry.seen for a in accounts for entry in a.entries} == {"masked", "public"}


def both_sides_have_report_and_audit(folder):
    both = {"result.json", "models.npz", "preprocessing.json", "audit.json", "audit.html"}
    here, north = ({p.name for p in (folder / name).iterdir()} for name in ("result", "north-has"))
    assert here >= both | {"ledger.jsonl", "report.html", "model-card.md"}
    assert north >= both
    assert "ledger.jsonl" not in north
    page = (folder / "result" / "report.html").read_text()
    assert "test rows the server received only sums" in page


def test_the_page_names_the_messages_and_commands_that_there_are():
    from fedfb.study.client import HANDLERS

    assert f"({', '.join(HANDLERS)})" in " ".join(PAGE.split())
