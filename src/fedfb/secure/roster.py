"""Who takes part in which sum, as all parties know it: everything here is public."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from fedfb.secure.encoding import number, pack, unpack, unpack_all
from fedfb.secure.errors import FormatError, ProtocolError, too_few
from fedfb.secure.fixed_point import Part, Schema, make_schema, schema_digest, words
from fedfb.secure.graph import Plan, check_plan, neighbours
from fedfb.secure.keys import KEY_BYTES, PROTOCOL, Random, sha256, urandom

RUN_BYTES = 16
SERVER = 2**32 - 1
"""The server's place among the ids of senders and recipients."""


def new_run(random: Random = urandom) -> bytes:
    """Draw the id of a run."""
    return random(RUN_BYTES)


class Party(NamedTuple):
    """One party of a roster.

    ``link`` is the X25519 key with which it talks to the server for the length of a run,
    ``identity`` its Ed25519 key, empty where identities are not pinned.
    """

    id: int
    link: bytes
    identity: bytes


@dataclass(frozen=True)
class Roster:
    """The parties of a run, the server's link key, and how the parties are tied together."""

    run: bytes
    server: bytes
    parties: tuple[Party, ...]
    plan: Plan

    @cached_property
    def ids(self) -> tuple[int, ...]:
        return tuple(party.id for party in self.parties)

    @cached_property
    def digest(self) -> bytes:
        """A hash of all of it; it goes into every key."""
        parties = (pack(number(p.id), p.link, p.identity) for p in self.parties)
        plan = b"".join(number(value) for value in self.plan)
        return sha256(PROTOCOL, self.run, self.server, plan, *parties)

    @cached_property
    def neighbours(self) -> dict[int, tuple[int, ...]]:
        return neighbours(self.ids, self.plan.degree, self.digest)

    @cached_property
    def points(self) -> dict[int, int]:
        """Where each party's shares are taken: its place, counted from one."""
        return {party: place for place, party in enumerate(self.ids, start=1)}

    @cached_property
    def by_id(self) -> dict[int, Party]:
        return {party.id: party for party in self.parties}

    def holders(self, party: int) -> frozenset[int]:
        """Return who holds shares of a party's secrets: its neighbours and itself."""
        return frozenset((*self.neighbours[party], party))


def make_roster(run: bytes, server: bytes, parties: Iterable[Party], plan: Plan) -> Roster:
    """Order the parties by id and refuse what cannot be a roster.

    ``run`` is 16 bytes that no other run has.
    """
    roster = Roster(run, server, tuple(sorted(parties)), plan)
    keys = [server, *(party.link for party in roster.parties)]
    if len(run) != RUN_BYTES or any(len(key) != KEY_BYTES for key in keys):
        raise FormatError("a roster needs a run id of 16 bytes and link keys of 32.")
    if len(set(keys)) < len(keys):
        raise FormatError("two parties of the roster have the same link key.")
    if len(set(roster.ids)) < len(roster.ids):
        raise FormatError("a party stands twice on the roster.")
    if not all(0 <= party < SERVER for party in roster.ids):
        raise FormatError(f"ids of parties are whole numbers from 0 to {SERVER - 1}.")
    if {len(party.identity) for party in roster.parties} not in ({0}, {KEY_BYTES}):
        raise FormatError("either every party of a roster has an identity of 32 bytes, or none.")
    check_plan(plan, len(roster.parties))
    return roster


def write_roster(roster: Roster) -> bytes:
    """Write a roster, to be sent once before the first sum."""
    parties = {party.id: pack(party.link, party.identity) for party in roster.parties}
    entries = [number(id) + text for id, text in parties.items()]
    plan = b"".join(number(value) for value in roster.plan)
    return pack(PROTOCOL, roster.run, roster.server, plan, pack(*entries))


def read_roster(data: bytes) -> Roster:
    """Read a roster; what is not one, or not written in its one way, is refused."""
    protocol, run, server, plan, entries = unpack(data, "the roster", 5)
    if protocol != PROTOCOL or len(plan) != 4 * len(Plan._fields):
        raise FormatError("the roster is not one of this version of the protocol.")
    numbers = (int.from_bytes(plan[i : i + 4], "big") for i in range(0, len(plan), 4))
    parties = [
        Party(int.from_bytes(entry[:4], "big"), *unpack(entry[4:], "a party", 2))
        for entry in unpack_all(entries, "the roster")
    ]
    roster = make_roster(run, server, parties, Plan(*numbers))
    if write_roster(roster) != data:
        raise FormatError("the roster does not list its parties in the order of their ids.")
    return roster


@dataclass(frozen=True)
class Session:
    """One secure sum: a question of a round of a run, and the schema of its answer."""

    roster: Roster
    round: int
    question: int
    schema: Schema

    @cached_property
    def digest(self) -> bytes:
        """A hash of run, roster, round, question and schema; salt of every derived key."""
        place = number(self.round) + number(self.question)
        return sha256(PROTOCOL, self.roster.digest, place, schema_digest(self.schema))

    @cached_property
    def words(self) -> int:
        return words(self.schema)

    def __post_init__(self) -> None:
        """Refuse numbers that do not fit into a header."""
        if not (0 <= self.round < 2**32 and 0 <= self.question < 2**32):
            raise ProtocolError(f"round {self.round}, question {self.question} is no place.")


def make_session(roster: Roster, round: int, question: int, parts: Sequence[Part]) -> Session:
    """Return the session of a question; its schema must fit the number of parties."""
    return Session(roster, round, question, make_schema(parts, len(roster.parties)))


def require_enough(found: Iterable[int], session: Session, party: int | None, what: str) -> None:
    """Refuse too few parties: in all, and among the holders of one party's secrets."""
    from_all, plan, place = frozenset(found), session.roster.plan, (session.round, session.question)
    if len(from_all) < plan.fewest:
        raise too_few(what, len(from_all), plan.fewest, *place)
    if party is not None:
        near = from_all & session.roster.holders(party)
        if len(near) < plan.threshold:
            raise too_few(f"near party {party} {what}", len(near), plan.threshold, *place)
