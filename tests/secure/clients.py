"""Small federations for the tests, and a run in which any message can be changed on its way."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fedfb import secure
from fedfb.secure import Kind, SecureError

TURNS = (Kind.KEYS, Kind.SHARES, Kind.MASKED, Kind.CONFIRMATION, Kind.REVEAL)


def seeded(seed):
    return random.Random(seed).randbytes


@dataclass(frozen=True)
class Federation:
    server_key: bytes
    memberships: dict
    session: secure.Session

    @property
    def roster(self):
        return self.session.roster

    def at(self, round, exchange=0):
        """The same clients at another exchange."""
        schema = self.session.schema
        session = secure.make_session(self.roster, round, exchange, schema)
        return Federation(self.server_key, self.memberships, session)


def identity_key(id):
    return bytes([id + 1]) * 32


def federation(clients, words=4, seed=0, pinned=False, plan=None, period=None, first=0):
    draw = seeded(f"{seed}")
    server_key = secure.make_link_key(draw)
    server = secure.derive_public_key(server_key)
    keys = [
        secure.make_client_keys(id, identity_key(id) if pinned else b"", draw)
        for id in range(first, first + clients)
    ]
    plan = plan or secure.make_plan(clients)
    entries = [key.entry for key in keys]
    roster = secure.make_roster(period or secure.draw_period(draw), server, entries, plan)
    pins = {client.id: client.identity for client in entries} if pinned else None
    memberships = {key.id: secure.accept(key, roster, server, pins) for key in keys}
    schema = [secure.Part("x", (words,), bound=2.0**50, bits=0)]
    return Federation(server_key, memberships, secure.make_session(roster, 0, 0, schema))


def ring_vectors(fed, seed=0):
    """Any elements of the ring: the protocol is exact for them, whatever they encode."""
    rng = np.random.default_rng(seed)
    words = fed.session.words
    return {id: rng.integers(0, 2**64, size=words, dtype=np.uint64) for id in fed.memberships}


def plain_sum(vectors, ids):
    total = np.zeros_like(next(iter(vectors.values())))
    for id in ids:
        total = total + vectors[id]
    return total


Forge = Callable[[Kind, int, bytes], bytes]


def honest(kind: Kind, client: int, message: bytes) -> bytes:
    return message


def client_step(fed, states, turn, id, message, vectors, draw):
    """Answer as client ``id``; the new state is kept in ``states``."""
    if turn is Kind.KEYS:
        _, states[id], reply = secure.join(fed.memberships[id], message, fed.session.schema, draw)
    elif turn is Kind.SHARES:
        states[id], reply = secure.share(states[id], message, draw)
    elif turn is Kind.MASKED:
        states[id], reply = secure.mask(states[id], message, vectors[id])
    else:
        step = secure.confirm if turn is Kind.CONFIRMATION else secure.reveal
        states[id], reply = step(states[id], message)
    return reply


def play(
    fed: Federation,
    vectors: Mapping,
    forge: Forge = honest,
    silent: Mapping = {},
    draw=None,
):
    """Run a sum; ``forge`` may change each message, by its kind and the client at its end.

    A client that refuses a message is silent from then on, and so is one that the server refuses.
    """
    draw, states = draw or seeded(1), {}
    server, outgoing = secure.open_sum(fed.session, fed.server_key)
    for turn in TURNS:
        for id, message in outgoing.items():
            if silent.get(id, len(Kind)) <= turn:
                continue
            try:
                received = forge(Kind(turn - 1), id, message)
                reply = client_step(fed, states, turn, id, received, vectors, draw)
                server = secure.receive(server, forge(turn, id, reply))
            except SecureError:
                continue
        server, outgoing = secure.advance(server)
    return secure.unmask(server)


@dataclass(frozen=True)
class Delivery:
    """One message of a recorded run, and what its reader does with any bytes in its place."""

    kind: Kind
    client: int
    message: bytes
    read: Callable[[bytes], object]


def record(fed, vectors, draw=None):
    """Run a sum and return every message with its reader in the state it then was in."""
    draw, states, deliveries = draw or seeded(1), {}, []
    server, outgoing = secure.open_sum(fed.session, fed.server_key)
    for turn in TURNS:
        for id, message in outgoing.items():
            deliveries.append(
                Delivery(Kind(turn - 1), id, message, client_reader(fed, states, turn, id, vectors))
            )
            reply = client_step(fed, states, turn, id, message, vectors, draw)
            deliveries.append(Delivery(turn, id, reply, server_reader(server)))
            server = secure.receive(server, reply)
        server, outgoing = secure.advance(server)
    return deliveries, secure.unmask(server)


def client_reader(fed, states, turn, id, vectors):
    before = dict(states)
    return lambda bytes_: client_step(fed, dict(before), turn, id, bytes_, vectors, seeded(2))


def server_reader(server):
    return lambda bytes_: secure.receive(server, bytes_)
