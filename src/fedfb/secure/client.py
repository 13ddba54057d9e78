"""The client's side of one secure sum: state and message in, state and message out.

The order is join, share, mask, confirm, reveal (Bonawitz et al. 2017, figure 4). The consistency
check of their active variant uses tags in place of signatures. A state answers one kind of message,
once. The caller stores the new state before the message leaves, and never uses the old state again.
An error does not change the state.

A client keeps three things for the length of a key period: its keys, the roster, and the place of
the last exchange that it joined.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fedfb.secure.encoding import (
    AuthenticationError,
    FormatError,
    ProtocolError,
    make_threshold_error,
    pack,
    pack_entries,
    pack_set,
    unpack_entries,
)
from fedfb.secure.fixed_point import Part
from fedfb.secure.keys import (
    KEY_BYTES,
    TAG_BYTES,
    Random,
    agree,
    agree_all,
    check_tag,
    derive_identity_key,
    derive_key,
    derive_public_key,
    make_tag,
    sha256,
    sign,
    urandom,
)
from fedfb.secure.messages import (
    Kind,
    PublicKeys,
    SharePair,
    commit_seed,
    derive_pair_mask_keys,
    derive_self_mask_key,
    make_header,
    open_frame,
    read_header,
    read_key_list,
    read_share_list,
    read_survivors,
    seal_shares,
    unseal_shares,
    write_frame,
    write_masked_text,
    write_signed_text,
)
from fedfb.secure.roster import SERVER, ClientEntry, Roster, Session, make_session, require_enough
from fedfb.secure.secrets import Ring, add_masks, split_secret, write_ring


@dataclass(frozen=True)
class ClientKeys:
    """The private keys of one client for one key period.

    ``identity`` is an Ed25519 key, empty where identities are not pinned.
    """

    id: int
    link: bytes = field(repr=False)
    identity: bytes = field(repr=False)

    @property
    def entry(self) -> ClientEntry:
        """The public entry of this client in the roster."""
        identity = derive_identity_key(self.identity) if self.identity else b""
        return ClientEntry(self.id, derive_public_key(self.link), identity)


@dataclass(frozen=True)
class Membership:
    """The acceptance of a roster by one client.

    ``pins`` are the identities that the client expects, by id. ``last`` is the round and the
    exchange that the client joined last.
    """

    keys: ClientKeys
    roster: Roster
    pins: Mapping[int, bytes] | None = None
    last: tuple[int, int] = (-1, -1)


class ClientSets(NamedTuple):
    """The clients that completed each turn, as the server reported them to this client."""

    joined: frozenset[int] = frozenset()
    shared: frozenset[int] = frozenset()
    survived: frozenset[int] = frozenset()


@dataclass(frozen=True)
class ClientState:
    """One client within one sum.

    ``awaits`` is the only kind of message that the client will answer; None after the last one.
    """

    session: Session
    id: int
    awaits: Kind | None
    link: bytes = field(repr=False)
    channel_key: bytes = field(repr=False, default=b"")
    mask_key: bytes = field(repr=False, default=b"")
    identity: bytes = field(repr=False, default=b"")
    seed: bytes = field(repr=False, default=b"")
    peers: dict[int, PublicKeys] = field(repr=False, default_factory=dict)
    channels: dict[int, bytes] = field(repr=False, default_factory=dict)
    held: dict[int, SharePair] = field(repr=False, default_factory=dict)
    sets: ClientSets = field(default_factory=ClientSets)

    @property
    def neighbours(self) -> frozenset[int]:
        return frozenset(self.session.roster.neighbours[self.id])


def join(
    membership: Membership,
    invitation: bytes,
    schema: Sequence[Part],
    random: Random = urandom,
    context: bytes = b"",
) -> tuple[Membership, ClientState, bytes]:
    """Answer an invitation with fresh public keys.

    Args:
        membership: the client and the roster that it has accepted.
        invitation: the server's first message of this sum.
        schema: the parts that this client will upload. A server with another schema in mind is
            detected here, because the schema is part of every key.
        random: source of random bytes.
        context: see :class:`Session`; a server with another context is detected here too.

    Raises:
        ProtocolError: the invitation is for this exchange again, or for an earlier one.
    """
    header = read_header(invitation)
    place = (header.round, header.exchange)
    # Two sums of one exchange would differ in their clients: the difference is a single upload.
    if place <= membership.last:
        round, exchange = membership.last
        raise ProtocolError(
            f"{header} comes late: client {membership.keys.id} has joined round {round}, "
            f"exchange {exchange} already."
        )
    session = make_session(membership.roster, *place, schema, context)
    link = agree(membership.keys.link, membership.roster.server, "the server")
    # Fresh for each sum: what a revealed mask key opens is this sum's upload and no other.
    keys = (random(KEY_BYTES), random(KEY_BYTES))
    identity = membership.keys.identity
    state = ClientState(session, membership.keys.id, Kind.INVITATION, link, *keys, identity)
    if _open(state, invitation, Kind.INVITATION):
        raise FormatError("an invitation has no content.")
    public = b"".join(derive_public_key(key) for key in keys)
    signature = sign(identity, write_signed_text(session, state.id, public)) if identity else b""
    state, message = _send(state, Kind.KEYS, public + signature, Kind.KEY_LIST)
    return replace(membership, last=place), state, message


def share(
    state: ClientState, message: bytes, random: Random = urandom
) -> tuple[ClientState, bytes]:
    """Check the keys of the neighbours and share both secrets among them.

    The secrets are the seed of the self-mask, drawn here, and the private key of the pairwise
    masks. The hash of the seed lets the server detect shares that do not belong together.
    """
    body, session, me = _open(state, message, Kind.KEY_LIST), state.session, state.id
    joined, peers = read_key_list(body, session, me)
    # The client checks for itself: a server that names too few could unmask them.
    require_enough(joined, session, me, "joined")
    channels = agree_all(state.channel_key, {v: keys.channel for v, keys in peers.items()})
    seed, roster = random(KEY_BYTES), session.roster
    points = {client: roster.points[client] for client in (*peers, me)}
    seeds, keys = (
        split_secret(secret, roster.plan.threshold, list(points.values()), random)
        for secret in (seed, state.mask_key)
    )
    pairs = {client: SharePair(seeds[place], keys[place]) for client, place in points.items()}
    sealed = {
        client: seal_shares(pairs[client], channels[client], session, me, client)
        for client in peers
    }
    next_state = replace(
        state,
        seed=seed,
        peers=peers,
        channels=channels,
        held={me: pairs[me]},
        sets=ClientSets(joined=joined),
        channel_key=b"",
    )
    body = pack(commit_seed(session, seed), pack_entries(sealed))
    return _send(next_state, Kind.SHARES, body, Kind.SHARE_LIST)


def mask(state: ClientState, message: bytes, vector: Ring) -> tuple[ClientState, bytes]:
    r"""Store the shares of the neighbours and upload the masked vector.

    .. math:: y_u = x_u + G(b_u) + \sum_{v > u} G(s_{uv}) - \sum_{v < u} G(s_{uv})

    Where identities are pinned, the client signs the vector, so that every client can check the
    total later (:mod:`fedfb.secure.evidence`).
    """
    body, session, me = _open(state, message, Kind.SHARE_LIST), state.session, state.id
    if vector.shape != (session.words,):
        raise FormatError(f"a vector of shape {vector.shape}, expected {(session.words,)}.")
    shared, sealed = read_share_list(body, session, me, state.sets.joined)
    require_enough(shared, session, me, "shared their keys")
    received = {
        client: unseal_shares(text, state.channels[client], session, client, me)
        for client, text in sealed.items()
    }
    publics = {client: state.peers[client].mask for client in received}
    pairs = derive_pair_mask_keys(session, state.mask_key, me, publics)
    # Of two neighbours the lower id adds their common mask and the higher id subtracts it.
    masked = add_masks(
        vector,
        plus=[derive_self_mask_key(session, me, state.seed), *(pairs[v] for v in pairs if v > me)],
        minus=[pairs[v] for v in pairs if v < me],
    )
    # From here on the neighbours' shares alone can restore both secrets.
    next_state = replace(
        state,
        seed=b"",
        mask_key=b"",
        held=state.held | received,
        sets=state.sets._replace(shared=shared),
    )
    body = write_ring(masked)
    if state.identity:
        text = write_masked_text(session, me, commit_seed(session, state.seed), body)
        body += sign(state.identity, text)
    return _send(next_state, Kind.MASKED, body, Kind.SURVIVORS)


def confirm(state: ClientState, message: bytes) -> tuple[ClientState, bytes]:
    """Send every neighbour a tag over the survivors that the server has named.

    Each client reveals only after a threshold of its neighbours has confirmed the same sets. A
    server that names different survivors to different clients therefore gets a reveal from one side
    at most.
    """
    body, session, me = _open(state, message, Kind.SURVIVORS), state.session, state.id
    survived = read_survivors(body, session, me, state.sets.shared)
    require_enough(survived, session, me, "survived")
    next_state = replace(state, sets=state.sets._replace(survived=survived))
    text = _transcript(next_state)
    tags = {
        # The direction is part of the key: a tag cannot be sent back as its own answer.
        client: make_tag(
            derive_key(state.channels[client], session.digest, b"confirm", me, client), text
        )
        for client in state.neighbours & survived
    }
    return _send(next_state, Kind.CONFIRMATION, pack_entries(tags), Kind.CONFIRMATION_LIST)


def reveal(state: ClientState, message: bytes) -> tuple[ClientState, bytes]:
    """Send one share of each neighbour: of its seed if it survived, of its mask key if not.

    The survivors alone decide which of the two is sent, so a client never sends both. The state
    that is returned holds no share and answers no message.
    """
    body, session, me = _open(state, message, Kind.CONFIRMATION_LIST), state.session, state.id
    sets, neighbours = state.sets, state.neighbours
    tags = unpack_entries(body, "the confirmation list", TAG_BYTES)
    if not set(tags) <= neighbours & sets.survived:
        raise FormatError("the confirmation list has clients that are not surviving neighbours.")
    text = _transcript(state)
    for client, neighbour_tag in tags.items():
        key = derive_key(state.channels[client], session.digest, b"confirm", client, me)
        check_tag(key, text, neighbour_tag, f"client {client}'s view of the survivors")
    # The client itself confirms too.
    confirmed = len(tags) + 1
    if confirmed < session.roster.plan.threshold:
        place = (session.round, session.exchange)
        raise make_threshold_error("confirmed", confirmed, session.roster.plan.threshold, *place)
    # A client has two secrets. Seed and mask key together would open its upload: never send both.
    survivors, dropouts = sets.survived, sets.shared - sets.survived
    seeds = {client: state.held[client].seed for client in (neighbours | {me}) & survivors}
    mask_keys = {client: state.held[client].mask_key for client in neighbours & dropouts}
    next_state = ClientState(session, me, None, state.link)
    return _send(next_state, Kind.REVEAL, pack(pack_entries(seeds), pack_entries(mask_keys)), None)


def _transcript(state: ClientState) -> bytes:
    ids = state.session.roster.ids
    return sha256(b"transcript", *(pack_set(clients, ids) for clients in state.sets))


def _open(state: ClientState, message: bytes, kind: Kind) -> bytes:
    if state.awaits != kind:
        awaited = (
            f"awaits the {state.awaits.words}" if state.awaits else "has sent its last message"
        )
        raise ProtocolError(
            f"client {state.id} {awaited} of round {state.session.round}, exchange "
            f"{state.session.exchange}, and refuses the {kind.words}: it answers each message once."
        )
    return open_frame(message, make_header(state.session, kind, SERVER, state.id), state.link)


def _send(
    state: ClientState, kind: Kind, body: bytes, awaits: Kind | None
) -> tuple[ClientState, bytes]:
    message = write_frame(make_header(state.session, kind, state.id, SERVER), body, state.link)
    return replace(state, awaits=awaits), message


def make_client_keys(id: int, identity: bytes = b"", random: Random = urandom) -> ClientKeys:
    """Draw the link key of a client for one key period.

    Args:
        id: the client's number in the roster.
        identity: its Ed25519 private key, which outlives key periods; empty for no pinned identity.
        random: source of random bytes.
    """
    return ClientKeys(id, random(KEY_BYTES), identity)


def accept(
    keys: ClientKeys, roster: Roster, server: bytes, pins: Mapping[int, bytes] | None = None
) -> Membership:
    """Accept a roster, or refuse it.

    Args:
        keys: the client's own keys; the roster must list their public parts.
        roster: the roster as the server sent it.
        server: the server's link key, from a source other than the server.
        pins: the identities of all clients by id, from a source other than the server. Without
            pins, a server that invents clients is not detected.
    """
    if roster.server != server:
        raise AuthenticationError("the roster names another server key than the expected key.")
    if roster.by_id.get(keys.id) != keys.entry:
        raise ProtocolError(f"the roster does not list client {keys.id} with its own keys.")
    if pins is not None:
        strangers = [p.id for p in roster.clients if not p.identity or pins.get(p.id) != p.identity]
        if strangers:
            raise AuthenticationError(
                f"the roster gives clients {strangers} identities that are not the pinned ones."
            )
    return Membership(keys, roster, pins)


def change_roster(membership: Membership, roster: Roster) -> Membership:
    """Accept another roster of the same key period.

    The place of the last exchange stays: the client still refuses what it has joined before.
    """
    if roster.period != membership.roster.period:
        raise ProtocolError("a roster of another key period needs other keys: accept it anew.")
    accepted = accept(membership.keys, roster, membership.roster.server, membership.pins)
    return replace(accepted, last=membership.last)
