"""The log of a study: one line of JSON for everything that happens, and a line to read."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedfb.errors import ConfigError

EVENTS = "events.jsonl"


@dataclass(frozen=True)
class Log:
    """Where events are written, and who is told."""

    path: Path
    tell: Callable[[str], None]

    def write(self, event: str, text: str, **values: Any) -> None:
        """Write an event down and tell it."""
        record = {"time": datetime.now(UTC).isoformat(), "event": event, "text": text, **values}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        self.tell(text)


def read_events(path: Path) -> list[dict[str, Any]]:
    """Read a log; a last line that a kill cut short is left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        raise ConfigError(
            f"there is no log {path}: this study has not been served from here. Start it: "
            "fedfb serve study.toml."
        ) from None
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found
