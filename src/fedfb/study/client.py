"""The client's side of a study: it runs tasks on its own rows and takes its turns of secure sums.

The code runs in a process of its own that stays alive between messages and never uses a network.
The memory of a client (LFT, Ditto) stays on the client's disk, one file for each exchange that it
answered. The server says after which exchange a task comes: the last one whose total contained this
client. A task that is repeated, or an upload that was lost, therefore finds the right memory.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedfb.core import Arrays, Task
from fedfb.data.fit_columns import make_column_upload
from fedfb.data.groups import Groups
from fedfb.data.partition import split_client
from fedfb.errors import ConfigError, DataError, DisclosureError, FedFBError, WriteError
from fedfb.experiments.rule import withheld
from fedfb.experiments.secure import column_question
from fedfb.files import writing
from fedfb.runtime import archive
from fedfb.runtime.local import refuse_non_finite
from fedfb.runtime.secure import encode_upload, parts_of
from fedfb.secure import (
    ClientKeys,
    ClientState,
    Kind,
    Membership,
    RangeError,
    Ring,
    SecureError,
    accept,
    change_roster,
    confirm,
    join,
    make_client_keys,
    make_schema,
    mask,
    read_roster,
    reveal,
    share,
)
from fedfb.study.journal import (
    RESUME_HINT,
    pack_message,
    pack_values,
    unpack_message,
    unpack_values,
)
from fedfb.study.keys import Bundle
from fedfb.study.results import write_result
from fedfb.study.trial import ACHIEVABLE, DATA, RUN, PreparedData, prepare_data, read_table
from fedfb.tables.dialect import DETECT, Dialect
from fedfb.tables.table import Table

_Place = tuple[int, int]
"""The number of a round and of an exchange in it."""

MEMORY = "memory"


def load_memory(folder: Path, after: str, initial: Arrays) -> Arrays:
    """Return the memory of this client after an exchange.

    Args:
        folder: where ``save_memory`` wrote it.
        after: round and exchange, as "round-exchange"; '' before the first.
        initial: the memory before the first exchange.
    """
    if not after:
        return initial
    arrays = archive.load_archive(_locate_memory(folder, _read_place(after)), MEMORY)
    if arrays is None:
        raise DataError(
            f"{folder} does not hold the memory of this client after round and exchange "
            f"{after}. Restore the folder, or start the study anew."
        )
    return arrays


def save_memory(folder: Path, place: _Place, memory: Arrays, saved: str) -> None:
    """Write the memory after an exchange, and remove those that are no longer needed.

    An empty memory is written too, because a method may start to use its memory later.

    Args:
        folder: where to write.
        place: round and exchange.
        memory: arrays by name.
        saved: the place that a checkpoint of the server contains, as "round-exchange"; the server
            never returns to an earlier one. '' if there is none.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    archive.save_archive(
        _locate_memory(folder, place), {k: np.asarray(v) for k, v in memory.items()}, MEMORY
    )
    if saved:
        for path in folder.glob("memory-*.npz"):
            if _read_place(path.stem.removeprefix("memory-")) < _read_place(saved):
                with writing(path):
                    path.unlink()


def _locate_memory(folder: Path, place: _Place) -> Path:
    return folder / f"memory-{place[0]}-{place[1]}.npz"


def _read_place(text: str) -> _Place:
    round, exchange = text.split("-")
    return int(round), int(exchange)


Content = Mapping[str, Any]
"""The content of a message: texts, numbers and bytes by name."""


@dataclass(frozen=True)
class _Client:
    """The state of a client's process. ``period`` is the key period that ``keys`` belong to.

    ``membership``, ``state`` and ``vector`` belong to the secure sum in progress.
    """

    bundle: Bundle
    folder: Path
    train: Table
    test: Table
    notes: tuple[str, ...] = ()
    prepared: PreparedData | None = None
    period: bytes = b""
    keys: ClientKeys | None = field(repr=False, default=None)
    membership: Membership | None = field(repr=False, default=None)
    state: ClientState | None = field(repr=False, default=None)
    vector: Ring | None = field(repr=False, default=None)


def open_client(
    bundle: Bundle, path: str | Path, folder: Path, dialect: Dialect = DETECT
) -> _Client:
    """Read the rows of a client, refuse rows that do not fit the study, and split them 7:3.

    Args:
        bundle: the study, and this client's name and keys.
        path: a CSV or Parquet file, or the address of a database.
        folder: where the client keeps its own files.
        dialect: how a text file is written, where it is not detected.
    """
    study = bundle.study
    table, notes = read_table(study.schema, path, dialect)
    if len(table) < 2:
        raise DataError(f"{path} has {len(table)} rows, and at least 2 are needed. Add rows.")
    schema = study.schema
    group = Groups(schema.crossed, schema.group_names).group_of(table)
    train, test = split_client(group, bundle.id, study.split)
    return _Client(bundle, folder, table.take(train), table.take(test), notes)


def handle(client: _Client, kind: str, content: Content) -> tuple[_Client, dict[str, Any]]:
    """Answer one message; return the new state of the client, and the reply.

    An error that the user of this client or the server must correct stops the study, with its
    message. After an error of a secure sum the client counts as silent.

    Args:
        client: the state of the client.
        kind: the kind of message, a key of ``HANDLERS``.
        content: the content of the message.
    """
    try:
        return HANDLERS[kind](client, content)
    except (RangeError, DataError, ConfigError, DisclosureError) as error:
        return client, {"stop": f"{client.bundle.client}: {error}"}
    except SecureError as error:
        return client, {"silent": str(error)}
    except WriteError as error:
        return client, {"stop": f"{client.bundle.client}: {error} {RESUME_HINT}"}
    except FedFBError as error:
        return client, {"stop": f"{client.bundle.client}: {error}"}


def _hello(client: _Client, content: Content) -> tuple[_Client, dict[str, Any]]:
    """Draw keys for a key period, and prepare the rows for the phase."""
    study = client.bundle.study
    if content["study"] != study.digest:
        raise ConfigError(
            "its bundle is of another study than the server runs, or of an earlier version of "
            "it. Ask for a new bundle."
        )
    period: bytes = content["run"]
    if client.keys is None or period != client.period:
        identity = bytes.fromhex(client.bundle.keys.identity)
        keys = make_client_keys(client.bundle.id, identity)
        client = replace(client, period=period, keys=keys, membership=None, state=None, vector=None)
    description: str = content["told"]
    if description and (client.prepared is None or description != client.prepared.description):
        prepared = prepare_data(study, client.bundle.id, client.train, client.test, description)
        client = replace(client, prepared=prepared)
    assert client.keys is not None
    entry = client.keys.entry
    return client, {"link": entry.link, "identity": entry.identity}


def _begin(client: _Client, content: Content) -> tuple[_Client, dict[str, Any]]:
    """Run a task, and send keys for the secure sum of its uploads."""
    if client.keys is None or content["run"] != client.period:
        return client, {"silent": "it was restarted and has no keys for this period"}
    roster = read_roster(content["roster"])
    if roster.plan.fewest < client.bundle.study.fewest:
        raise DisclosureError(
            f"the server wants a sum over {roster.plan.fewest} clients, and the study allows "
            f"none over fewer than {client.bundle.study.fewest}."
        )
    if client.membership is None:
        membership = accept(client.keys, roster, client.bundle.server, client.bundle.pins)
    else:
        same = client.membership.roster == roster
        membership = client.membership if same else change_roster(client.membership, roster)
    task, upload = _run_task(client, content)
    schema = make_schema(parts_of(task, upload, len(roster.clients)), len(roster.clients))
    vector = encode_upload(
        schema, task, upload, f"round {content['round']}: {client.bundle.client!r}"
    )
    membership, state, message = join(membership, content["invitation"], schema)
    return replace(client, membership=membership, state=state, vector=vector), {"frame": message}


def _turn(client: _Client, content: Content) -> tuple[_Client, dict[str, Any]]:
    """Take the next turn of the secure sum in progress."""
    state, message = client.state, content["frame"]
    if state is None or client.vector is None:
        return client, {"silent": "it was restarted in the middle of this sum"}
    if state.awaits is Kind.SHARE_LIST:
        next_state, reply = mask(state, message, client.vector)
    else:
        step: Callable[..., tuple[ClientState, bytes]] = _STEPS[state.awaits]
        next_state, reply = step(state, message)
    return replace(client, state=next_state), {"frame": reply}


_STEPS = {
    Kind.KEY_LIST: share,
    Kind.SURVIVORS: confirm,
    Kind.CONFIRMATION_LIST: reveal,
    None: reveal,  # reveal itself refuses: the last message has been sent
}


def _single(client: _Client, content: Content) -> tuple[_Client, dict[str, Any]]:
    """Run a task whose uploads the server receives one by one, if the study allows it."""
    study, phase = client.bundle.study, content["phase"]
    tasks = client.prepared.trial.tasks if client.prepared else {}
    task = tasks.get(content["task"])
    allowed = study.achievable if phase == ACHIEVABLE else study.single
    if task is None or task.reduce == "sum" or not allowed:
        raise DisclosureError(
            f"the server asks for the single upload of this client to {content['task']!r}, and "
            "the study does not allow it."
        )
    _, upload = _run_task(client, content)
    upload = withheld(upload) if phase == ACHIEVABLE else upload
    return client, {"upload": pack_message(upload)}


def _run_task(client: _Client, content: Content) -> tuple[Task, Arrays]:
    broadcast, phase = unpack_message(content["broadcast"]), content["phase"]
    if phase == DATA:
        upload = make_column_upload(
            content["task"], broadcast, client.train, client.bundle.study.schema
        )
        return column_question(content["task"], upload), upload
    if client.prepared is None or client.prepared.phase != phase:
        raise ConfigError(f"the server sent a task of the phase {phase!r} before its description.")
    trial, data = client.prepared.trial, client.prepared.data
    task, place = trial.tasks[content["task"]], (content["round"], content["question"])
    folder = client.folder if phase == RUN else client.folder / phase
    memory = load_memory(folder, content["after"], trial.algorithm.memory(trial.start))
    key = (client.bundle.study.seed, *place, data.id)
    with np.errstate(all="ignore"):
        upload, memory = task.run(broadcast, data, memory, key)
    refuse_non_finite({data.id: upload}, {data.id: memory}, content["round"], len(trial.start))
    save_memory(folder, place, memory, content["saved"])
    return task, upload


def _finish(client: _Client, content: Content) -> tuple[_Client, dict[str, Any]]:
    """Write the model and the report."""
    write_result(client.folder, unpack_values(content["texts"]), content["model"])
    return client, {"done": pack_values({"client": client.bundle.client})}


HANDLERS: Mapping[str, Callable[[_Client, Content], tuple[_Client, dict[str, Any]]]] = {
    "hello": _hello,
    "begin": _begin,
    "turn": _turn,
    "single": _single,
    "finish": _finish,
}
"""The answer of a client to each kind of message."""
