r"""Uploads under masks: the server gets their sum, and of each of them nothing.

The whole protocol of ``fedfb.secure`` runs for every question, all parties in this process. It
needs the package cryptography, so it is imported only where sums are to be secure.

An upload as the words of a secure sum: which bound each array has, and how many places.

Whole numbers are carried exactly. Of other numbers :math:`|x|\le B` with the bound of their task,
and with as many binary places as :func:`fedfb.secure.choose_bits` leaves: 22 for four clients and
the usual bound. A bound that would leave fewer than 16 (q-FFL raises losses to a power) is carried
in two words, :math:`x=2^{24}h+l` with :math:`h` whole.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from fedfb.core import Arrays, Asked
from fedfb.errors import ConfigError, DisclosureError
from fedfb.runtime.boundary import Carry, Question, broadcast_bytes, entries
from fedfb.runtime.dropout import number_leaving
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
from fedfb.secure.graph import FEWEST
from fedfb.shapes import Array


def in_masks(names: Sequence[str], dropout: float = 0.0, record: Record | None = None) -> Carry:
    """Return what carries uploads under masks, for the clients of these names by id.

    All keys of the run are drawn here. A roster holds as long as the same clients are asked; where
    a round asks some of them only, each of these takes the roster of the round.
    """
    server_key, run = make_link_key(), draw_period()
    server = derive_public_key(server_key)
    keys = {id: make_client_keys(id) for id in range(len(names))}
    members: dict[int, Membership] = {}

    @lru_cache(maxsize=1)
    def roster_of(asked: tuple[int, ...]) -> Roster:
        plan = plan_for(len(asked), number_leaving(len(asked), dropout))
        return make_roster(run, server, [keys[id].entry for id in asked], plan)

    def member(id: int, roster: Roster) -> Membership:
        if id not in members:
            return accept(keys[id], roster, server)
        known = members[id]
        return known if known.roster is roster else change_roster(known, roster)

    def carry(question: Question, uploads: Mapping[int, Arrays]) -> Arrays:
        roster, task = roster_of(question.asked), question.task
        _refuse_single(task)
        _refuse_diverging(question, uploads)
        like = next(iter(uploads.values()))
        parts = parts_of(task, like, len(question.asked))
        session = make_session(roster, question.round, question.number, parts)
        nothing = np.zeros(session.words, dtype=np.uint64)  # of who falls silent: never sent
        vectors = dict.fromkeys(question.asked, nothing) | {
            id: encoded(session.schema, task, upload, f"round {question.round}: {names[id]!r}")
            for id, upload in uploads.items()
        }
        silent = {id: Kind[turn.upper()] for id, turn in question.silent.items()}
        there = {id: member(id, roster) for id in question.asked}
        summed = sum_in_process(session, server_key, there, vectors, silent)
        members.update(summed.memberships)
        if record is not None:
            told = broadcast_bytes(question)
            record(sum_entries(question, like, told, summed.messages, summed.total.survivors))
        vector, survivors = summed.total
        return joined(task, like, decode(session.schema, len(survivors), vector))

    return carry


def _refuse_diverging(question: Question, uploads: Mapping[int, Arrays]) -> None:
    """Stop the runs of a grid that are too large for a secure sum, while others are not."""
    first: dict[int, tuple[int, str]] = {}
    for id, upload in uploads.items():
        for run, name in runs_beyond_bounds(question.task, upload).items():
            first.setdefault(run, (id, f"sends ({name})"))
    if first:
        raise DivergedError(question.round, first, "is too large for a secure sum")


def _refuse_single(task: Asked) -> None:
    """Refuse a question that a method has not declared among its tasks, or it would stop before."""
    if task.reduce == "gather":
        raise DisclosureError(
            f"the question {task.name!r} asks for every client's own answer, and under --secure "
            "the server receives only sums. Leave out --secure, or choose another method."
        )


def plan_for(asked: int, leaving: int) -> Plan:
    """Return the thresholds of a round; of more than 50 clients a tenth may be silent, or more."""
    return make_plan(asked, dropouts=max(asked // 10, leaving))


def refuse_too_few(clients: int, participation: float, dropout: float) -> None:
    """Refuse, before any training, a round in which too few clients are left for a secure sum."""
    asked = number_taking_part(clients, participation)
    if asked < FEWEST:
        raise ConfigError(
            f"--secure needs at least {FEWEST} clients in every round, and {asked} of {clients} "
            "take part: from the sum of two each learns the other's part. Add clients"
            f"{', raise --participation' if asked < clients else ''} or leave out --secure."
        )
    leaving = number_leaving(asked, dropout)
    least = plan_for(asked, leaving).fewest
    if asked - leaving < least:
        raise ConfigError(
            f"--dropout {dropout:g} lets {leaving} of the {asked} clients of a round fall silent. "
            f"A secure sum needs {least} to its end, so at most {asked - least} may. "
            "Lower --dropout, or leave out --secure."
        )


def sum_entries(
    question: Question,
    like: Arrays,
    told: int,
    sent: Iterable[SentMessage],
    survivors: Iterable[int],
) -> list[Entry]:
    """Return what to write down of the messages of one secure sum.

    ``told`` are the bytes of what the server sends along with its invitation.
    """
    up, down = defaultdict[int, dict[str, int]](dict), defaultdict[int, dict[str, int]](dict)
    for id in question.asked:
        down[id]["broadcast"] = told
    for kind, sender, recipient, size in sent:
        messages = down[recipient] if sender == SERVER else up[sender]
        messages[kind.words] = size
    within = set(survivors)
    masked = {id: messages for id, messages in up.items() if id in within}
    lost = {id: messages for id, messages in up.items() if id not in within}
    return [
        *entries(question, "down", "public", question.broadcast, down),
        *entries(question, "up", "masked", like, masked),
        *entries(question, "up", "no values", {}, lost),
    ]


BOUND = 2.0**32
"""The usual bound: a sum over a hundred million rows of parameters or losses up to 40."""

WHOLE_BOUND = 2.0**40
"""The bound of whole numbers: a trillion rows."""

WIDE = 2.0**38
"""A larger bound is carried in two words."""

UNIT = 2.0**24
HIGH, LOW = " in units of 2^24", " beyond them"


def parts_of(task: Asked, upload: Arrays, parties: int) -> list[Part]:
    """Declare the parts of an upload: names, shapes, bounds and places, the same for all clients.

    >>> from fedfb.core import ClientTask
    >>> task = ClientTask("ask", "sum", lambda *_: ({}, {}), bounds={"h": 2.0**60})
    >>> [part.bits for part in parts_of(task, {"h": np.ones(3), "n": np.asarray(1)}, parties=4)]
    [0, 30, 0]
    """
    return [part for name, value in upload.items() for part in _parts(task, name, value, parties)]


def _parts(task: Asked, name: str, value: Array, parties: int) -> list[Part]:
    if _is_whole(value):
        return [Part(name, value.shape, task.bounds.get(name, WHOLE_BOUND), 0)]
    bound = task.bounds.get(name, BOUND)
    if not _is_wide(task, name, value):
        return [Part(name, value.shape, bound, choose_bits(bound, parties))]
    low = Part(name + LOW, value.shape, UNIT, choose_bits(UNIT, parties))
    return [Part(name + HIGH, value.shape, bound / UNIT, 0), low]


def _is_whole(value: Array) -> bool:
    return value.dtype.kind in "iub"


def _is_wide(task: Asked, name: str, value: Array) -> bool:
    return task.bounds.get(name, BOUND) > WIDE and not _is_whole(value)


def encoded(schema: Schema, task: Asked, upload: Arrays, who: str) -> Ring:
    """Return the words of one client's upload; refuse, in its name, what they cannot carry."""
    words: Arrays = {}
    for name, value in upload.items():
        if _is_wide(task, name, value):
            high = np.rint(value / UNIT)
            words |= {name + HIGH: high, name + LOW: value - high * UNIT}
        else:
            words[name] = value
    try:
        return encode(schema, words)
    except RangeError as error:
        raise RangeError(
            f"{who} cannot answer {task.name!r} under --secure: {error} It is neither clipped nor "
            "rounded away; leave out --secure, or choose settings that keep it smaller."
        ) from None


def runs_beyond_bounds(task: Asked, upload: Arrays) -> dict[int, str]:
    """Return the runs whose part of an upload is beyond its bound, with the name of the array.

    Empty where all runs are: then it is not one setting of a grid that is too large.
    """
    found: dict[int, str] = {}
    for name, value in upload.items():
        bound = task.bounds.get(name, WHOLE_BOUND if _is_whole(value) else BOUND)
        beyond = np.abs(np.atleast_1d(value)) > bound
        runs = np.flatnonzero(beyond.reshape(len(beyond), -1).any(axis=1)).tolist()
        if len(runs) == len(beyond):
            return {}
        found = {**dict.fromkeys(runs, name), **found}
    return found


def joined(task: Asked, like: Arrays, total: Arrays) -> Arrays:
    """Return the sum under the names, and of the kinds, of an upload."""
    found: Arrays = {}
    for name, value in like.items():
        if _is_wide(task, name, value):
            found[name] = total[name + HIGH] * UNIT + total[name + LOW]
        else:
            kind = np.dtype(np.int64) if _is_whole(value) else value.dtype
            found[name] = total[name].astype(kind)
    return found
