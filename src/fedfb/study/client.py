"""A silo's side: it answers questions on its own rows, and its turns of secure sums.

It runs in a process of its own that stays warm between messages and never talks to a network. What
it keeps for itself from question to question (LFT, Ditto) lies on its disk.

What a silo keeps for itself from question to question, on its disk.

A file for each question that it answered. The coordinator says after which of its
answers a question comes (the last one that counted), so that a question which is repeated, or an
answer that was lost, finds the memory as it was.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedfb.core import Arrays, Task
from fedfb.data.fit_columns import silo_answer
from fedfb.data.groups import Groups
from fedfb.data.loading import split_client
from fedfb.data.table import Table
from fedfb.errors import ConfigError, DataError, DisclosureError, FedFBError, WriteError
from fedfb.experiments.scores import withheld
from fedfb.experiments.secure import column_question
from fedfb.files import writing
from fedfb.runtime import archive as checkpoint
from fedfb.runtime.local import refuse_non_finite
from fedfb.runtime.secure import encode_upload, parts_of
from fedfb.secure import (
    ClientState,
    Kind,
    Member,
    PartyKeys,
    RangeError,
    Ring,
    SecureError,
    accept,
    change_roster,
    confirm,
    join,
    make_party_keys,
    make_schema,
    mask,
    read_roster,
    reveal,
    share,
)
from fedfb.study.journal import GOES_ON
from fedfb.study.keys import Bundle
from fedfb.study.mail import pack_arrays, pack_values, unpack_arrays, unpack_values
from fedfb.study.results import keep_result
from fedfb.study.trial import ACHIEVABLE, DATA, RUN, Prepared, prepared, read_table

Place = tuple[int, int]
"""A round and a question of it."""

OWNER = "memory"


def recall(folder: Path, after: str, initial: Arrays) -> Arrays:
    """Return the memory as it was after a question, written round-question; '' is the beginning."""
    if not after:
        return initial
    arrays = checkpoint.load(_path(folder, _place(after)), OWNER)
    if arrays is None:
        raise DataError(
            f"{folder} does not hold what this silo kept for itself after round and question "
            f"{after}. Put the folder back, or start the study anew."
        )
    return arrays


def remember(folder: Path, place: Place, memory: Arrays, saved: str) -> None:
    """Keep the memory after a question, and drop what comes before a place that is safe.

    Also an empty one: a method may begin to keep something only later.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    checkpoint.save(_path(folder, place), {k: np.asarray(v) for k, v in memory.items()}, OWNER)
    if saved:
        for path in folder.glob("memory-*.npz"):
            if _place(path.stem.removeprefix("memory-")) < _place(saved):
                with writing(path):
                    path.unlink()


def _path(folder: Path, place: Place) -> Path:
    return folder / f"memory-{place[0]}-{place[1]}.npz"


def _place(text: str) -> Place:
    round, question = text.split("-")
    return int(round), int(question)


Content = Mapping[str, Any]
"""What a message carries: texts, numbers and bytes by name."""


@dataclass(frozen=True)
class Silo:
    """All that a silo's process holds. ``run`` is the run of secure sums that its keys are for."""

    bundle: Bundle
    folder: Path
    train: Table
    test: Table
    prepared: Prepared | None = None
    run: bytes = b""
    keys: PartyKeys | None = field(repr=False, default=None)
    member: Member | None = field(repr=False, default=None)
    state: ClientState | None = field(repr=False, default=None)
    vector: Ring | None = field(repr=False, default=None)


def open_silo(bundle: Bundle, path: str | Path, folder: Path) -> Silo:
    """Read a silo's file, refuse what does not fit the study, and split its rows 7:3."""
    study = bundle.study
    table = read_table(study.schema, path)
    if len(table) < 2:
        raise DataError(f"{path} has {len(table)} rows, and at least 2 are needed. Add rows.")
    schema = study.schema
    group = Groups(schema.crossed, schema.group_names).group_of(table)
    train, test = split_client(group, bundle.id, study.split)
    return Silo(bundle, folder, table.take(train), table.take(test))


def handle(silo: Silo, action: str, content: Content) -> tuple[Silo, dict[str, Any]]:
    """Answer one message: return the silo as it is afterwards, and what to send.

    What the owner of the rows or the coordinator must mend stops the study, with its message; any
    other failure is the transport's to tell, and the silo counts as silent.
    """
    try:
        return HANDLERS[action](silo, content)
    except (RangeError, DataError, ConfigError, DisclosureError) as error:
        return silo, {"stop": f"{silo.bundle.silo}: {error}"}
    except SecureError as error:
        return silo, {"silent": str(error)}
    except WriteError as error:
        return silo, {"stop": f"{silo.bundle.silo}: {error} {GOES_ON}"}
    except FedFBError as error:
        return silo, {"stop": f"{silo.bundle.silo}: {error}"}


def _hello(silo: Silo, content: Content) -> tuple[Silo, dict[str, Any]]:
    """Draw keys for a run of secure sums, and learn what the phase goes by."""
    study = silo.bundle.study
    if content["study"] != study.digest:
        raise ConfigError(
            "its bundle is of another study than the coordinator runs, or of an earlier form of "
            "it. Get the bundle anew."
        )
    run: bytes = content["run"]
    if silo.keys is None or run != silo.run:
        identity = bytes.fromhex(silo.bundle.keys.identity)
        keys = make_party_keys(silo.bundle.id, identity)
        silo = replace(silo, run=run, keys=keys, member=None, state=None, vector=None)
    told: str = content["told"]
    if told and (silo.prepared is None or told != silo.prepared.told):
        ready = prepared(study, silo.bundle.id, silo.train, silo.test, told)
        silo = replace(silo, prepared=ready)
    assert silo.keys is not None
    party = silo.keys.party
    return silo, {"link": party.link, "identity": party.identity}


def _begin(silo: Silo, content: Content) -> tuple[Silo, dict[str, Any]]:
    """Answer a question under masks: work it out, and send keys for its sum."""
    if silo.keys is None or content["run"] != silo.run:
        return silo, {"silent": "it was started anew and has no keys for this run"}
    roster = read_roster(content["roster"])
    if roster.plan.fewest < silo.bundle.study.fewest:
        raise DisclosureError(
            f"the coordinator wants a sum over {roster.plan.fewest} silos, and the study allows "
            f"none over fewer than {silo.bundle.study.fewest}."
        )
    if silo.member is None:
        member = accept(silo.keys, roster, silo.bundle.server, silo.bundle.pins)
    else:
        same = silo.member.roster == roster
        member = silo.member if same else change_roster(silo.member, roster)
    task, upload = _answer(silo, content)
    schema = make_schema(parts_of(task, upload, len(roster.parties)), len(roster.parties))
    vector = encode_upload(schema, task, upload, f"round {content['round']}: {silo.bundle.silo!r}")
    member, state, message = join(member, content["invitation"], schema)
    return replace(silo, member=member, state=state, vector=vector), {"frame": message}


def _turn(silo: Silo, content: Content) -> tuple[Silo, dict[str, Any]]:
    """Take the next turn of the sum that is under way; the state is used once."""
    state, message = silo.state, content["frame"]
    if state is None or silo.vector is None:
        return silo, {"silent": "it was started anew in the middle of this sum"}
    if state.awaits is Kind.SHARE_LIST:
        after, reply = mask(state, message, silo.vector)
    else:
        step: Callable[..., tuple[ClientState, bytes]] = STEPS[state.awaits]
        after, reply = step(state, message)
    return replace(silo, state=after), {"frame": reply}


STEPS = {
    Kind.KEY_LIST: share,
    Kind.SURVIVORS: confirm,
    Kind.CONFIRMATION_LIST: reveal,
    None: reveal,  # which refuses: the answer has been given
}


def _single(silo: Silo, content: Content) -> tuple[Silo, dict[str, Any]]:
    """Answer a question whose answers the coordinator sees one by one, if the study allows it."""
    study, phase = silo.bundle.study, content["phase"]
    tasks = silo.prepared.trial.tasks if silo.prepared else {}
    asked = tasks.get(content["task"])
    allowed = study.achievable if phase == ACHIEVABLE else study.single
    if asked is None or asked.reduce == "sum" or not allowed:
        raise DisclosureError(
            f"the coordinator asks for this silo's own answer to {content['task']!r}, and the "
            "study does not allow it."
        )
    _, upload = _answer(silo, content)
    shown = withheld(upload) if phase == ACHIEVABLE else upload
    return silo, {"upload": pack_arrays(shown)}


def _answer(silo: Silo, content: Content) -> tuple[Task, Arrays]:
    told, phase = unpack_arrays(content["broadcast"]), content["phase"]
    if phase == DATA:
        upload = silo_answer(content["task"], told, silo.train, silo.bundle.study.schema)
        return column_question(content["task"], upload), upload
    if silo.prepared is None or silo.prepared.phase != phase:
        raise ConfigError(f"it was asked of the phase {phase!r} before it was told of it.")
    trial, data = silo.prepared.trial, silo.prepared.data
    task, place = trial.tasks[content["task"]], (content["round"], content["question"])
    folder = silo.folder if phase == RUN else silo.folder / phase
    memory = recall(folder, content["after"], trial.algorithm.memory(trial.start))
    key = (silo.bundle.study.seed, *place, data.id)
    with np.errstate(all="ignore"):
        upload, kept = task.run(told, data, memory, key)
    refuse_non_finite({data.id: upload}, {data.id: kept}, content["round"], len(trial.start))
    remember(folder, place, kept, content["saved"])
    return task, upload


def _finish(silo: Silo, content: Content) -> tuple[Silo, dict[str, Any]]:
    """Keep the model and the report."""
    keep_result(silo.folder, unpack_values(content["texts"]), content["model"])
    return silo, {"done": pack_values({"silo": silo.bundle.silo})}


HANDLERS: Mapping[str, Callable[[Silo, Content], tuple[Silo, dict[str, Any]]]] = {
    "hello": _hello,
    "begin": _begin,
    "turn": _turn,
    "single": _single,
    "finish": _finish,
}
"""What a silo does with a message, by its action."""
