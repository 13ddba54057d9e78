"""All parties of a secure sum in one process: the whole protocol, byte for byte, and who drops out.

For simulations, tests and benchmarks. A network replaces this file alone: it carries the same
messages between the same functions.
"""

from collections.abc import Mapping
from typing import NamedTuple

from fedfb.secure import client as party_side
from fedfb.secure.client import ClientState, Member
from fedfb.secure.keys import Random, urandom
from fedfb.secure.masks import Ring
from fedfb.secure.messages import Kind
from fedfb.secure.roster import SERVER, Session
from fedfb.secure.server import Messages, Total, advance, open_sum, receive, unmask


class Sent(NamedTuple):
    """One message as it crossed the boundary; ``size`` in bytes."""

    kind: Kind
    sender: int
    recipient: int
    size: int


class Summed(NamedTuple):
    """A sum, the members as they are afterwards, and every message."""

    total: Total
    members: dict[int, Member]
    sent: tuple[Sent, ...]


NOBODY: Mapping[int, Kind] = {}


def sum_in_process(
    session: Session,
    link_key: bytes,
    members: Mapping[int, Member],
    vectors: Mapping[int, Ring],
    silent: Mapping[int, Kind] = NOBODY,
    random: Random = urandom,
) -> Summed:
    """Run one secure sum over all members.

    ``silent`` says from which of its messages on a party sends nothing any more: one that is silent
    from ``MASKED`` on or before is not in the sum. Raises ``ThresholdError`` if too many are.
    """
    server, outgoing = open_sum(session, link_key)
    after, states, sent = dict(members), dict[int, ClientState](), list[Sent]()
    for kind in (Kind.KEYS, Kind.SHARES, Kind.MASKED, Kind.CONFIRMATION, Kind.REVEAL):
        sent += _record(kind - 1, outgoing)
        for id, message in outgoing.items():
            if silent.get(id, len(Kind)) <= kind:
                continue
            if kind is Kind.KEYS:
                after[id], states[id], answer = party_side.join(
                    after[id], message, session.schema, random
                )
            else:
                states[id], answer = _answer(states[id], message, vectors[id], random)
            sent.append(Sent(kind, id, SERVER, len(answer)))
            server = receive(server, answer)
        server, outgoing = advance(server)
    return Summed(unmask(server), after, tuple(sent))


def _answer(
    state: ClientState, message: bytes, vector: Ring, random: Random
) -> tuple[ClientState, bytes]:
    if state.awaits is Kind.KEY_LIST:
        return party_side.share(state, message, random)
    if state.awaits is Kind.SHARE_LIST:
        return party_side.mask(state, message, vector)
    if state.awaits is Kind.SURVIVORS:
        return party_side.confirm(state, message)
    return party_side.reveal(state, message)


def _record(kind: int, outgoing: Messages) -> list[Sent]:
    return [Sent(Kind(kind), SERVER, id, len(message)) for id, message in outgoing.items()]
