"""All clients in one process: a question is a loop over them and a sum."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np

from fedfb.core import Arrays, Ask, ClientData, ClientTask, generator
from fedfb.errors import ConfigError, DivergenceError
from fedfb.shapes import Array

Memories = dict[int, Arrays]
"""What each client keeps for itself, by client id."""

THREADS_VARIABLE = "FEDFB_THREADS"

PARTICIPANTS = 20
"""Marks the key that draws a round's participants."""


def make_ask(
    clients: Sequence[ClientData], memories: Memories, seed: int, round: int, threads: int = 1
) -> Ask:
    """Return the ``ask`` of one round.

    It numbers its questions and keeps the clients' memories up to date. Sums run in the order of
    client ids, so that neither the order in which clients are listed nor the number of threads that
    answer can change a bit.
    """
    in_order = sorted(clients, key=lambda client: client.id)
    asked = 0

    def ask(task: ClientTask, broadcast: Arrays) -> Arrays:
        nonlocal asked

        def answer(client: ClientData) -> tuple[Arrays, Arrays]:
            key = (seed, round, asked, client.id)
            upload, memory = task.run(broadcast, client, memories[client.id], key)
            refuse_non_finite(upload, round, client.id)
            return upload, memory

        uploads = []
        for client, (upload, memory) in zip(in_order, each(answer, in_order, threads), strict=True):
            memories[client.id] = memory
            uploads.append(upload)
        asked += 1
        return reduce_uploads(task, uploads)

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
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return one pool for all seeds: together they never run on more threads than given."""
    return ThreadPoolExecutor(threads)


def participants(
    clients: Sequence[ClientData], share: float, seed: int, round: int
) -> list[ClientData]:
    """Draw the clients that take part in a round: at least one, without replacement.

    Who takes part depends on the seed, the round and the clients' ids, not on their order.
    """
    in_order = sorted(clients, key=lambda client: client.id)
    number = max(1, round_half_up(share * len(in_order)))
    drawn = generator((seed, round, PARTICIPANTS)).choice(len(in_order), number, replace=False)
    return [in_order[place] for place in np.sort(drawn)]


def round_half_up(value: float) -> int:
    """Round to the nearest whole number, halves up.

    >>> round_half_up(1.5), round_half_up(2.5)
    (2, 3)
    """
    return int(value + 0.5)


def reduce_uploads(task: ClientTask, uploads: Sequence[Arrays]) -> Arrays:
    """Return what the server gets to see of the uploads: their sum, or all of them."""
    combine = np.sum if task.reduce == "sum" else np.stack
    return {
        name: np.asarray(combine([upload[name] for upload in uploads], axis=0))
        for name in uploads[0]
    }


def refuse_non_finite(upload: Mapping[str, Array], round: int, client: int) -> None:
    """Stop a run that diverges, naming the round, the client and the runs of the grid."""
    for name, value in upload.items():
        if not np.all(np.isfinite(value)):
            bad = np.unique(np.nonzero(~np.isfinite(np.atleast_1d(value)))[0])
            raise DivergedError(round, client, name, bad.tolist())


class DivergedError(DivergenceError):
    """Which round, client, upload and runs of the grid were not finite."""

    def __init__(self, round: int, client: int, upload: str, runs: list[int]) -> None:
        super().__init__(f"training diverged in round {round}, on client {client} ({upload}).")
        self.round, self.client, self.upload, self.runs = round, client, upload, runs
