"""A study by real processes: a server and clients that are started, killed and awaited."""

import os
import signal
import subprocess
import time
from pathlib import Path

from fedfb.study.journal import EVENTS, read_events
from study.by_hand import CLIENTS, federation


class Federation:
    """The processes of one study; all of them are gone when the context ends."""

    def __init__(self, folder, settings, rows=80, **options):
        self.clients = federation.write_clients(folder / "clients", rows)
        common = ["--local-epochs", "2", "--lr", "0.02"]
        self.study = federation.init(
            folder / "study", self.clients, [*settings, *common], **options
        )
        self.running = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in list(self.running):
            self.kill(name)

    def start(self, *names):
        for name in names or ("server", *CLIENTS):
            if name == "server":
                self.running[name] = federation.serve(self.study)
            else:
                self.running[name] = federation.join(self.study, name, self.clients)

    def kill(self, name, sign=signal.SIGKILL):
        """End a process and its workers, as a power failure does."""
        process = self.running.pop(name)
        for child in children(process.pid):
            signal_quietly(child, sign)
        signal_quietly(process.pid, sign)
        process.wait(timeout=30)

    def worker(self, name):
        """Return the id of the process that holds a client's rows."""
        [found] = [
            child for child in children(self.running[name].pid) if "spawn_main" in command(child)
        ]
        return found

    def events(self):
        path = self.study.parent / "run" / EVENTS
        return read_events(path) if path.exists() else []

    def wait_for(self, text, seconds=180.0, after=0):
        """Wait for an event whose text has this in it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if any(text in event["text"] for event in self.events()[after:]):
                return
            process = self.running.get("server")
            assert process is None or process.poll() is None, self.out("server")
            time.sleep(0.05)
        raise AssertionError(f"{text!r} did not happen:\n{self.out('server')}")

    def finish(self, seconds=240.0):
        """Wait for the server's end; return its exit code."""
        process = self.running["server"]
        try:
            return process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(self.out("server")) from None

    def out(self, name):
        return (self.study.parent / f"{name}.out").read_text()


def children(pid):
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text().split()] if found.exists() else []


def command(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ")


def signal_quietly(pid, sign):
    try:
        os.kill(pid, sign)
    except ProcessLookupError:
        return
