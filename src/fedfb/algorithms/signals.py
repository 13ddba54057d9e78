"""How the unfairness signal travels: what a client says of it, and how the server reads the sum."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from fedfb.algorithms.quantise import Quantiser
from fedfb.core import Arrays, ClientData, ClientTask, Key
from fedfb.engine import Engine, cell_counts
from fedfb.notions import Notion, Surrogate
from fedfb.notions.base import ratio
from fedfb.shapes import Array, Bool, Float, Num


class SignalExchange(NamedTuple):
    """A question for the signal, and mu read off what came back and the pooled counts.

    ``there`` tells which groups (or clients) had rows among those who took part.
    """

    task: ClientTask
    read: Callable[[Arrays, Num[Array, "*c"]], Float[Array, "r *l"]]
    there: Callable[[Arrays, Num[Array, "*c"]], Bool[Array, " a"]]


def everybody(total: Arrays, counts: Num[Array, "*c"]) -> Bool[Array, " a"]:
    """Say that all groups were there."""
    return np.ones(counts.shape[-1], dtype=bool)


def summed_signal(
    engine: Engine, notion: Notion, surrogate: Surrogate, quantiser: Quantiser | None
) -> SignalExchange:
    """Sum the clients' shares, A-1 numbers (or codes of b bits) each; everybody takes part."""

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        losses = engine.loss_sums(broadcast["params"], data, surrogate)
        share = notion.share(losses, broadcast["counts"], data.id)
        return {"signal": quantiser.encode(share, key) if quantiser else share}, memory

    def read(total: Arrays, counts: Num[Array, "*c"]) -> Float[Array, "r *l"]:
        share = quantiser.decode(total["signal"]) if quantiser else total["signal"]
        return notion.signal(share, counts)

    # A share is divided by the rows of all, so it is small; a code is a whole number.
    bounds = {} if quantiser else {"signal": 2.0**16}
    task = ClientTask("measure", "sum", run, _bits(quantiser), bounds)
    return SignalExchange(task, read, everybody)


def cell_signal(engine: Engine, notion: Notion, surrogate: Surrogate) -> SignalExchange:
    """Sum the losses by cell, and take shares of the sum; everybody takes part.

    It is the same signal in more numbers. One row is in one cell, and moves it by at most 1 unless
    the loss has no bound: what noise can hide.
    """

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        return {"losses": engine.loss_sums(broadcast["params"], data, surrogate)}, memory

    def read(total: Arrays, counts: Num[Array, "2 a"]) -> Float[Array, "r *l"]:
        return notion.signal(notion.share(total["losses"], counts, 0), counts)

    bounded = None if surrogate == "ce" else {"losses": 1.0}
    return SignalExchange(ClientTask("measure", "sum", run, sensitivity=bounded), read, everybody)


def ratio_signal(engine: Engine, notion: Notion, surrogate: Surrogate) -> SignalExchange:
    r"""Estimate each cell's mean loss from those who take part, as a ratio of two sums.

    .. math:: \hat L_{ya} = \frac{\sum_{i\in P} S^{(i)}_{ya}}{\sum_{i\in P} n^{(i)}_{ya}}

    A group of which nobody has rows in a cell that the pooled counts have stays out of mu today.
    """

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        losses = engine.loss_sums(broadcast["params"], data, surrogate)
        return {"losses": losses, "rows": cell_counts(data)}, memory

    def there(total: Arrays, counts: Num[Array, "2 a"]) -> Bool[Array, " a"]:
        return ~np.any((counts > 0) & (total["rows"] == 0), axis=0)

    def read(total: Arrays, counts: Num[Array, "2 a"]) -> Float[Array, "r *l"]:
        pooled = total["losses"] * ratio(counts, total["rows"], empty=0.0)
        return notion.signal(notion.share(pooled, counts, 0), counts, ~there(total, counts))

    return SignalExchange(ClientTask("measure", "sum", run), read, there)


def single_signals(
    engine: Engine, notion: Notion, surrogate: Surrogate, quantiser: Quantiser | None
) -> SignalExchange:
    """Show the server the loss of each client that takes part, to compare them with each other."""

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        losses = engine.loss_sums(broadcast["params"], data, surrogate)
        share = notion.share(losses, broadcast["counts"], data.id)
        said = quantiser.encode(share, key) if quantiser else share
        return {"signal": said, "client": np.asarray(data.id)}, memory

    def there(stack: Arrays, counts: Num[Array, " i"]) -> Bool[Array, " i"]:
        took_part = np.zeros(len(counts), dtype=bool)
        took_part[stack["client"]] = True
        return took_part

    def read(stack: Arrays, counts: Num[Array, " i"]) -> Float[Array, "r i"]:
        said = quantiser.decode(stack["signal"]) if quantiser else stack["signal"]
        everyone = np.zeros((len(counts), *said.shape[1:]))
        everyone[stack["client"]] = said
        return notion.signal(everyone, counts, ~there(stack, counts))

    return SignalExchange(ClientTask("measure", "gather", run, _bits(quantiser)), read, there)


def _bits(quantiser: Quantiser | None) -> Mapping[str, int]:
    return {"signal": quantiser.bits} if quantiser else {}
