"""A run that is killed again and again ends with the same bits as one that was left alone."""

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

KILLS = 20
# Many short rounds and a grid of eight runs: writing the checkpoint is a good part of the time.
FLAGS = "run --rows 60 --test-rows 40 --rounds 500 --local-epochs 1 --alpha .1,.2,.3,.4,.5,.6,.7,.8"


def start(out: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "fedfb", *FLAGS.split(), "--out", str(out), *more]
    with out.with_suffix(".log").open("wb") as log:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)


def wait_for_a_round(process: subprocess.Popen[bytes], checkpoint: Path, since: float) -> bool:
    """Wait until the process has written a checkpoint of its own, so that every start gets on.

    False if the process ended, without an error, before a checkpoint was seen.
    """
    deadline = time.monotonic() + 120
    while not (checkpoint.exists() and checkpoint.stat().st_mtime > since):
        if (code := process.poll()) is not None:
            assert code == 0, f"ended with {code}"
            return False
        assert time.monotonic() < deadline, "no round in two minutes"
        time.sleep(0.001)
    return True


def check_same_files(undisturbed: Path, disturbed: Path) -> None:
    with np.load(undisturbed / "models.npz") as one, np.load(disturbed / "models.npz") as other:
        assert list(one) == list(other)
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
    for name in ("rounds.csv", "ledger.jsonl"):
        assert (undisturbed / name).read_bytes() == (disturbed / name).read_bytes()


@pytest.mark.slow
def test_twenty_kills_at_random_moments_do_not_change_a_bit(tmp_path):
    undisturbed = tmp_path / "undisturbed"
    assert start(undisturbed).wait(timeout=300) == 0
    disturbed = tmp_path / "disturbed-0"
    clock, kills, attempt, while_writing = random.Random(0), 0, 0, 0
    while kills < KILLS:
        checkpoint = disturbed / "checkpoints" / "run-seed-0.npz"
        aside = checkpoint.with_name(checkpoint.name + ".partial")
        since = time.time() if not checkpoint.exists() else checkpoint.stat().st_mtime
        process = start(disturbed, *(["--resume"] if disturbed.exists() else []))
        alive = wait_for_a_round(process, checkpoint, since)
        # Every other time, strike as soon as a checkpoint is being written.
        pause = time.monotonic() + clock.uniform(0, 0.15)
        while alive and (time.monotonic() < pause or (kills % 2 and not aside.exists())):
            alive = process.poll() is None
        process.kill()
        if process.wait() == 0:
            # A fast machine gets to the end before it was killed often enough: once more.
            check_same_files(undisturbed, disturbed)
            attempt += 1
            disturbed = tmp_path / f"disturbed-{attempt}"
        else:
            kills += 1
            while_writing += aside.exists()
    assert while_writing >= 1
    if disturbed.exists():
        assert start(disturbed, "--resume").wait(timeout=300) == 0
        check_same_files(undisturbed, disturbed)
