"""Clients in this process: the code of the server and of the clients, and no network."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

from fedfb.data.conform import agreed_schema
from fedfb.data.declare import Wanted
from fedfb.study.client import handle, open_client
from fedfb.study.journal import EVENTS, Log
from fedfb.study.keys import create, read_bundle, read_server_secrets
from fedfb.study.server import open_folder, run_study
from fedfb.study.study import make_study
from fedfb.study.transport import check_reply, note_silence
from fedfb.tables.read import read_files

sys.path.append(str(Path(__file__).parents[2] / "examples"))
import federation

CLIENTS = federation.CLIENTS


def make(folder, experiment, rows=80, **options):
    """Write clients and a study; return its file, and the folder of the clients."""
    clients = federation.write_clients(folder / "clients", rows)
    wanted = Wanted("urgent", "yes", experiment.sensitive or ("sex", "region"))
    schema = agreed_schema([*read_files(f"{clients}/*.csv").values()], wanted)
    return create_in(folder, clients, schema, experiment, **options)


def create_in(folder, clients, schema, experiment, **options):
    given = {"timeout_s": 30.0, "wait_s": 0.5, **options}
    study = make_study("by hand", "127.0.0.1:9", CLIENTS, schema, experiment, **given)
    create(study, folder / "study", {})
    return folder / "study" / "study.toml", clients


@dataclass
class Hand:
    """A transport in one process; ``loses`` says which messages are lost."""

    study: object
    log: Log
    clients: dict
    loses: object = lambda hand, kind, where, id: False
    failed: dict = field(default_factory=dict)
    sent: list = field(default_factory=list)

    def list_present(self):
        return sorted(id for id in self.clients if id not in self.failed or not self.failed[id])

    def exchange(self, kind, contents, where):
        replies = {}
        for id, content in contents.items():
            self.sent.append((kind, where, id))
            if id not in self.clients or self.loses(self, kind, where, id):
                note_silence(self, id, "was lost", where, failed=1.0)
                continue
            self.clients[id], reply = handle(self.clients[id], kind, content)
            content = check_reply(self, id, reply, where)
            if content is not None:
                replies[id] = content
        return replies


def open_clients(study, clients, ids=range(4)):
    bundles = {id: study.parent / "bundles" / f"{CLIENTS[id]}.bundle" for id in ids}
    return {
        id: open_client(
            read_bundle(path),
            *clients.glob(f"{CLIENTS[id]}.*"),
            path.with_name(path.name + ".state"),
        )
        for id, path in bundles.items()
    }


def run_by_hand(study, clients, *, there=None, loses=None):
    """Run a study to its end; return the mail, with all that was sent."""
    planned, secrets = read_server_secrets(study)
    kept = study.parent / "run"
    open_folder(planned, kept)
    log = Log(kept / EVENTS, lambda text: None)
    hand = Hand(planned, log, there or open_clients(study, clients))
    if loses is not None:
        hand.loses = loses
    run_study(hand, secrets, kept)
    return hand
