"""Clients that drop out in the middle of a round, drawn at random."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from fedfb.core import generator

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

NOBODY: Leavings = {}


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
