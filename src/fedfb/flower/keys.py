"""Certificates and keys of a study: who may speak for the coordinator, and who for a silo.

TLS tells silos that they talk to the coordinator; a node key (ECDSA P-256: Flower signs every
request over SHA-256, and its usual P-384 takes six times as long) tells Flower which silo a request
comes from; an identity (Ed25519) signs a silo's part in secure sums, so that the coordinator cannot
put other keys in its place.
"""

import datetime
import ipaddress
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedfb.secure import identity_public_key
from fedfb.secure.keys import KEY_BYTES

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
        identity = identity_public_key(bytes.fromhex(self.identity)).hex()
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
