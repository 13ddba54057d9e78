r"""An upload as the words of a secure sum: which bound each array has, and how many places.

Whole numbers are carried exactly. Of other numbers :math:`|x|\le B` with the bound of their task,
and with as many binary places as :func:`fedfb.secure.choose_bits` leaves: 22 for four clients and
the usual bound. A bound that would leave fewer than 16 (q-FFL raises losses to a power) is carried
in two words, :math:`x=2^{24}h+l` with :math:`h` whole.
"""

import numpy as np

from fedfb.core import Arrays, Asked
from fedfb.secure import Part, RangeError, Ring, Schema, choose_bits, encode
from fedfb.shapes import Array

BOUND = 2.0**32
"""The usual bound: a sum over a hundred million rows of parameters or losses up to 40."""

WHOLE_BOUND = 2.0**40
"""The bound of whole numbers: a trillion rows."""

WIDE = 2.0**38
"""A larger bound is carried in two words."""

UNIT = 2.0**24
HIGH, LOW = " in units of 2^24", " beyond them"


def parts_of(task: Asked, upload: Arrays, parties: int) -> list[Part]:
    """Declare the parts of an upload: names, shapes, bounds and places, the same for all clients.

    >>> from fedfb.core import ClientTask
    >>> task = ClientTask("ask", "sum", lambda *_: ({}, {}), bounds={"h": 2.0**60})
    >>> [part.bits for part in parts_of(task, {"h": np.ones(3), "n": np.asarray(1)}, parties=4)]
    [0, 30, 0]
    """
    return [part for name, value in upload.items() for part in _parts(task, name, value, parties)]


def _parts(task: Asked, name: str, value: Array, parties: int) -> list[Part]:
    if _is_whole(value):
        return [Part(name, value.shape, task.bounds.get(name, WHOLE_BOUND), 0)]
    bound = task.bounds.get(name, BOUND)
    if not _is_wide(task, name, value):
        return [Part(name, value.shape, bound, choose_bits(bound, parties))]
    low = Part(name + LOW, value.shape, UNIT, choose_bits(UNIT, parties))
    return [Part(name + HIGH, value.shape, bound / UNIT, 0), low]


def _is_whole(value: Array) -> bool:
    return value.dtype.kind in "iub"


def _is_wide(task: Asked, name: str, value: Array) -> bool:
    return task.bounds.get(name, BOUND) > WIDE and not _is_whole(value)


def encoded(schema: Schema, task: Asked, upload: Arrays, who: str) -> Ring:
    """Return the words of one client's upload; refuse, in its name, what they cannot carry."""
    words: Arrays = {}
    for name, value in upload.items():
        if _is_wide(task, name, value):
            high = np.rint(value / UNIT)
            words |= {name + HIGH: high, name + LOW: value - high * UNIT}
        else:
            words[name] = value
    try:
        return encode(schema, words)
    except RangeError as error:
        raise RangeError(
            f"{who} cannot answer {task.name!r} under --secure: {error} It is neither clipped nor "
            "rounded away; leave out --secure, or choose settings that keep it smaller."
        ) from None


def runs_beyond_bounds(task: Asked, upload: Arrays) -> dict[int, str]:
    """Return the runs whose part of an upload is beyond its bound, with the name of the array.

    Empty where all runs are: then it is not one setting of a grid that is too large.
    """
    found: dict[int, str] = {}
    for name, value in upload.items():
        bound = task.bounds.get(name, WHOLE_BOUND if _is_whole(value) else BOUND)
        beyond = np.abs(np.atleast_1d(value)) > bound
        runs = np.flatnonzero(beyond.reshape(len(beyond), -1).any(axis=1)).tolist()
        if len(runs) == len(beyond):
            return {}
        found = {**dict.fromkeys(runs, name), **found}
    return found


def joined(task: Asked, like: Arrays, total: Arrays) -> Arrays:
    """Return the sum under the names, and of the kinds, of an upload."""
    found: Arrays = {}
    for name, value in like.items():
        if _is_wide(task, name, value):
            found[name] = total[name + HIGH] * UNIT + total[name + LOW]
        else:
            kind = np.dtype(np.int64) if _is_whole(value) else value.dtype
            found[name] = total[name].astype(kind)
    return found
