"""Folders for results of several runs: claimed before training, never overwritten."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedfb.errors import ConfigError
from fedfb.experiments.store import write_whole, writing_to

FRONTIER, COMPARISON, CELLS = "frontier.json", "comparison.json", "cells"


@contextmanager
def claim_empty(folder: Path) -> Iterator[Path]:
    """Claim a new or empty folder; if what follows leaves it empty, it is given up."""
    made = not folder.exists()
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        held = sorted(path.name for path in folder.iterdir())
        if held:
            more = ", ..." if len(held) > 3 else ""
            raise ConfigError(
                f"the output folder {folder} is not empty ({', '.join(held[:3])}{more}). "
                "Give a new folder."
            )
        # A folder that may be read is not always one to write to: better told before training.
        probe = folder / ".partial"
        probe.touch()
        probe.unlink()
    try:
        yield folder
    finally:
        if made and not any(folder.iterdir()):
            folder.rmdir()


def write_json(path: Path, content: Any) -> None:
    """Write JSON values into a file of an output folder: whole, or not at all."""
    with writing_to(path.parent):
        write_whole(path, json.dumps(content, indent=1, allow_nan=False))
