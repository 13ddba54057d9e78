"""Silos in this process: the coordinator's and the silos' own code, with nothing in between."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

from fedfb.data.conform import agreed_schema
from fedfb.data.declare import Wanted
from fedfb.data.read import paths_of, read_rows
from fedfb.study.client import handle, open_silo
from fedfb.study.journal import EVENTS, Log
from fedfb.study.keys import create, read_bundle, read_office
from fedfb.study.mail import heed, note_silence
from fedfb.study.server import open_folder, run_study
from fedfb.study.study import make_study

sys.path.append(str(Path(__file__).parents[2] / "examples"))
import federation

SILOS = federation.SILOS


def make(folder, experiment, rows=80, **options):
    """Write silos and a study; return its file, and the folder of the silos."""
    silos = federation.write_silos(folder / "silos", rows)
    wanted = Wanted("urgent", "yes", experiment.sensitive or ("sex", "region"))
    schema = agreed_schema([read_rows(path) for path in paths_of(f"{silos}/*.csv")], wanted)
    return create_in(folder, silos, schema, experiment, **options)


def create_in(folder, silos, schema, experiment, **options):
    given = {"timeout_s": 30.0, "wait_s": 0.5, **options}
    study = make_study("by hand", "127.0.0.1:9", SILOS, schema, experiment, **given)
    create(study, folder / "study", {})
    return folder / "study" / "study.toml", silos


@dataclass
class Hand:
    """Mail that hands messages over; ``loses`` says of an action, place and silo if it is lost."""

    study: object
    log: Log
    silos: dict
    loses: object = lambda hand, action, where, id: False
    failed: dict = field(default_factory=dict)
    sent: list = field(default_factory=list)

    def present(self):
        return sorted(id for id in self.silos if id not in self.failed or not self.failed[id])

    def exchange(self, action, contents, where):
        found = {}
        for id, content in contents.items():
            self.sent.append((action, where, id))
            if id not in self.silos or self.loses(self, action, where, id):
                note_silence(self, id, "was lost", where, failed=1.0)
                continue
            self.silos[id], said = handle(self.silos[id], action, content)
            heeded = heed(self, id, said, where)
            if heeded is not None:
                found[id] = heeded
        return found


def open_silos(study, silos, ids=range(4)):
    bundles = {id: study.parent / "bundles" / f"{SILOS[id]}.bundle" for id in ids}
    return {
        id: open_silo(
            read_bundle(path),
            *silos.glob(f"{SILOS[id]}.*"),
            path.with_name(path.name + ".state"),
        )
        for id, path in bundles.items()
    }


def run_by_hand(study, silos, *, there=None, loses=None):
    """Run a study to its end; return the mail, with all that was sent."""
    planned, office = read_office(study)
    kept = study.parent / "run"
    open_folder(planned, kept)
    log = Log(kept / EVENTS, lambda text: None)
    hand = Hand(planned, log, there or open_silos(study, silos))
    if loses is not None:
        hand.loses = loses
    run_study(hand, office, kept)
    return hand
