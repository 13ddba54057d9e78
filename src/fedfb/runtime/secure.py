r"""Masked uploads in one process: the server learns the sum of the uploads, and no single upload.

The whole protocol of ``fedfb.secure`` runs for every exchange, with all clients in this process. It
needs the package cryptography, so this module is imported only for secure sums.

A secure sum adds whole words, so an upload is encoded in fixed point. Whole numbers are exact. For
other numbers the task gives a bound, :math:`|x|\le B`. The number of binary places is that of
:func:`fedfb.secure.choose_bits`: 22 for four clients and the default bound. If a bound leaves fewer
than 16 places (q-FFL raises losses to a power), a number takes two words, :math:`x=2^{24}h+l` with
:math:`h` whole.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from fedfb.core import Arrays, Task
from fedfb.errors import ConfigError, DisclosureError
from fedfb.runtime.boundary import Carry, Exchange, broadcast_bytes, entries, number_leaving
from fedfb.runtime.ledger import Entry, Record
from fedfb.runtime.local import DivergedError, number_taking_part
from fedfb.secure import (
    SERVER,
    Kind,
    Membership,
    Part,
    Plan,
    RangeError,
    Ring,
    Roster,
    Schema,
    SentMessage,
    accept,
    change_roster,
    choose_bits,
    decode,
    derive_public_key,
    draw_period,
    encode,
    make_client_keys,
    make_link_key,
    make_plan,
    make_roster,
    make_session,
    sum_in_process,
)
from fedfb.secure.graph import FEWEST_CLIENTS
from fedfb.shapes import Array


def carry_masked(names: Sequence[str], dropout: float = 0.0, record: Record | None = None) -> Carry:
    """Return a Carry that brings only the sum of the uploads to the server.

    All keys of the run are drawn here. The roster stays the same while the same clients take part.
    If a round has other participants, these take the roster of the round.

    Args:
        names: names of the clients, by id.
        dropout: share of the participants that may drop out in a round.
        record: writes entries to the ledger; None: no ledger.
    """
    # In one process the keys protect nobody. They are real so that messages have their real sizes,
    # and
    # every check of the protocol runs.
    server_key, run = make_link_key(), draw_period()
    server = derive_public_key(server_key)
    keys = {id: make_client_keys(id) for id in range(len(names))}
    members: dict[int, Membership] = {}

    @lru_cache(maxsize=1)
    def roster_of(clients: tuple[int, ...]) -> Roster:
        plan = plan_for(len(clients), number_leaving(len(clients), dropout))
        return make_roster(run, server, [keys[id].entry for id in clients], plan)

    def member(id: int, roster: Roster) -> Membership:
        if id not in members:
            return accept(keys[id], roster, server)
        member = members[id]
        return member if member.roster is roster else change_roster(member, roster)

    def carry(exchange: Exchange, uploads: Mapping[int, Arrays]) -> Arrays:
        roster, task = roster_of(exchange.clients), exchange.task
        _refuse_single(task)
        _refuse_diverging(exchange, uploads)
        like = next(iter(uploads.values()))
        parts = parts_of(task, like, len(exchange.clients))
        session = make_session(roster, exchange.round, exchange.number, parts)
        nothing = np.zeros(session.words, dtype=np.uint64)  # of a client that drops out: never sent
        vectors = dict.fromkeys(exchange.clients, nothing) | {
            id: encode_upload(
                session.schema, task, upload, f"round {exchange.round}: {names[id]!r}"
            )
            for id, upload in uploads.items()
        }
        silent = {id: Kind[turn.upper()] for id, turn in exchange.silent.items()}
        participants = {id: member(id, roster) for id in exchange.clients}
        summed = sum_in_process(session, server_key, participants, vectors, silent)
        members.update(summed.memberships)
        if record is not None:
            size, survivors = broadcast_bytes(exchange), summed.total.survivors
            record(sum_entries(exchange, like, size, summed.messages, survivors))
        vector, survivors = summed.total
        return read_total(task, like, decode(session.schema, len(survivors), vector))

    return carry


def _refuse_diverging(exchange: Exchange, uploads: Mapping[int, Arrays]) -> None:
    """Stop the runs of a grid whose values are too large for a secure sum, if other runs fit."""
    first: dict[int, tuple[int, str]] = {}
    for id, upload in uploads.items():
        for run, name in runs_beyond_bounds(exchange.task, upload).items():
            first.setdefault(run, (id, f"sends ({name})"))
    if first:
        raise DivergedError(exchange.round, first, "is too large for a secure sum")


def _refuse_single(task: Task) -> None:
    """Refuse a task that needs single uploads. Declared tasks are refused before training."""
    if task.reduce == "gather":
        raise DisclosureError(
            f"the task {task.name!r} needs every client's own upload, and under --secure the "
            "server receives only sums. Leave out --secure, or choose another method."
        )


def plan_for(clients: int, leaving: int) -> Plan:
    """Return the thresholds of a round's secure sums; at least a tenth of the clients may drop out.

    Args:
        clients: number of participants.
        leaving: number of participants that will drop out.
    """
    return make_plan(clients, dropouts=max(clients // 10, leaving))


def refuse_too_few(clients: int, participation: float, dropout: float) -> None:
    """Refuse settings, before any training, that leave too few clients for a secure sum.

    Args:
        clients: number of all clients.
        participation: share of the clients that take part in a round.
        dropout: share of the participants that drop out in a round.
    """
    participants = number_taking_part(clients, participation)
    if participants < FEWEST_CLIENTS:
        raise ConfigError(
            f"--secure needs at least {FEWEST_CLIENTS} clients in every round, and {participants} "
            f"of {clients} take part: from the sum of two each learns the other's part. Add clients"
            f"{', raise --participation' if participants < clients else ''} or leave out --secure."
        )
    leaving = number_leaving(participants, dropout)
    least = plan_for(participants, leaving).fewest
    if participants - leaving < least:
        raise ConfigError(
            f"--dropout {dropout:g} lets {leaving} of the {participants} clients of a round drop "
            f"out. A secure sum needs {least} to its end, so at most {participants - least} may. "
            "Lower --dropout, or leave out --secure."
        )


def sum_entries(
    exchange: Exchange,
    like: Arrays,
    broadcast_size: int,
    sent: Iterable[SentMessage],
    survivors: Iterable[int],
) -> list[Entry]:
    """Return the entries of the ledger for the messages of one secure sum.

    Args:
        exchange: the exchange of the sum.
        like: an upload, for the shapes of its arrays.
        broadcast_size: bytes of the broadcast, which the server sends with its invitation.
        sent: the messages of the protocol.
        survivors: ids of the clients whose upload is in the sum.
    """
    up, down = defaultdict[int, dict[str, int]](dict), defaultdict[int, dict[str, int]](dict)
    for id in exchange.clients:
        down[id]["broadcast"] = broadcast_size
    for kind, sender, recipient, size in sent:
        messages = down[recipient] if sender == SERVER else up[sender]
        messages[kind.words] = size
    within = set(survivors)
    masked = {id: messages for id, messages in up.items() if id in within}
    lost = {id: messages for id, messages in up.items() if id not in within}
    return [
        *entries(exchange, "down", "public", exchange.broadcast, down),
        *entries(exchange, "up", "masked", like, masked),
        *entries(exchange, "up", "no values", {}, lost),
    ]


BOUND = 2.0**32
"""The default bound: a sum over a hundred million rows of parameters or losses up to 40."""

WHOLE_BOUND = 2.0**40
"""The bound of whole numbers: a trillion rows."""

WIDE = 2.0**38
"""Numbers with a larger bound take two words."""

UNIT = 2.0**24
HIGH, LOW = " in units of 2^24", " beyond them"


def parts_of(task: Task, upload: Arrays, clients: int) -> list[Part]:
    """Return the parts of an upload: names, shapes, bounds and places, equal for all clients.

    Args:
        task: gives the bounds.
        upload: an upload, for names, shapes and types.
        clients: number of clients in the sum.

    >>> from fedfb.core import ClientTask
    >>> task = ClientTask("ask", "sum", lambda *_: ({}, {}), bounds={"h": 2.0**60})
    >>> [part.bits for part in parts_of(task, {"h": np.ones(3), "n": np.asarray(1)}, clients=4)]
    [0, 30, 0]
    """
    return [part for name, value in upload.items() for part in _parts(task, name, value, clients)]


def _parts(task: Task, name: str, value: Array, clients: int) -> list[Part]:
    if _is_whole(value):
        return [Part(name, value.shape, task.bounds.get(name, WHOLE_BOUND), 0)]
    bound = task.bounds.get(name, BOUND)
    if not _is_wide(task, name, value):
        return [Part(name, value.shape, bound, choose_bits(bound, clients))]
    low = Part(name + LOW, value.shape, UNIT, choose_bits(UNIT, clients))
    return [Part(name + HIGH, value.shape, bound / UNIT, 0), low]


def _is_whole(value: Array) -> bool:
    return value.dtype.kind in "iub"


def _is_wide(task: Task, name: str, value: Array) -> bool:
    return task.bounds.get(name, BOUND) > WIDE and not _is_whole(value)


def encode_upload(schema: Schema, task: Task, upload: Arrays, who: str) -> Ring:
    """Return an upload in fixed point, as one vector of the secure sum.

    Args:
        schema: shapes and bounds of the sum.
        task: gives the bounds.
        upload: arrays by name, as the task returned them.
        who: name shown in errors.

    Raises:
        RangeError: a value is beyond its bound. Nothing has been sent then.
    """
    words: Arrays = {}
    for name, value in upload.items():
        if _is_wide(task, name, value):
            # To the nearest, so that the low word is at most half a unit in size; both words sum up
            # exactly.
            high = np.rint(value / UNIT)
            words |= {name + HIGH: high, name + LOW: value - high * UNIT}
        else:
            words[name] = value
    try:
        return encode(schema, words)
    except RangeError as error:
        raise RangeError(
            f"{who} cannot answer {task.name!r} under --secure: {error} It is neither clipped nor "
            "rounded; leave out --secure, or choose settings that keep it smaller."
        ) from None


def runs_beyond_bounds(task: Task, upload: Arrays) -> dict[int, str]:
    """Return the runs whose part of an upload is beyond its bound, with the name of the array.

    The result is empty if all runs are beyond: then the cause is not one setting of a grid.
    """
    arrays: dict[int, str] = {}
    for name, value in upload.items():
        bound = task.bounds.get(name, WHOLE_BOUND if _is_whole(value) else BOUND)
        beyond = np.abs(np.atleast_1d(value)) > bound
        runs = np.flatnonzero(beyond.reshape(len(beyond), -1).any(axis=1)).tolist()
        # To train again without some settings helps only if others are left.
        if len(runs) == len(beyond):
            return {}
        arrays = {**dict.fromkeys(runs, name), **arrays}
    return arrays


def read_total(task: Task, like: Arrays, total: Arrays) -> Arrays:
    """Return a decoded sum with the names and types of an upload.

    Args:
        task: gives the bounds.
        like: an upload, for names and types.
        total: the decoded sum, by the names of its parts.
    """
    arrays: Arrays = {}
    for name, value in like.items():
        if _is_wide(task, name, value):
            arrays[name] = total[name + HIGH] * UNIT + total[name + LOW]
        else:
            kind = np.dtype(np.int64) if _is_whole(value) else value.dtype
            arrays[name] = total[name].astype(kind)
    return arrays
