"""The server's side of one secure sum: it collects, passes on, adds up and unmasks.

``open_sum`` invites, ``receive`` takes one message, ``advance`` closes a turn with the clients that
answered and returns the next messages. After the last turn ``unmask`` returns the total, and
``make_evidence`` what shows it to others. A message that is refused does not change the state: its
sender counts as silent until it sends a valid one.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
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
from fedfb.secure.evidence import (
    Evidence,
    MaskedVector,
    Secrets,
    Total,
    check_masked,
    remove_masks,
)
from fedfb.secure.keys import KEY_BYTES, SIGNATURE_BYTES, TAG_BYTES, agree, derive_public_key
from fedfb.secure.messages import (
    SEALED_BYTES,
    Header,
    Kind,
    commit_seed,
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
    ``signed`` are the single ones, kept only where identities are pinned.
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
    signed: dict[int, MaskedVector] = field(repr=False, default_factory=dict)
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
    signed = dict(state.signed)
    if state.session.roster.by_id[sender].identity:
        body, signature = body[:-SIGNATURE_BYTES], body[-SIGNATURE_BYTES:]
        signed[sender] = MaskedVector(state.commitments[sender], body, signature)
        check_masked(state.session, sender, signed[sender])
    vector = read_ring(body, state.session.words, f"the masked vector of client {sender}")
    total = vector if state.masked is None else state.masked + vector
    return replace(_arrive(state, sender, b""), masked=total, signed=signed)


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


def unmask(state: ServerState) -> Total:
    """Return the total of the survivors' vectors; every restored secret is checked first."""
    if state.awaits is not None or state.masked is None:
        raise ProtocolError("the sum is not complete: close the last turn first.")
    publics = {client: _mask_public_key(state, client) for client in state.shared}
    return remove_masks(state.session, state.masked, publics, restore_secrets(state))


def make_evidence(state: ServerState) -> Evidence:
    """Return what shows the total of a complete sum to every client."""
    keys = {client: state.keys[client] for client in sorted(state.shared)}
    return Evidence(keys, state.signed, restore_secrets(state))


def restore_secrets(state: ServerState) -> Secrets:
    """Restore the seeds of survivors and the mask keys of drop-outs from the revealed shares."""
    session, restore = state.session, _make_restore(state.session)

    def opens_seed(client: int, seed: bytes) -> bool:
        return commit_seed(session, seed) == state.commitments[client]

    def opens_mask_key(client: int, private: bytes) -> bool:
        return derive_public_key(private) == _mask_public_key(state, client)

    seeds, mask_keys = dict[int, bytes](), dict[int, bytes]()
    for u in sorted(state.survived):
        shares = {w: r.seeds[u] for w, r in state.revealed.items() if u in r.seeds}
        seeds[u] = restore(shares, u, "self-mask", opens_seed)
    for v in sorted(state.shared - state.survived):
        shares = {w: r.mask_keys[v] for w, r in state.revealed.items() if v in r.mask_keys}
        mask_keys[v] = restore(shares, v, "mask key", opens_mask_key)
    return Secrets(seeds, mask_keys)


Restore = Callable[[Mapping[int, bytes], int, str, Callable[[int, bytes], bool]], bytes]

MOST_LIARS = 2
"""Holders that may send false shares of one secret: so many are left out, in all combinations."""


def _make_restore(session: Session) -> Restore:
    weights: dict[tuple[int, ...], dict[int, int]] = {}
    points, threshold = session.roster.points, session.roster.plan.threshold

    def combine(by_point: Mapping[int, bytes]) -> bytes:
        subset = choose_points(by_point, threshold)
        # On the complete graph all secrets are interpolated from the same points: compute once.
        if subset not in weights:
            weights[subset] = find_weights_at_zero(subset)
        return combine_weighted(by_point, weights[subset])

    def restore(
        shares: Mapping[int, bytes], client: int, what: str, opens: Callable[[int, bytes], bool]
    ) -> bytes:
        if len(shares) < threshold:
            raise ThresholdError(
                f"round {session.round}, exchange {session.exchange}: {len(shares)} holders sent "
                f"their share of the {what} of client {client}, at least {threshold} must. The sum "
                "stays masked."
            )
        # Shares that do not belong together interpolate to some 32 bytes: only the check tells.
        # One liar among the holders must not stop the sum, so others are tried without it.
        for liars in range(min(MOST_LIARS, len(shares) - threshold) + 1):
            for absent in combinations(sorted(shares), liars):
                kept = {points[w]: share for w, share in shares.items() if w not in absent}
                with suppress(ProtocolError):
                    if opens(client, secret := combine(kept)):
                        return secret
        raise _make_share_error(client, what)

    return restore


def _make_share_error(client: int, what: str) -> ProtocolError:
    return ProtocolError(
        f"the shares of the {what} of client {client} do not restore what it committed to: "
        "a holder, or the client itself, sent false shares. The sum stays masked."
    )
