"""All clients of a secure sum in one process, with the same messages as over a network.

For simulations, tests and benchmarks. A network replaces only this file: it carries the same
messages between the same functions.
"""

from collections.abc import Mapping
from typing import NamedTuple

from fedfb.secure.client import ClientState, Membership, confirm, join, mask, reveal, share
from fedfb.secure.evidence import Total
from fedfb.secure.keys import Random, urandom
from fedfb.secure.messages import Kind
from fedfb.secure.roster import SERVER, Session
from fedfb.secure.secrets import Ring
from fedfb.secure.server import Messages, advance, open_sum, receive, unmask


class SentMessage(NamedTuple):
    """The record of one message; ``size`` in bytes."""

    kind: Kind
    sender: int
    recipient: int
    size: int


class SecureSum(NamedTuple):
    """A total, the memberships after the sum, and a record of every message."""

    total: Total
    memberships: dict[int, Membership]
    messages: tuple[SentMessage, ...]


_NOBODY: Mapping[int, Kind] = {}


def sum_in_process(
    session: Session,
    link_key: bytes,
    memberships: Mapping[int, Membership],
    vectors: Mapping[int, Ring],
    silent: Mapping[int, Kind] = _NOBODY,
    random: Random = urandom,
) -> SecureSum:
    """Run one secure sum over all clients.

    Args:
        session: the sum: its roster, its place and its schema.
        link_key: the server's private link key.
        memberships: the clients of the roster, by id.
        vectors: what each client uploads, encoded for the session's schema.
        silent: for each client that drops out, the first message that it does not send. A client
            that drops out at ``MASKED`` or before is not in the total.
        random: source of random bytes.

    Raises:
        ThresholdError: too many clients dropped out. The sum stays masked.
    """
    server, outgoing = open_sum(session, link_key)
    updated, states, sent = dict(memberships), dict[int, ClientState](), list[SentMessage]()
    for kind in (Kind.KEYS, Kind.SHARES, Kind.MASKED, Kind.CONFIRMATION, Kind.REVEAL):
        sent += _record(kind - 1, outgoing)
        for id, message in outgoing.items():
            if silent.get(id, len(Kind)) <= kind:
                continue
            if kind is Kind.KEYS:
                updated[id], states[id], reply = join(updated[id], message, session.schema, random)
            else:
                states[id], reply = _answer(states[id], message, vectors[id], random)
            sent.append(SentMessage(kind, id, SERVER, len(reply)))
            server = receive(server, reply)
        server, outgoing = advance(server)
    return SecureSum(unmask(server), updated, tuple(sent))


def _answer(
    state: ClientState, message: bytes, vector: Ring, random: Random
) -> tuple[ClientState, bytes]:
    if state.awaits is Kind.KEY_LIST:
        return share(state, message, random)
    if state.awaits is Kind.SHARE_LIST:
        return mask(state, message, vector)
    if state.awaits is Kind.SURVIVORS:
        return confirm(state, message)
    return reveal(state, message)


def _record(kind: int, outgoing: Messages) -> list[SentMessage]:
    return [SentMessage(Kind(kind), SERVER, id, len(message)) for id, message in outgoing.items()]
