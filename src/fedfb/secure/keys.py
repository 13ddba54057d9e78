"""Keys, tags and ciphertexts: short names for the primitives of ``cryptography``.

X25519 (RFC 7748) agrees on secrets, HKDF-SHA256 (RFC 5869) derives keys from them, HMAC-SHA256
makes tags, ChaCha20-Poly1305 (RFC 8439) encrypts, Ed25519 (RFC 8032) signs.
"""

import os
from collections.abc import Callable, Mapping

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hmac import HMAC
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedfb.secure.encoding import AuthenticationError, FormatError, pack, pack_number

Random = Callable[[int], bytes]
"""Returns a given number of random bytes. Always ``os.urandom``, except in tests."""

urandom: Random = os.urandom

KEY_BYTES = 32
TAG_BYTES = 32
SIGNATURE_BYTES = 64
SEAL_BYTES = 16
"""The bytes that encryption adds to a plaintext."""

PROTOCOL = b"fedfb secure sum 1"
"""Part of every derivation, so that keys of different protocol versions differ."""


def sha256(*fields: bytes) -> bytes:
    """Hash fields with their lengths: different sequences of fields never hash the same bytes."""
    digest = hashes.Hash(hashes.SHA256())
    digest.update(pack(*fields))
    return digest.finalize()


def make_link_key(random: Random = urandom) -> bytes:
    """Draw the server's X25519 key for one key period."""
    return random(KEY_BYTES)


def derive_public_key(private: bytes) -> bytes:
    """Return the X25519 public key of a private one."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agree(private: bytes, public: bytes, whose: str) -> bytes:
    """Return the X25519 secret of a private key and the public key of another side.

    Args:
        private: one's own private key.
        public: the public key of the other side.
        whose: the other side, for errors.
    """
    return _exchange(X25519PrivateKey.from_private_bytes(private), public, whose)


def agree_all(private: bytes, publics: Mapping[int, bytes]) -> dict[int, bytes]:
    """Return the X25519 secrets with many clients, by their ids."""
    # Load the private key once: loading costs as much as one use.
    loaded = X25519PrivateKey.from_private_bytes(private)
    return {id: _exchange(loaded, public, f"client {id}") for id, public in publics.items()}


def _exchange(private: X25519PrivateKey, public: bytes, whose: str) -> bytes:
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        # A point of small order would give the secret zero for every private key.
        raise FormatError(f"the public key of {whose} is not a usable X25519 key.") from None


def derive_key(secret: bytes, session: bytes, purpose: bytes, sender: int, recipient: int) -> bytes:
    r"""Derive the key for one purpose, direction and session from a shared secret.

    .. math:: k = \mathrm{HKDF}(\mathrm{salt}=h, \mathrm{ikm}=\text{secret},
              \mathrm{info}=\text{protocol} \| \text{purpose} \| u \| v)

    where :math:`h` is the digest of the session: a hash of key period, round, exchange, roster and
    schema.
    """
    info = pack(PROTOCOL, purpose, pack_number(sender), pack_number(recipient))
    return HKDF(hashes.SHA256(), KEY_BYTES, salt=session, info=info).derive(secret)


def make_tag(key: bytes, data: bytes) -> bytes:
    """Return the HMAC-SHA256 of data."""
    mac = HMAC(key, hashes.SHA256())
    mac.update(data)
    return mac.finalize()


def check_tag(key: bytes, data: bytes, expected: bytes, what: str) -> None:
    """Refuse data whose tag is wrong; the comparison takes constant time.

    Args:
        key: the key of the tag.
        data: the bytes that the tag covers.
        expected: the tag that came with the data.
        what: name of the data, for errors.
    """
    mac = HMAC(key, hashes.SHA256())
    mac.update(data)
    try:
        mac.verify(expected)
    except InvalidSignature:
        raise AuthenticationError(
            f"the tag of {what} does not fit: the message was changed in transit, or comes from "
            "another sender, round or key period. Ask its sender again, or continue without it."
        ) from None


def encrypt(key: bytes, plaintext: bytes, context: bytes) -> bytes:
    """Encrypt a plaintext.

    Args:
        key: 32 bytes that encrypt nothing else: the nonce is zero.
        plaintext: the secret bytes.
        context: public bytes that the ciphertext is bound to.
    """
    # Every key encrypts one message only, so the nonce may be constant.
    return ChaCha20Poly1305(key).encrypt(bytes(12), plaintext, context)


def decrypt(key: bytes, ciphertext: bytes, context: bytes, what: str) -> bytes:
    """Return the plaintext of ``encrypt``; a changed ciphertext or context is refused."""
    try:
        return ChaCha20Poly1305(key).decrypt(bytes(12), ciphertext, context)
    except InvalidTag:
        raise AuthenticationError(
            f"{what} cannot be decrypted: it was changed in transit, or made for another "
            "recipient, round or key period."
        ) from None


def derive_identity_key(private: bytes) -> bytes:
    """Return the Ed25519 public key of a private one."""
    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def sign(private: bytes, data: bytes) -> bytes:
    """Sign with an Ed25519 key."""
    return Ed25519PrivateKey.from_private_bytes(private).sign(data)


def check_signature(public: bytes, data: bytes, signature: bytes, what: str) -> None:
    """Refuse a signature that was not made with the private key of ``public``."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, data)
    except (InvalidSignature, ValueError):
        raise AuthenticationError(
            f"the signature of {what} does not fit the pinned identity: somebody replaced the "
            "keys in transit. Leave the study and tell its operator."
        ) from None
