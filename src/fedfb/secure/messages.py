"""What stands inside the messages, and the checks that are the same for every reader."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fedfb.secure.encoding import (
    number,
    pack,
    require_parties,
    unpack,
    unpack_entries,
    unpack_set,
)
from fedfb.secure.errors import FormatError, ProtocolError
from fedfb.secure.keys import (
    KEY_BYTES,
    SEAL_BYTES,
    SIGNATURE_BYTES,
    agree_all,
    check_signature,
    decrypt,
    derive,
    encrypt,
)
from fedfb.secure.roster import Session
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
