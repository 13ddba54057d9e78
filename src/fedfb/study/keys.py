"""Certificates and keys of a study, and the files that hold them.

The server has a folder, every client a bundle. TLS proves to clients that they talk to the server.
A node key proves to Flower which client a request comes from. It is ECDSA P-256: Flower signs every
request over SHA-256, and its usual P-384 takes six times as long. An identity (Ed25519) signs a
client's part in secure sums, so that the server cannot replace its keys.
"""

import datetime
import ipaddress
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedfb.errors import ConfigError, unknown_name
from fedfb.experiments.run_folder import claim_empty
from fedfb.files import interpreting, read_json, write_new, write_whole, writing
from fedfb.secure import derive_identity_key, derive_public_key, make_link_key
from fedfb.secure.keys import KEY_BYTES
from fedfb.study.study import Study, read_study, study_from_toml, study_to_toml

YEARS = 3
"""How long the certificates of a study are valid."""


class PrivateKeys(NamedTuple):
    """The private keys of one client: ``node`` as PEM, ``identity`` as hexadecimal digits."""

    node: str
    identity: str

    @property
    def public(self) -> "ClientPublicKeys":
        """The public part of these keys."""
        text = (
            _load_node_key(self.node)
            .public_key()
            .public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        identity = derive_identity_key(bytes.fromhex(self.identity)).hex()
        return ClientPublicKeys(text.decode(), identity)


class ClientPublicKeys(NamedTuple):
    """The public keys of one client."""

    node: str
    identity: str

    def check(self) -> "ClientPublicKeys":
        """Return these keys; raise ValueError if they are not valid keys."""
        with _reject_unknown_algorithms():
            key = serialization.load_pem_public_key(self.node.encode())
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise ValueError("the key of the node has another type")
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.identity))
        return self


def _load_node_key(pem: str) -> ec.EllipticCurvePrivateKey:
    with _reject_unknown_algorithms():
        key = serialization.load_pem_private_key(pem.encode(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key of the node has another type")
    return key


def check_certificate(pem: str) -> x509.Certificate:
    """Return a certificate; raise ValueError if the text is not one."""
    with _reject_unknown_algorithms():
        return x509.load_pem_x509_certificate(pem.encode())


@contextmanager
def _reject_unknown_algorithms() -> Iterator[None]:
    """Raise ValueError for an unknown algorithm, as for a malformed key."""
    try:
        yield
    except (UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise ValueError(str(error)) from error


def make_private_keys() -> PrivateKeys:
    """Draw the keys of a client."""
    return PrivateKeys(
        _write_pem(ec.generate_private_key(ec.SECP256R1())), os.urandom(KEY_BYTES).hex()
    )


class Certificates(NamedTuple):
    """PEM texts: the authority that clients trust, and the server's certificate with its key."""

    authority: str
    certificate: str
    key: str

    def check(self) -> "Certificates":
        """Return these certificates; raise ValueError if they are invalid or of another key."""
        check_certificate(self.authority)
        with _reject_unknown_algorithms():
            public = check_certificate(self.certificate).public_key()
        if public != _load_node_key(self.key).public_key():
            raise ValueError("the certificate belongs to another key")
        return self


def make_certificates(study: str, host: str) -> Certificates:
    """Make an authority for one study, and the certificate of its server.

    The private key of the authority is discarded, so that the authority can sign nothing else.

    Args:
        study: the name of the study.
        host: the name or the address by which clients reach the server.
    """
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority_name, server_name = _make_name(f"fedfb study {study}"), _make_name(host)
    authority = (
        _build_certificate(authority_name, authority_name, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    server = (
        _build_certificate(server_name, authority_name, key)
        .add_extension(x509.SubjectAlternativeName([_make_alternative_name(host)]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return Certificates(
        authority.public_bytes(pem).decode(), server.public_bytes(pem).decode(), _write_pem(key)
    )


def _build_certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=365 * YEARS))
    )


def _make_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


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


STUDY, SECRETS, BUNDLES = "study.toml", "secrets", "bundles"
SERVER_FILE = "server.json"
BUNDLE = "a bundle as fedfb study init writes it"


@dataclass(frozen=True)
class ServerSecrets:
    """What the server holds: certificates, its link key, the clients' public keys."""

    certificates: Certificates
    link: bytes
    clients: Mapping[str, ClientPublicKeys]


@dataclass(frozen=True)
class Bundle:
    """What one client holds: the study, whom it trusts, and its own name and keys.

    ``server`` is the server's link key, ``identities`` are those of all clients. Both are known
    before the first message, so that no key can be replaced later.
    """

    study: Study
    authority: str
    server: bytes
    identities: Mapping[str, str]
    client: str
    keys: PrivateKeys

    @property
    def id(self) -> int:
        """The number of this client: its place among the names of the study."""
        return self.study.clients.index(self.client)

    def check(self) -> None:
        """Raise ValueError for a name that the study does not have, and for invalid keys."""
        check_certificate(self.authority)
        for key in (self.server, *self.pins.values()):
            if len(key) != KEY_BYTES:
                raise ValueError(f"a key has {len(key)} bytes")
        if self.client not in self.study.clients:
            raise ValueError(f"the study has no client {self.client!r}")

    @property
    def pins(self) -> dict[int, bytes]:
        """The identities of all clients, by id."""
        return {
            id: bytes.fromhex(self.identities[name]) for id, name in enumerate(self.study.clients)
        }


def create(study: Study, folder: Path, public_keys: Mapping[str, ClientPublicKeys]) -> None:
    """Write the folder of a study: the study, the server's secrets, and a bundle for each client.

    Args:
        study: the study.
        folder: a new or empty folder.
        public_keys: the keys of clients that made their keys themselves, by name. For the other
            clients keys are drawn here and written into the bundle: whoever makes the bundle knows
            them.
    """
    for name in public_keys:
        if name not in study.clients:
            raise ConfigError(unknown_name("client", name, study.clients))
    private_keys = {name: make_private_keys() for name in study.clients if name not in public_keys}
    publics = {
        name: public_keys[name] if name in public_keys else private_keys[name].public
        for name in study.clients
    }
    certificates, link = make_certificates(study.name, study.host), make_link_key()
    common = {
        "study": study_to_toml(study),
        "authority": certificates.authority,
        "server": derive_public_key(link).hex(),
        "identities": {name: keys.identity for name, keys in publics.items()},
    }
    secrets = {
        "certificates": certificates._asdict(),
        "link": link.hex(),
        "clients": {name: keys._asdict() for name, keys in publics.items()},
    }
    with claim_empty(folder, undo=True, mode=0o700):
        for part in (folder / SECRETS, folder / BUNDLES):
            with writing(part):
                part.mkdir(mode=0o700)
        write_secret(folder / SECRETS / SERVER_FILE, secrets)
        for name in study.clients:
            keys = private_keys[name]._asdict() if name in private_keys else None
            bundle = {**common, "client": name, "keys": keys}
            write_secret(folder / BUNDLES / f"{name}.bundle", bundle)
        write_whole(folder / STUDY, study_to_toml(study))


def write_secret(path: Path, values: Mapping[str, Any]) -> None:
    """Write a file that only its user may read; an existing file is refused."""
    try:
        write_new(path, json.dumps(values, indent=1), 0o600)
    except FileExistsError:
        raise ConfigError(f"{path} exists already. Keys are never overwritten.") from None


def read_server_secrets(path: Path) -> tuple[Study, ServerSecrets]:
    """Read the file of a study, and the server's secrets beside it."""
    study = read_study(path)
    secrets_path = path.parent / SECRETS / SERVER_FILE
    expected = "the server's secrets, which fedfb study init wrote beside it"
    values = read_json(secrets_path, expected)
    with interpreting(secrets_path, expected):
        clients = {
            name: ClientPublicKeys(**keys).check() for name, keys in values["clients"].items()
        }
        certificates = Certificates(**values["certificates"]).check()
        link = bytes.fromhex(values["link"])
        derive_public_key(link)
    if set(clients) != set(study.clients):
        raise ConfigError(
            f"{path} names the clients {', '.join(study.clients)}, and {secrets_path} has keys of "
            f"{', '.join(clients)}. Make a new study: fedfb study init."
        )
    return study, ServerSecrets(certificates, link, clients)


def read_bundle(path: Path, key_file: Path | None = None) -> Bundle:
    """Read the bundle of a client.

    Args:
        path: the bundle, as ``create`` wrote it.
        key_file: the client's keys, if it made them itself.
    """
    expected_keys = "keys as fedfb study key writes them"
    values = read_json(path, BUNDLE)
    with interpreting(path, BUNDLE):
        key_values, name = values.get("keys"), values["client"]
    if key_file is not None:
        key_values = read_json(key_file, expected_keys)
    if key_values is None:
        raise ConfigError(
            f"{path} holds no keys, because {name} made its own keys. Name their file by --key."
        )
    with interpreting(key_file or path, expected_keys):
        keys = PrivateKeys(key_values["node"], key_values["identity"])
        identity = keys.public.identity
    with interpreting(path, BUNDLE):
        bundle = Bundle(
            study_from_toml(values["study"], str(path)),
            values["authority"],
            bytes.fromhex(values["server"]),
            values["identities"],
            values["client"],
            keys,
        )
        fits = identity == bundle.identities[bundle.client]
        bundle.check()
    if not fits:
        raise ConfigError(
            f"the keys are not those of {bundle.client!r} in {path}: the study has another "
            "identity under this name. Use the keys whose public part the server received."
        )
    return bundle


def read_public_keys(path: Path) -> tuple[str, ClientPublicKeys]:
    """Read the name and the public keys of a client that made its own keys."""
    expected = "public keys as fedfb study key writes them"
    values = read_json(path, expected)
    with interpreting(path, expected):
        return str(values["client"]), ClientPublicKeys(values["node"], values["identity"]).check()
