"""The journal and the log of a study on disk, and the folders in which a study keeps its files.

The journal holds the totals of the current round. A server that is restarted continues after the
last total. It does not repeat a task that has a total: two totals of the same uploads over
different clients would reveal the upload of one client. The log is one line of JSON for each event.

Messages are arrays and plain values, as bytes and texts. Nothing is pickled.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedfb import files
from fedfb.core import Arrays
from fedfb.errors import ConfigError
from fedfb.files import interpreting, read_text, writing
from fedfb.runtime import archive
from fedfb.study.study import Study

RECORD = "fedfb"
"""The name of the one record that a message of Flower carries."""


def pack_message(arrays: Arrays) -> bytes:
    """Write named arrays.

    >>> import numpy as np
    >>> unpack_message(pack_message({"lam": np.array([0.5])}))
    {'lam': array([0.5])}
    """
    return files.pack_arrays(arrays) if arrays else b""


def unpack_message(data: bytes) -> Arrays:
    """Read named arrays."""
    if not data:
        return {}
    return files.unpack_arrays(data, "a message", "arrays as fedfb sends them, of one version")


def pack_values(values: dict[str, Any]) -> str:
    """Write plain values as JSON."""
    return json.dumps(values, separators=(",", ":"))


def unpack_values(text: str) -> dict[str, Any]:
    """Read plain values."""
    values: dict[str, Any] = json.loads(text)
    return values


def join_names(study: Study, ids: Iterable[int]) -> str:
    """Return the names of clients for a sentence."""
    return ", ".join(study.clients[id] for id in sorted(ids)) or "nobody"


class ExchangeTotal(NamedTuple):
    """The total of one exchange, and the ids of the clients whose uploads it contains."""

    arrays: Arrays
    clients: tuple[int, ...]


@dataclass(frozen=True)
class Journal:
    """The totals of one round of a phase, one file each. ``owner`` is the digest of the study."""

    folder: Path
    owner: str
    phase: str
    round: int

    def find(self, exchange: int) -> ExchangeTotal | None:
        """Return the total of an exchange; None if it is not in the journal."""
        path = self._path(exchange)
        arrays = archive.load_archive(path, self.owner)
        if arrays is None:
            return None
        with interpreting(path, archive.EXPECTED_ARCHIVE):
            clients = tuple(arrays.pop("counted").tolist())
        return ExchangeTotal({name.removeprefix("/"): a for name, a in arrays.items()}, clients)

    def write(self, exchange: int, total: ExchangeTotal) -> None:
        """Write a total to disk. The server does so before it uses the total."""
        arrays = {f"/{name}": value for name, value in total.arrays.items()}
        clients = {"counted": np.array(total.clients, np.int64)}
        archive.save_archive(self._path(exchange), {**arrays, **clients}, self.owner)

    def forget_earlier(self) -> None:
        """Remove the totals of earlier rounds of the phase, which a checkpoint contains."""
        for path in self.folder.glob(f"{self.phase}-*.npz"):
            if int(path.stem.split("-")[1]) < self.round:
                with writing(path):
                    path.unlink()

    def _path(self, exchange: int) -> Path:
        return self.folder / f"{self.phase}-{self.round}-{exchange}.npz"


EVENTS = "events.jsonl"

COMMON = ("time", "event", "text")
"""The fields that every event has."""


@dataclass(frozen=True)
class Log:
    """The log of a study. Events go to ``path``, and their texts also to ``notify``."""

    path: Path
    notify: Callable[[str], None]

    def write(self, event: str, text: str, **values: Any) -> None:
        """Write an event.

        Args:
            event: the name of the event.
            text: a sentence for people.
            values: more fields of the event, for programs.
        """
        record = {"time": datetime.now(UTC).isoformat(), "event": event, "text": text, **values}
        # The line break comes first: it ends a line that a full disk has cut short.
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write("\n" + json.dumps(record))
        self.notify(text)


def read_events(path: Path) -> list[dict[str, Any]]:
    """Read a log; a line that was cut short by a kill or a full disk is skipped."""
    if not path.exists():
        raise ConfigError(
            f"there is no log {path}: this study has not been served here. Start it: "
            "fedfb serve study.toml."
        )
    events = []
    for line in read_text(path, "the log of a study as fedfb serve writes it").splitlines():
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and all(isinstance(event.get(key), str) for key in COMMON):
            events.append(event)
    return events


RUN_FOLDER = "run"
"""The folder beside a study's file that holds the checkpoints, journal, log and result."""


def locate_state(bundle: Path) -> Path:
    """Return the folder beside a client's bundle that holds the client's own files."""
    return bundle.with_name(bundle.name + ".state")


RESUME_HINT = "Then run the same command again: it continues where it stopped."
"""The end of an error about a folder that cannot be written to."""
