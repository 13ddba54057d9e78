"""Checkpoints that are whole or absent: written aside, flushed to disk, then moved into place."""

import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from fedfb.core import Arrays
from fedfb.errors import ConfigError, DataError

if TYPE_CHECKING:  # pathlib takes longer to import than the rest of this file
    from pathlib import Path

OWNER, INSTRUCTIONS = "experiment", "instructions"


def save(path: "Path", arrays: Arrays, owner: str, instructions: str = "") -> None:
    """Write the arrays, the experiment they belong to, and what did the arithmetic.

    A kill at any moment leaves the old file or the new.
    """
    # Any: beside the arrays savez takes a switch, and a type checker cannot tell the names apart.
    content: dict[str, Any] = {
        **arrays,
        OWNER: np.array(owner),
        INSTRUCTIONS: np.array(instructions),
    }
    aside = path.with_suffix(".partial")
    with aside.open("wb") as file:
        np.savez(file, **content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def load(path: "Path", owner: str, instructions: str = "") -> Arrays | None:
    """Return the arrays of a checkpoint, None if there is none; refuse another experiment's.

    Where other instructions did the arithmetic so far, a line says that the bits may differ.
    """
    if not path.exists():
        return None
    from zipfile import BadZipFile  # costs more to load than the rest of this file

    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
            arrays = dict(saved)
    except (BadZipFile, ValueError, OSError, EOFError) as error:
        raise DataError(
            f"the checkpoint {path} cannot be read ({error}). Remove it to start that seed anew."
        ) from error
    found = str(arrays.pop(OWNER, ""))
    if found != owner:
        raise ConfigError(
            f"the checkpoint {path} belongs to another experiment "
            f"({found or 'unknown'}, this one is {owner}). "
            "Give another --out folder, or the settings it was started with."
        )
    before = str(arrays.pop(INSTRUCTIONS, ""))
    if before and instructions and before != instructions:
        sys.stderr.write(
            f"The checkpoint {path} was computed with {before}, going on with {instructions}: the "
            "last digits may differ from a run that was not interrupted.\n"
        )
    return arrays
