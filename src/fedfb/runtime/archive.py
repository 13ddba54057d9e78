"""A run as named arrays, and its checkpoint.

A checkpoint and a saved model hold the arrays of a run. A checkpoint is complete or absent, and
belongs to one experiment.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedfb.core import Algorithm, Arrays
from fedfb.errors import ConfigError
from fedfb.files import pack_arrays, read_arrays, say, write_whole
from fedfb.runtime.local import Memories
from fedfb.shapes import Array, Float


class RoundRecord(NamedTuple):
    """The values of one round for a report; None if the method has none.

    They are the signal, lambda, and the numbers of training rows by label, decision and group.
    """

    signal: Float[Array, "r *s"] | None
    lam: Float[Array, "r *l"] | None
    confusion: Float[Array, "r 2 2 a"] | None


class Trained(NamedTuple):
    """A run after some or all of its rounds."""

    state: Any
    memories: Memories
    history: list[RoundRecord]


def as_arrays(trained: Trained) -> Arrays:
    """Return the arrays of a run by paths: state/params, memory/2/lam, history/7/signal."""
    arrays = {f"state/{name}": np.asarray(v) for name, v in trained.state._asdict().items()}
    for client, memory in trained.memories.items():
        arrays |= {f"memory/{client}/{name}": value for name, value in memory.items()}
        arrays[f"client/{client}"] = np.array(client)
    for number, record in enumerate(trained.history):
        arrays[f"round/{number}"] = np.array(number)
        fields = record._asdict().items()
        arrays |= {f"history/{number}/{name}": v for name, v in fields if v is not None}
    return arrays


def from_arrays(algorithm: Algorithm, arrays: Arrays) -> Trained:
    """Return the run of named arrays; the inverse of :func:`as_arrays`.

    Args:
        algorithm: gives the fields of the state.
        arrays: arrays by path.
    """
    state = {name: _plain(arrays[f"state/{name}"]) for name in algorithm.state._fields}
    memories: Memories = {int(v): {} for path, v in arrays.items() if path.startswith("client/")}
    rounds: dict[int, Arrays] = {
        int(v): {} for path, v in arrays.items() if path.startswith("round/")
    }
    for path, value in arrays.items():
        kind, *parts = path.split("/")
        if kind == "memory":
            memories[int(parts[0])][parts[1]] = value
        if kind == "history":
            rounds[int(parts[0])][parts[1]] = value
    history = [
        RoundRecord(*(rounds[number].get(name) for name in RoundRecord._fields))
        for number in sorted(rounds)
    ]
    return Trained(algorithm.state(**state), memories, history)


def _plain(value: Array) -> Any:
    """Return an array without axes as a plain number; other arrays unchanged."""
    return value.item() if value.ndim == 0 else value


if TYPE_CHECKING:  # pathlib takes longer to import than the rest of this file
    from pathlib import Path

OWNER, INSTRUCTIONS = "experiment", "instructions"

EXPECTED_ARCHIVE = (
    "a checkpoint as fedfb writes it. Remove it: what it holds is then computed again"
)
"""The end of the message about a checkpoint that cannot be read."""


def save_archive(path: "Path", arrays: Arrays, owner: str, instructions: str = "") -> None:
    """Write a checkpoint. A kill at any moment leaves the old file or the new file.

    Args:
        path: the file.
        arrays: arrays by path.
        owner: hash of the experiment that the arrays belong to.
        instructions: the engine that did the arithmetic.
    """
    labels = {OWNER: np.array(owner), INSTRUCTIONS: np.array(instructions)}
    write_whole(path, pack_arrays({**arrays, **labels}))


def load_archive(path: "Path", owner: str, instructions: str = "") -> Arrays | None:
    """Return the arrays of a checkpoint, or None if there is no file.

    If another engine did the arithmetic so far, a line on standard error says that bits may differ.

    Args:
        path: the file.
        owner: hash of the experiment; the checkpoint of another experiment is refused.
        instructions: the engine that does the arithmetic now.
    """
    if not path.exists():
        return None
    arrays = read_arrays(path, EXPECTED_ARCHIVE)
    experiment = str(arrays.pop(OWNER, ""))
    if experiment != owner:
        raise ConfigError(
            f"the checkpoint {path} belongs to another experiment "
            f"({experiment or 'unknown'}, this one is {owner}). "
            "Give another --out folder, or the settings it was started with."
        )
    before = str(arrays.pop(INSTRUCTIONS, ""))
    if before and instructions and before != instructions:
        say(
            f"The checkpoint {path} was computed with {before}, going on with {instructions}: the "
            "last digits may differ from a run that was not interrupted."
        )
    return arrays
