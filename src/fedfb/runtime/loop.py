"""The training loop: set-up, rounds, training rows by decision, checkpoint, progress event."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from fedfb.core import Algorithm, Ask, ClientData, ClientTask, Info
from fedfb.files import interpreting
from fedfb.runtime import archive as checkpoint
from fedfb.runtime.archive import RoundRecord, Trained, as_arrays, from_arrays
from fedfb.runtime.boundary import Carry, draw_leavings
from fedfb.runtime.ledger import NOTHING_DONE, Ledger
from fedfb.runtime.local import Guard, Memories, make_ask, participants
from fedfb.shapes import Array, Float

if TYPE_CHECKING:  # pathlib takes longer to import than the rest of this file
    from pathlib import Path

SETUP = 0
"""The round number of the set-up; training rounds count from 1."""

SAVING_SHARE = 0.1
"""The largest share of the time for checkpoints. Some short rounds therefore write none."""


class Progress(NamedTuple):
    """The event after each round."""

    seed: int
    round: int
    rounds: int
    record: RoundRecord


@dataclass(frozen=True)
class Saving:
    """Where a run saves its checkpoint and its ledger.

    Args:
        path: file of the checkpoint.
        owner: hash of the experiment.
        instructions: the engine that does the arithmetic.
        ledger: None: no ledger.
        always: whether every round writes a checkpoint, even if this takes long.
    """

    path: "Path"
    owner: str
    instructions: str = ""
    ledger: Ledger | None = None
    always: bool = False


Asking = Callable[[int], Ask]
"""The ``ask`` of a round by the number of the round; the set-up is round 0, and what follows the
last round has the next number."""


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
    """Run an algorithm on clients in this process; continue from a checkpoint if there is one.

    Args:
        algorithm: the algorithm.
        clients: all clients. All of them take part in the set-up, and after the last round.
        params: initial parameters, one vector per run.
        seed: seed of the run.
        rounds: number of rounds.
        watch: task that counts decisions on training rows after every round. None: no such task,
            for example because every upload costs privacy.
        participation: share of the clients that take part in a round, drawn in every round.
        dropout: share of the participants that drop out in the middle of a round.
        carry: brings uploads to the server; None: unmasked.
        guard: checks or protects every task; None: tasks are put as they are.
        saving: checkpoint and ledger; None: neither.
        on_round: called after every round.
        threads: number of clients that run at a time.
    """
    memories = {client.id: algorithm.memory(params) for client in clients}

    def asking(number: int) -> Ask:
        if number == SETUP:
            return make_ask(
                clients, memories, seed, SETUP, carry=carry, guard=guard, runs=len(params)
            )
        share = participation if number <= rounds else 1.0
        participating = participants(clients, share, seed, number)
        ids = [client.id for client in participating]
        leaving = draw_leavings(ids, dropout, seed, number, len(algorithm.tasks))
        return make_ask(
            participating,
            memories,
            seed,
            number,
            threads,
            leaving=leaving,
            carry=carry,
            guard=guard,
            runs=len(params),
        )

    return run_rounds(
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


def run_rounds(
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
    """Run the set-up and the rounds of an algorithm; continue from a checkpoint if there is one.

    Args:
        algorithm: the algorithm.
        params: initial parameters, one vector per run.
        asking: gives the ``ask`` of each round.
        memories: the clients' memories, which ``asking`` updates in place.
        seed: seed of the run.
        rounds: number of rounds.
        watch: see :func:`train`.
        saving: see :func:`train`.
        on_round: called after every round.
    """
    restored = _restore(algorithm, saving)
    if saving and saving.ledger:
        saving.ledger.begin(_last_number(algorithm, restored) if restored else NOTHING_DONE)
    if restored:
        memories.clear()
        memories.update(restored.memories)
    state = restored.state if restored else algorithm.setup(params, asking(SETUP))
    history = restored.history if restored else []
    done = len(history)
    save = _make_saver(saving)
    for number in range(done + 1, rounds + 1):
        ask = asking(number)
        state, info = algorithm.round(state, ask)
        history.append(_record_round(algorithm, state, info, ask, watch))
        save(Trained(state, memories, history), number == rounds and algorithm.finish is None)
        on_round(Progress(seed, number, rounds, history[-1]))
    if algorithm.finish is not None and (len(history) > done or not state.finished):
        state = algorithm.finish(state, asking(rounds + 1))._replace(finished=1)
        save(Trained(state, memories, history), True)
    return Trained(state, memories, history)


def _last_number(algorithm: Algorithm, restored: Trained) -> int:
    """Return the number of the last round of a checkpoint, what follows the rounds included."""
    finished = algorithm.finish is not None and bool(restored.state.finished)
    return len(restored.history) + finished


def _restore(algorithm: Algorithm, saving: Saving | None) -> Trained | None:
    arrays = (
        checkpoint.load_archive(saving.path, saving.owner, saving.instructions) if saving else None
    )
    if saving is None or arrays is None:
        return None
    with interpreting(saving.path, checkpoint.EXPECTED_ARCHIVE):
        return from_arrays(algorithm, arrays)


def _record_round(
    algorithm: Algorithm, state: Any, info: Info, ask: Ask, watch: ClientTask | None
) -> RoundRecord:
    params = algorithm.params(state) if watch else None
    confusion = (
        ask(watch, {"params": params})["confusion"] if watch and params is not None else None
    )
    return RoundRecord(info.signal, info.lam, confusion)


def _make_saver(saving: Saving | None) -> Callable[[Trained, bool], None]:
    """Return a function that writes checkpoints: always the last, others if they are cheap."""
    last, cost = monotonic(), 0.0

    def save(trained: Trained, final: bool) -> None:
        nonlocal last, cost
        start = monotonic()
        if saving is None:
            return
        if not (final or saving.always or (start - last) * SAVING_SHARE >= cost):
            return
        checkpoint.save_archive(saving.path, as_arrays(trained), saving.owner, saving.instructions)
        last = monotonic()
        cost = last - start

    return save
