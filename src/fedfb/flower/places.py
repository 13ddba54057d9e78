"""Where a study keeps its files, on the coordinator's machine and on a silo's."""

from pathlib import Path

RUN = "run"
"""The folder beside a study's file in which the coordinator keeps all that it knows."""


def state_of(bundle: Path) -> Path:
    """Return the folder beside a silo's bundle in which it keeps what is its own."""
    return bundle.with_name(bundle.name + ".state")


GOES_ON = "Then run the same command again: it goes on where it was."
"""What ends a sentence about a place that cannot be written to."""
