"""Keys of a study: each side makes its own, and only public halves are exchanged.

A client has three keys. Its identity (Ed25519) signs the study and its part in every sum. Its link
key (X25519) authenticates its messages to the server inside a sum. Its certificate (ECDSA P-256,
signed by itself) is for mutual TLS: the study lists every certificate, and no authority exists
that could issue another one.
"""

import datetime
import ipaddress
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fedfb.errors import ConfigError
from fedfb.files import interpreting, read_text, write_new
from fedfb.secure import derive_identity_key, derive_public_key, make_link_key
from fedfb.secure.keys import KEY_BYTES

YEARS = 3
"""How long a certificate is valid."""

KEY_SUFFIX, PUBLIC_SUFFIX = ".key", ".pub"

_EXPECTED = {
    KEY_SUFFIX: "keys as fedfb study key writes them",
    PUBLIC_SUFFIX: "public keys as fedfb study key writes them",
}

LONGEST_NAME = 64


class PublicKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The public keys of a client or the server; identity and link as hexadecimal digits."""

    name: str
    identity: str
    link: str
    certificate: str

    def check(self) -> "PublicKeys":
        """Return these keys; raise ValueError if they are not valid keys."""
        check_name(self.name)
        if len(self.identity_bytes) != KEY_BYTES or len(self.link_bytes) != KEY_BYTES:
            raise ValueError("an identity and a link key have 32 bytes")
        read_certificate(self.certificate)
        return self

    @property
    def identity_bytes(self) -> bytes:
        return bytes.fromhex(self.identity)

    @property
    def link_bytes(self) -> bytes:
        return bytes.fromhex(self.link)

    @property
    def fingerprint(self) -> str:
        """A short name of all three keys, for people who compare them."""
        content = "\n".join((self.name, self.identity, self.link, self.certificate)).encode()
        digest = hashes.Hash(hashes.SHA256())
        digest.update(content)
        text = digest.finalize().hex()[:32]
        return " ".join(text[place : place + 4] for place in range(0, 32, 4))


class PrivateKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The private keys of a client or the server, and their public halves."""

    public: PublicKeys
    identity: str
    link: str
    certificate_key: str

    def check(self) -> "PrivateKeys":
        """Return these keys; raise ValueError if a private key does not fit its public half."""
        self.public.check()
        fits = (
            derive_identity_key(self.identity_bytes) == self.public.identity_bytes
            and derive_public_key(self.link_bytes) == self.public.link_bytes
            and _key_of(read_certificate(self.public.certificate))
            == _load_key(self.certificate_key).public_key()
        )
        if not fits:
            raise ValueError("a private key does not fit its public half")
        return self

    @property
    def identity_bytes(self) -> bytes:
        return bytes.fromhex(self.identity)

    @property
    def link_bytes(self) -> bytes:
        return bytes.fromhex(self.link)


def check_name(name: str) -> str:
    """Return the name of a client; refuse one that cannot be a file's name or that hides signs."""
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or name.strip() != name:
        raise ConfigError(
            f"the name {name!r} of a client must have 1 to {LONGEST_NAME} visible signs."
        )
    if any(sign in name for sign in '/\\:*?"<>|,') or name.startswith((".", "-")):
        raise ConfigError(
            f"the client's name {name!r} cannot name a file. Use letters, digits, - and _."
        )
    return name


def make_private_keys(name: str, host: str | None = None) -> PrivateKeys:
    """Draw the keys of a client, or of the server.

    Args:
        name: the name of the client; of the server, the name of the study.
        host: of the server: the name or the address by which clients reach it.
    """
    identity, link = os.urandom(KEY_BYTES), make_link_key()
    key = ec.generate_private_key(ec.SECP256R1())
    public = PublicKeys(
        name,
        derive_identity_key(identity).hex(),
        derive_public_key(link).hex(),
        _make_certificate(name, key, host),
    )
    return PrivateKeys(public, identity.hex(), link.hex(), _write_pem(key))


def _make_certificate(name: str, key: ec.EllipticCurvePrivateKey, host: str | None) -> str:
    # OpenSSL takes at most 64 signs of a common name; the name itself is not checked by anybody.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"fedfb {name}"[:64])])
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=365 * YEARS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    )
    if host is not None:
        names = [_make_alternative_name(host)]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _make_alternative_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def _load_key(pem: str) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem.encode(), None)
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key of the certificate has another type")
    return key


def _key_of(certificate: x509.Certificate) -> object:
    try:
        return certificate.public_key()
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from error


def read_certificate(pem: str) -> x509.Certificate:
    """Return a certificate; raise ValueError if the text is not one."""
    try:
        return x509.load_pem_x509_certificate(pem.encode())
    except (UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise ValueError(str(error)) from error


def write_secret(path: Path, values: Any) -> None:
    """Write a file that only its user may read; an existing file is refused."""
    text = json.dumps(msgspec.to_builtins(values), indent=1)
    try:
        write_new(path, text, 0o600)
    except FileExistsError:
        raise ConfigError(f"{path} exists already. Keys are never overwritten.") from None


def write_keys(keys: PrivateKeys, folder: Path) -> tuple[Path, Path]:
    """Write the private and the public keys of a client; return both paths."""
    name = check_name(keys.public.name)
    private, public = folder / f"{name}{KEY_SUFFIX}", folder / f"{name}{PUBLIC_SUFFIX}"
    if public.exists():
        raise ConfigError(f"{public} exists already. Keys are never overwritten.")
    write_secret(private, keys)
    try:
        write_secret(public, keys.public)
    except BaseException:
        private.unlink()  # nobody has the public half, and keys are never overwritten
        raise
    return private, public


def read_private_keys(path: Path) -> PrivateKeys:
    """Read the keys of a client or the server."""
    with interpreting(path, _EXPECTED[KEY_SUFFIX]):
        return msgspec.json.decode(_read(path, KEY_SUFFIX), type=PrivateKeys).check()


def read_public_keys(path: Path) -> PublicKeys:
    """Read the public keys of a client."""
    with interpreting(path, _EXPECTED[PUBLIC_SUFFIX]):
        return msgspec.json.decode(_read(path, PUBLIC_SUFFIX), type=PublicKeys).check()


def _read(path: Path, suffix: str) -> str:
    return read_text(path, _EXPECTED[suffix], sealed=False, most=1 << 20)


def read_pins(places: Iterable[Path]) -> dict[str, PublicKeys]:
    """Read public keys by name from files and folders of .pub files."""
    pins: dict[str, PublicKeys] = {}
    for place in places:
        for path in sorted(place.glob(f"*{PUBLIC_SUFFIX}")) if place.is_dir() else [place]:
            keys = read_public_keys(path)
            if pins.setdefault(keys.name, keys) != keys:
                raise ConfigError(
                    f"{path}: another file has other keys of {keys.name!r}. Ask {keys.name!r} "
                    "which one is right, and remove the other."
                )
    return pins
