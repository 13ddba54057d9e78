"""All clients in one process: an exchange is a loop over clients, and a sum at the boundary."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from fedfb.core import Arrays, Ask, ClientData, ClientTask, generator
from fedfb.errors import ConfigError, DivergenceError
from fedfb.runtime.boundary import (
    NO_LEAVINGS,
    Carry,
    Exchange,
    Leavings,
    carry_unmasked,
    is_counted,
    round_half_up,
    silent_in,
)
from fedfb.shapes import Array

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Guard = Callable[[ClientTask], ClientTask]
"""Return the task that may be put to clients: with noise on its uploads, or refused."""

Memories = dict[int, Arrays]
"""What each client keeps for itself, by client id."""

THREADS_VARIABLE = "FEDFB_THREADS"

PARTICIPANTS = 20
"""The part of a key that draws a round's participants."""


def make_ask(
    clients: Sequence[ClientData],
    memories: Memories,
    seed: int,
    round: int,
    threads: int = 1,
    *,
    leaving: Leavings = NO_LEAVINGS,
    carry: Carry | None = None,
    guard: Guard | None = None,
    runs: int | None = None,
) -> Ask:
    """Return the ``ask`` of one round. It numbers exchanges and updates the clients' memories.

    Sums have the order of client ids. Neither the order of the list of clients nor the number of
    threads changes a bit of the result.

    Args:
        clients: the clients of the round.
        memories: what each client keeps, by client id; updated in place.
        seed: seed of the run.
        round: number of the round; 0 is the set-up.
        threads: number of clients that run at a time.
        leaving: clients that drop out in the round. An exchange that a client misses changes
            neither the total nor its memory.
        carry: brings uploads to the server; None: unmasked.
        guard: checks or protects every task first; None: tasks are put as they are.
        runs: number of runs of the grid, for messages; None: unknown.
    """
    in_order = sorted(clients, key=lambda client: client.id)
    ids, bring = tuple(client.id for client in in_order), carry or carry_unmasked()
    number = 0

    def ask(task: ClientTask, broadcast: Arrays) -> Arrays:
        nonlocal number
        task = guard(task) if guard else task

        def run_client(client: ClientData) -> tuple[Arrays, Arrays]:
            key = (seed, round, number, client.id)
            return task.run(broadcast, client, memories[client.id], key)

        exchange = Exchange(round, number, task, broadcast, ids, silent_in(leaving, number))
        present = [client for client in in_order if is_counted(exchange.silent.get(client.id))]
        uploads, memories_after = dict[int, Arrays](), Memories()
        for client, (upload, memory) in zip(
            present, run_clients(run_client, present, threads), strict=True
        ):
            uploads[client.id], memories_after[client.id] = upload, memory
        refuse_non_finite(uploads, memories_after, round, runs)
        total = bring(exchange, uploads)
        memories.update(memories_after)
        number += 1
        return total

    return ask


def run_clients(
    run_client: Callable[[ClientData], tuple[Arrays, Arrays]],
    clients: Sequence[ClientData],
    threads: int,
) -> Iterable[tuple[Arrays, Arrays]]:
    """Yield the results of the clients in order; on several threads if there are several clients.

    If clients fail, the error of the first client in order is raised.

    Args:
        run_client: one client's part of the exchange.
        clients: the clients in the order of results.
        threads: number of clients that run at a time.
    """
    if min(threads, len(clients)) < 2:
        return map(run_client, clients)
    how = np.geterr()  # the error state belongs to a thread: other threads need a copy

    def run_in_thread(client: ClientData) -> tuple[Arrays, Arrays]:
        with np.errstate(**how):
            return run_client(client)

    return _pool(threads).map(run_in_thread, clients)


def cores() -> int:
    """Return the number of cores that this process may use, at most ``FEDFB_THREADS``."""
    available = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    limit = os.environ.get(THREADS_VARIABLE, str(available))
    if not limit.isdecimal() or int(limit) < 1:
        raise ConfigError(
            f"{THREADS_VARIABLE} is the number of threads, at least 1, got {limit!r}."
        )
    return min(available, int(limit))


@cache
def _pool(threads: int) -> "ThreadPoolExecutor":
    """Return one pool for all seeds, so that all seeds together use at most these threads."""
    from concurrent.futures import ThreadPoolExecutor  # imported here: one thread needs no pool

    return ThreadPoolExecutor(threads)


def participants(
    clients: Sequence[ClientData], share: float, seed: int, round: int
) -> list[ClientData]:
    """Draw the participants of a round: at least one, without replacement.

    Args:
        clients: all clients; their order does not matter.
        share: share of the clients that take part.
        seed: seed of the run.
        round: number of the round.
    """
    in_order = sorted(clients, key=lambda client: client.id)
    return [in_order[place] for place in drawn_places(len(in_order), share, seed, round)]


def drawn_places(clients: int, share: float, seed: int, round: int) -> list[int]:
    """Draw the places of a round's participants in the order of client ids.

    Args:
        clients: number of all clients.
        share: share of the clients that take part.
        seed: seed of the run.
        round: number of the round.

    >>> len(drawn_places(4, 0.5, seed=0, round=1)), drawn_places(4, 1.0, seed=0, round=1)
    (2, [0, 1, 2, 3])
    """
    number = number_taking_part(clients, share)
    places = generator((seed, round, PARTICIPANTS)).choice(clients, number, replace=False)
    return [int(place) for place in np.sort(places)]


def number_taking_part(clients: int, share: float) -> int:
    """Return the number of participants of a round, at least one.

    >>> number_taking_part(5, 0.5), number_taking_part(5, 0.01)
    (3, 1)
    """
    return max(1, round_half_up(share * clients))


def refuse_non_finite(
    uploads: Mapping[int, Arrays], memories: Memories, round: int, runs: int | None = None
) -> None:
    """Raise an error if an upload or a memory of a client is not finite: the run diverged.

    Args:
        uploads: by client id; runs are on the first axis.
        memories: what the clients will keep, by client id.
        round: number of the round.
        runs: number of runs. An array without this axis belongs to all runs.
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
    """Return the runs in which an array is not finite.

    Args:
        value: the array; runs are on the first axis.
        runs: number of runs; None: unknown.

    >>> non_finite_runs(np.array([[1.0], [np.inf]]), 2), non_finite_runs(np.array(np.nan), 2)
    ([1], [0, 1])
    """
    if np.all(np.isfinite(value)):
        return []
    if runs is not None and value.shape[:1] != (runs,):
        return list(range(runs))
    return np.unique(np.nonzero(~np.isfinite(np.atleast_1d(value)))[0]).tolist()


class DivergedError(DivergenceError):
    """Training diverged: in which round, on which clients, in which runs of the grid.

    ``clients`` holds the first client of every diverged run. ``client`` and ``what`` belong to the
    first of these runs.
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
