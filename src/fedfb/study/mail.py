"""Messages to silos and their replies: what the coordinator needs of whatever carries them.

Arrays and texts as the bytes that a message carries, and back. Nothing is pickled.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from fedfb import files
from fedfb.core import Arrays
from fedfb.errors import FedFBError
from fedfb.study.journal import Log
from fedfb.study.study import Study


class StoppedBySiloError(FedFBError):
    """A silo refuses to go on, and says why."""


@runtime_checkable  # so that annotated shapes can be checked
class Mail(Protocol):
    """The way to the silos of a study, by their ids.

    ``failed`` is when a silo last left a message unanswered, in seconds since the epoch; 0 where it
    told so itself, and may be asked again.
    """

    @property
    def study(self) -> Study: ...

    @property
    def log(self) -> Log: ...

    @property
    def failed(self) -> dict[int, float]: ...

    def present(self) -> list[int]:
        """Return the silos who are there, and were heard of since they last failed."""
        ...

    def exchange(
        self, action: str, contents: Mapping[int, Mapping[str, Any]], where: str
    ) -> dict[int, dict[str, Any]]:
        """Send each silo its message and return the answers, by silo, that come in time."""
        ...


def heed(mail: Mail, id: int, said: Mapping[str, Any], where: str) -> dict[str, Any] | None:
    """Return what a silo said; None, and a note of it, where it says that it cannot answer.

    A silo that refuses to go on stops the study.
    """
    if "stop" in said:
        mail.log.write("stopped by silo", f"{where}: {said['stop']}")
        raise StoppedBySiloError(f"{where}: {said['stop']}")
    if "silent" in said:
        note_silence(mail, id, str(said["silent"]), where, failed=0.0)
        return None
    return dict(said)


def note_silence(mail: Mail, id: int, why: str, where: str, failed: float) -> None:
    """Note that a silo has left a message unanswered, and when."""
    name = mail.study.silos[id]
    mail.failed[id] = failed
    mail.log.write("silent", f"{where}: {name}: {why}", silo=name, why=why)


def names(study: Study, ids: Iterable[int]) -> str:
    """Return the names of silos for a sentence."""
    return ", ".join(study.silos[id] for id in sorted(ids)) or "nobody"


RECORD = "fedfb"
"""The name of the one record that a message of Flower carries."""


def pack_arrays(arrays: Arrays) -> bytes:
    """Write named arrays.

    >>> import numpy as np
    >>> unpack_arrays(pack_arrays({"lam": np.array([0.5])}))
    {'lam': array([0.5])}
    """
    return files.pack_arrays(arrays) if arrays else b""


def unpack_arrays(data: bytes) -> Arrays:
    """Read named arrays."""
    if not data:
        return {}
    return files.unpack_arrays(data, "a message", "arrays as fedfb sends them, of one version")


def pack_values(values: dict[str, Any]) -> str:
    """Write plain values."""
    return json.dumps(values, separators=(",", ":"))


def unpack_values(text: str) -> dict[str, Any]:
    """Read plain values."""
    found: dict[str, Any] = json.loads(text)
    return found
