"""The roster and the session of a sum, as all clients know them: everything here is public."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from fedfb.secure.encoding import (
    FormatError,
    ProtocolError,
    make_threshold_error,
    pack,
    pack_number,
    unpack,
    unpack_all,
)
from fedfb.secure.fixed_point import Part, Schema, count_words, hash_schema, make_schema
from fedfb.secure.graph import Plan, check_plan, find_neighbours
from fedfb.secure.keys import KEY_BYTES, PROTOCOL, Random, sha256, urandom

PERIOD_BYTES = 16
SERVER = 2**32 - 1
"""The id of the server as a sender or recipient."""


def draw_period(random: Random = urandom) -> bytes:
    """Draw the id of a key period: the time for which the link keys of a roster are valid."""
    return random(PERIOD_BYTES)


class ClientEntry(NamedTuple):
    """The entry of one client in a roster.

    ``link`` is the X25519 key with which the client talks to the server during a key period.
    ``identity`` is its Ed25519 key, empty where identities are not pinned.
    """

    id: int
    link: bytes
    identity: bytes


@dataclass(frozen=True)
class Roster:
    """The clients of a key period, the server's link key, and the plan of the graph."""

    period: bytes
    server: bytes
    clients: tuple[ClientEntry, ...]
    plan: Plan

    @cached_property
    def ids(self) -> tuple[int, ...]:
        return tuple(client.id for client in self.clients)

    @cached_property
    def digest(self) -> bytes:
        """A hash of the roster, which is part of every key."""
        clients = (pack(pack_number(p.id), p.link, p.identity) for p in self.clients)
        plan = b"".join(pack_number(value) for value in self.plan)
        return sha256(PROTOCOL, self.period, self.server, plan, *clients)

    @cached_property
    def neighbours(self) -> dict[int, tuple[int, ...]]:
        return find_neighbours(self.ids, self.plan.degree, self.digest)

    @cached_property
    def points(self) -> dict[int, int]:
        """The point at which each client's shares are evaluated: its place, counted from one."""
        return {client: place for place, client in enumerate(self.ids, start=1)}

    @cached_property
    def by_id(self) -> dict[int, ClientEntry]:
        return {client.id: client for client in self.clients}

    def holders(self, client: int) -> frozenset[int]:
        """Return the clients that hold shares of a client's secrets: its neighbours and itself."""
        return frozenset((*self.neighbours[client], client))


def make_roster(period: bytes, server: bytes, clients: Iterable[ClientEntry], plan: Plan) -> Roster:
    """Return a roster with its clients ordered by id; refuse what cannot be a roster.

    Args:
        period: 16 bytes from ``draw_period``, never used for other keys.
        server: the server's public link key.
        clients: the entries of all clients, in any order.
        plan: degree and thresholds for this number of clients.
    """
    roster = Roster(period, server, tuple(sorted(clients)), plan)
    keys = [server, *(client.link for client in roster.clients)]
    if len(period) != PERIOD_BYTES or any(len(key) != KEY_BYTES for key in keys):
        raise FormatError("a roster needs a key period of 16 bytes and link keys of 32.")
    if len(set(keys)) < len(keys):
        raise FormatError("two clients of the roster have the same link key.")
    if len(set(roster.ids)) < len(roster.ids):
        raise FormatError("the roster lists a client twice.")
    if not all(0 <= client < SERVER for client in roster.ids):
        raise FormatError(f"ids of clients are whole numbers from 0 to {SERVER - 1}.")
    if {len(client.identity) for client in roster.clients} not in ({0}, {KEY_BYTES}):
        raise FormatError("either every client of a roster has an identity of 32 bytes, or none.")
    check_plan(plan, len(roster.clients))
    return roster


def write_roster(roster: Roster) -> bytes:
    """Write a roster, to be sent once before the first sum."""
    clients = {client.id: pack(client.link, client.identity) for client in roster.clients}
    entries = [pack_number(id) + text for id, text in clients.items()]
    plan = b"".join(pack_number(value) for value in roster.plan)
    return pack(PROTOCOL, roster.period, roster.server, plan, pack(*entries))


def read_roster(data: bytes) -> Roster:
    """Read a roster; other bytes than ``write_roster`` returns are refused."""
    protocol, period, server, plan, entries = unpack(data, "the roster", 5)
    if protocol != PROTOCOL or len(plan) != 4 * len(Plan._fields):
        raise FormatError("the roster is not one of this version of the protocol.")
    numbers = (int.from_bytes(plan[i : i + 4], "big") for i in range(0, len(plan), 4))
    clients = [
        ClientEntry(int.from_bytes(entry[:4], "big"), *unpack(entry[4:], "a client", 2))
        for entry in unpack_all(entries, "the roster")
    ]
    roster = make_roster(period, server, clients, Plan(*numbers))
    # Every client hashes the roster, so there must be one way to write it.
    if write_roster(roster) != data:
        raise FormatError("the roster does not list its clients in the order of their ids.")
    return roster


@dataclass(frozen=True)
class Session:
    """One secure sum: the place of an exchange, its roster, and the schema of its uploads.

    ``context`` is a hash of all else that the clients of the sum must agree on, such as the task
    and its broadcast. Clients with different contexts never meet in one sum.
    """

    roster: Roster
    round: int
    exchange: int
    schema: Schema
    context: bytes = b""

    @cached_property
    def digest(self) -> bytes:
        """A hash of roster, round, exchange, schema and context: the salt of every derived key."""
        place = pack_number(self.round) + pack_number(self.exchange)
        context = [self.context] if self.context else []
        return sha256(PROTOCOL, self.roster.digest, place, hash_schema(self.schema), *context)

    @cached_property
    def words(self) -> int:
        return count_words(self.schema)

    def __post_init__(self) -> None:
        """Refuse numbers that do not fit into a header."""
        if not (0 <= self.round < 2**32 and 0 <= self.exchange < 2**32):
            raise ProtocolError(
                f"round {self.round}, exchange {self.exchange} is not a valid place."
            )


def make_session(
    roster: Roster, round: int, exchange: int, parts: Sequence[Part], context: bytes = b""
) -> Session:
    """Return the session of one exchange.

    Args:
        roster: the clients that are summed.
        round: the round of training.
        exchange: the number of the exchange within the round.
        parts: the arrays of an upload; their bounds must fit the number of clients.
        context: a hash of all else that the clients must agree on.
    """
    return Session(roster, round, exchange, make_schema(parts, len(roster.clients)), context)


def require_enough(clients: Iterable[int], session: Session, client: int | None, what: str) -> None:
    """Refuse too few clients: in all, and among the holders of one client's secrets.

    Args:
        clients: the ids of the clients that completed a turn.
        session: the sum.
        client: the client whose holders are counted too; None for the server.
        what: what the clients did, as a verb in the past, for errors.
    """
    subset, plan, place = frozenset(clients), session.roster.plan, (session.round, session.exchange)
    if len(subset) < plan.fewest:
        raise make_threshold_error(what, len(subset), plan.fewest, *place)
    if client is not None:
        holders = subset & session.roster.holders(client)
        if len(holders) < plan.threshold:
            near = f"near client {client} {what}"
            raise make_threshold_error(near, len(holders), plan.threshold, *place)
