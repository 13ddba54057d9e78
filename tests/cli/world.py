"""A folder with one small file of every kind that commands read, and commands run in process."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from typer.main import get_command

from cli.asking import OWN, TINY, Said, client_file
from fedfb.cli import app, main
from fedfb.paper.targets import Target, TargetLine

POPULATION = """eta = "logistic"
[[client]]
share = 0.5
q = 0.3
group0 = {dist = "normal", mean = 3.0, sd = 1.0}
group1 = {dist = "normal", mean = 5.0, sd = 1.0}
[[client]]
share = 0.5
q = 0.7
group0 = {dist = "expon", scale = 2.0}
group1 = {dist = "histogram", edges = [0.0, 1.0, 3.0], masses = [0.25, 0.75]}
"""

PLUGIN = """from fedfb.algorithms.fedavg import METHOD as FEDAVG
METHOD = FEDAVG._replace(name="renamed")
"""

EXPERIMENT = """algorithm = "fedavg"
notion = "dp"
data = "synthetic"
rows = 200
test_rows = 200
rounds = 2
local_epochs = 1
lr = [0.01]
seeds = [0]
"""

TARGET = Target(
    "table1",
    "A tiny table",
    "table",
    "tab:dp_mlp",
    (TargetLine("FedAvg", {"algorithm": "fedavg"}, "fedavg"),),
    (TargetLine("synthetic", {"data": "synthetic"}, "synthetic"),),
    {"rows": 200, "test_rows": 100, "rounds": 2, "local_epochs": 1},
)
"""A table of one cell, in the place of the paper's, whose cells take minutes."""

FAST = ("--lr", ".01", "--local-epochs", "1")
CLIENTS = ("east", "north", "south", "west")


@cache
def commands() -> Any:
    """The command line, made ready once: that takes longer than most commands."""
    return get_command(app.app)


def names_of(group: Any, above: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Return every command that can be typed, in its words."""
    found = set()
    for name, command in group.commands.items():
        words = (*above, name)
        found |= names_of(command, words) if hasattr(command, "commands") else {words}
    return found


def call(*arguments: object) -> Said:
    """Run a command in this process; an exception that escapes it is the caller's to see."""
    out, err = io.StringIO(), io.StringIO()
    typed = patch.object(sys, "argv", ["fedfb", *map(str, arguments)])
    ready = patch.object(app, "app", commands())
    with (
        ready,
        typed,
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ending,
    ):
        main()
    return Said(int(ending.value.code or 0), out.getvalue(), err.getvalue())


def done(*arguments: object) -> Said:
    """Run a command that must succeed."""
    said = call(*arguments)
    assert said.code == 0, (arguments, said.err)
    return said


def tiny_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``fedfb reproduce`` know the tiny table alone."""
    monkeypatch.setattr("fedfb.paper.targets.target_names", lambda: [TARGET.name])
    monkeypatch.setattr("fedfb.paper.targets.read_target", lambda name: TARGET)


def build() -> None:
    """Fill the present folder with every kind of file."""
    import numpy as np
    from pyarrow import parquet, table

    from fedfb.runtime import archive as checkpoint

    Path("rows.csv").write_text(client_file())
    columns = [line.split(",") for line in client_file().splitlines()]
    named = {name: [row[i] for row in columns[1:]] for i, name in enumerate(columns[0])}
    named["age"] = list(map(float, named["age"]))
    parquet.write_table(table(named), "rows.parquet")
    scores = [f"{(3 * i % 10) / 10},{'FM'[i % 2]},{i // 2 % 2}" for i in range(40)]
    Path("scores.csv").write_text("\n".join(["p,sex,y", *scores]) + "\n")
    Path("population.toml").write_text(POPULATION)
    Path("plugin.py").write_text(PLUGIN)
    Path("experiment.toml").write_text(EXPERIMENT)
    done("schema", "infer", "rows.csv", *OWN[:6], "--out", "schema.toml")
    done("run", "--data", "rows.csv", *OWN, *FAST, "--out", "kept")
    done("compare", *TINY, *FAST, "--algorithms", "fedavg,fedfb", "--out", "compared")
    done("frontier", *TINY, "--lr", ".01", "--algorithms", "fedavg", "--quick", "--out", "frontier")
    done("reproduce", "table1", "--quick", "--out", "reproduced")
    done("audit", "kept", "--out", "audited")
    for number, name in enumerate(CLIENTS):
        Path(f"{name}.csv").write_text(client_file(start=number))
    for name in CLIENTS:
        done("study", "key", name)
    keys = ",".join(f"{name}.pub" for name in CLIENTS)
    make_study = ("--like", "rows.csv", *OWN, *FAST, "--keys", keys)
    port = ("--address", "127.0.0.1:9", "--wait", "60", "--timeout", "60")
    done("study", "init", "study", *make_study, *port)
    for name in CLIENTS:
        done("study", "sign", "study/study.toml", "--key", f"{name}.key")
    run_study(Path("study"))
    checkpoint.save_archive(Path("checkpoint.npz"), {"state/params": np.zeros((2, 3))}, "")


def run_study(folder: Path) -> None:
    """Run the study to its end, clients and server in this process."""
    from study.by_hand import run_folder

    ends = run_folder(folder, Path(), Path())
    assert not isinstance(ends.server, BaseException), ends.server
