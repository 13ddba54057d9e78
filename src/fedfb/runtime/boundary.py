"""The boundary between clients and server: what is sent, what is recorded, and who drops out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from fedfb.core import Arrays, Task, generator
from fedfb.runtime.ledger import Entry, Record, Visibility, Way

DROPOUT = 21
"""The part of a key that draws which clients drop out in a round, and when."""

Turn = Literal["keys", "shares", "masked", "confirmation", "reveal"]
TURNS: tuple[Turn, ...] = ("keys", "shares", "masked", "confirmation", "reveal")
"""The messages that a client sends in one secure sum, in their order."""


class Leaving(NamedTuple):
    """When a client drops out: the exchange of the round, and the first message not sent in it."""

    exchange: int
    turn: Turn


Leavings = Mapping[int, Leaving]
"""The clients that drop out in a round, by client id."""

NO_LEAVINGS: Leavings = {}


def number_leaving(clients: int, share: float) -> int:
    """Return the number of clients that drop out in a round; at least one stays.

    Args:
        clients: number of clients in the round.
        share: share that drops out.

    >>> number_leaving(5, 0.1), number_leaving(4, 0.1), number_leaving(1, 0.5)
    (1, 0, 0)
    """
    return min(round_half_up(share * clients), clients - 1)


def draw_leavings(
    clients: Sequence[int], share: float, seed: int, round: int, exchanges: int
) -> Leavings:
    """Draw which clients drop out in a round, in which exchange and before which message.

    The draw is the same with and without secure sums. Without them, a client that drops out before
    its masked vector sends no upload.

    Args:
        clients: ids of the clients in the round; their order does not matter.
        share: share that drops out.
        seed: seed of the run.
        round: number of the round.
        exchanges: number of exchanges in which a client may drop out.
    """
    rng, in_order = generator((seed, round, DROPOUT)), sorted(clients)
    number = number_leaving(len(in_order), share)
    who = rng.choice(len(in_order), number, replace=False)
    when = rng.integers(0, max(exchanges, 1), number)
    turn = rng.integers(0, len(TURNS), number)
    return {
        in_order[place]: Leaving(int(when[number_of_draw]), TURNS[turn[number_of_draw]])
        for number_of_draw, place in enumerate(who)
    }


def silent_in(leaving: Leavings, exchange: int) -> dict[int, Turn]:
    """Return the turn from which each client is silent in an exchange.

    A client that dropped out in an earlier exchange is silent from the first turn.

    Args:
        leaving: the clients that drop out in the round.
        exchange: number of the exchange.

    >>> silent_in({3: Leaving(1, "masked"), 5: Leaving(2, "keys")}, exchange=2)
    {3: 'keys', 5: 'keys'}
    """
    return {
        client: leave.turn if leave.exchange == exchange else TURNS[0]
        for client, leave in leaving.items()
        if leave.exchange <= exchange
    }


def is_counted(turn: Turn | None) -> bool:
    """Return True if a client that drops out at ``turn`` still contributes to the total.

    Args:
        turn: the first message that the client does not send; None: it sends all messages.

    >>> is_counted("masked"), is_counted("confirmation"), is_counted(None)
    (False, True, True)
    """
    return turn is None or TURNS.index(turn) > TURNS.index("masked")


def round_half_up(value: float) -> int:
    """Round to the nearest whole number, halves up.

    >>> round_half_up(1.5), round_half_up(2.5)
    (2, 3)
    """
    return int(value + 0.5)


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
