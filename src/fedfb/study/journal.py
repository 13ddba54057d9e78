"""The answers of the round that is under way, on disk: a question is asked once.

A coordinator that is started anew goes on after the last answer. It does not ask again what it was
told before: two sums of the same answers over different silos would tell one silo's part.

The log of a study: one line of JSON for everything that happens, and a line to read.

Where a study keeps its files, on the coordinator's machine and on a silo's.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedfb.core import Arrays
from fedfb.errors import ConfigError
from fedfb.files import interpreting, read_text, writing
from fedfb.runtime import archive as checkpoint


class Answered(NamedTuple):
    """The answer to a question, and whose parts are in it."""

    total: Arrays
    counted: tuple[int, ...]


@dataclass(frozen=True)
class Journal:
    """The answers of one round of a phase, one file each."""

    folder: Path
    owner: str
    phase: str
    round: int

    def find(self, question: int) -> Answered | None:
        """Return what was answered before."""
        path = self._path(question)
        arrays = checkpoint.load(path, self.owner)
        if arrays is None:
            return None
        with interpreting(path, checkpoint.EXPECTED):
            counted = tuple(arrays.pop("counted").tolist())
        return Answered({name.removeprefix("/"): a for name, a in arrays.items()}, counted)

    def write(self, question: int, answered: Answered) -> None:
        """Keep an answer, on disk before anything is made of it."""
        arrays = {f"/{name}": value for name, value in answered.total.items()}
        counted = {"counted": np.array(answered.counted, np.int64)}
        checkpoint.save(self._path(question), {**arrays, **counted}, self.owner)

    def forget_earlier(self) -> None:
        """Drop the answers of earlier rounds of the phase, which a checkpoint has taken in."""
        for path in self.folder.glob(f"{self.phase}-*.npz"):
            if int(path.stem.split("-")[1]) < self.round:
                with writing(path):
                    path.unlink()

    def _path(self, question: int) -> Path:
        return self.folder / f"{self.phase}-{self.round}-{question}.npz"


EVENTS = "events.jsonl"

COMMON = ("time", "event", "text")
"""What every event has."""


@dataclass(frozen=True)
class Log:
    """Where events are written, and who is told."""

    path: Path
    tell: Callable[[str], None]

    def write(self, event: str, text: str, **values: Any) -> None:
        """Write an event down and tell it."""
        record = {"time": datetime.now(UTC).isoformat(), "event": event, "text": text, **values}
        # The line break comes first: a line that a full disk cut short ends before the next one.
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write("\n" + json.dumps(record))
        self.tell(text)


def read_events(path: Path) -> list[dict[str, Any]]:
    """Read a log; a line that a kill or a full disk cut short is left out."""
    if not path.exists():
        raise ConfigError(
            f"there is no log {path}: this study has not been served from here. Start it: "
            "fedfb serve study.toml."
        )
    found = []
    for line in read_text(path, "the log of a study as fedfb serve writes it").splitlines():
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and all(isinstance(event.get(key), str) for key in COMMON):
            found.append(event)
    return found


RUN = "run"
"""The folder beside a study's file in which the coordinator keeps all that it knows."""


def state_of(bundle: Path) -> Path:
    """Return the folder beside a silo's bundle in which it keeps what is its own."""
    return bundle.with_name(bundle.name + ".state")


GOES_ON = "Then run the same command again: it goes on where it was."
"""What ends a sentence about a place that cannot be written to."""
