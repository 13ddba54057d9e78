"""The answers of the round that is under way, on disk: a question is asked once.

A coordinator that is started anew goes on after the last answer. It does not ask again what it was
told before: two sums of the same answers over different silos would tell one silo's part.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedfb.core import Arrays
from fedfb.files import interpreting, writing
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
