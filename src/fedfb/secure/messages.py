"""The messages of a secure sum: kinds, header, tag, content, and the checks of every reader.

A message is a header, a body and a tag over both. The header says what the message is, which sum it
belongs to, and who sends it. The tag is an HMAC under a key that only the server and this client
can derive, for this session and this direction. A header can be read without any key, for routing
and for logs.
"""

import struct
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from fedfb.secure.encoding import (
    FormatError,
    ProtocolError,
    pack,
    pack_number,
    require_clients,
    unpack,
    unpack_entries,
    unpack_set,
)
from fedfb.secure.keys import (
    KEY_BYTES,
    SEAL_BYTES,
    SIGNATURE_BYTES,
    TAG_BYTES,
    agree_all,
    check_signature,
    check_tag,
    decrypt,
    derive_key,
    encrypt,
    make_tag,
    sha256,
)
from fedfb.secure.roster import SERVER, Session
from fedfb.secure.secrets import SHARE_BYTES, read_share


class PublicKeys(NamedTuple):
    """The two public keys of a client for one sum: for the channel of shares, and for the masks."""

    channel: bytes
    mask: bytes


class SharePair(NamedTuple):
    """A share of a client's self-mask seed and a share of its mask key."""

    seed: bytes
    mask_key: bytes


SEALED_BYTES = 2 * SHARE_BYTES + SEAL_BYTES


def write_signed_text(session: Session, sender: int, keys: bytes) -> bytes:
    """Return the bytes that an identity signs: the keys, their sum and their sender."""
    return pack(b"keys", session.digest, pack_number(sender), keys)


def write_masked_text(session: Session, sender: int, commitment: bytes, vector: bytes) -> bytes:
    """Return the bytes that an identity signs with its masked vector: one of each in a sum."""
    return pack(b"masked", session.digest, pack_number(sender), commitment, sha256(vector))


def commit_seed(session: Session, seed: bytes) -> bytes:
    """Return the commitment to the seed of a self-mask, bound to the session."""
    return sha256(session.digest, seed)


def read_keys(body: bytes, session: Session, sender: int) -> PublicKeys:
    """Read the keys of a client; where identities are pinned, check its signature."""
    identity = session.roster.by_id[sender].identity
    expected = 2 * KEY_BYTES + (SIGNATURE_BYTES if identity else 0)
    if len(body) != expected:
        raise FormatError(f"the keys of client {sender} have {len(body)} bytes, not {expected}.")
    keys, signature = body[: 2 * KEY_BYTES], body[2 * KEY_BYTES :]
    if identity:
        text = write_signed_text(session, sender, keys)
        check_signature(identity, text, signature, f"the keys of client {sender}")
    return PublicKeys(keys[:KEY_BYTES], keys[KEY_BYTES:])


def read_key_list(
    body: bytes, session: Session, me: int
) -> tuple[frozenset[int], dict[int, PublicKeys]]:
    """Read which clients joined, and the keys of this client's neighbours among them.

    Args:
        body: the content of the key list.
        session: the sum that the list belongs to.
        me: the id of the reading client.
    """
    clients, keys = unpack(body, "the key list", 2)
    joined = unpack_set(clients, session.roster.ids, "the key list")
    require_subset(joined, session.roster.ids, me, "who joined")
    size = 2 * KEY_BYTES + (SIGNATURE_BYTES if session.roster.clients[0].identity else 0)
    entries = unpack_entries(keys, "the key list", size)
    require_clients(entries, joined & set(session.roster.neighbours[me]), "the key list")
    return joined, {client: read_keys(text, session, client) for client, text in entries.items()}


def read_share_list(
    body: bytes, session: Session, me: int, joined: frozenset[int]
) -> tuple[frozenset[int], dict[int, bytes]]:
    """Read which clients shared their secrets, and the sealed shares that this client is to hold.

    Args:
        body: the content of the share list.
        session: the sum that the list belongs to.
        me: the id of the reading client.
        joined: the clients of the key list; no other may be listed.
    """
    clients, sealed = unpack(body, "the share list", 2)
    shared = unpack_set(clients, session.roster.ids, "the share list")
    require_subset(shared, joined, me, "who shared its secrets")
    entries = unpack_entries(sealed, "the share list", SEALED_BYTES)
    require_clients(entries, shared & set(session.roster.neighbours[me]), "the share list")
    return shared, entries


def read_survivors(
    body: bytes, session: Session, me: int, shared: frozenset[int]
) -> frozenset[int]:
    """Read which clients are in the total.

    Args:
        body: the content of the list of survivors.
        session: the sum that the list belongs to.
        me: the id of the reading client.
        shared: the clients of the share list; no other may be listed.
    """
    survived = unpack_set(body, session.roster.ids, "the list of survivors")
    require_subset(survived, shared, me, "who survived")
    return survived


def require_subset(clients: frozenset[int], of: Iterable[int], me: int, what: str) -> None:
    """Refuse a set of clients that omits its reader, or that adds clients to the last set.

    Args:
        clients: the set that the server sent.
        of: the last set that the server sent.
        me: the id of the reading client.
        what: what the clients of the set did, for errors: "who joined".
    """
    if me not in clients:
        raise ProtocolError(f"the server asks client {me}, but leaves it out of {what}.")
    strangers = sorted(clients - frozenset(of))
    if strangers:
        raise ProtocolError(f"the server lists clients {strangers} among {what}: they had left.")


def seal_shares(shares: SharePair, secret: bytes, session: Session, me: int, to: int) -> bytes:
    """Encrypt the shares for their holder ``to``; the server passes them on."""
    key = derive_key(secret, session.digest, b"shares", me, to)
    return encrypt(key, shares.seed + shares.mask_key, _seal_context(session, me, to))


def unseal_shares(text: bytes, secret: bytes, session: Session, sender: int, me: int) -> SharePair:
    """Decrypt the shares that the neighbour ``sender`` made for this client."""
    key = derive_key(secret, session.digest, b"shares", sender, me)
    what = f"the shares of client {sender} for client {me}"
    plain = decrypt(key, text, _seal_context(session, sender, me), what)
    shares = SharePair(plain[:SHARE_BYTES], plain[SHARE_BYTES:])
    for part in shares:
        read_share(part)
    return shares


def _seal_context(session: Session, sender: int, recipient: int) -> bytes:
    return pack(b"shares", session.digest, pack_number(sender), pack_number(recipient))


def derive_self_mask_key(session: Session, client: int, seed: bytes) -> bytes:
    """Return the key of the mask that a client has alone."""
    return derive_key(seed, session.digest, b"self mask", client, client)


def derive_pair_mask_keys(
    session: Session, private: bytes, me: int, publics: Mapping[int, bytes]
) -> dict[int, bytes]:
    """Return the keys of the masks that a client has with its peers, by peer.

    Both sides derive the same key, because the lower id always comes first.

    Args:
        session: the sum.
        private: the client's private mask key.
        me: the id of the client.
        publics: the public mask keys of its peers, by id.
    """
    return {
        peer: derive_key(secret, session.digest, b"pair mask", min(me, peer), max(me, peer))
        for peer, secret in agree_all(private, publics).items()
    }


class Kind(IntEnum):
    """The messages of a sum in their order: messages of the server and of the clients alternate."""

    INVITATION = 0
    KEYS = 1
    KEY_LIST = 2
    SHARES = 3
    SHARE_LIST = 4
    MASKED = 5
    SURVIVORS = 6
    CONFIRMATION = 7
    CONFIRMATION_LIST = 8
    REVEAL = 9

    @property
    def words(self) -> str:
        return self.name.lower().replace("_", " ")


class Header(NamedTuple):
    """The header of a message; readable without a key."""

    kind: Kind
    period: bytes
    round: int
    exchange: int
    session: bytes
    sender: int
    recipient: int

    def __str__(self) -> str:
        """Return the name of the message for errors."""
        sender = "the server" if self.sender == SERVER else f"client {self.sender}"
        place = f"round {self.round}, exchange {self.exchange}"
        return f"the {self.kind.words} of {sender} ({place})"


MAGIC = b"fedfb-secure-sum"
VERSION = 1
LAYOUT = struct.Struct(">16sBB16sII32sII")
"""Magic, version, kind, period, round, exchange, session digest, sender, recipient."""

OVERHEAD_BYTES = LAYOUT.size + 4 + TAG_BYTES


def make_header(session: Session, kind: Kind, sender: int, recipient: int) -> Header:
    """Return the header of a message of this session."""
    period = session.roster.period
    return Header(kind, period, session.round, session.exchange, session.digest, sender, recipient)


def write_frame(header: Header, body: bytes, link: bytes) -> bytes:
    """Return a message: header, body and tag.

    Args:
        header: what the message is, and who sends it to whom.
        body: its content.
        link: the secret that the server and this client share.
    """
    outside = LAYOUT.pack(MAGIC, VERSION, *header) + pack_number(len(body))
    key = derive_key(link, header.session, b"link", header.sender, header.recipient)
    content = outside + body
    return content + make_tag(key, content)


def read_header(message: bytes) -> Header:
    """Read the header of a message without checking its tag."""
    if len(message) < OVERHEAD_BYTES:
        raise FormatError(f"a message of {len(message)} bytes, expected {OVERHEAD_BYTES} or more.")
    magic, version, kind, *place = LAYOUT.unpack_from(message)
    if magic != MAGIC or version != VERSION:
        raise FormatError(f"not a message of a secure sum of version {VERSION}.")
    if kind > max(Kind):
        raise FormatError(f"a message of the unknown kind {kind}.")
    length = int.from_bytes(message[LAYOUT.size : LAYOUT.size + 4], "big")
    if len(message) != OVERHEAD_BYTES + length:
        raise FormatError(
            f"a message of {len(message)} bytes, expected {OVERHEAD_BYTES + length}: it was cut "
            "off or extended in transit."
        )
    return Header(Kind(kind), *place)


def open_frame(message: bytes, expected: Header, link: bytes) -> bytes:
    """Return the body of a message after checking its header and its tag.

    Args:
        message: what ``write_frame`` returned.
        expected: the header that the message must have.
        link: the secret that the server and this client share.
    """
    header = read_header(message)
    # Compare the whole header first: the error then says what differs, not only that a tag fails.
    if header != expected:
        raise ProtocolError(
            f"got {header}, expected {expected}{_hidden_difference(header, expected)}."
        )
    key = derive_key(link, header.session, b"link", header.sender, header.recipient)
    check_tag(key, message[:-TAG_BYTES], message[-TAG_BYTES:], str(header))
    return message[LAYOUT.size + 4 : -TAG_BYTES]


def _hidden_difference(header: Header, expected: Header) -> str:
    if header.period != expected.period:
        return " of another key period"
    if header.session != expected.session:
        return " with another roster or schema"
    return "" if header.recipient == expected.recipient else f" for {expected.recipient}"
