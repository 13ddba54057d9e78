"""Checkpoints that are whole or absent, and belong to one experiment."""

from typing import TYPE_CHECKING

import numpy as np

from fedfb.core import Arrays
from fedfb.errors import ConfigError
from fedfb.files import pack_arrays, read_arrays, say, write_whole

if TYPE_CHECKING:  # pathlib takes longer to import than the rest of this file
    from pathlib import Path

OWNER, INSTRUCTIONS = "experiment", "instructions"

EXPECTED = "a checkpoint as fedfb writes it. Remove it: what it holds is then computed again"
"""How a sentence about a checkpoint that cannot be read ends."""


def save(path: "Path", arrays: Arrays, owner: str, instructions: str = "") -> None:
    """Write the arrays, the experiment they belong to, and what did the arithmetic.

    A kill at any moment leaves the old file or the new.
    """
    labels = {OWNER: np.array(owner), INSTRUCTIONS: np.array(instructions)}
    write_whole(path, pack_arrays({**arrays, **labels}))


def load(path: "Path", owner: str, instructions: str = "") -> Arrays | None:
    """Return the arrays of a checkpoint, None if there is none; refuse another experiment's.

    Where other instructions did the arithmetic so far, a line says that the bits may differ.
    """
    if not path.exists():
        return None
    arrays = read_arrays(path, EXPECTED)
    found = str(arrays.pop(OWNER, ""))
    if found != owner:
        raise ConfigError(
            f"the checkpoint {path} belongs to another experiment "
            f"({found or 'unknown'}, this one is {owner}). "
            "Give another --out folder, or the settings it was started with."
        )
    before = str(arrays.pop(INSTRUCTIONS, ""))
    if before and instructions and before != instructions:
        say(
            f"The checkpoint {path} was computed with {before}, going on with {instructions}: the "
            "last digits may differ from a run that was not interrupted."
        )
    return arrays
