"""The seal of a study, the clients' signatures on it, and the public keys that clients compare.

The seal is the SHA-256 of study.toml. The file holds all that will run, every client's public keys,
the server's keys and the version of the code. A client that has signed a seal knows whom it sums
with and what is computed.
"""

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import msgspec

from fedfb import __version__
from fedfb.errors import ConfigError
from fedfb.files import interpreting, read_text, write_whole
from fedfb.secure import AuthenticationError
from fedfb.secure.encoding import pack, pack_number
from fedfb.secure.keys import check_signature, sign
from fedfb.study.keys import PrivateKeys, PublicKeys
from fedfb.study.study import Study

SIGNATURE_SUFFIX = ".sig"
_EXPECTED = "a signature as fedfb study sign writes it"


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The signature of a client on a seal, both as hexadecimal digits."""

    client: str
    seal: str
    signature: str


@cache
def code_version() -> str:
    """Return the version of fedfb with a hash of its Python files: equal code gives equal bits."""
    import fedfb

    root, digest = Path(fedfb.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).as_posix()):
        content = path.read_bytes().replace(b"\r\n", b"\n")
        name = path.relative_to(root).as_posix().encode()
        digest.update(pack(name, content))
    return f"{__version__} {digest.hexdigest()[:16]}"


def refuse_other_code(study: Study, where: str) -> None:
    """Refuse to go on with other code than the study was made and signed with."""
    if study.code != code_version():
        raise ConfigError(
            f"{where} was made with fedfb {study.code}, and this is fedfb {code_version()}. All "
            f"sides must run the same code. Install version {study.code.split()[0]} from the same "
            "source, or make a new study: fedfb study init."
        )


def sign_seal(study: Study, keys: PrivateKeys) -> Signature:
    """Return the signature of a client on a study."""
    text = _signed_text(study, keys.public.name)
    return Signature(keys.public.name, study.seal, sign(keys.identity_bytes, text).hex())


def _signed_text(study: Study, client: str) -> bytes:
    return pack(b"fedfb study", bytes.fromhex(study.seal), client.encode())


def write_attested_text(study: Study, number: int, chain: bytes) -> bytes:
    """Return the bytes that a client signs about all totals before an exchange."""
    return pack(b"chain", bytes.fromhex(study.seal), pack_number(number), chain)


def check_signatures(study: Study, signatures: Mapping[str, Signature]) -> None:
    """Refuse to start unless every client has signed this study."""
    missing = [name for name in study.names if name not in signatures]
    if missing:
        raise ConfigError(
            f"{', '.join(missing)} {'has' if len(missing) == 1 else 'have'} not signed the study. "
            "Each client signs: fedfb study sign study.toml --key CLIENT.key. The server's user "
            "puts the .sig files beside study.toml."
        )
    for keys in study.clients:
        signature = signatures[keys.name]
        if signature.seal != study.seal:
            raise ConfigError(
                f"{keys.name} signed another study (seal {signature.seal[:16]}, this one is "
                f"{study.seal[:16]}). All must sign the same study.toml."
            )
        try:
            raw = bytes.fromhex(signature.signature)
            text = _signed_text(study, keys.name)
            check_signature(keys.identity_bytes, text, raw, f"{keys.name} on the study")
        except (AuthenticationError, ValueError):
            raise ConfigError(
                f"the signature of {keys.name} does not fit its public key. Ask {keys.name} to "
                "sign again."
            ) from None


def compare_pins(study: Study, pins: Mapping[str, PublicKeys], me: str) -> list[str]:
    """Return what is wrong with the keys in a study, in sentences; an empty list if all fit.

    Args:
        study: the study, which the server's user wrote.
        pins: public keys that this client got from the other clients themselves, by name.
        me: the name of this client.
    """
    problems = []
    for keys in study.clients:
        if keys.name not in pins and keys.name != me:
            problems.append(f"there is no {keys.name}.pub: get it from {keys.name}")
        elif keys.name in pins and pins[keys.name] != keys:
            problems.append(
                f"the study has other keys of {keys.name} than {keys.name}.pub "
                f"({keys.fingerprint}, the file {pins[keys.name].fingerprint})"
            )
    return problems


def refuse_other_keys(study: Study, keys: PrivateKeys, pins: Mapping[str, PublicKeys]) -> None:
    """Refuse a study whose keys are not those that this client has from the clients themselves."""
    name = keys.public.name
    if name not in study.names:
        raise ConfigError(f"the study has no client {name!r}: it has {', '.join(study.names)}.")
    if study.entry(name) != keys.public:
        raise ConfigError(
            f"the study has other keys of {name!r} than the key file. Send the right {name}.pub to "
            "the server's user, who makes a new study."
        )
    problems = [] if study.trial else compare_pins(study, pins, name)
    if problems:
        raise ConfigError(
            f"the keys of the study cannot be trusted: {'; '.join(problems)}. A server that makes "
            "up clients would see what you send. Name the files by --pins."
        )


def write_signature(signature: Signature, path: Path) -> None:
    """Write a signature to a file."""
    write_whole(path, msgspec.json.format(msgspec.json.encode(signature), indent=1))


def read_signatures(places: Iterable[Path]) -> dict[str, Signature]:
    """Read the signatures in the given folders, by client."""
    signatures: dict[str, Signature] = {}
    for folder in places:
        for path in sorted(folder.glob(f"*{SIGNATURE_SUFFIX}")):
            text = read_text(path, _EXPECTED, sealed=False, most=1 << 16)
            with interpreting(path, _EXPECTED):
                signature = msgspec.json.decode(text, type=Signature)
            signatures[signature.client] = signature
    return signatures
