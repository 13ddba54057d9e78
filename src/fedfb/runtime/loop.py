"""The only training loop: set up, rounds, a look at the training rows, a checkpoint, an event."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from fedfb.core import Algorithm, Ask, ClientData, ClientTask, Info
from fedfb.files import interpreting
from fedfb.runtime import archive as checkpoint
from fedfb.runtime.archive import RoundRecord, Trained, as_arrays, from_arrays
from fedfb.runtime.boundary import Carry
from fedfb.runtime.dropout import leavings
from fedfb.runtime.ledger import NOTHING_DONE, Ledger
from fedfb.runtime.local import Guard, Memories, make_ask, participants
from fedfb.shapes import Array, Float

if TYPE_CHECKING:  # pathlib takes longer to import than the rest of this file
    from pathlib import Path

SETUP = 0
"""The round number of the set-up's questions; training rounds count from 1."""

SAVING_SHARE = 0.1
"""Checkpoints of very short rounds are left out, so that writing takes about a tenth of a run."""


class Progress(NamedTuple):
    """One round is done."""

    seed: int
    round: int
    rounds: int
    record: RoundRecord


@dataclass(frozen=True)
class Saving:
    """Where a run's checkpoint lies, whose it is, what does the arithmetic, and the ledger.

    ``always``: after every round, whatever it costs; others may be waiting for it.
    """

    path: "Path"
    owner: str
    instructions: str = ""
    ledger: Ledger | None = None
    always: bool = False


Asking = Callable[[int], Ask]
"""The ask of every round, by its number; the set-up's is round 0."""


def train(
    algorithm: Algorithm,
    clients: Sequence[ClientData],
    params: Float[Array, "r p"],
    *,
    seed: int,
    rounds: int,
    watch: ClientTask | None,
    participation: float = 1.0,
    dropout: float = 0.0,
    carry: Carry | None = None,
    guard: Guard | None = None,
    saving: Saving | None = None,
    on_round: Callable[[Progress], None] = lambda progress: None,
    threads: int = 1,
) -> Trained:
    """Run an algorithm on clients in this process, from its checkpoint where there is one.

    In every round a share of the clients, drawn anew, is asked; of these a share (``dropout``)
    falls silent in the middle of it. The set-up asks all, and all answer. Without ``watch`` nobody
    is asked how the model decides on the way: where every answer costs privacy.
    """
    memories = {client.id: algorithm.memory(params) for client in clients}

    def asking(number: int) -> Ask:
        if number == SETUP:
            return make_ask(
                clients, memories, seed, SETUP, carry=carry, guard=guard, runs=len(params)
            )
        asked = participants(clients, participation, seed, number)
        ids = [client.id for client in asked]
        leaving = leavings(ids, dropout, seed, number, len(algorithm.tasks))
        return make_ask(
            asked,
            memories,
            seed,
            number,
            threads,
            leaving=leaving,
            carry=carry,
            guard=guard,
            runs=len(params),
        )

    return conduct(
        algorithm,
        params,
        asking,
        memories,
        seed=seed,
        rounds=rounds,
        watch=watch,
        saving=saving,
        on_round=on_round,
    )


def conduct(
    algorithm: Algorithm,
    params: Float[Array, "r p"],
    asking: Asking,
    memories: Memories,
    *,
    seed: int,
    rounds: int,
    watch: ClientTask | None,
    saving: Saving | None = None,
    on_round: Callable[[Progress], None] = lambda progress: None,
) -> Trained:
    """Run an algorithm's set-up and rounds, whoever answers, from a checkpoint where there is one.

    ``memories`` is what ``asking`` keeps of the clients, and up to date, from question to question.
    """
    restored = _restored(algorithm, saving)
    if saving and saving.ledger:
        saving.ledger.begin(len(restored.history) if restored else NOTHING_DONE)
    if restored:
        memories.clear()
        memories.update(restored.memories)
    state = restored.state if restored else algorithm.setup(params, asking(SETUP))
    history = restored.history if restored else []
    save = _saver(saving)
    for number in range(len(history) + 1, rounds + 1):
        ask = asking(number)
        state, info = algorithm.round(state, ask)
        history.append(_look(algorithm, state, info, ask, watch))
        save(Trained(state, memories, history), number == rounds)
        on_round(Progress(seed, number, rounds, history[-1]))
    return Trained(state, memories, history)


def _restored(algorithm: Algorithm, saving: Saving | None) -> Trained | None:
    arrays = checkpoint.load(saving.path, saving.owner, saving.instructions) if saving else None
    if saving is None or arrays is None:
        return None
    with interpreting(saving.path, checkpoint.EXPECTED):
        return from_arrays(algorithm, arrays)


def _look(
    algorithm: Algorithm, state: Any, info: Info, ask: Ask, watch: ClientTask | None
) -> RoundRecord:
    params = algorithm.params(state) if watch else None
    seen = ask(watch, {"params": params})["confusion"] if watch and params is not None else None
    return RoundRecord(info.signal, info.lam, seen)


def _saver(saving: Saving | None) -> Callable[[Trained, bool], None]:
    """Return what writes checkpoints: the last one always, others as often as they are cheap."""
    last, cost = monotonic(), 0.0

    def save(trained: Trained, final: bool) -> None:
        nonlocal last, cost
        start = monotonic()
        if saving is None:
            return
        if not (final or saving.always or (start - last) * SAVING_SHARE >= cost):
            return
        checkpoint.save(saving.path, as_arrays(trained), saving.owner, saving.instructions)
        last = monotonic()
        cost = last - start

    return save
