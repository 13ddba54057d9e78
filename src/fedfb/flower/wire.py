"""Arrays and texts as the bytes that a message carries, and back. Nothing is pickled."""

import io
import json
from typing import Any

import numpy as np

from fedfb.core import Arrays

RECORD = "fedfb"
"""The name of the one record that a message of Flower carries."""


def pack_arrays(arrays: Arrays) -> bytes:
    """Write named arrays.

    >>> unpack_arrays(pack_arrays({"lam": np.array([0.5])}))
    {'lam': array([0.5])}
    """
    if not arrays:
        return b""
    file = io.BytesIO()
    # Any: beside the arrays savez takes a switch, and a type checker cannot tell the names apart.
    named: dict[str, Any] = dict(arrays)
    np.savez(file, **named)
    return file.getvalue()


def unpack_arrays(data: bytes) -> Arrays:
    """Read named arrays."""
    if not data:
        return {}
    with np.load(io.BytesIO(data), allow_pickle=False) as found:
        return dict(found)


def pack_values(values: dict[str, Any]) -> str:
    """Write plain values."""
    return json.dumps(values, separators=(",", ":"))


def unpack_values(text: str) -> dict[str, Any]:
    """Read plain values."""
    found: dict[str, Any] = json.loads(text)
    return found
