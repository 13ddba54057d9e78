"""A run as named arrays, and back: what a checkpoint and a saved model hold.

Checkpoints that are whole or absent, and belong to one experiment.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedfb.core import Algorithm, Arrays
from fedfb.errors import ConfigError
from fedfb.files import pack_arrays, read_arrays, say, write_whole
from fedfb.runtime.local import Memories
from fedfb.shapes import Array, Float


class RoundRecord(NamedTuple):
    """What one round left to look at, each where there is any.

    The signal, lambda, and the training rows by label, decision and group.
    """

    signal: Float[Array, "r *s"] | None
    lam: Float[Array, "r *l"] | None
    confusion: Float[Array, "r 2 2 a"] | None


class Trained(NamedTuple):
    """A run as far as it has come."""

    state: Any
    memories: Memories
    history: list[RoundRecord]


def as_arrays(trained: Trained) -> Arrays:
    """Name every array of a run with a path: state/params, memory/2/lam, history/7/signal."""
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
    """Return the run that was named so."""
    state = {name: _plain(arrays[f"state/{name}"]) for name in algorithm.state._fields}
    memories: Memories = {int(v): {} for path, v in arrays.items() if path.startswith("client/")}
    rounds: dict[int, Arrays] = {
        int(v): {} for path, v in arrays.items() if path.startswith("round/")
    }
    for path, value in arrays.items():
        kind, *rest = path.split("/")
        if kind == "memory":
            memories[int(rest[0])][rest[1]] = value
        if kind == "history":
            rounds[int(rest[0])][rest[1]] = value
    history = [
        RoundRecord(*(rounds[number].get(name) for name in RoundRecord._fields))
        for number in sorted(rounds)
    ]
    return Trained(algorithm.state(**state), memories, history)


def _plain(value: Array) -> Any:
    """Return a number that was saved as an array without axes as the plain number it was."""
    return value.item() if value.ndim == 0 else value


if TYPE_CHECKING:  # pathlib takes longer to import than the rest of this file
    from pathlib import Path

OWNER, INSTRUCTIONS = "experiment", "instructions"

EXPECTED = "a checkpoint as fedfb writes it. Remove it: what it holds is then computed again"
"""How a sentence about a checkpoint that cannot be read ends."""


def save(path: "Path", arrays: Arrays, owner: str, instructions: str = "") -> None:
    """Write the arrays, the experiment they belong to, and what did the arithmetic.

    A kill at any moment leaves the old file or the new.
    """
    labels = {OWNER: np.array(owner), INSTRUCTIONS: np.array(instructions)}
    write_whole(path, pack_arrays({**arrays, **labels}))


def load(path: "Path", owner: str, instructions: str = "") -> Arrays | None:
    """Return the arrays of a checkpoint, None if there is none; refuse another experiment's.

    Where other instructions did the arithmetic so far, a line says that the bits may differ.
    """
    if not path.exists():
        return None
    arrays = read_arrays(path, EXPECTED)
    found = str(arrays.pop(OWNER, ""))
    if found != owner:
        raise ConfigError(
            f"the checkpoint {path} belongs to another experiment "
            f"({found or 'unknown'}, this one is {owner}). "
            "Give another --out folder, or the settings it was started with."
        )
    before = str(arrays.pop(INSTRUCTIONS, ""))
    if before and instructions and before != instructions:
        say(
            f"The checkpoint {path} was computed with {before}, going on with {instructions}: the "
            "last digits may differ from a run that was not interrupted."
        )
    return arrays
