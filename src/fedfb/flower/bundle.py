"""The files of a study: the coordinator's folder, and a bundle for each silo."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedfb.errors import ConfigError, unknown_name
from fedfb.experiments.folders import claim_empty
from fedfb.files import interpreting, read_json, write_new, write_whole, writing
from fedfb.flower.keys import (
    Certificates,
    PublicKeys,
    SiloKeys,
    check_certificate,
    make_certificates,
    make_silo_keys,
)
from fedfb.flower.study import Study, read_study, study_from_toml, study_to_toml
from fedfb.secure import make_link_key, public_key
from fedfb.secure.keys import KEY_BYTES

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
        "server": public_key(link).hex(),
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
        public_key(link)
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
