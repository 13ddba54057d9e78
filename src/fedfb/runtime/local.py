"""All clients in one process: a question is a loop over them and a sum."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedfb.core import Arrays, Ask, ClientData, ClientTask, generator
from fedfb.errors import DivergenceError
from fedfb.shapes import Array

Memories = dict[int, Arrays]
"""What each client keeps for itself, by client id."""

PARTICIPANTS = 20
"""Marks the key that draws a round's participants."""


def make_ask(clients: Sequence[ClientData], memories: Memories, seed: int, round: int) -> Ask:
    """Return the ``ask`` of one round.

    It numbers its questions and keeps the clients' memories up to date. Sums run in the order of
    client ids, so that the order in which clients are listed cannot change a bit.
    """
    in_order = sorted(clients, key=lambda client: client.id)
    asked = 0

    def ask(task: ClientTask, broadcast: Arrays) -> Arrays:
        nonlocal asked
        uploads = []
        for client in in_order:
            key = (seed, round, asked, client.id)
            upload, memories[client.id] = task.run(broadcast, client, memories[client.id], key)
            refuse_non_finite(upload, round, client.id)
            uploads.append(upload)
        asked += 1
        return reduce_uploads(task, uploads)

    return ask


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
