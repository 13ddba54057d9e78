"""A study in one process: the code of the server and of all clients, each on a thread of its own.

Messages are handed over as bytes. Tests put liars between, on either side.
"""

import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from fedfb.data.conform import agreed_schema
from fedfb.data.declare import Wanted
from fedfb.errors import DataError
from fedfb.study.client import join_study
from fedfb.study.folder import StudyFolder
from fedfb.study.keys import make_private_keys, read_private_keys
from fedfb.study.seal import code_version, sign_seal
from fedfb.study.server import serve_study
from fedfb.study.study import make_study
from fedfb.study.trial import open_rows
from fedfb.study.wire import read_response, write
from fedfb.tables.read import read_files

sys.path.append(str(Path(__file__).parents[2] / "examples"))
import federation

CLIENTS = federation.CLIENTS

TERMS = {
    "name": "by hand", "address": "127.0.0.1:9", "trial": False, "allow_differences": False,
    "single": False, "achievable": False, "processors": "same", "rows": 100_000,
    "verified_bytes": 1 << 24, "timeout_s": 20.0, "wait_s": 20.0,
}  # fmt: skip


def make(folder, experiment, rows=80, **terms):
    """Write clients' files and make a study; return the study, its keys and the files' folder."""
    files = federation.write_clients(folder / "clients", rows)
    wanted = Wanted("urgent", "yes", experiment.sensitive or ("sex", "region"))
    schema = agreed_schema([*read_files(f"{files}/*.csv").values()], wanted)
    return make_with(folder, files, schema, experiment, **terms)


def make_with(folder, files, schema, experiment, **terms):
    keys = {name: make_private_keys(name) for name in CLIENTS}
    server = make_private_keys("by hand", "127.0.0.1")
    settled = {**TERMS, "code": code_version(), **terms}
    publics = [one.public for one in keys.values()]
    study = make_study(settled, schema, experiment, server.public, publics)
    return Made(study, server, keys, files, folder)


@dataclass
class Made:
    """A study with all its secrets, and where its files are."""

    study: object
    server: object
    keys: dict
    files: Path
    folder: Path

    @property
    def run(self):
        return self.folder / "run"

    def state(self, name):
        return self.folder / f"{name}.state"

    def rows(self, name):
        [path] = [p for p in self.files.glob(f"{name}.*") if p.suffix in (".csv", ".parquet")]
        return open_rows(self.study, self.study.names.index(name), path)

    def signatures(self):
        return {name: sign_seal(self.study, keys) for name, keys in self.keys.items()}

    def pins(self):
        return {name: keys.public for name, keys in self.keys.items()}


class Killed(BaseException):
    """What ends a thread as a kill ends a process: no clause for errors catches it."""


@dataclass
class Network:
    """Hands requests over, once there is a server. ``cut`` ends a side when it answers True."""

    mailbox: object = None
    open: threading.Event = field(default_factory=threading.Event)
    requests: list = field(default_factory=list)

    @contextmanager
    def serve(self, mailbox):
        self.mailbox = mailbox
        self.open.set()
        try:
            yield
        finally:
            self.open.clear()

    def handle(self, id, data):
        if not self.open.wait(20):
            raise DataError("there is no server")
        return self.mailbox.handle(id, data, hold_s=5.0)


class HandLink:
    """The link of one client. ``change`` may replace its responses, as a lying server does."""

    def __init__(self, network, id, change=None):
        self.network, self.id, self.change = network, id, change

    def ask(self, request, patience_s=None):
        self.network.requests.append((self.id, request))
        response = read_response(self.network.handle(self.id, write(request)))
        return self.change(self.id, request, response) if self.change else response


def join(made, network, name, change=None, **replaced):
    """Run a client to its end, in this thread."""
    study = replaced.get("study", made.study)
    link = HandLink(network, made.study.names.index(name), change)
    notes = made.__dict__.setdefault("notes", {}).setdefault(name, [])
    return join_study(
        study, made.keys[name], made.pins(), made.rows(name), made.state(name), link, notes.append
    )


def serve(made, network):
    events = made.__dict__.setdefault("events", [])
    return serve_study(made.study, made.server, made.signatures(), made.run, network, events.append)


def run_folder(folder, keys, files):
    """Run a study that commands have made, with the clients' keys and files; return all ends."""
    study, server, _ = StudyFolder(folder).read(folder / "study.toml")
    private = {name: read_private_keys(keys / f"{name}.key") for name in study.names}
    made = Made(study, server, private, files, folder)
    made.state = lambda name: keys / f"{name}.state"
    return run_by_hand(made, names=study.names)


def run_by_hand(made, names=CLIENTS, change=None, network=None, serving=serve):
    """Run a study to its end; return what every side ended in: a result, or an error."""
    network = network or Network()
    ends = {}

    def side(name, function, *values):
        try:
            ends[name] = function(*values)
        except BaseException as error:  # noqa: BLE001
            ends[name] = error

    threads = [threading.Thread(target=side, args=("server", serving, made, network))]
    threads += [
        threading.Thread(target=side, args=(name, join, made, network, name, change))
        for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), made.__dict__.get("events")
    return SimpleNamespace(network=network, **ends)
