"""The command as a process: pipes, exit codes, terminals."""

import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from cli.asking import TINY

FEDFB = [sys.executable, "-m", "fedfb"]


def test_stdout_is_data_and_a_pipe_sees_no_progress():
    command = [*FEDFB, "run", *TINY, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["algorithm"] == "fedfb"
    assert done.stderr == ""


def test_an_error_has_exit_code_2_and_no_traceback():
    command = [*FEDFB, "run", *TINY, "--model", "mlp", "--optimiser", "sgd", "--lr", "1e300"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_reader_that_leaves_early_is_no_error(flags):
    command = [*FEDFB, "list", *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait(timeout=60)


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of its own needs Unix")
def test_a_terminal_sees_progress_on_stderr():
    ours, theirs = pty.openpty()
    command = [*FEDFB, "run", *TINY, "--json"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, env=environment)
    os.close(theirs)
    seen = os.read(ours, 100_000)
    os.close(ours)
    assert json.loads(done.stdout)["algorithm"] == "fedfb"
    assert b"rounds" in seen
    assert b"/4" in seen  # two rounds to pick the learning rate, two to train


def test_an_interrupted_run_ends_soon_and_says_how_to_go_on(tmp_path):
    flags = ("--rows", "2000", "--rounds", "5000", "--local-epochs", "1", "--seeds", "2")
    command = [*FEDFB, "run", *flags, "--out", str(tmp_path / "kept")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    checkpoints, deadline = tmp_path / "kept/checkpoints", time.monotonic() + 60
    while not list(checkpoints.glob("*.npz")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert err == "fedfb: stopped. A run with --out continues with --resume.\n"
