"""Arrays and plain values as the bytes and texts that a message carries. Nothing is pickled."""

import json
from collections.abc import Iterable
from typing import Any

from fedfb import files
from fedfb.core import Arrays
from fedfb.study.study import Study

RECORD = "fedfb"
"""The name of the one record that a message of Flower carries."""


def pack_message(arrays: Arrays) -> bytes:
    """Write named arrays.

    >>> import numpy as np
    >>> unpack_message(pack_message({"lam": np.array([0.5])}))
    {'lam': array([0.5])}
    """
    return files.pack_arrays(arrays) if arrays else b""


def unpack_message(data: bytes) -> Arrays:
    """Read named arrays."""
    if not data:
        return {}
    return files.unpack_arrays(data, "a message", "arrays as fedfb sends them, of one version")


def pack_values(values: dict[str, Any]) -> str:
    """Write plain values as JSON."""
    return json.dumps(values, separators=(",", ":"))


def unpack_values(text: str) -> dict[str, Any]:
    """Read plain values."""
    values: dict[str, Any] = json.loads(text)
    return values


def join_names(study: Study, ids: Iterable[int]) -> str:
    """Return the names of clients for a sentence."""
    return ", ".join(study.clients[id] for id in sorted(ids)) or "nobody"
