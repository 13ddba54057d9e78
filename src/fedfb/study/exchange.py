"""One exchange of a study's program: what is asked, and how its total binds all later ones.

Every side runs the program, and so knows each exchange before it happens. The context of an
exchange is a hash of all that the sides must agree on: the seal of the study, the place, the task,
the broadcast, and the chain over all earlier totals. The context is part of every key of the secure
sum, so that sides with different views never meet in one sum.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from fedfb.core import Arrays, Task
from fedfb.errors import DisclosureError
from fedfb.runtime.boundary import reduce_uploads
from fedfb.runtime.secure import WHOLE_BOUND, parts_of, read_total
from fedfb.secure import (
    ClientEntry,
    Part,
    Schema,
    Session,
    decode,
    make_roster,
    make_schema,
    make_session,
)
from fedfb.secure.encoding import pack, pack_entries, pack_number, pack_set
from fedfb.secure.fixed_point import count_words
from fedfb.secure.roster import PERIOD_BYTES
from fedfb.secure.secrets import read_ring
from fedfb.shapes import Array
from fedfb.study.journal import TotalRecord
from fedfb.study.study import Study

ATTEMPTS = 10
"""So often may a sum be begun until it has a total."""

TOLERANCE = 1e-9
"""The largest relative difference of a broadcast where processors differ."""

Answer = Callable[[Arrays, Arrays | None], tuple[Arrays, Arrays]]
"""A client's part: broadcast, memory (None: that of the start) -> upload, memory."""


class Planned(NamedTuple):
    """An exchange as the program foresees it.

    ``number`` counts the exchanges of the study. ``like`` is an upload of the same names, shapes
    and types as every client's. ``drawn`` are the clients that the exchange asks. ``answer`` is the
    part of a client, None at the server.
    """

    number: int
    phase: str
    round: int
    exchange: int
    task: Task
    broadcast: Arrays
    like: Arrays
    drawn: tuple[int, ...]
    answer: Answer | None

    @property
    def place(self) -> str:
        """Where this is, for people."""
        title = "" if self.phase == "run" else f"{self.phase}, "
        return f"{title}round {self.round}, {self.task.name}"

    @property
    def is_sum(self) -> bool:
        return self.task.reduce == "sum"


def start_chain(study: Study) -> bytes:
    """Return the chain before the first exchange."""
    return sha256(pack(b"fedfb chain", bytes.fromhex(study.seal))).digest()


def extend_chain(chain: bytes, clients: int, total: TotalRecord) -> bytes:
    """Return the chain after a total, which everything in the total has a part in."""
    sets = (pack_set(ids, range(clients)) for ids in (total.roster, total.survivors))
    return sha256(pack(chain, total.context, *sets, total.content)).digest()


def hash_context(study: Study, chain: bytes, planned: Planned, broadcast: Arrays) -> bytes:
    """Return the context of an exchange.

    Args:
        study: the study.
        chain: the chain over all earlier totals.
        planned: the exchange.
        broadcast: what clients compute with: the planned broadcast, to the bit or nearly.
    """
    place = b"".join(
        pack_number(value) for value in (planned.number, planned.round, planned.exchange)
    )
    names = (planned.phase.encode(), planned.task.name.encode(), planned.task.reduce.encode())
    arrays = (
        pack(name.encode(), _describe(value), _raw(value))
        for name, value in sorted(broadcast.items())
    )
    return sha256(pack(bytes.fromhex(study.seal), chain, place, *names, *arrays)).digest()


def _describe(value: Array) -> bytes:
    return f"{np.asarray(value).dtype.str} {np.shape(value)}".encode()


def _raw(value: Array) -> bytes:
    array = np.ascontiguousarray(value)
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def write_arrays(arrays: Arrays) -> bytes:
    """Write the elements of arrays, one array after the other in the order of their names."""
    return b"".join(_raw(arrays[name]) for name in sorted(arrays))


def read_arrays(data: bytes, like: Arrays) -> Arrays:
    """Read what ``write_arrays`` wrote; names, shapes and types are those of ``like``.

    Raises:
        ValueError: the bytes have another length.
    """
    arrays, place = {}, 0
    for name in sorted(like):
        value = np.asarray(like[name])
        piece = data[place : place + value.nbytes]
        place += value.nbytes
        arrays[name] = np.frombuffer(piece, value.dtype.newbyteorder("<")).astype(value.dtype)
        arrays[name] = arrays[name].reshape(value.shape)
    if place != len(data):
        raise ValueError(f"{len(data)} bytes, expected {place}")
    return arrays


def accept_broadcast(data: bytes, planned: Arrays) -> Arrays | None:
    """Return the server's broadcast if it is the planned one but for rounding; None if it is not.

    Args:
        data: the server's broadcast, from ``write_arrays``.
        planned: the client's own.
    """
    try:
        arrays = read_arrays(data, planned)
    except ValueError:
        return None
    for name, value in arrays.items():
        expected = np.asarray(planned[name])
        if value.dtype.kind == "f":
            scale = np.maximum(np.abs(expected), 1.0)
            same = value == expected  # also both infinite
            near = np.abs(value - expected) <= TOLERANCE * scale
            if not np.all(same | near | (np.isnan(value) & np.isnan(expected))):
                return None
        elif not np.array_equal(value, expected):
            return None
    return arrays


def make_parts(study: Study, planned: Planned, clients: int) -> Schema:
    """Return the parts of an upload to a sum over so many clients.

    Counts are bounded by the largest number of rows of a client, which the study states: a client
    that lies cannot add more.
    """
    codes = planned.task.bits

    def bounded(part: Part) -> Part:
        if part.bits or part.bound != WHOLE_BOUND or part.name in codes:
            return part
        return part._replace(bound=float(study.terms.rows))

    parts = parts_of(planned.task, planned.like, clients)
    return make_schema([bounded(part) for part in parts], clients)


def read_content(study: Study, planned: Planned, total: TotalRecord) -> Arrays:
    """Return the arrays of a total, as the algorithm receives them.

    Raises:
        SecureError: the words are not a sum of uploads within their bounds.
    """
    if planned.is_sum:
        schema = make_parts(study, planned, len(total.roster))
        words = read_ring(total.content, count_words(schema), "the total")
        arrays = decode(schema, len(total.survivors), words)
        return read_total(planned.task, planned.like, arrays)
    size = single_bytes(planned)
    uploads = [
        read_arrays(total.content[place * size : (place + 1) * size], planned.like)
        for place in range(len(total.survivors))
    ]
    return reduce_uploads(planned.task, uploads)


def single_bytes(planned: Planned) -> int:
    """Return the bytes of one client's upload to a task that gathers single values."""
    return sum(np.asarray(value).nbytes for value in planned.like.values())


def write_single_text(context: bytes, client: int, upload: bytes) -> bytes:
    """Return the bytes that a client signs with a single upload."""
    return pack(b"single", context, pack_number(client), upload)


def write_singles(uploads: dict[int, bytes]) -> bytes:
    """Write single uploads with their signatures, as every client gets them."""
    return pack_entries(uploads)


def make_sum_session(
    study: Study, planned: Planned, context: bytes, attempt: int, ids: tuple[int, ...]
) -> Session:
    """Return the session of one attempt at a sum; all of it follows from study and context.

    Args:
        study: the study.
        planned: the exchange.
        context: the context of the exchange.
        attempt: the number of the attempt.
        ids: the clients that are invited.
    """
    period = sha256(pack(b"attempt", context, pack_number(attempt))).digest()[:PERIOD_BYTES]
    entries = [
        ClientEntry(id, study.clients[id].link_bytes, study.clients[id].identity_bytes)
        for id in ids
    ]
    roster = make_roster(period, study.server.link_bytes, entries, study.make_plan(len(ids)))
    parts = make_parts(study, planned, len(ids))
    return make_session(roster, planned.round, planned.exchange, parts, context)


def check_roster(study: Study, planned: Planned, roster: tuple[int, ...], me: int) -> None:
    """Refuse a roster that the study does not allow."""
    allowed = set(planned.drawn)
    if not study.terms.allow_differences and set(roster) != allowed:
        raise DisclosureError(
            f"{planned.place}: the server wants a sum over {len(roster)} clients, and this study "
            f"allows only sums over all {len(allowed)}."
        )
    if me not in roster or not set(roster) <= allowed or len(roster) < study.fewest:
        raise DisclosureError(
            f"{planned.place}: the server wants a sum over {len(roster)} clients, and the study "
            f"allows none over fewer than {study.fewest}, nor over others than those drawn."
        )
