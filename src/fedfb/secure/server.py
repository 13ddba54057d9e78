r"""The server's side of one secure sum: it collects, passes on, adds up and unmasks.

``open_sum`` invites, ``receive`` takes one message, ``advance`` closes a turn with the clients that
answered and returns the next messages. After the last turn ``unmask`` returns the total. A message
that is refused does not change the state: its sender counts as silent until it sends a valid one.

Let :math:`U_2` be the clients that have shared their secrets and :math:`U_3 \subseteq U_2` those
that have uploaded. From the shares the server restores :math:`b_u` of every :math:`u \in U_3` and
the mask key of every :math:`v \in U_2 \setminus U_3`, and never both of the same client:

.. math:: \sum_{u \in U_3} x_u = \sum_{u \in U_3} \Big( y_u - G(b_u)
          - \sum_{v \in U_2 \setminus U_3} \pm\, G(s_{uv}) \Big) \pmod{2^{64}}
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fedfb.secure.encoding import (
    FormatError,
    ProtocolError,
    ThresholdError,
    make_threshold_error,
    pack,
    pack_entries,
    pack_set,
    require_clients,
    unpack,
    unpack_entries,
)
from fedfb.secure.keys import KEY_BYTES, TAG_BYTES, agree, derive_public_key, sha256
from fedfb.secure.messages import (
    SEALED_BYTES,
    Header,
    Kind,
    derive_pair_mask_keys,
    derive_self_mask_key,
    make_header,
    open_frame,
    read_header,
    read_keys,
    write_frame,
)
from fedfb.secure.roster import SERVER, Session, require_enough
from fedfb.secure.secrets import (
    SHARE_BYTES,
    Ring,
    add_masks,
    choose_points,
    combine_weighted,
    find_weights_at_zero,
    read_ring,
    read_share,
)


class RevealedShares(NamedTuple):
    """The shares that one client sent: of the seeds of survivors, of the mask keys of drop-outs."""

    seeds: dict[int, bytes]
    mask_keys: dict[int, bytes]


@dataclass(frozen=True)
class ServerState:
    """The state of one sum. ``awaits`` is the kind of message that the server collects now.

    ``arrived`` are the bodies of this turn by sender, ``masked`` is the sum of the masked vectors.
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
    revealed: dict[int, RevealedShares] = field(repr=False, default_factory=dict)


Messages = dict[int, bytes]
"""Messages to send, by client."""


def open_sum(session: Session, link_key: bytes) -> tuple[ServerState, Messages]:
    """Invite all clients of the roster. ``link_key`` is the server's private link key."""
    clients = session.roster.clients
    links = {client.id: agree(link_key, client.link, f"client {client.id}") for client in clients}
    state = ServerState(session, Kind.KEYS, links, frozenset(links))
    return state, _to_all(state, Kind.INVITATION, dict.fromkeys(links, b""))


def receive(state: ServerState, message: bytes) -> ServerState:
    """Return the state after one message of a client.

    Raises:
        SecureError: the message is not the first one of this turn from its sender, not authentic,
            or not well formed.
    """
    header = read_header(message)
    if state.awaits is None:
        raise ProtocolError(f"{header} arrives after the end of the sum.")
    _require_awaited(state, header)
    expected = make_header(state.session, state.awaits, header.sender, SERVER)
    body = open_frame(message, expected, state.links[header.sender])
    return MESSAGE_READERS[state.awaits](state, header.sender, body)


def _require_awaited(state: ServerState, header: Header) -> None:
    if header.sender not in state.expected:
        raise ProtocolError(
            f"{header} is not expected: its sender never joined, or dropped out before."
        )
    # A second masked vector of one client would be added twice.
    if header.sender in state.arrived and header.kind == state.awaits:
        raise ProtocolError(f"{header} has arrived already; the server accepts one of each kind.")


def _near(state: ServerState, client: int, clients: frozenset[int]) -> frozenset[int]:
    return clients & frozenset(state.session.roster.neighbours[client])


def _arrive(state: ServerState, sender: int, body: bytes) -> ServerState:
    return replace(state, arrived={**state.arrived, sender: body})


def _receive_keys(state: ServerState, sender: int, body: bytes) -> ServerState:
    read_keys(body, state.session, sender)
    return _arrive(state, sender, body)


def _receive_shares(state: ServerState, sender: int, body: bytes) -> ServerState:
    commitment, sealed = unpack(body, "the shares", 2)
    entries = unpack_entries(sealed, f"the shares of client {sender}", SEALED_BYTES)
    require_clients(entries, _near(state, sender, state.expected), f"the shares of {sender}")
    if len(commitment) != 32:
        raise FormatError(f"the commitment of client {sender} does not have 32 bytes.")
    commitments = {**state.commitments, sender: commitment}
    return replace(_arrive(state, sender, sealed), commitments=commitments)


def _receive_masked(state: ServerState, sender: int, body: bytes) -> ServerState:
    vector = read_ring(body, state.session.words, f"the masked vector of client {sender}")
    total = vector if state.masked is None else state.masked + vector
    return replace(_arrive(state, sender, b""), masked=total)


def _receive_confirmation(state: ServerState, sender: int, body: bytes) -> ServerState:
    tags = unpack_entries(body, f"the confirmation of client {sender}", TAG_BYTES)
    require_clients(tags, _near(state, sender, state.survived), f"the confirmation of {sender}")
    return _arrive(state, sender, body)


def _receive_reveal(state: ServerState, sender: int, body: bytes) -> ServerState:
    seeds, mask_keys = (
        unpack_entries(part, f"the reveal of client {sender}", SHARE_BYTES)
        for part in unpack(body, "the reveal", 2)
    )
    survivors = _near(state, sender, state.survived) | {sender}
    require_clients(seeds, survivors, f"the seed shares of client {sender}")
    dropouts = _near(state, sender, state.shared - state.survived)
    require_clients(mask_keys, dropouts, f"the mask key shares of client {sender}")
    for share in (*seeds.values(), *mask_keys.values()):
        read_share(share)
    revealed = {**state.revealed, sender: RevealedShares(seeds, mask_keys)}
    return replace(_arrive(state, sender, b""), revealed=revealed)


MESSAGE_READERS = {
    Kind.KEYS: _receive_keys,
    Kind.SHARES: _receive_shares,
    Kind.MASKED: _receive_masked,
    Kind.CONFIRMATION: _receive_confirmation,
    Kind.REVEAL: _receive_reveal,
}


def advance(state: ServerState) -> tuple[ServerState, Messages]:
    """Close this turn with the clients that answered; return the next messages.

    Raises:
        ThresholdError: too few clients answered. The turn stays open.
    """
    if state.awaits is None:
        raise ProtocolError("the sum is complete: no turn is open.")
    if state.awaits is Kind.REVEAL:
        # How many shares each secret needs is checked where it is restored.
        return replace(state, awaits=None, expected=frozenset(), arrived={}), {}
    return CLOSERS[state.awaits](state, frozenset(state.arrived))


def _close_keys(state: ServerState, joined: frozenset[int]) -> tuple[ServerState, Messages]:
    require_enough(joined, state.session, None, "joined")
    clients = pack_set(joined, state.session.roster.ids)
    bodies = {
        client: pack(clients, pack_entries(_pick(state.arrived, _near(state, client, joined))))
        for client in joined
    }
    next_state = _next(replace(state, keys=state.arrived), Kind.SHARES, joined)
    return next_state, _to_all(next_state, Kind.KEY_LIST, bodies)


def _close_shares(state: ServerState, shared: frozenset[int]) -> tuple[ServerState, Messages]:
    require_enough(shared, state.session, None, "shared their keys")
    clients = pack_set(shared, state.session.roster.ids)
    shares = {
        sender: unpack_entries(sealed, "the shares", SEALED_BYTES)
        for sender, sealed in state.arrived.items()
    }
    bodies = {
        client: pack(
            clients,
            pack_entries({u: shares[u][client] for u in _near(state, client, shared)}),
        )
        for client in shared
    }
    next_state = _next(replace(state, shared=shared), Kind.MASKED, shared)
    return next_state, _to_all(next_state, Kind.SHARE_LIST, bodies)


def _close_masked(state: ServerState, survived: frozenset[int]) -> tuple[ServerState, Messages]:
    require_enough(survived, state.session, None, "uploaded")
    body = pack_set(survived, state.session.roster.ids)
    next_state = _next(replace(state, survived=survived), Kind.CONFIRMATION, survived)
    return next_state, _to_all(next_state, Kind.SURVIVORS, dict.fromkeys(survived, body))


def _close_confirmations(
    state: ServerState, confirmed: frozenset[int]
) -> tuple[ServerState, Messages]:
    session, threshold = state.session, state.session.roster.plan.threshold
    if len(confirmed) < threshold:
        raise make_threshold_error(
            "confirmed", len(confirmed), threshold, session.round, session.exchange
        )
    tags = {
        sender: unpack_entries(body, "the confirmation", TAG_BYTES)
        for sender, body in state.arrived.items()
    }
    bodies = {
        client: pack_entries({u: tags[u][client] for u in _near(state, client, confirmed)})
        for client in confirmed
    }
    next_state = _next(state, Kind.REVEAL, confirmed)
    return next_state, _to_all(next_state, Kind.CONFIRMATION_LIST, bodies)


CLOSERS = {
    Kind.KEYS: _close_keys,
    Kind.SHARES: _close_shares,
    Kind.MASKED: _close_masked,
    Kind.CONFIRMATION: _close_confirmations,
}


def _mask_public_key(state: ServerState, client: int) -> bytes:
    """Return the public key of a client's pairwise masks."""
    return state.keys[client][KEY_BYTES : 2 * KEY_BYTES]


def _next(state: ServerState, awaits: Kind, expected: frozenset[int]) -> ServerState:
    return replace(state, awaits=awaits, expected=expected, arrived={})


def _pick(entries: dict[int, bytes], clients: frozenset[int]) -> dict[int, bytes]:
    return {client: entries[client] for client in clients}


def _to_all(state: ServerState, kind: Kind, bodies: Messages) -> Messages:
    return {
        client: write_frame(
            make_header(state.session, kind, SERVER, client), bodies[client], state.links[client]
        )
        for client in sorted(bodies)
    }


class Total(NamedTuple):
    """A sum in the ring, and the clients whose vectors it contains."""

    vector: Ring
    survivors: tuple[int, ...]


def unmask(state: ServerState) -> Total:
    """Return the total of the survivors' vectors; every restored secret is checked first."""
    if state.awaits is not None or state.masked is None:
        raise ProtocolError("the sum is not complete: close the last turn first.")
    session, restore = state.session, _make_restore(state.session)
    dropouts = state.shared - state.survived
    plus: list[bytes] = []
    minus = [
        derive_self_mask_key(session, client, _restore_seed(state, restore, client))
        for client in sorted(state.survived)
    ]
    for client in sorted(dropouts):
        private = _restore_mask_key(state, restore, client)
        # Masks between two drop-outs are in no vector that arrived.
        peers = state.survived & frozenset(session.roster.neighbours[client])
        publics = {peer: _mask_public_key(state, peer) for peer in peers}
        pairs = derive_pair_mask_keys(session, private, client, publics)
        # A survivor added the common mask if its own id is the lower one, and subtracted it if not.
        minus += [key for peer, key in pairs.items() if client > peer]
        plus += [key for peer, key in pairs.items() if client < peer]
    return Total(add_masks(state.masked, plus, minus), tuple(sorted(state.survived)))


Restore = Callable[[Mapping[int, bytes], int, str], bytes]


def _make_restore(session: Session) -> Restore:
    weights: dict[tuple[int, ...], dict[int, int]] = {}
    points, threshold = session.roster.points, session.roster.plan.threshold

    def restore(shares: Mapping[int, bytes], client: int, what: str) -> bytes:
        if len(shares) < threshold:
            raise ThresholdError(
                f"round {session.round}, exchange {session.exchange}: {len(shares)} holders sent "
                f"their share of the {what} of client {client}, at least {threshold} must. The sum "
                "stays masked."
            )
        by_point = {points[holder]: share for holder, share in shares.items()}
        subset = choose_points(by_point, threshold)
        # On the complete graph all secrets are interpolated from the same points: compute once.
        if subset not in weights:
            weights[subset] = find_weights_at_zero(subset)
        return combine_weighted(by_point, weights[subset])

    return restore


def _restore_seed(state: ServerState, restore: Restore, client: int) -> bytes:
    shares = {w: r.seeds[client] for w, r in state.revealed.items() if client in r.seeds}
    seed = restore(shares, client, "self-mask")
    # Shares that do not belong together interpolate to some 32 bytes: only the hash tells.
    if sha256(state.session.digest, seed) != state.commitments[client]:
        raise _make_share_error(client, "self-mask")
    return seed


def _restore_mask_key(state: ServerState, restore: Restore, client: int) -> bytes:
    shares = {w: r.mask_keys[client] for w, r in state.revealed.items() if client in r.mask_keys}
    private = restore(shares, client, "mask key")
    if derive_public_key(private) != _mask_public_key(state, client):
        raise _make_share_error(client, "mask key")
    return private


def _make_share_error(client: int, what: str) -> ProtocolError:
    return ProtocolError(
        f"the shares of the {what} of client {client} do not restore what it committed to: "
        "a holder, or the client itself, sent false shares. The sum stays masked."
    )
