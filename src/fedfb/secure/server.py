r"""The server's side of one secure sum: it collects, passes on, and adds up.

``open_sum`` invites; ``receive`` takes one message; ``advance`` closes a phase with those who
answered and returns what to send to whom. After the last phase ``unmask`` gives the sum. A message
that is refused leaves the state as it was: its sender counts as silent until it sends a right one.

Take the masks off the sum.

Let :math:`U_2` have shared their secrets and :math:`U_3 \subseteq U_2` have uploaded. From the
shares the server restores :math:`b_u` of every :math:`u \in U_3` and the mask key of every
:math:`v \in U_2 \setminus U_3`, and never both of the same party:

.. math:: \sum_{u \in U_3} x_u = \sum_{u \in U_3} \Big( y_u - G(b_u)
          - \sum_{v \in U_2 \setminus U_3} \pm\, G(s_{uv}) \Big) \pmod{2^{64}}
"""

from collections.abc import Callable, Mapping
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
from fedfb.secure.errors import FormatError, ProtocolError, ThresholdError, too_few
from fedfb.secure.keys import KEY_BYTES, TAG_BYTES, agree, public_key, sha256
from fedfb.secure.masks import Ring, add_masks, read_ring
from fedfb.secure.messages import (
    SEALED_BYTES,
    Header,
    Kind,
    header_of,
    open_frame,
    pair_mask_keys,
    read_header,
    read_keys,
    self_mask_key,
    write_frame,
)
from fedfb.secure.roster import SERVER, Session, require_enough
from fedfb.secure.shares import (
    SHARE_BYTES,
    chosen_points,
    combine_weighted,
    read_share,
    weights_at_zero,
)


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


class Total(NamedTuple):
    """A sum in the ring and whose vectors are in it."""

    vector: Ring
    survivors: tuple[int, ...]


def unmask(state: ServerState) -> Total:
    """Return the sum of the survivors' vectors; every restored secret is checked first."""
    if state.awaits is not None or state.masked is None:
        raise ProtocolError("the sum is not complete: close the last phase first.")
    session, restore = state.session, _restorer(state.session)
    gone = state.shared - state.survived
    plus: list[bytes] = []
    minus = [
        self_mask_key(session, party, _seed_of(state, restore, party))
        for party in sorted(state.survived)
    ]
    for party in sorted(gone):
        private = _mask_key_of(state, restore, party)
        peers = state.survived & frozenset(session.roster.neighbours[party])
        publics = {peer: mask_public_key(state, peer) for peer in peers}
        pairs = pair_mask_keys(session, private, party, publics)
        # A survivor has added the mask if the lost party's id is higher than its own.
        minus += [key for peer, key in pairs.items() if party > peer]
        plus += [key for peer, key in pairs.items() if party < peer]
    return Total(add_masks(state.masked, plus, minus), tuple(sorted(state.survived)))


Restore = Callable[[Mapping[int, bytes], int, str], bytes]


def _restorer(session: Session) -> Restore:
    known: dict[tuple[int, ...], dict[int, int]] = {}
    points, threshold = session.roster.points, session.roster.plan.threshold

    def restore(shares: Mapping[int, bytes], party: int, what: str) -> bytes:
        if len(shares) < threshold:
            raise ThresholdError(
                f"round {session.round}, question {session.question}: {len(shares)} holders gave "
                f"their share of the {what} of party {party}, at least {threshold} must. The sum "
                "stays masked."
            )
        placed = {points[holder]: share for holder, share in shares.items()}
        chosen = chosen_points(placed, threshold)
        # Neighbours on the complete graph interpolate from the same points.
        if chosen not in known:
            known[chosen] = weights_at_zero(chosen)
        return combine_weighted(placed, known[chosen])

    return restore


def _seed_of(state: ServerState, restore: Restore, party: int) -> bytes:
    shares = {w: r.seeds[party] for w, r in state.revealed.items() if party in r.seeds}
    seed = restore(shares, party, "self-mask")
    if sha256(state.session.digest, seed) != state.commitments[party]:
        raise _broken(party, "self-mask")
    return seed


def _mask_key_of(state: ServerState, restore: Restore, party: int) -> bytes:
    shares = {w: r.mask_keys[party] for w, r in state.revealed.items() if party in r.mask_keys}
    private = restore(shares, party, "mask key")
    if public_key(private) != mask_public_key(state, party):
        raise _broken(party, "mask key")
    return private


def _broken(party: int, what: str) -> ProtocolError:
    return ProtocolError(
        f"the shares of the {what} of party {party} restore something else than it committed to: "
        "a holder, or the party itself, gave false shares. The sum stays masked."
    )
