"""Pictures as files: the same picture has the same bytes."""

from pathlib import Path
from typing import Any

from fedfb.errors import ConfigError

DATES = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""Formats that would tell when they were written."""


def save_figure(figure: Any, path: Path) -> None:
    """Write a picture, or say why it cannot be written."""
    from matplotlib import rc_context

    options: Any = {"svg.hashsalt": "fedfb"}
    try:
        with rc_context(options):
            figure.savefig(path, dpi=150, metadata=DATES.get(path.suffix.lower()))
    except OSError as error:
        raise ConfigError(f"the picture {path} could not be written: {error.strerror}.") from None
