"""What a silo keeps for itself from question to question, on its disk.

A file for each question that it answered. The coordinator says after which of its
answers a question comes (the last one that counted), so that a question which is repeated, or an
answer that was lost, finds the memory as it was.
"""

from pathlib import Path

import numpy as np

from fedfb.core import Arrays
from fedfb.errors import DataError
from fedfb.files import writing
from fedfb.runtime import archive as checkpoint

Place = tuple[int, int]
"""A round and a question of it."""

OWNER = "memory"


def recall(folder: Path, after: str, initial: Arrays) -> Arrays:
    """Return the memory as it was after a question, written round-question; '' is the beginning."""
    if not after:
        return initial
    arrays = checkpoint.load(_path(folder, _place(after)), OWNER)
    if arrays is None:
        raise DataError(
            f"{folder} does not hold what this silo kept for itself after round and question "
            f"{after}. Put the folder back, or start the study anew."
        )
    return arrays


def remember(folder: Path, place: Place, memory: Arrays, saved: str) -> None:
    """Keep the memory after a question, and drop what comes before a place that is safe.

    Also an empty one: a method may begin to keep something only later.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    checkpoint.save(_path(folder, place), {k: np.asarray(v) for k, v in memory.items()}, OWNER)
    if saved:
        for path in folder.glob("memory-*.npz"):
            if _place(path.stem.removeprefix("memory-")) < _place(saved):
                with writing(path):
                    path.unlink()


def _path(folder: Path, place: Place) -> Path:
    return folder / f"memory-{place[0]}-{place[1]}.npz"


def _place(text: str) -> Place:
    round, question = text.split("-")
    return int(round), int(question)
