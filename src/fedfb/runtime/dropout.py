"""Clients that fall silent in the middle of a round, drawn and not sent away by anybody."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from fedfb.core import generator

DROPOUT = 21
"""Marks the key that draws who falls silent in a round, and when."""

Turn = Literal["keys", "shares", "masked", "confirmation", "reveal"]
TURNS: tuple[Turn, ...] = ("keys", "shares", "masked", "confirmation", "reveal")
"""The messages that a client sends in one secure sum, in their order."""


class Leaving(NamedTuple):
    """The question of a round, and the message in it, from which on a client sends nothing."""

    question: int
    turn: Turn


Leavings = Mapping[int, Leaving]
"""Who falls silent in a round, by client id."""

NOBODY: Leavings = {}


def number_leaving(asked: int, share: float) -> int:
    """Return how many of those asked fall silent in a round; at least one stays.

    >>> number_leaving(5, 0.1), number_leaving(4, 0.1), number_leaving(1, 0.5)
    (1, 0, 0)
    """
    return min(round_half_up(share * asked), asked - 1)


def leavings(asked: Sequence[int], share: float, seed: int, round: int, questions: int) -> Leavings:
    """Draw who falls silent in a round, at which of its first questions and in which turn.

    It depends on the seed, the round and the ids of those asked; whether sums are masked changes
    nothing: where they are not, a client that leaves before its masked vector has not answered.
    """
    rng, in_order = generator((seed, round, DROPOUT)), sorted(asked)
    number = number_leaving(len(in_order), share)
    who = rng.choice(len(in_order), number, replace=False)
    when = rng.integers(0, max(questions, 1), number)
    turn = rng.integers(0, len(TURNS), number)
    return {
        in_order[place]: Leaving(int(when[drawn]), TURNS[turn[drawn]])
        for drawn, place in enumerate(who)
    }


def silent_in(leaving: Leavings, question: int) -> dict[int, Turn]:
    """Return from which turn of a question on a client is silent; who left before, from the first.

    >>> silent_in({3: Leaving(1, "masked"), 5: Leaving(2, "keys")}, question=2)
    {3: 'keys', 5: 'keys'}
    """
    return {
        client: left.turn if left.question == question else TURNS[0]
        for client, left in leaving.items()
        if left.question <= question
    }


def counts(turn: Turn | None) -> bool:
    """Tell whether a client that is silent from a turn on (None: never) is in the sum.

    >>> counts("masked"), counts("confirmation"), counts(None)
    (False, True, True)
    """
    return turn is None or TURNS.index(turn) > TURNS.index("masked")


def round_half_up(value: float) -> int:
    """Round to the nearest whole number, halves up.

    >>> round_half_up(1.5), round_half_up(2.5)
    (2, 3)
    """
    return int(value + 0.5)
