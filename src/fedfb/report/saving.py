"""Pictures as files: the same picture has the same bytes."""

import io
from pathlib import Path
from typing import Any

from fedfb.files import write_whole

DATES = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""Formats that would tell when they were written."""


def save_figure(figure: Any, path: Path) -> None:
    """Write a picture: whole, or not at all."""
    from matplotlib import rc_context

    options: Any = {"svg.hashsalt": "fedfb"}
    ending, content = path.suffix.lower(), io.BytesIO()
    with rc_context(options):
        figure.savefig(content, format=ending[1:], dpi=150, metadata=DATES.get(ending))
    write_whole(path, content.getvalue())
