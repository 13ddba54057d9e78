"""The log of a study: one line of JSON for everything that happens, and a line to read."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedfb.errors import ConfigError
from fedfb.files import read_text, writing

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
