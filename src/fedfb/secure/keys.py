"""Keys, tags and ciphertexts: thin names over the primitives of ``cryptography``.

X25519 (RFC 7748) agrees on secrets, HKDF-SHA256 (RFC 5869) makes keys of them, HMAC-SHA256 tags,
ChaCha20-Poly1305 (RFC 8439) encrypts, Ed25519 (RFC 8032) signs. Nothing is invented here.
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

from fedfb.secure.encoding import number, pack
from fedfb.secure.errors import AuthenticationError, FormatError

Random = Callable[[int], bytes]
"""So many random bytes. Always ``os.urandom``, save in tests."""

urandom: Random = os.urandom

KEY_BYTES = 32
TAG_BYTES = 32
SIGNATURE_BYTES = 64
SEAL_BYTES = 16
"""What encryption adds to a plaintext."""

PROTOCOL = b"fedfb secure sum 1"
"""Stands in every derivation: a key of another version is another key."""


def sha256(*fields: bytes) -> bytes:
    """Hash fields, each with its length, so that no two sequences of fields are hashed alike."""
    digest = hashes.Hash(hashes.SHA256())
    digest.update(pack(*fields))
    return digest.finalize()


def make_link_key(random: Random = urandom) -> bytes:
    """Draw the server's X25519 key for one run."""
    return random(KEY_BYTES)


def public_key(private: bytes) -> bytes:
    """Return the X25519 public key of a private one."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agree(private: bytes, public: bytes, whose: str) -> bytes:
    """Return the X25519 secret that two parties share."""
    return _exchange(X25519PrivateKey.from_private_bytes(private), public, whose)


def agree_all(private: bytes, publics: Mapping[int, bytes]) -> dict[int, bytes]:
    """Return the X25519 secrets with many parties, by their ids."""
    # To load a private key costs as much as to use it once.
    loaded = X25519PrivateKey.from_private_bytes(private)
    return {id: _exchange(loaded, public, f"party {id}") for id, public in publics.items()}


def _exchange(private: X25519PrivateKey, public: bytes, whose: str) -> bytes:
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        # A point of small order: the secret would be zero, whatever the private key.
        raise FormatError(f"the public key of {whose} is not a usable X25519 key.") from None


def derive(secret: bytes, session: bytes, purpose: bytes, sender: int, recipient: int) -> bytes:
    r"""Derive the key of one purpose, direction and session from a shared secret.

    .. math:: k = \mathrm{HKDF}(\mathrm{salt}=h, \mathrm{ikm}=\text{secret},
              \mathrm{info}=\text{protocol} \| \text{purpose} \| u \| v)

    where :math:`h` is the session's digest, a hash of the run, round, question, roster and schema.
    """
    info = pack(PROTOCOL, purpose, number(sender), number(recipient))
    return HKDF(hashes.SHA256(), KEY_BYTES, salt=session, info=info).derive(secret)


def tag(key: bytes, data: bytes) -> bytes:
    """Return the HMAC-SHA256 of data."""
    mac = HMAC(key, hashes.SHA256())
    mac.update(data)
    return mac.finalize()


def check_tag(key: bytes, data: bytes, found: bytes, what: str) -> None:
    """Refuse data whose tag is another's; the comparison takes constant time."""
    mac = HMAC(key, hashes.SHA256())
    mac.update(data)
    try:
        mac.verify(found)
    except InvalidSignature:
        raise AuthenticationError(
            f"the tag of {what} does not fit: it was changed on its way, or comes from another "
            "sender, round or run. Ask its sender again, or go on without it."
        ) from None


def encrypt(key: bytes, plaintext: bytes, context: bytes) -> bytes:
    """Encrypt under a key that is used once; therefore the nonce may be zero."""
    return ChaCha20Poly1305(key).encrypt(bytes(12), plaintext, context)


def decrypt(key: bytes, ciphertext: bytes, context: bytes, what: str) -> bytes:
    """Decrypt and authenticate."""
    try:
        return ChaCha20Poly1305(key).decrypt(bytes(12), ciphertext, context)
    except InvalidTag:
        raise AuthenticationError(
            f"{what} cannot be decrypted: it was changed on its way, or made for another "
            "recipient, round or run."
        ) from None


def identity_public_key(private: bytes) -> bytes:
    """Return the Ed25519 public key of a private one."""
    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def sign(private: bytes, data: bytes) -> bytes:
    """Sign with an Ed25519 key."""
    return Ed25519PrivateKey.from_private_bytes(private).sign(data)


def check_signature(public: bytes, data: bytes, signature: bytes, what: str) -> None:
    """Refuse a signature that is not its owner's."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, data)
    except (InvalidSignature, ValueError):
        raise AuthenticationError(
            f"the signature of {what} does not fit the pinned identity: somebody between the "
            "parties put other keys in place. Leave this run and tell its operator."
        ) from None
