"""The boundary between clients and server: what is sent, and what the ledger records."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedfb.core import Arrays, Task
from fedfb.runtime.dropout import Turn
from fedfb.runtime.ledger import Entry, Record, Visibility, Way

BITS_OF_A_NUMBER = 64


class Exchange(NamedTuple):
    """One exchange of a task with clients.

    Args:
        round: number of the round; 0 is the set-up.
        number: number of the exchange in the round, from 0.
        task: the task.
        broadcast: what the server sends along.
        clients: ids of the clients that the task is put to.
        silent: for a client that drops out, the first message that it does not send.
    """

    round: int
    number: int
    task: Task
    broadcast: Arrays
    clients: tuple[int, ...]
    silent: Mapping[int, Turn]


Carry = Callable[[Exchange, Mapping[int, Arrays]], Arrays]
"""Bring the uploads, by client id, to the server: return the total that the method receives."""


def carry_unmasked(record: Record | None = None) -> Carry:
    """Return a Carry that brings every upload to the server unmasked.

    Args:
        record: writes entries to the ledger; None: no ledger.
    """

    def carry(exchange: Exchange, uploads: Mapping[int, Arrays]) -> Arrays:
        if record is not None:
            record(_entries(exchange, uploads))
        return reduce_uploads(exchange.task, list(uploads.values()))

    return carry


def _entries(exchange: Exchange, uploads: Mapping[int, Arrays]) -> list[Entry]:
    task, first = exchange.task, next(iter(uploads.values()))
    visibility: Visibility = "unmasked" if task.reduce == "sum" else "single"
    size, broadcast_size = -(-sum(bits_of(task, first).values()) // 8), broadcast_bytes(exchange)
    up = {client: {"upload": size} for client in uploads}
    down = {client: {"broadcast": broadcast_size} for client in exchange.clients}
    return [
        *entries(exchange, "down", "public", exchange.broadcast, down),
        *entries(exchange, "up", visibility, first, up),
    ]


def entries(
    exchange: Exchange,
    way: Way,
    visibility: Visibility,
    arrays: Arrays,
    messages: Mapping[int, Mapping[str, int]],
) -> list[Entry]:
    """Return the entries of the ledger for the messages of an exchange.

    Clients whose messages have the same sizes share an entry, so a ledger does not grow with the
    number of clients.

    Args:
        exchange: the exchange of the messages.
        way: whether clients sent or received the messages.
        visibility: what the server can see of them.
        arrays: the arrays of one message, for their shapes.
        messages: bytes of each message, by client and by kind of message.
    """
    alike: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for client, sizes in messages.items():
        alike.setdefault(tuple(sizes.items()), []).append(client)
    place = (exchange.round, exchange.number, exchange.task.name)
    shapes = {name: np.shape(value) for name, value in arrays.items()}
    return [
        Entry(*place, way, visibility, shapes, dict(sizes), clients)
        for sizes, clients in alike.items()
    ]


def bits_of(task: Task, upload: Arrays) -> dict[str, int]:
    """Return the bits of each array of an upload; codes have the bits that the task declares."""
    return {
        name: value.size * task.bits.get(name, BITS_OF_A_NUMBER) for name, value in upload.items()
    }


def broadcast_bytes(exchange: Exchange) -> int:
    """Return the bytes of the broadcast of an exchange."""
    return sum(value.size for value in exchange.broadcast.values()) * BITS_OF_A_NUMBER // 8


def reduce_uploads(task: Task, uploads: Sequence[Arrays]) -> Arrays:
    """Return the total of the uploads: their sum, or their stack.

    Args:
        task: says whether uploads are summed or stacked.
        uploads: uploads in the order of client ids.
    """
    combine = np.sum if task.reduce == "sum" else np.stack
    return {
        name: np.asarray(combine([upload[name] for upload in uploads], axis=0))
        for name in uploads[0]
    }
