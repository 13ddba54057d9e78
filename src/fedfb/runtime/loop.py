"""The only training loop: set up, rounds, a look at the training rows, a checkpoint, an event."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedfb.core import Algorithm, Arrays, ClientData, ClientTask, Info
from fedfb.runtime import checkpoint
from fedfb.runtime.local import Memories, make_ask
from fedfb.shapes import Array, Float

SETUP = 0
"""The round number of the set-up's questions; training rounds count from 1."""


class RoundRecord(NamedTuple):
    """What one round left to look at: signal and lambda if there are any, training counts."""

    signal: Float[Array, "r *s"] | None
    lam: Float[Array, "r *l"] | None
    confusion: Float[Array, "r 2 2 a"]


class Progress(NamedTuple):
    """One round is done."""

    seed: int
    round: int
    rounds: int
    record: RoundRecord


class Trained(NamedTuple):
    """The end of a run."""

    state: Any
    memories: Memories
    history: list[RoundRecord]


@dataclass(frozen=True)
class Saving:
    """Where a run's checkpoint lies and which experiment it belongs to."""

    path: Path
    owner: str


def train(
    algorithm: Algorithm,
    clients: Sequence[ClientData],
    params: Float[Array, "r p"],
    *,
    seed: int,
    rounds: int,
    watch: ClientTask,
    saving: Saving | None = None,
    on_round: Callable[[Progress], None] = lambda progress: None,
) -> Trained:
    """Run an algorithm on clients in this process, from its checkpoint where there is one."""
    trained = _restored(algorithm, saving) or _started(algorithm, clients, params, seed)
    state, memories, history = trained
    for number in range(len(history) + 1, rounds + 1):
        ask = make_ask(clients, memories, seed, number)
        state, info = algorithm.round(state, ask)
        seen = ask(watch, {"params": algorithm.params(state)})
        history.append(_record(info, seen["confusion"]))
        if saving:
            arrays = _as_arrays(Trained(state, memories, history))
            checkpoint.save(saving.path, arrays, saving.owner)
        on_round(Progress(seed, number, rounds, history[-1]))
    return Trained(state, memories, history)


def _started(
    algorithm: Algorithm, clients: Sequence[ClientData], params: Float[Array, "r p"], seed: int
) -> Trained:
    memories = {client.id: algorithm.memory(params) for client in clients}
    state = algorithm.setup(params, make_ask(clients, memories, seed, SETUP))
    return Trained(state, memories, [])


def _record(info: Info, confusion: Float[Array, "r 2 2 a"]) -> RoundRecord:
    return RoundRecord(info.signal, info.lam, confusion)


def _as_arrays(trained: Trained) -> Arrays:
    """Name every array of a run with a path: state/params, memory/2/lam, history/7/signal."""
    arrays = {f"state/{name}": np.asarray(v) for name, v in trained.state._asdict().items()}
    for client, memory in trained.memories.items():
        arrays |= {f"memory/{client}/{name}": value for name, value in memory.items()}
        arrays[f"client/{client}"] = np.array(client)
    for number, record in enumerate(trained.history):
        fields = record._asdict().items()
        arrays |= {f"history/{number}/{name}": v for name, v in fields if v is not None}
    return arrays


def _restored(algorithm: Algorithm, saving: Saving | None) -> Trained | None:
    arrays = checkpoint.load(saving.path, saving.owner) if saving else None
    if arrays is None:
        return None
    state = {name: _plain(arrays[f"state/{name}"]) for name in algorithm.state._fields}
    memories: Memories = {int(v): {} for name, v in arrays.items() if name.startswith("client/")}
    records: dict[int, Arrays] = {}
    for path, value in arrays.items():
        kind, *rest = path.split("/")
        if kind == "memory":
            memories[int(rest[0])][rest[1]] = value
        if kind == "history":
            records.setdefault(int(rest[0]), {})[rest[1]] = value
    history = [
        RoundRecord(records[n].get("signal"), records[n].get("lam"), records[n]["confusion"])
        for n in sorted(records)
    ]
    return Trained(algorithm.state(**state), memories, history)


def _plain(value: Array) -> Any:
    """Return a number that was saved as an array without axes as the plain number it was."""
    return value.item() if value.ndim == 0 else value
