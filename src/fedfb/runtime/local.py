"""All clients in one process: a question is a loop over them, and a sum at the boundary."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from fedfb.core import Arrays, Ask, ClientData, ClientTask, generator
from fedfb.errors import ConfigError, DivergenceError
from fedfb.runtime.boundary import Carry, Question, in_clear
from fedfb.runtime.dropout import NOBODY, Leavings, counts, round_half_up, silent_in
from fedfb.shapes import Array

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Guard = Callable[[ClientTask], ClientTask]
"""Return a question as it may be put: with noise on its answers, or refused."""

Memories = dict[int, Arrays]
"""What each client keeps for itself, by client id."""

THREADS_VARIABLE = "FEDFB_THREADS"

PARTICIPANTS = 20
"""Marks the key that draws a round's participants."""


def make_ask(
    clients: Sequence[ClientData],
    memories: Memories,
    seed: int,
    round: int,
    threads: int = 1,
    *,
    leaving: Leavings = NOBODY,
    carry: Carry | None = None,
    guard: Guard | None = None,
    runs: int | None = None,
) -> Ask:
    """Return the ``ask`` of one round, for so many ``runs`` where it is known.

    It numbers its questions and keeps the clients' memories up to date. Sums run in the order of
    client ids, so that neither the order in which clients are listed nor the number of threads that
    answer can change a bit. A client that is ``leaving`` stays away for the rest of the round; what
    it has not answered changes neither the sum nor its memory. ``carry`` takes the uploads to the
    server, unmasked unless another is given. Every question passes the ``guard`` first.
    """
    in_order = sorted(clients, key=lambda client: client.id)
    ids, bring = tuple(client.id for client in in_order), carry or in_clear()
    asked = 0

    def ask(task: ClientTask, broadcast: Arrays) -> Arrays:
        nonlocal asked
        task = guard(task) if guard else task

        def answer(client: ClientData) -> tuple[Arrays, Arrays]:
            key = (seed, round, asked, client.id)
            return task.run(broadcast, client, memories[client.id], key)

        question = Question(round, asked, task, broadcast, ids, silent_in(leaving, asked))
        here = [client for client in in_order if counts(question.silent.get(client.id))]
        uploads, kept = dict[int, Arrays](), Memories()
        for client, (upload, memory) in zip(here, each(answer, here, threads), strict=True):
            uploads[client.id], kept[client.id] = upload, memory
        refuse_non_finite(uploads, kept, round, runs)
        total = bring(question, uploads)
        memories.update(kept)
        asked += 1
        return total

    return ask


def each(
    answer: Callable[[ClientData], tuple[Arrays, Arrays]],
    clients: Sequence[ClientData],
    threads: int,
) -> Iterable[tuple[Arrays, Arrays]]:
    """Yield the clients' answers in order, from threads where there are several of both.

    The first client in order that fails is the one whose error is raised.
    """
    if min(threads, len(clients)) < 2:
        return map(answer, clients)
    how = np.geterr()  # belongs to a thread: the others would not know of it

    def answer_there(client: ClientData) -> tuple[Arrays, Arrays]:
        with np.errstate(**how):
            return answer(client)

    return _pool(threads).map(answer_there, clients)


def cores() -> int:
    """Return the cores this process may use, at most as many as ``FEDFB_THREADS`` says."""
    here = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    limit = os.environ.get(THREADS_VARIABLE, str(here))
    if not limit.isdecimal() or int(limit) < 1:
        raise ConfigError(
            f"{THREADS_VARIABLE} is the number of threads, at least 1, got {limit!r}."
        )
    return min(here, int(limit))


@cache
def _pool(threads: int) -> "ThreadPoolExecutor":
    """Return one pool for all seeds: together they never run on more threads than given."""
    from concurrent.futures import ThreadPoolExecutor  # here: one thread does without it

    return ThreadPoolExecutor(threads)


def participants(
    clients: Sequence[ClientData], share: float, seed: int, round: int
) -> list[ClientData]:
    """Draw the clients that take part in a round: at least one, without replacement.

    Who takes part depends on the seed, the round and the clients' ids, not on their order.
    """
    in_order = sorted(clients, key=lambda client: client.id)
    return [in_order[place] for place in drawn_places(len(in_order), share, seed, round)]


def drawn_places(clients: int, share: float, seed: int, round: int) -> list[int]:
    """Draw the places, in the order of ids, of the clients that take part in a round.

    >>> len(drawn_places(4, 0.5, seed=0, round=1)), drawn_places(4, 1.0, seed=0, round=1)
    (2, [0, 1, 2, 3])
    """
    number = number_taking_part(clients, share)
    drawn = generator((seed, round, PARTICIPANTS)).choice(clients, number, replace=False)
    return [int(place) for place in np.sort(drawn)]


def number_taking_part(clients: int, share: float) -> int:
    """Return how many clients take part in a round, at least one.

    >>> number_taking_part(5, 0.5), number_taking_part(5, 0.01)
    (3, 1)
    """
    return max(1, round_half_up(share * clients))


def refuse_non_finite(
    uploads: Mapping[int, Arrays], memories: Memories, round: int, runs: int | None = None
) -> None:
    """Stop runs that diverge: nothing that clients send or keep may be other than finite.

    Args:
        uploads: what the clients answered, by client id; runs are on the first axis.
        memories: what the clients are to keep, by client id.
        round: the number of the round.
        runs: how many runs there are. An array without that axis belongs to all of them.

    """
    first: dict[int, tuple[int, str]] = {}
    for kind, of_clients in (("sends", uploads), ("keeps", memories)):
        for client, arrays in of_clients.items():
            for name, value in arrays.items():
                for run in non_finite_runs(value, runs):
                    first.setdefault(run, (client, f"{kind} ({name})"))
    if first:
        raise DivergedError(round, first)


def non_finite_runs(value: Array, runs: int | None) -> list[int]:
    """Return the runs of which an array is not finite.

    >>> non_finite_runs(np.array([[1.0], [np.inf]]), 2), non_finite_runs(np.array(np.nan), 2)
    ([1], [0, 1])
    """
    if np.all(np.isfinite(value)):
        return []
    if runs is not None and value.shape[:1] != (runs,):
        return list(range(runs))
    return np.unique(np.nonzero(~np.isfinite(np.atleast_1d(value)))[0]).tolist()


class DivergedError(DivergenceError):
    """Which round, clients and runs of the grid diverged.

    ``clients`` has the first client of every run; ``client`` and ``what`` are of the first run.
    """

    def __init__(
        self, round: int, first: Mapping[int, tuple[int, str]], reason: str = "is not finite"
    ) -> None:
        self.round, self.reason = round, reason
        self.runs = sorted(first)
        self.clients = {run: client for run, (client, _) in first.items()}
        self.client, self.what = first[self.runs[0]]
        super().__init__(
            f"training diverged in round {round}, on client {self.client}: what it {self.what} "
            f"{reason}."
        )
