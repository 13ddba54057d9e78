"""The boundary between clients and server: what is sent across it, and what is written down."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedfb.core import Arrays, Task
from fedfb.runtime.dropout import Turn
from fedfb.runtime.ledger import Entry, Record, Seen, Way

BITS_OF_A_NUMBER = 64


class Question(NamedTuple):
    """A question on its way: its place in the run, and to whom it is put.

    ``silent`` says from which of its messages on a client sends nothing any more.
    """

    round: int
    number: int
    task: Task
    broadcast: Arrays
    asked: tuple[int, ...]
    silent: Mapping[int, Turn]


Carry = Callable[[Question, Mapping[int, Arrays]], Arrays]
"""Take the uploads, by client id, across the boundary: return what the method is given."""


def in_clear(record: Record | None = None) -> Carry:
    """Return what carries uploads as they are; everybody's, whatever is made of them there."""

    def carry(question: Question, uploads: Mapping[int, Arrays]) -> Arrays:
        if record is not None:
            record(_entries(question, uploads))
        return reduce_uploads(question.task, list(uploads.values()))

    return carry


def _entries(question: Question, uploads: Mapping[int, Arrays]) -> list[Entry]:
    task, first = question.task, next(iter(uploads.values()))
    seen: Seen = "unmasked" if task.reduce == "sum" else "single"
    size, told = -(-sum(bits_of(task, first).values()) // 8), broadcast_bytes(question)
    up = {client: {"upload": size} for client in uploads}
    down = {client: {"broadcast": told} for client in question.asked}
    return [
        *entries(question, "down", "public", question.broadcast, down),
        *entries(question, "up", seen, first, up),
    ]


def entries(
    question: Question,
    way: Way,
    seen: Seen,
    arrays: Arrays,
    messages: Mapping[int, Mapping[str, int]],
) -> list[Entry]:
    """Return what to write down of messages, whose sizes are given by client and kind.

    Clients whose messages have the same sizes share an entry: a ledger does not grow with them.
    """
    alike: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for client, sizes in messages.items():
        alike.setdefault(tuple(sizes.items()), []).append(client)
    place = (question.round, question.number, question.task.name)
    shapes = {name: np.shape(value) for name, value in arrays.items()}
    return [
        Entry(*place, way, seen, shapes, dict(sizes), clients) for sizes, clients in alike.items()
    ]


def bits_of(task: Task, upload: Arrays) -> dict[str, int]:
    """Return the size of each array of an upload; codes take the bits that the task says."""
    return {
        name: value.size * task.bits.get(name, BITS_OF_A_NUMBER) for name, value in upload.items()
    }


def broadcast_bytes(question: Question) -> int:
    """Return the bytes of what the server sends along with a question."""
    return sum(value.size for value in question.broadcast.values()) * BITS_OF_A_NUMBER // 8


def reduce_uploads(task: Task, uploads: Sequence[Arrays]) -> Arrays:
    """Return what the method is given of the uploads: their sum, or all of them."""
    combine = np.sum if task.reduce == "sum" else np.stack
    return {
        name: np.asarray(combine([upload[name] for upload in uploads], axis=0))
        for name in uploads[0]
    }
