"""A server and four clients as processes, over mutual TLS: killed, and counted."""

import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from fedfb.runtime.ledger import read_ledger
from fedfb.study.journal import EVENTS, read_events
from study.by_hand import CLIENTS, federation
from study.replay import assert_same_bits

pytestmark = pytest.mark.slow


class Federation:
    """The processes of one study; all of them are gone when the context ends."""

    def __init__(self, folder, settings, **options):
        self.clients = federation.write_clients(folder / "clients", 80)
        self.study = federation.init(folder / "study", self.clients, settings, **options)
        self.running = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in list(self.running):
            self.kill(name)

    def start(self, *names):
        for name in names or ("server", *CLIENTS):
            start = federation.serve if name == "server" else None
            self.running[name] = (
                start(self.study) if start else federation.join(self.study, name, self.clients)
            )

    def kill(self, name):
        """End a process at once, as a power failure does."""
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)

    def counts(self):
        path = self.study.parent / "run" / EVENTS
        events = read_events(path) if path.exists() else []
        return sum(event["event"] == "answered" for event in events)

    def wait_for(self, exchanges, seconds=120):
        """Wait until so many more exchanges have a total, or the server has ended."""
        goal, end = self.counts() + exchanges, time.monotonic() + seconds
        while self.counts() < goal and time.monotonic() < end:
            if self.running["server"].poll() is not None:
                return
            time.sleep(0.01)

    def finish(self):
        for name in ("server", *CLIENTS):
            code = self.running[name].wait(timeout=200)
            assert code == 0, {side: self.out(side) for side in self.running}

    def out(self, name):
        return (self.study.parent / f"{name}.out").read_text()

    def states(self):
        folders = [self.study.parent / "keys" / f"{name}.state" for name in CLIENTS]
        return [self.study.parent / "run", *folders]


def expect_bits_of_one_process(there):
    alone = federation.in_one_process(there.study, there.clients)
    expected = alone.fitted[0].trained.state._asdict()
    for folder in there.states():
        assert_same_bits(federation.final_state(folder), expected)


def test_ten_kills_of_the_server_and_ten_of_clients_change_no_bit(tmp_path):
    settings = ["--algorithm", "fedfb", "--notion", "dp", "--rounds", "8", "--solver", "local"]
    settings += ["--local-epochs", "2", "--lr", "0.02"]
    rng = random.Random(20261)
    with Federation(tmp_path, settings, timeout=60, wait=120) as there:
        there.start()
        victims = ["server"] * 10 + [rng.choice(CLIENTS) for _ in range(10)]
        rng.shuffle(victims)
        for victim in victims:
            there.wait_for(exchanges=1)
            time.sleep(rng.random() * 0.2)
            if there.running["server"].poll() is None:
                there.kill(victim)
                there.start(victim)
        for name in ("server", *CLIENTS):  # a client may have ended before its last kill
            if there.running[name].poll() not in (None, 0):
                there.start(name)
        there.finish()
        expect_bits_of_one_process(there)


def test_the_ledgers_tell_the_bytes_of_a_large_model(tmp_path):
    """Requests, TLS and HTTP/2 come on top: less than a fifth for a model of 60,000 parameters."""
    settings = ["--algorithm", "fedavg", "--rounds", "1", "--model", "mlp", "--hidden", "8000"]
    settings += ["--local-epochs", "1", "--lr", "0.02", "--solver", "local"]
    with Federation(tmp_path, settings, timeout=60, wait=120) as there:
        there.start()
        there.finish()
        expect_bits_of_one_process(there)
        sent = 0
        for folder in there.states()[1:]:
            for account in read_ledger(folder / "ledger.jsonl"):
                sent += sum(entry.bytes for entry in account.entries if entry.way == "up")
                assert {e.seen for e in account.entries} == {"masked", "public"}
        server = read_ledger(there.study.parent / "run" / "ledger.jsonl")
        received = sum(e.bytes * len(e.clients) for a in server for e in a.entries if e.way == "up")
        assert sent == received
        assert sent > 4 * 8 * 56_000


def test_processors_that_round_differently_meet_where_the_study_says_so(tmp_path):
    """West has another BLAS kernel, which changes the last bits of what its program computes."""
    older = {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3"}
    settings = ["--algorithm", "fedfb", "--notion", "eod", "--rounds", "3"]
    with Federation(
        tmp_path, [*settings, "--processors", "different"], timeout=60, wait=120
    ) as there:
        there.start("server", *CLIENTS[:3])
        with pytest.MonkeyPatch.context() as patch:
            for name, value in older.items():
                patch.setenv(name, value)
            there.start("west")
        there.finish()
        models = [federation.final_state(folder) for folder in there.states()]
        for model in models[1:]:
            np.testing.assert_allclose(model["params"], models[0]["params"], rtol=1e-6, atol=1e-9)
        ledger = read_ledger(there.states()[1] / "ledger.jsonl")
        assert ledger


def test_what_is_wrong_before_joining_is_told_in_words(tmp_path):
    with Federation(tmp_path, ["--algorithm", "fedavg"], wait=1) as there:
        folder, file = there.study.parent, str(there.clients / "north.csv")
        key = str(folder / "keys" / "north.key")

        def say(*words, answer=""):
            command = [*federation.FEDFB, "study", *words]
            ended = subprocess.run(command, input=answer, capture_output=True, text=True)
            assert "Traceback" not in ended.stderr
            return ended.returncode, ended.stdout + ended.stderr

        join = ("join", str(there.study), "--data", file)
        code, text = say(*join, "--key", key, "--again", answer="n\n")
        assert code == 1
        assert "A TRIAL: THE SERVER HAS MADE THE KEYS" in text
        assert "Every sum is over all 4 clients" in text
        code, text = say(*join, "--key", key, "--again", "--yes")
        assert code == 2
        assert "there is no server at 127.0.0.1" in text
        code, text = say(*join, "--again", "--yes")
        assert code == 2
        assert "a client is known by its keys: --key CLIENT.key" in text
        lines = (there.clients / "north.csv").read_text().splitlines()
        lines[3] = "old" + lines[3][lines[3].index(",") :]
        (tmp_path / "mine.csv").write_text("\n".join(lines))
        code, text = say(
            "join", str(there.study), "--data", str(tmp_path / "mine.csv"), "--key", key
        )
        assert code == 2
        assert "line 4, column 'age': 'old' is not a number" in text
        text = there.study.read_text().replace("rounds = 1 ", "rounds = 2 ")
        there.study.write_text(text)
        code, text = say("serve", str(there.study))
        assert code == 2
        assert "signed another study" in text


def test_keys_of_a_client_never_leave_it(tmp_path):
    def run(*words):
        command = [sys.executable, "-m", "fedfb", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    clients = federation.write_clients(tmp_path / "clients", 80)
    for name in CLIENTS:
        assert run("study", "key", name, "--out", _made(tmp_path / name)).returncode == 0
    pubs = ",".join(str(tmp_path / name / f"{name}.pub") for name in CLIENTS)
    columns = ["--label", "urgent", "--positive", "yes", "--sensitive", "sex,region"]
    made = run("study", "init", "s", "--like", f"{clients}/*.csv", *columns, "--keys", pubs)
    assert made.returncode == 0, made.stderr
    secret = (tmp_path / "north" / "north.key").read_text().split('"identity": "')[2][:64]
    files = [path for path in (tmp_path / "s").rglob("*") if path.is_file()]
    assert files
    assert not any(secret in path.read_text() for path in files)
    # North has no .pub files of the others: it cannot know whom it sums with.
    alone = run("study", "sign", "s/study.toml", "--key", "north/north.key")
    assert alone.returncode == 2
    assert "there is no east.pub: get it from east" in alone.stderr
    others = [word for name in CLIENTS for word in ("--pins", f"{name}/{name}.pub")]
    shown = run("study", "show", "s/study.toml", *others)
    assert shown.returncode == 0
    assert "All keys are those of the .pub files." in shown.stdout
    for name in CLIENTS:
        key = f"{name}/{name}.key"
        assert run("study", "sign", "s/study.toml", "--key", key, *others).returncode == 0
    # A key that the server exchanged for one of its own is noticed.
    assert run("study", "key", "west", "--out", _made(tmp_path / "false")).returncode == 0
    false = [word.replace("west/west", "false/west") for word in others]
    shown = run("study", "show", "s/study.toml", *false)
    assert shown.returncode == 3
    assert "NOT TRUSTED: the study has other keys of west" in shown.stdout


def _made(folder):
    folder.mkdir()
    return folder
