"""The folder of a study on the server's machine: study.toml, signatures, secrets, and the run."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fedfb.errors import ConfigError
from fedfb.experiments.run_folder import claim_empty
from fedfb.files import write_whole, writing
from fedfb.study.journal import RUN_FOLDER
from fedfb.study.keys import (
    PrivateKeys,
    PublicKeys,
    make_private_keys,
    read_pins,
    read_private_keys,
    write_keys,
    write_secret,
)
from fedfb.study.seal import (
    SIGNATURE_SUFFIX,
    Signature,
    read_signatures,
    sign_seal,
    write_signature,
)
from fedfb.study.study import Study, read_study, study_to_toml

STUDY, SECRETS, KEYS, SERVER_FILE = "study.toml", "secrets", "keys", "server.key"


class DrawnKeys(NamedTuple):
    """The server's keys, and all clients' public ones; of a trial also the private ones."""

    server: PrivateKeys
    clients: tuple[PublicKeys, ...]
    private: tuple[PrivateKeys, ...] = ()


class StudyFolder:
    """The files of a study on the server's machine."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def run(self) -> Path:
        """The folder of the server's journal, log and result."""
        return self._path / RUN_FOLDER

    def draw_keys(
        self, name: str, address: str, pins: Sequence[Path], trial: Sequence[str] | None
    ) -> DrawnKeys:
        """Draw the server's keys, and for a trial those of all clients; nothing is written.

        Args:
            name: the name of the study.
            address: host:port by which clients reach the server.
            pins: files and folders with the clients' public keys.
            trial: the names of the clients of a trial; None: no trial.
        """
        host = address.rpartition(":")[0].strip("[]")
        server = make_private_keys(name, host)
        if trial is None:
            return DrawnKeys(server, tuple(read_pins(pins).values()))
        if pins:
            raise ConfigError(
                "--trial makes the keys of all clients, and --keys names keys that clients have "
                "made. Leave one of them out."
            )
        private = tuple(make_private_keys(client) for client in sorted(set(trial)))
        return DrawnKeys(server, tuple(keys.public for keys in private), private)

    def create(self, study: Study, keys: DrawnKeys) -> None:
        """Write the folder of a new study."""
        with claim_empty(self._path, undo=True, mode=0o700):
            folders = [SECRETS] + ([KEYS] if keys.private else [])
            for part in (self._path / folder for folder in folders):
                with writing(part):
                    part.mkdir(mode=0o700)
            write_secret(self._path / SECRETS / SERVER_FILE, keys.server)
            for client in keys.private:
                write_keys(client, self._path / KEYS)
                signature = self._path / f"{client.public.name}{SIGNATURE_SUFFIX}"
                write_signature(sign_seal(study, client), signature)
            write_whole(self._path / STUDY, study_to_toml(study))

    def read(self, file: Path) -> tuple[Study, PrivateKeys, dict[str, Signature]]:
        """Read a study, the server's keys, and the signatures beside it."""
        study = read_study(file)
        keys = read_private_keys(self._path / SECRETS / SERVER_FILE)
        if keys.public != study.server:
            raise ConfigError(
                f"{self._path / SECRETS / SERVER_FILE} holds other keys than {file} names. Restore "
                "the folder, or make a new study: fedfb study init."
            )
        return study, keys, read_signatures([self._path])
