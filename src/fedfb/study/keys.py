"""Certificates and keys of a study: who may speak for the coordinator, and who for a silo.

TLS tells silos that they talk to the coordinator; a node key (ECDSA P-256: Flower signs every
request over SHA-256, and its usual P-384 takes six times as long) tells Flower which silo a request
comes from; an identity (Ed25519) signs a silo's part in secure sums, so that the coordinator cannot
put other keys in its place.

The files of a study: the coordinator's folder, and a bundle for each silo.
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
"""How long a study's certificates hold."""


class SiloKeys(NamedTuple):
    """The private keys of one silo: PEM for its node, raw bytes in hexadecimal for its identity."""

    node: str
    identity: str

    @property
    def public(self) -> "PublicKeys":
        """What the others may know of them."""
        text = (
            _node_key(self.node)
            .public_key()
            .public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        identity = derive_identity_key(bytes.fromhex(self.identity)).hex()
        return PublicKeys(text.decode(), identity)


class PublicKeys(NamedTuple):
    """The public keys of one silo."""

    node: str
    identity: str

    def check(self) -> "PublicKeys":
        """Return these keys; refuse (ValueError) what are none."""
        with _known_algorithms():
            key = serialization.load_pem_public_key(self.node.encode())
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise ValueError("the key of the node is of another kind")
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.identity))
        return self


def _node_key(pem: str) -> ec.EllipticCurvePrivateKey:
    with _known_algorithms():
        key = serialization.load_pem_private_key(pem.encode(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key of the node is of another kind")
    return key


def check_certificate(pem: str) -> x509.Certificate:
    """Return a certificate; refuse (ValueError) what is none."""
    with _known_algorithms():
        return x509.load_pem_x509_certificate(pem.encode())


@contextmanager
def _known_algorithms() -> Iterator[None]:
    """Turn an algorithm or a version that nobody knows into what a malformed key raises."""
    try:
        yield
    except (UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise ValueError(str(error)) from error


def make_silo_keys() -> SiloKeys:
    """Draw the keys of a silo."""
    return SiloKeys(_pem(ec.generate_private_key(ec.SECP256R1())), os.urandom(KEY_BYTES).hex())


class Certificates(NamedTuple):
    """PEM: what silos trust, and the coordinator's certificate with its private key."""

    authority: str
    certificate: str
    key: str

    def check(self) -> "Certificates":
        """Return these certificates; refuse (ValueError) what are none, or of another key."""
        check_certificate(self.authority)
        with _known_algorithms():
            named = check_certificate(self.certificate).public_key()
        if named != _node_key(self.key).public_key():
            raise ValueError("the certificate is of another key")
        return self


def make_certificates(study: str, host: str) -> Certificates:
    """Make an authority for one study and the certificate of its coordinator at this host.

    The authority's private key is not kept: it can sign nothing else.
    """
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority_name, own_name = _name(f"fedfb study {study}"), _name(host)
    authority = (
        _certificate(authority_name, authority_name, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    own = (
        _certificate(own_name, authority_name, key)
        .add_extension(x509.SubjectAlternativeName([_alternative(host)]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return Certificates(
        authority.public_bytes(pem).decode(), own.public_bytes(pem).decode(), _pem(key)
    )


def _certificate(
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


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


STUDY, SECRETS, BUNDLES = "study.toml", "secrets", "bundles"
COORDINATOR = "coordinator.json"
BUNDLE = "a bundle as fedfb study init writes it"


@dataclass(frozen=True)
class Office:
    """What the coordinator holds: certificates, its link key, the silos' public keys."""

    certificates: Certificates
    link: bytes
    silos: Mapping[str, PublicKeys]


@dataclass(frozen=True)
class Bundle:
    """What one silo holds: the study, whom it trusts, and its own name and keys.

    ``server`` is the coordinator's link key, ``identities`` are those of all silos: both known
    before the first message, so that none of them can be put in place of another later.
    """

    study: Study
    authority: str
    server: bytes
    identities: Mapping[str, str]
    silo: str
    keys: SiloKeys

    @property
    def id(self) -> int:
        """The silo's place among the silos."""
        return self.study.silos.index(self.silo)

    def check(self) -> None:
        """Refuse (ValueError) a name that the study does not have, and keys that are none."""
        check_certificate(self.authority)
        for key in (self.server, *self.pins.values()):
            if len(key) != KEY_BYTES:
                raise ValueError(f"a key has {len(key)} bytes")
        if self.silo not in self.study.silos:
            raise ValueError(f"the study has no silo {self.silo!r}")

    @property
    def pins(self) -> dict[int, bytes]:
        """The identities by id."""
        return {
            id: bytes.fromhex(self.identities[name]) for id, name in enumerate(self.study.silos)
        }


def create(study: Study, folder: Path, known: Mapping[str, PublicKeys]) -> None:
    """Write a study's folder: the study, secrets for the coordinator, a bundle for each silo.

    Silos whose public keys are ``known`` made their keys themselves; the others find theirs in the
    bundle, and whoever has made the bundle knows them.
    """
    for name in known:
        if name not in study.silos:
            raise ConfigError(unknown_name("silo", name, study.silos))
    made = {name: make_silo_keys() for name in study.silos if name not in known}
    publics = {name: known[name] if name in known else made[name].public for name in study.silos}
    certificates, link = make_certificates(study.name, study.host), make_link_key()
    common = {
        "study": study_to_toml(study),
        "authority": certificates.authority,
        "server": derive_public_key(link).hex(),
        "identities": {name: keys.identity for name, keys in publics.items()},
    }
    office = {
        "certificates": certificates._asdict(),
        "link": link.hex(),
        "silos": {name: keys._asdict() for name, keys in publics.items()},
    }
    with claim_empty(folder, undo=True, mode=0o700):
        for part in (folder / SECRETS, folder / BUNDLES):
            with writing(part):
                part.mkdir(mode=0o700)
        write_secret(folder / SECRETS / COORDINATOR, office)
        for name in study.silos:
            own = made[name]._asdict() if name in made else None
            bundle = {**common, "silo": name, "keys": own}
            write_secret(folder / BUNDLES / f"{name}.bundle", bundle)
        write_whole(folder / STUDY, study_to_toml(study))


def write_secret(path: Path, values: Mapping[str, Any]) -> None:
    """Write a file that only its owner may read; one that exists is refused."""
    try:
        write_new(path, json.dumps(values, indent=1), 0o600)
    except FileExistsError:
        raise ConfigError(f"{path} exists already, and keys are not overwritten.") from None


def read_office(path: Path) -> tuple[Study, Office]:
    """Read a study's file and the coordinator's secrets beside it."""
    study = read_study(path)
    secrets = path.parent / SECRETS / COORDINATOR
    expected = "the coordinator's secrets, which fedfb study init wrote beside it"
    values = read_json(secrets, expected)
    with interpreting(secrets, expected):
        silos = {name: PublicKeys(**keys).check() for name, keys in values["silos"].items()}
        certificates = Certificates(**values["certificates"]).check()
        link = bytes.fromhex(values["link"])
        derive_public_key(link)
    if set(silos) != set(study.silos):
        raise ConfigError(
            f"{path} names the silos {', '.join(study.silos)}, and {secrets} has keys of "
            f"{', '.join(silos)}. Make the study anew: fedfb study init."
        )
    return study, Office(certificates, link, silos)


def read_bundle(path: Path, key_file: Path | None = None) -> Bundle:
    """Read a silo's bundle; its keys from a file of its own where the bundle has none."""
    of_key = "keys as fedfb study key writes them"
    values = read_json(path, BUNDLE)
    with interpreting(path, BUNDLE):
        own, name = values.get("keys"), values["silo"]
    if key_file is not None:
        own = read_json(key_file, of_key)
    if own is None:
        raise ConfigError(f"{path} holds no keys, since {name} made its own: name them by --key.")
    with interpreting(key_file or path, of_key):
        keys = SiloKeys(own["node"], own["identity"])
        identity = keys.public.identity
    with interpreting(path, BUNDLE):
        bundle = Bundle(
            study_from_toml(values["study"], str(path)),
            values["authority"],
            bytes.fromhex(values["server"]),
            values["identities"],
            values["silo"],
            keys,
        )
        fits = identity == bundle.identities[bundle.silo]
        bundle.check()
    if not fits:
        raise ConfigError(
            f"the keys are not those of {bundle.silo!r} in {path}: the study knows another "
            "identity under this name. Use the keys whose public part the coordinator was given."
        )
    return bundle


def read_public_keys(path: Path) -> tuple[str, PublicKeys]:
    """Read the public keys that a silo made for itself, and its name."""
    expected = "public keys as fedfb study key writes them"
    values = read_json(path, expected)
    with interpreting(path, expected):
        return str(values["silo"]), PublicKeys(values["node"], values["identity"]).check()
