"""A party's side of one secure sum: state and message in, state and message out.

The order is join, share, mask, confirm, reveal (Bonawitz et al. 2017, figure 4, with the
consistency check of their active variant made of tags instead of signatures). A state answers one
kind of message, once: keep the new state before the message leaves, and the old one never again.
An error leaves the state as it was.

What a party keeps for the length of a run: its keys, the roster, and how far it has answered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fedfb.secure.encoding import pack, pack_entries, pack_set, unpack_entries
from fedfb.secure.errors import AuthenticationError, FormatError, ProtocolError, too_few
from fedfb.secure.fixed_point import Part
from fedfb.secure.keys import (
    KEY_BYTES,
    TAG_BYTES,
    Random,
    agree,
    agree_all,
    check_tag,
    derive,
    identity_public_key,
    public_key,
    sha256,
    sign,
    tag,
    urandom,
)
from fedfb.secure.masks import Ring, add_masks, ring_bytes
from fedfb.secure.messages import (
    HeldShares,
    Kind,
    PublicKeys,
    header_of,
    open_frame,
    pair_mask_keys,
    read_header,
    read_key_list,
    read_share_list,
    read_survivors,
    seal_shares,
    self_mask_key,
    signed_text,
    unseal_shares,
    write_frame,
)
from fedfb.secure.roster import SERVER, Party, Roster, Session, make_session, require_enough
from fedfb.secure.shares import split


@dataclass(frozen=True)
class PartyKeys:
    """The private keys of one party for one run. ``identity`` is empty where none is pinned."""

    id: int
    link: bytes = field(repr=False)
    identity: bytes = field(repr=False)

    @property
    def party(self) -> Party:
        """Its public entry in the roster."""
        identity = identity_public_key(self.identity) if self.identity else b""
        return Party(self.id, public_key(self.link), identity)


@dataclass(frozen=True)
class Member:
    """A party that has accepted a roster. ``last`` is the latest round and question it joined."""

    keys: PartyKeys
    roster: Roster
    pins: Mapping[int, bytes] | None = None
    last: tuple[int, int] = (-1, -1)


class Sets(NamedTuple):
    """Who has come how far, as the server told this party."""

    joined: frozenset[int] = frozenset()
    shared: frozenset[int] = frozenset()
    survived: frozenset[int] = frozenset()


@dataclass(frozen=True)
class ClientState:
    """One party within one sum. ``awaits`` is the one kind of message that it will answer."""

    session: Session
    id: int
    awaits: Kind | None
    link: bytes = field(repr=False)
    channel_key: bytes = field(repr=False, default=b"")
    mask_key: bytes = field(repr=False, default=b"")
    seed: bytes = field(repr=False, default=b"")
    peers: dict[int, PublicKeys] = field(repr=False, default_factory=dict)
    channels: dict[int, bytes] = field(repr=False, default_factory=dict)
    held: dict[int, HeldShares] = field(repr=False, default_factory=dict)
    sets: Sets = field(default_factory=Sets)

    @property
    def neighbours(self) -> frozenset[int]:
        return frozenset(self.session.roster.neighbours[self.id])


def join(
    member: Member, invitation: bytes, schema: Sequence[Part], random: Random = urandom
) -> tuple[Member, ClientState, bytes]:
    """Answer an invitation with fresh public keys.

    The schema is what this party is about to upload: a server that has another one in mind is
    noticed here. A round and question that were joined before, or earlier ones, are refused.
    """
    found = read_header(invitation)
    place = (found.round, found.question)
    if place <= member.last:
        raise ProtocolError(f"{found} comes late: party {member.keys.id} joined {member.last}.")
    session = make_session(member.roster, *place, schema)
    link = agree(member.keys.link, member.roster.server, "the server")
    keys = (random(KEY_BYTES), random(KEY_BYTES))
    state = ClientState(session, member.keys.id, Kind.INVITATION, link, *keys)
    if _open(state, invitation, Kind.INVITATION):
        raise FormatError("an invitation has no content.")
    public = b"".join(public_key(key) for key in keys)
    identity = member.keys.identity
    signature = sign(identity, signed_text(session, state.id, public)) if identity else b""
    state, message = _send(state, Kind.KEYS, public + signature, Kind.KEY_LIST)
    return replace(member, last=place), state, message


def share(
    state: ClientState, message: bytes, random: Random = urandom
) -> tuple[ClientState, bytes]:
    """Check the neighbours' keys and share both secrets among them.

    The secrets are the seed of the self-mask, just drawn, and the private key of the pairwise
    masks. The hash of the seed lets the server notice shares that do not fit together.
    """
    body, session, me = _open(state, message, Kind.KEY_LIST), state.session, state.id
    joined, peers = read_key_list(body, session, me)
    require_enough(joined, session, me, "joined")
    channels = agree_all(state.channel_key, {v: keys.channel for v, keys in peers.items()})
    seed, roster = random(KEY_BYTES), session.roster
    points = {party: roster.points[party] for party in (*peers, me)}
    seeds, keys = (
        split(secret, roster.plan.threshold, list(points.values()), random)
        for secret in (seed, state.mask_key)
    )
    cut = {party: HeldShares(seeds[place], keys[place]) for party, place in points.items()}
    sealed = {
        party: seal_shares(cut[party], channels[party], session, me, party) for party in peers
    }
    after = replace(
        state,
        seed=seed,
        peers=peers,
        channels=channels,
        held={me: cut[me]},
        sets=Sets(joined=joined),
        channel_key=b"",
    )
    body = pack(sha256(session.digest, seed), pack_entries(sealed))
    return _send(after, Kind.SHARES, body, Kind.SHARE_LIST)


def mask(state: ClientState, message: bytes, vector: Ring) -> tuple[ClientState, bytes]:
    r"""Keep the neighbours' shares and upload the masked vector.

    .. math:: y_u = x_u + G(b_u) + \sum_{v > u} G(s_{uv}) - \sum_{v < u} G(s_{uv})
    """
    body, session, me = _open(state, message, Kind.SHARE_LIST), state.session, state.id
    if vector.shape != (session.words,):
        raise FormatError(f"a vector of shape {vector.shape}, expected {(session.words,)}.")
    shared, sealed = read_share_list(body, session, me, state.sets.joined)
    require_enough(shared, session, me, "shared their keys")
    received = {
        party: unseal_shares(text, state.channels[party], session, party, me)
        for party, text in sealed.items()
    }
    publics = {party: state.peers[party].mask for party in received}
    pairs = pair_mask_keys(session, state.mask_key, me, publics)
    masked = add_masks(
        vector,
        plus=[self_mask_key(session, me, state.seed), *(pairs[v] for v in pairs if v > me)],
        minus=[pairs[v] for v in pairs if v < me],
    )
    after = replace(
        state,
        seed=b"",
        mask_key=b"",
        held=state.held | received,
        sets=state.sets._replace(shared=shared),
    )
    return _send(after, Kind.MASKED, ring_bytes(masked), Kind.SURVIVORS)


def confirm(state: ClientState, message: bytes) -> tuple[ClientState, bytes]:
    """Tell every neighbour, under the key with it, which survivors the server has named.

    A server that names different survivors to different parties then cannot get an answer from
    both: each reveals only after a threshold of its neighbours has confirmed the same sets.
    """
    body, session, me = _open(state, message, Kind.SURVIVORS), state.session, state.id
    survived = read_survivors(body, session, me, state.sets.shared)
    require_enough(survived, session, me, "survived")
    after = replace(state, sets=state.sets._replace(survived=survived))
    text = _transcript(after)
    tags = {
        party: tag(derive(state.channels[party], session.digest, b"confirm", me, party), text)
        for party in state.neighbours & survived
    }
    return _send(after, Kind.CONFIRMATION, pack_entries(tags), Kind.CONFIRMATION_LIST)


def reveal(state: ClientState, message: bytes) -> tuple[ClientState, bytes]:
    """Give one share of each neighbour: of its seed if it survived, of its mask key if not.

    Which of the two follows from the survivors alone, so both can never be given. Afterwards the
    state holds nothing and answers nothing.
    """
    body, session, me = _open(state, message, Kind.CONFIRMATION_LIST), state.session, state.id
    sets, near = state.sets, state.neighbours
    tags = unpack_entries(body, "the confirmation list", TAG_BYTES)
    if not set(tags) <= near & sets.survived:
        raise FormatError("the confirmation list has parties that are no surviving neighbours.")
    text = _transcript(state)
    for party, found in tags.items():
        key = derive(state.channels[party], session.digest, b"confirm", party, me)
        check_tag(key, text, found, f"party {party}'s view of the survivors")
    confirmed = len(tags) + 1
    if confirmed < session.roster.plan.threshold:
        place = (session.round, session.question)
        raise too_few("confirmed", confirmed, session.roster.plan.threshold, *place)
    alive = {party: state.held[party].seed for party in (near | {me}) & sets.survived}
    gone = {party: state.held[party].mask_key for party in near & (sets.shared - sets.survived)}
    after = ClientState(session, me, None, state.link)
    return _send(after, Kind.REVEAL, pack(pack_entries(alive), pack_entries(gone)), None)


def _transcript(state: ClientState) -> bytes:
    ids = state.session.roster.ids
    return sha256(b"transcript", *(pack_set(members, ids) for members in state.sets))


def _open(state: ClientState, message: bytes, kind: Kind) -> bytes:
    if state.awaits != kind:
        awaited = f"awaits the {state.awaits.words}" if state.awaits else "has given its answer"
        raise ProtocolError(
            f"party {state.id} {awaited} of round {state.session.round}, question "
            f"{state.session.question}, and refuses the {kind.words}: each is answered once."
        )
    return open_frame(message, header_of(state.session, kind, SERVER, state.id), state.link)


def _send(
    state: ClientState, kind: Kind, body: bytes, awaits: Kind | None
) -> tuple[ClientState, bytes]:
    message = write_frame(header_of(state.session, kind, state.id, SERVER), body, state.link)
    return replace(state, awaits=awaits), message


def make_party_keys(id: int, identity: bytes = b"", random: Random = urandom) -> PartyKeys:
    """Draw a party's link key for one run; an identity key outlives runs and is given."""
    return PartyKeys(id, random(KEY_BYTES), identity)


def accept(
    keys: PartyKeys, roster: Roster, server: bytes, pins: Mapping[int, bytes] | None = None
) -> Member:
    """Take part under this roster, or refuse it.

    ``server`` is the server's link key, and ``pins`` the identities of the parties, both known
    beforehand and not from the server. Without pins a server that makes up parties is not noticed.
    """
    if roster.server != server:
        raise AuthenticationError("the roster names another server key than the one expected.")
    if roster.by_id.get(keys.id) != keys.party:
        raise ProtocolError(f"the roster does not list party {keys.id} with its own keys.")
    if pins is not None:
        strange = [p.id for p in roster.parties if not p.identity or pins.get(p.id) != p.identity]
        if strange:
            raise AuthenticationError(
                f"the roster gives parties {strange} identities that are not the pinned ones."
            )
    return Member(keys, roster, pins)


def change_roster(member: Member, roster: Roster) -> Member:
    """Accept another roster of the same run; what was answered stays answered."""
    if roster.run != member.roster.run:
        raise ProtocolError("a roster of another run needs other keys: accept it anew.")
    accepted = accept(member.keys, roster, member.roster.server, member.pins)
    return replace(accepted, last=member.last)
