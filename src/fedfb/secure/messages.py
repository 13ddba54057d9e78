"""What stands inside the messages, and the checks that are the same for every reader.

The envelope of every message: what it is, where it belongs, who sends it, and a tag over it all.

The tag is an HMAC under a key that only the server and this party can derive, for this session and
this direction. A header can be read without any key, to route a message or to write it down.
"""

import struct
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from fedfb.secure.encoding import number, pack, require_parties, unpack, unpack_entries, unpack_set
from fedfb.secure.errors import FormatError, ProtocolError
from fedfb.secure.keys import (
    KEY_BYTES,
    SEAL_BYTES,
    SIGNATURE_BYTES,
    TAG_BYTES,
    agree_all,
    check_signature,
    check_tag,
    decrypt,
    derive,
    encrypt,
    tag,
)
from fedfb.secure.roster import SERVER, Session
from fedfb.secure.shares import SHARE_BYTES, read_share


class PublicKeys(NamedTuple):
    """A party's two keys of one sum: for the channel of shares, and for the pairwise masks."""

    channel: bytes
    mask: bytes


class HeldShares(NamedTuple):
    """A share of a party's self-mask seed and one of its mask key."""

    seed: bytes
    mask_key: bytes


SEALED_BYTES = 2 * SHARE_BYTES + SEAL_BYTES


def signed_text(session: Session, sender: int, keys: bytes) -> bytes:
    """Return what an identity signs: the keys, and the one sum and sender they are for."""
    return pack(b"keys", session.digest, number(sender), keys)


def read_keys(body: bytes, session: Session, sender: int) -> PublicKeys:
    """Read a party's keys; where identities are pinned, check its signature."""
    identity = session.roster.by_id[sender].identity
    expected = 2 * KEY_BYTES + (SIGNATURE_BYTES if identity else 0)
    if len(body) != expected:
        raise FormatError(f"the keys of party {sender} have {len(body)} bytes, not {expected}.")
    keys, signature = body[: 2 * KEY_BYTES], body[2 * KEY_BYTES :]
    if identity:
        text = signed_text(session, sender, keys)
        check_signature(identity, text, signature, f"the keys of party {sender}")
    return PublicKeys(keys[:KEY_BYTES], keys[KEY_BYTES:])


def read_key_list(
    body: bytes, session: Session, me: int
) -> tuple[frozenset[int], dict[int, PublicKeys]]:
    """Read who joined, and the keys of this party's neighbours among them."""
    members, keys = unpack(body, "the key list", 2)
    joined = unpack_set(members, session.roster.ids, "the key list")
    require_subset(joined, session.roster.ids, me, "who joined")
    size = 2 * KEY_BYTES + (SIGNATURE_BYTES if session.roster.parties[0].identity else 0)
    entries = unpack_entries(keys, "the key list", size)
    require_parties(entries, joined & set(session.roster.neighbours[me]), "the key list")
    return joined, {party: read_keys(text, session, party) for party, text in entries.items()}


def read_share_list(
    body: bytes, session: Session, me: int, joined: frozenset[int]
) -> tuple[frozenset[int], dict[int, bytes]]:
    """Read who shared its secrets, and the sealed shares that this party is to hold."""
    members, sealed = unpack(body, "the share list", 2)
    shared = unpack_set(members, session.roster.ids, "the share list")
    require_subset(shared, joined, me, "who shared its secrets")
    entries = unpack_entries(sealed, "the share list", SEALED_BYTES)
    require_parties(entries, shared & set(session.roster.neighbours[me]), "the share list")
    return shared, entries


def read_survivors(
    body: bytes, session: Session, me: int, shared: frozenset[int]
) -> frozenset[int]:
    """Read whose vectors are in the sum."""
    survived = unpack_set(body, session.roster.ids, "the list of survivors")
    require_subset(survived, shared, me, "who survived")
    return survived


def require_subset(members: frozenset[int], of: Iterable[int], me: int, what: str) -> None:
    """Refuse a set of parties that leaves out its reader, or has parties it had not before."""
    if me not in members:
        raise ProtocolError(f"the server asks party {me}, yet leaves it out of {what}.")
    strange = sorted(members - frozenset(of))
    if strange:
        raise ProtocolError(f"the server lists parties {strange} among {what}, who were gone.")


def seal_shares(shares: HeldShares, secret: bytes, session: Session, me: int, to: int) -> bytes:
    """Encrypt a party's shares for their holder; the server passes them on."""
    key = derive(secret, session.digest, b"shares", me, to)
    return encrypt(key, shares.seed + shares.mask_key, _seal_context(session, me, to))


def unseal_shares(text: bytes, secret: bytes, session: Session, sender: int, me: int) -> HeldShares:
    """Decrypt the shares that a neighbour made for this party."""
    key = derive(secret, session.digest, b"shares", sender, me)
    what = f"the shares of party {sender} for party {me}"
    plain = decrypt(key, text, _seal_context(session, sender, me), what)
    shares = HeldShares(plain[:SHARE_BYTES], plain[SHARE_BYTES:])
    for part in shares:
        read_share(part)
    return shares


def _seal_context(session: Session, sender: int, recipient: int) -> bytes:
    return pack(b"shares", session.digest, number(sender), number(recipient))


def self_mask_key(session: Session, party: int, seed: bytes) -> bytes:
    """Return the key of a party's own mask."""
    return derive(seed, session.digest, b"self mask", party, party)


def pair_mask_keys(
    session: Session, private: bytes, me: int, publics: Mapping[int, bytes]
) -> dict[int, bytes]:
    """Return the keys of the masks that a party has with its peers, the same for both of them."""
    return {
        peer: derive(secret, session.digest, b"pair mask", min(me, peer), max(me, peer))
        for peer, secret in agree_all(private, publics).items()
    }


class Kind(IntEnum):
    """The messages of a sum in their order: the server's and the parties' take turns."""

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
    """What stands on the outside of a message."""

    kind: Kind
    run: bytes
    round: int
    question: int
    session: bytes
    sender: int
    recipient: int

    def __str__(self) -> str:
        """Name the message as error texts do."""
        sender = "the server" if self.sender == SERVER else f"party {self.sender}"
        place = f"round {self.round}, question {self.question}"
        return f"the {self.kind.words} of {sender} ({place})"


MAGIC = b"fedfb-secure-sum"
VERSION = 1
LAYOUT = struct.Struct(">16sBB16sII32sII")
"""Magic, version, kind, run, round, question, session digest, sender, recipient."""

OVERHEAD_BYTES = LAYOUT.size + 4 + TAG_BYTES


def header_of(session: Session, kind: Kind, sender: int, recipient: int) -> Header:
    """Return the header of a message of this session."""
    run = session.roster.run
    return Header(kind, run, session.round, session.question, session.digest, sender, recipient)


def write_frame(header: Header, body: bytes, link: bytes) -> bytes:
    """Put a body into its envelope. ``link`` is the secret that server and party share."""
    outside = LAYOUT.pack(MAGIC, VERSION, *header) + number(len(body))
    key = derive(link, header.session, b"link", header.sender, header.recipient)
    content = outside + body
    return content + tag(key, content)


def read_header(message: bytes) -> Header:
    """Read the outside of a message without checking its tag."""
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
            "off, or something was added to it."
        )
    return Header(Kind(kind), *place)


def open_frame(message: bytes, expected: Header, link: bytes) -> bytes:
    """Return the body of a message that is what, whose and when it should be."""
    header = read_header(message)
    if header != expected:
        raise ProtocolError(
            f"got {header}, expected {expected}{_hidden_difference(header, expected)}."
        )
    key = derive(link, header.session, b"link", header.sender, header.recipient)
    check_tag(key, message[:-TAG_BYTES], message[-TAG_BYTES:], str(header))
    return message[LAYOUT.size + 4 : -TAG_BYTES]


def _hidden_difference(header: Header, expected: Header) -> str:
    if header.run != expected.run:
        return " of another run"
    if header.session != expected.session:
        return " with another roster or schema"
    return "" if header.recipient == expected.recipient else f" for {expected.recipient}"
