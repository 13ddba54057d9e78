"""The server's side of one secure sum: it collects, passes on, and adds up.

``open_sum`` invites; ``receive`` takes one message; ``advance`` closes a phase with those who
answered and returns what to send to whom. After the last phase ``unmask`` gives the sum. A message
that is refused leaves the state as it was: its sender counts as silent until it sends a right one.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fedfb.secure.encoding import (
    pack,
    pack_entries,
    pack_set,
    require_parties,
    unpack,
    unpack_entries,
)
from fedfb.secure.errors import FormatError, ProtocolError, too_few
from fedfb.secure.frames import Header, Kind, header_of, open_frame, read_header, write_frame
from fedfb.secure.keys import KEY_BYTES, TAG_BYTES, agree
from fedfb.secure.masks import Ring, read_ring
from fedfb.secure.messages import SEALED_BYTES, read_keys
from fedfb.secure.roster import SERVER, Session, require_enough
from fedfb.secure.shares import SHARE_BYTES, read_share


class Revealed(NamedTuple):
    """The shares that one party gave: of the seeds of survivors, of the mask keys of the gone."""

    seeds: dict[int, bytes]
    mask_keys: dict[int, bytes]


@dataclass(frozen=True)
class ServerState:
    """One sum as far as it has come. ``awaits`` is the kind of message that is being collected.

    ``arrived`` are the bodies of this phase by sender; ``sums`` the masked vectors added up.
    """

    session: Session
    awaits: Kind | None
    links: dict[int, bytes] = field(repr=False)
    expected: frozenset[int]
    arrived: dict[int, bytes] = field(repr=False, default_factory=dict)
    keys: dict[int, bytes] = field(repr=False, default_factory=dict)
    commitments: dict[int, bytes] = field(repr=False, default_factory=dict)
    shared: frozenset[int] = frozenset()
    survived: frozenset[int] = frozenset()
    masked: Ring | None = field(repr=False, default=None)
    revealed: dict[int, Revealed] = field(repr=False, default_factory=dict)


Messages = dict[int, bytes]
"""What to send, by party."""


def open_sum(session: Session, link_key: bytes) -> tuple[ServerState, Messages]:
    """Invite all parties of the roster. ``link_key`` is the server's private key of the run."""
    parties = session.roster.parties
    links = {party.id: agree(link_key, party.link, f"party {party.id}") for party in parties}
    state = ServerState(session, Kind.KEYS, links, frozenset(links))
    return state, _to_all(state, Kind.INVITATION, dict.fromkeys(links, b""))


def receive(state: ServerState, message: bytes) -> ServerState:
    """Take one party's message: the first one of this phase, authentic and well formed."""
    header = read_header(message)
    if state.awaits is None:
        raise ProtocolError(f"{header} comes after the end of the sum.")
    _require_awaited(state, header)
    expected = header_of(state.session, state.awaits, header.sender, SERVER)
    body = open_frame(message, expected, state.links[header.sender])
    return READERS[state.awaits](state, header.sender, body)


def _require_awaited(state: ServerState, header: Header) -> None:
    if header.sender not in state.expected:
        raise ProtocolError(f"{header} is not expected: it never joined, or fell silent before.")
    if header.sender in state.arrived and header.kind == state.awaits:
        raise ProtocolError(f"{header} has come already; one of each kind is taken.")


def _near(state: ServerState, party: int, members: frozenset[int]) -> frozenset[int]:
    return members & frozenset(state.session.roster.neighbours[party])


def _arrive(state: ServerState, sender: int, body: bytes) -> ServerState:
    return replace(state, arrived={**state.arrived, sender: body})


def _receive_keys(state: ServerState, sender: int, body: bytes) -> ServerState:
    read_keys(body, state.session, sender)
    return _arrive(state, sender, body)


def _receive_shares(state: ServerState, sender: int, body: bytes) -> ServerState:
    commitment, sealed = unpack(body, "the shares", 2)
    entries = unpack_entries(sealed, f"the shares of party {sender}", SEALED_BYTES)
    require_parties(entries, _near(state, sender, state.expected), f"the shares of {sender}")
    if len(commitment) != 32:
        raise FormatError(f"the commitment of party {sender} has not 32 bytes.")
    known = {**state.commitments, sender: commitment}
    return replace(_arrive(state, sender, sealed), commitments=known)


def _receive_masked(state: ServerState, sender: int, body: bytes) -> ServerState:
    vector = read_ring(body, state.session.words, f"the masked vector of party {sender}")
    total = vector if state.masked is None else state.masked + vector
    return replace(_arrive(state, sender, b""), masked=total)


def _receive_confirmation(state: ServerState, sender: int, body: bytes) -> ServerState:
    tags = unpack_entries(body, f"the confirmation of party {sender}", TAG_BYTES)
    require_parties(tags, _near(state, sender, state.survived), f"the confirmation of {sender}")
    return _arrive(state, sender, body)


def _receive_reveal(state: ServerState, sender: int, body: bytes) -> ServerState:
    alive, gone = (
        unpack_entries(part, f"the reveal of party {sender}", SHARE_BYTES)
        for part in unpack(body, "the reveal", 2)
    )
    surviving = _near(state, sender, state.survived) | {sender}
    require_parties(alive, surviving, f"the seed shares of party {sender}")
    fallen = _near(state, sender, state.shared - state.survived)
    require_parties(gone, fallen, f"the mask key shares of party {sender}")
    for share in (*alive.values(), *gone.values()):
        read_share(share)
    given = {**state.revealed, sender: Revealed(alive, gone)}
    return replace(_arrive(state, sender, b""), revealed=given)


READERS = {
    Kind.KEYS: _receive_keys,
    Kind.SHARES: _receive_shares,
    Kind.MASKED: _receive_masked,
    Kind.CONFIRMATION: _receive_confirmation,
    Kind.REVEAL: _receive_reveal,
}


def advance(state: ServerState) -> tuple[ServerState, Messages]:
    """Close this phase with those who answered, and return the next messages.

    Too few answers are refused, and the phase stays open.
    """
    if state.awaits is None:
        raise ProtocolError("the sum is complete: there is no phase to close.")
    if state.awaits is Kind.REVEAL:
        return replace(state, awaits=None, expected=frozenset(), arrived={}), {}
    return CLOSERS[state.awaits](state, frozenset(state.arrived))


def _close_keys(state: ServerState, joined: frozenset[int]) -> tuple[ServerState, Messages]:
    require_enough(joined, state.session, None, "joined")
    members = pack_set(joined, state.session.roster.ids)
    bodies = {
        party: pack(members, pack_entries(_pick(state.arrived, _near(state, party, joined))))
        for party in joined
    }
    after = _next(replace(state, keys=state.arrived), Kind.SHARES, joined)
    return after, _to_all(after, Kind.KEY_LIST, bodies)


def _close_shares(state: ServerState, shared: frozenset[int]) -> tuple[ServerState, Messages]:
    require_enough(shared, state.session, None, "shared their keys")
    members = pack_set(shared, state.session.roster.ids)
    posted = {
        sender: unpack_entries(sealed, "the shares", SEALED_BYTES)
        for sender, sealed in state.arrived.items()
    }
    bodies = {
        party: pack(
            members,
            pack_entries({u: posted[u][party] for u in _near(state, party, shared)}),
        )
        for party in shared
    }
    after = _next(replace(state, shared=shared), Kind.MASKED, shared)
    return after, _to_all(after, Kind.SHARE_LIST, bodies)


def _close_masked(state: ServerState, survived: frozenset[int]) -> tuple[ServerState, Messages]:
    require_enough(survived, state.session, None, "uploaded")
    body = pack_set(survived, state.session.roster.ids)
    after = _next(replace(state, survived=survived), Kind.CONFIRMATION, survived)
    return after, _to_all(after, Kind.SURVIVORS, dict.fromkeys(survived, body))


def _close_confirmations(
    state: ServerState, agreed: frozenset[int]
) -> tuple[ServerState, Messages]:
    session, threshold = state.session, state.session.roster.plan.threshold
    if len(agreed) < threshold:
        raise too_few("confirmed", len(agreed), threshold, session.round, session.question)
    tags = {
        sender: unpack_entries(body, "the confirmation", TAG_BYTES)
        for sender, body in state.arrived.items()
    }
    bodies = {
        party: pack_entries({u: tags[u][party] for u in _near(state, party, agreed)})
        for party in agreed
    }
    after = _next(state, Kind.REVEAL, agreed)
    return after, _to_all(after, Kind.CONFIRMATION_LIST, bodies)


CLOSERS = {
    Kind.KEYS: _close_keys,
    Kind.SHARES: _close_shares,
    Kind.MASKED: _close_masked,
    Kind.CONFIRMATION: _close_confirmations,
}


def mask_public_key(state: ServerState, party: int) -> bytes:
    """Return the public key of a party's pairwise masks."""
    return state.keys[party][KEY_BYTES : 2 * KEY_BYTES]


def _next(state: ServerState, awaits: Kind, expected: frozenset[int]) -> ServerState:
    return replace(state, awaits=awaits, expected=expected, arrived={})


def _pick(entries: dict[int, bytes], members: frozenset[int]) -> dict[int, bytes]:
    return {party: entries[party] for party in members}


def _to_all(state: ServerState, kind: Kind, bodies: Messages) -> Messages:
    return {
        party: write_frame(
            header_of(state.session, kind, SERVER, party), bodies[party], state.links[party]
        )
        for party in sorted(bodies)
    }
