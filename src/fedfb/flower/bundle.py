"""The files of a study: the coordinator's folder, and a bundle for each silo."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedfb.errors import ConfigError, unknown_name
from fedfb.experiments.store import write_whole, writing_to
from fedfb.flower.keys import Certificates, PublicKeys, SiloKeys, make_certificates, make_silo_keys
from fedfb.flower.study import Study, read_study, study_from_toml, study_to_toml
from fedfb.secure import make_link_key, public_key

STUDY, SECRETS, BUNDLES = "study.toml", "secrets", "bundles"
COORDINATOR = "coordinator.json"


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
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"the folder {folder} is not empty. Give a new one for the study.")
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
    with writing_to(folder):
        for part in (folder, folder / SECRETS, folder / BUNDLES):
            part.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_secret(folder / SECRETS / COORDINATOR, office)
        for name in study.silos:
            own = made[name]._asdict() if name in made else None
            bundle = {**common, "silo": name, "keys": own}
            write_secret(folder / BUNDLES / f"{name}.bundle", bundle)
        write_whole(folder / STUDY, study_to_toml(study))


def write_secret(path: Path, values: Mapping[str, Any]) -> None:
    """Write a file that only its owner may read; one that exists is refused."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ConfigError(f"{path} exists already, and keys are not overwritten.") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(values, file, indent=1)


def read_office(path: Path) -> tuple[Study, Office]:
    """Read a study's file and the coordinator's secrets beside it."""
    study = read_study(path)
    secrets = path.parent / SECRETS / COORDINATOR
    values = _read(secrets, "the coordinator's secrets, which fedfb study init wrote beside it")
    silos = {name: PublicKeys(**keys) for name, keys in values["silos"].items()}
    if set(silos) != set(study.silos):
        raise ConfigError(
            f"{path} names the silos {', '.join(study.silos)}, and {secrets} has keys of "
            f"{', '.join(silos)}. Make the study anew: fedfb study init."
        )
    certificates = Certificates(**values["certificates"])
    return study, Office(certificates, bytes.fromhex(values["link"]), silos)


def read_bundle(path: Path, key_file: Path | None = None) -> Bundle:
    """Read a silo's bundle; its keys from a file of its own where the bundle has none."""
    values = _read(path, "a bundle as fedfb study init writes it")
    own = values.get("keys")
    if key_file is not None:
        own = _read(key_file, "keys as fedfb study key writes them")
    if own is None:
        raise ConfigError(
            f"{path} holds no keys, since {values.get('silo')} made its own: name them by --key."
        )
    try:
        bundle = Bundle(
            study_from_toml(values["study"], str(path)),
            values["authority"],
            bytes.fromhex(values["server"]),
            values["identities"],
            values["silo"],
            SiloKeys(own["node"], own["identity"]),
        )
        fits = bundle.keys.public.identity == bundle.identities[bundle.silo]
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path} is not a bundle of a study ({error!r}).") from None
    if not fits:
        raise ConfigError(
            f"the keys are not those of {bundle.silo!r} in {path}: the study knows another "
            "identity under this name. Use the keys whose public part the coordinator was given."
        )
    return bundle


def read_public_keys(path: Path) -> tuple[str, PublicKeys]:
    """Read the public keys that a silo made for itself, and its name."""
    values = _read(path, "public keys as fedfb study key writes them")
    try:
        return values["silo"], PublicKeys(values["node"], values["identity"])
    except KeyError as error:
        raise ConfigError(f"{path} lacks {error}: expected public keys of a silo.") from None


def _read(path: Path, expected: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}. Expected {expected}.") from None
    except ValueError:
        raise ConfigError(f"{path} cannot be read. Expected {expected}.") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path} cannot be read. Expected {expected}.")
    return found
