"""Both walks of docs/deploy.md are followed word for word, to the results in files."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedfb.experiments.codec import to_builtins
from fedfb.runtime.ledger import read_ledger
from study.by_hand import CLIENTS, federation
from study.machines import Machines, find_obstacle

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
RESULT = {"result.json", "models.npz", "preprocessing.json", "audit.json", "audit.html"}
SERVER = "study.example.org"


def read_section(title):
    """Return the part of the page below a heading."""
    return re.split(r"^## ", PAGE.split(f"## {title}\n")[1], flags=re.MULTILINE)[0]


@pytest.mark.slow
def test_the_trial_on_one_machine_works_as_written(tmp_path):
    """FedFB of four groups for demographic parity; one study serves all checks."""
    [script] = re.findall(r"```sh\n(.*?)```", read_section("On one machine, in five minutes"), re.S)
    script = script.replace("9443", str(federation.free_port()))  # others may listen there
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    said = subprocess.run(
        ["bash", "-euc", script],
        cwd=tmp_path,
        # All four clients are on this machine, and each joins once.
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "FEDFB_STATE": str(tmp_path / "remembered"),
        },
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert said.returncode == 0, said.stderr
    assert "3 of 3 rounds, finished" in said.stdout
    assert "the server received only sums" in " ".join(said.stdout.split())
    assert "A TRIAL: THE SERVER HAS MADE THE KEYS OF ALL CLIENTS" in said.stdout
    assert (tmp_path / "decisions.csv").read_text().count("\n") == 401
    alone = federation.in_one_process(tmp_path / "triage" / "study.toml", tmp_path / "clients")
    for folder in (tmp_path / "result", tmp_path / "north-has"):
        assert {path.name for path in folder.iterdir()} >= {*RESULT, "ledger.jsonl"}
        check_bits(folder, alone)
    check_ledgers(tmp_path / "result", tmp_path / "north-has")
    page = (tmp_path / "result" / "report.html").read_text()
    assert "test rows the server received only sums" in page


def check_bits(folder, alone):
    """A side has, to the bit, what one process has in the same settings."""
    state = federation.final_state(folder)
    for name, value in alone.fitted[0].trained.state._asdict().items():
        np.testing.assert_array_equal(state[name], np.asarray(value), err_msg=name)
    assert np.ptp(state["lam"]) > 0
    [found] = json.loads((folder / "result.json").read_text())["runs"]
    own = json.loads(json.dumps(to_builtins(alone.result.runs[0])))
    for name in ("accuracy", "groups", "four_fifths", "told"):
        assert found[name] == own[name]


def check_ledgers(server, client):
    """All was masked, and a client's ledger lists as its uploads what the server's lists."""
    [whole, own] = (
        [entry for account in read_ledger(folder / "ledger.jsonl") for entry in account.entries]
        for folder in (server, client)
    )
    assert {entry.seen for entry in whole + own} == {"masked", "public"}
    assert {entry.task for entry in own if entry.way == "up"} == {
        entry.task for entry in whole if entry.way == "up"
    }


@pytest.mark.slow
def test_the_walk_on_five_machines_works_as_written(tmp_path):
    """Five network namespaces, and a wire on which every frame takes 50 ms."""
    obstacle = find_obstacle()
    if obstacle:
        pytest.skip(f"the walk on five machines was not tried: {obstacle}")
    files = federation.write_clients(tmp_path / "drawn", rows=120)
    template = federation.write_clients(tmp_path / "artificial", rows=60, seed=9)
    with Machines(tmp_path, ("server", *CLIENTS), {"server": SERVER}) as machines:
        shutil.copy(template / "east.csv", machines.place("server") / "template.csv")
        for client in CLIENTS:
            shutil.copy(files / f"{client}.csv", machines.place(client))
        follow(read_section("On five machines"), machines)
        check_walk(machines)
        alone = federation.in_one_process(machines.place("server") / "triage/study.toml", files)
        for name in ("server", *CLIENTS):
            check_bits(machines.place(name) / "result", alone)


def follow(section, machines):
    """Type the blocks of a section in their order, and send the files between them."""
    together = {}
    for match in re.finditer(r"Send `([\w./]+)` to (.*?)[.,]|```sh\n(.*?)```", section, re.S):
        file, readers, block = match.groups()
        if file:
            send(file, " ".join(readers.split()), machines)
            continue
        head, script = re.sub(r"^ +", "", block, flags=re.MULTILINE).split("\n", 1)
        started = start(script, head, machines)
        if "at once" in head:
            together |= started
            started = together if "north" in head else {}
        machines.finish(started, 200)


def start(script, head, machines):
    """Start a block on the machine, or the machines, that its first line names."""
    if head.startswith("# on the server"):
        return {"server": machines.start("server", script)}
    assert head.startswith("# on north"), head
    return {
        client: machines.start(client, script.replace("north", client), "y\n") for client in CLIENTS
    }


def send(file, readers, machines):
    """Copy a file to the machines that the page names; into triage, what belongs there."""
    of_north = "north" in file
    targets = {
        "every client": CLIENTS,
        "the server and to the other clients": ("server", *CLIENTS),
        "the server": ("server",),
    }[readers]
    for sender in CLIENTS if of_north else ("server",):
        source = machines.place(sender) / file.replace("north", sender)
        for target in targets:
            place = machines.place(target)
            into = place / "triage" if file.endswith(".sig") else place
            if into != source.parent:
                shutil.copy(source, into)


def check_walk(machines):
    for name in ("server", *CLIENTS):
        files = {path.name for path in (machines.place(name) / "result").iterdir()}
        assert files >= {*RESULT, "ledger.jsonl"}, name
    for client in CLIENTS:
        said = " ".join(machines.read(client).split())
        assert "All keys are those of the .pub files." in said
        assert "Every sum is over all 4 clients." in said
        assert "the server received only sums" in said
        assert "TRIAL" not in said
        home = machines.place(client)
        assert (home / "decisions.csv").read_text().count("\n") == 121
        assert (home / f"{client}.state" / "agreed.txt").exists()
        # No private key has left the machine that made it.
        assert [path.name for path in home.rglob("*.key")] == [f"{client}.key"]
    assert [path.name for path in machines.place("server").rglob("*.key")] == ["server.key"]
    assert "3 of 3 rounds, finished" in machines.read("server")
