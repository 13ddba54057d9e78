"""Folders for results of several runs: claimed before training, never overwritten."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree

from fedfb.errors import ConfigError
from fedfb.experiments.store import held_in
from fedfb.files import make_folder

FRONTIER, COMPARISON, CELLS = "frontier.json", "comparison.json", "cells"


@contextmanager
def claim_empty(folder: Path, undo: bool = False, mode: int = 0o777) -> Iterator[Path]:
    """Claim a new or empty folder; if what follows leaves it empty, it is given up.

    Args:
        folder: the folder; one that holds anything is refused.
        undo: empty the folder again if what follows fails: where that is soon done once more.
        mode: who may enter a folder that is made.

    """
    made = not folder.exists()
    held = held_in(folder)
    if held:
        more = ", ..." if len(held) > 3 else ""
        raise ConfigError(
            f"the output folder {folder} is not empty ({', '.join(held[:3])}{more}). "
            "Give a new folder."
        )
    make_folder(folder, mode)
    try:
        yield folder
    except BaseException:
        for path in folder.iterdir() if undo else ():
            rmtree(path) if path.is_dir() else path.unlink()
        raise
    finally:
        if made and not any(folder.iterdir()):
            folder.rmdir()
