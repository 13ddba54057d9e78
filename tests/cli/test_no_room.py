"""Every command on a full disk, in a read-only folder, and with a stdout that takes nothing.

Each ends with exit code 2 and a sentence (a closed pipe: in silence), and what was there before is
as it was. What a command leaves of its own is whole.
"""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from cli.asking import OWN, TINY, refused
from cli.disks import SmallDisk, read_only
from cli.world import CLIENTS, FAST, build, call, commands, done, names_of, tiny_target
from fedfb.algorithms import METHODS
from fedfb.cli import app, main

pytestmark = pytest.mark.slow

SMALL = (*TINY, *FAST)
SCORES = ("--scores", "scores.csv", "--score", "p", "--label", "y", "--positive", "1")
FRONTIER = ("frontier", *TINY, "--lr", ".01", "--algorithms", "fedavg", "--quick")
LIKE = ("--like", "rows.csv", *OWN, *FAST, "--trial", "--clients", ",".join(CLIENTS))

WRITERS = {
    "run": ("run", *SMALL, "--out", "OUT/kept"),
    "compare": ("compare", *SMALL, "--algorithms", "fedavg,fedfb", "--out", "OUT/kept"),
    "compare --plot": ("compare", *SMALL, "--algorithms", "fedavg", "--plot", "OUT/points.svg"),
    "frontier": (*FRONTIER, "--out", "OUT/kept"),
    "frontier --csv": (*FRONTIER, "--csv", "OUT/points.csv"),
    "reproduce": ("reproduce", "table1", "--quick", "--out", "OUT/kept"),
    "achievable": ("achievable", "--setting", "toy", "--plot", "OUT/toy.svg"),
    "predict": ("predict", "kept", "rows.csv", "--out", "OUT/decisions.csv"),
    "report": ("report", "reproduced", "--out", "OUT/page.html"),
    "export": ("export", "kept", "--to", "json", "--out", "OUT/model.json"),
    "audit": ("audit", "kept", "--out", "OUT/audited"),
    "schema infer": ("schema", "infer", "rows.csv", *OWN[:6], "--out", "OUT/schema.toml"),
    "doctor": ("doctor", "rows.csv", *OWN[:6], "--fix", "OUT/fixed.toml"),
    "study init": ("study", "init", "OUT/study", *LIKE),
    "study key": ("study", "key", "east", "--out", "OUT"),
    "study sign": ("study", "sign", "study/study.toml", "--key", "north.key", "--out", "OUT"),
    "study fetch": ("study", "fetch", "study/study.toml", "--to", "OUT/fetched"),
    "demo": ("demo", "--plot", "OUT/demo/points.svg"),
}
"""Commands that write, and where."""

PRINTERS = {
    "list": ("list",),
    "list --json": ("list", "--json"),
    "explain": ("explain", "fedavg"),
    "check": ("check", "plugin.py"),
    "ledger": ("ledger", "kept"),
    "schema check": ("schema", "check", "schema.toml", "rows.csv"),
    "study status": ("study", "status", "study/study.toml"),
    "study show": ("study", "show", "study/study.toml"),
    "run": ("run", *SMALL),
    "compare": ("compare", *SMALL, "--algorithms", "fedavg"),
    "frontier": FRONTIER,
    "frontier --csv": (*FRONTIER, "--csv", "-"),
    "reproduce": ("reproduce", "table1", "--quick", "--out", "reproduced"),
    "achievable": ("achievable", "--setting", "toy", "--levels", "0"),
    "predict": ("predict", "kept", "rows.csv"),
    "audit": ("audit", *SCORES, "--sensitive", "sex"),
    "schema infer": ("schema", "infer", "rows.csv", *OWN[:6]),
    "doctor": ("doctor", "rows.csv", *OWN[:6]),
    "demo": ("demo", "--plot", "demo/points.svg"),
    "--version": ("--version",),
    "--help": ("--help",),
}
"""Commands that print."""

JOIN = (
    *("study", "join", "study/study.toml", "--key", "east.key", "--data", "east.csv"),
    *("--again", "--yes"),
)

TALKERS = {
    ("export",),
    ("report",),
    ("study", "fetch"),
    ("study", "init"),
    ("study", "key"),
    ("study", "sign"),
}
"""Commands that print nothing to stdout."""

EARLIER = {("serve",), ("join",), ("status",), ("fetch",)}
"""Names that commands of fedfb study had before, and have for one more release."""

SERVERS = {("study", "serve"), ("study", "join")}
"""Commands that wait for others: they have a test of their own."""


@pytest.fixture(scope="module", autouse=True)
def _world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "80")
        patch.setenv("FEDFB_STORE", str(folder / "store"))
        tiny_target(patch)
        build()
        # Trained once: the store has it from then on.
        done("demo", "--plot", "demo/points.svg")
        yield


@pytest.fixture(autouse=True)
def _registry_as_it_was():
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)


@pytest.fixture
def disk(tmp_path):
    made = SmallDisk(tmp_path / "disk")
    yield made
    made.close()


def test_every_command_is_walked():
    def of(cases):
        return {tuple(w for w in words[:2] if (*words[:1], w) in groups or w == words[0])
                for words in cases.values() if not words[0].startswith("-")}  # fmt: skip

    groups = {words for words in names_of(commands()) if len(words) == 2}
    walked = {words for words in names_of(commands()) if words not in EARLIER}
    assert of(WRITERS) | of(PRINTERS) | SERVERS == walked
    assert of(PRINTERS) | TALKERS | SERVERS == walked


def at(command, folder):
    return [str(word).replace("OUT", str(folder)) for word in command]


def refuse_halves(folder: Path) -> None:
    """Assert that every file in a folder is whole."""
    for path in (path for path in folder.rglob("*") if path.is_file()):
        assert not path.name.endswith(".partial"), path
        match path.suffix:
            case ".json" | ".key" | ".pub" | ".sig":
                json.loads(path.read_text())
            case ".toml":
                tomllib.loads(path.read_text())
            case ".npz":
                with np.load(path) as arrays:
                    assert dict(arrays)
            case ".svg":
                assert path.read_text().endswith("</svg>\n")
            case ".html":
                assert path.read_text().rstrip().endswith("</html>")
            case _:
                if path.name.startswith("journal.sqlite"):  # whole by its own means: test_kills
                    continue
                ends = path.name in ("ledger.jsonl", "lock") or path.read_bytes().endswith(b"\n")
                assert ends, path


def empty(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_is_told_and_leaves_nothing_half_written(name, disk):
    command = at(WRITERS[name], disk.folder)
    before = disk.used()
    done(*command)
    size = disk.used() - before
    empty(disk.folder)
    refusals = 0
    several = name in ("run", "compare", "audit", "study init")
    for share in (0, 0.3, 0.6, 0.9) if several else (0, 0.5):
        room = int(size * share) // 4096 * 4096
        with disk.with_room_for(room):
            said = call(*command)
        refuse_halves(disk.folder)
        if said.code:
            assert said.code == 2
            assert f"cannot write to {disk.folder}" in said.err
            assert "Make room there" in said.err
            assert "No space left on device" in said.err or not disk.real
            refusals += 1
            if "--resume" in said.err and name == "run":
                done(*command, "--resume")
        empty(disk.folder)
    assert refusals


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("report", "page.html"),
        ("export", "model.json"),
        ("predict", "decisions.csv"),
        ("compare --plot", "points.svg"),
        ("frontier --csv", "points.csv"),
    ],
)
def test_a_full_disk_leaves_the_file_that_was_there(name, path, disk):
    command = at(WRITERS[name], disk.folder)
    kept = disk.folder / path
    kept.write_text("precious")
    force = ("--force",) if name in ("report", "export", "predict") else ()
    with disk.with_room_for(0):
        said = call(*command, *force)
    assert said.code == 2
    assert f"cannot write to {kept}" in said.err
    assert kept.read_text() == "precious"
    assert os.listdir(disk.folder) == [path]


def test_a_store_on_a_full_disk_costs_training_and_no_result(disk, monkeypatch):
    monkeypatch.setenv("FEDFB_STORE", str(disk.folder / "store"))
    command = ("compare", *SMALL, "--algorithms", "fedavg", "--json")
    with disk.with_room_for(0):
        said = call(*command)
    assert said.code == 0
    assert "A record is not kept: cannot write to" in said.err
    assert said.out == done(*command).out


@pytest.mark.parametrize("name", WRITERS)
def test_a_read_only_folder_is_told(name, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with read_only(folder) as possible:
        if not possible:
            pytest.skip("a folder cannot be made read-only here: root, and no mounting")
        said = call(*at(WRITERS[name], folder))
    refused(said, str(folder), "writ")
    assert not list(folder.iterdir())


def print_to(stream, command):
    """Run a command whose stdout is this stream; return its exit code and stderr."""
    err = StringIO()
    typed = patch.object(sys, "argv", ["fedfb", *map(str, command)])
    ready = patch.object(app, "app", commands())
    with typed, ready, patch.object(sys, "stdout", stream), redirect_stderr(err):
        with pytest.raises(SystemExit) as ending:
            main()
        stream.flush()  # as Python does at its end
    return int(ending.value.code or 0), err.getvalue()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("name", PRINTERS)
def test_a_full_stdout_is_told(name):
    with open("/dev/full", "w") as full:
        code, err = print_to(full, PRINTERS[name])
    assert code == 2
    assert "fedfb: cannot write to standard output: No space left on device. Make room" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("name", PRINTERS)
def test_a_reader_that_leaves_is_no_error(name):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        code, err = print_to(pipe, PRINTERS[name])
    assert code == 1
    assert "fedfb: " not in err
    assert "Traceback" not in err


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", [("list", "--json"), (*FRONTIER, "--csv", "-")])
def test_a_process_ends_without_a_traceback_whatever_its_streams_are(
    command, unbuffered, monkeypatch
):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    typed = [sys.executable, "-m", "fedfb", *command]
    for redirection, code in (("| head -c 0", 1), (">/dev/full", 2), (">&-", 0)):
        script = f'"$@" {redirection}; exit ${{PIPESTATUS[0]}}'
        ended = subprocess.run(
            ["bash", "-c", script, "bash", *typed], capture_output=True, text=True
        )
        assert "Traceback" not in ended.stderr, (redirection, ended.stderr)
        assert "Exception ignored" not in ended.stderr
        assert ("cannot write to standard output" in ended.stderr) == (code == 2)
        assert ended.returncode in (code, 0 if "head" in redirection else code), redirection


def test_a_full_stderr_costs_talk_and_no_result(tmp_path):
    command = [sys.executable, "-m", "fedfb", "run", *SMALL, "--out", str(tmp_path / "kept")]
    with open("/dev/full", "w") as full:
        assert subprocess.run(command, stderr=full, stdout=subprocess.DEVNULL).returncode == 0
        assert subprocess.run(command, stderr=full, stdout=subprocess.DEVNULL).returncode == 2
    refuse_halves(tmp_path)


def test_a_study_on_a_full_disk_is_told(disk):
    shutil.copytree("study", disk.folder / "study")
    shutil.rmtree(disk.folder / "study" / "run")
    for command in (
        ("study", "serve", disk.folder / "study/study.toml"),
        (*JOIN, "--state", disk.folder / "state"),
    ):
        with disk.with_room_for(0):
            said = call(*command)
        assert said.code == 2
        assert said.err.splitlines()[-1].startswith("fedfb: ")
        assert command[1] == "join" or "cannot write to" in said.err  # a lock takes no room
    refuse_halves(disk.folder)


def test_a_study_in_a_read_only_folder_is_told(tmp_path):
    folder = tmp_path / "folder"
    shutil.copytree("study", folder)
    shutil.rmtree(folder / "run")
    with read_only(folder) as possible:
        if not possible:
            pytest.skip("a folder cannot be made read-only here: root, and no mounting")
        for command in (
            ("study", "serve", folder / "study.toml"),
            (*JOIN, "--state", folder / "state"),
        ):
            said = call(*command)
            assert said.code == 2
            assert "Read-only file system" in said.err or "Permission denied" in said.err
