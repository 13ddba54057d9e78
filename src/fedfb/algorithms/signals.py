"""How the unfairness signal travels: what a client says of it, and how the server reads the sum."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from fedfb.algorithms.quantise import Quantiser
from fedfb.core import Arrays, ClientData, ClientTask, Key
from fedfb.engine import Engine, cell_counts
from fedfb.notions import Notion, Surrogate
from fedfb.notions.base import ratio
from fedfb.shapes import Array, Float, Num


class SignalExchange(NamedTuple):
    """A question for the signal, and mu read off what came back and the pooled counts."""

    task: ClientTask
    read: Callable[[Arrays, Num[Array, "*c"]], Float[Array, "r *l"]]


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

    return SignalExchange(ClientTask("measure", "sum", run, _bits(quantiser)), read)


def ratio_signal(engine: Engine, notion: Notion, surrogate: Surrogate) -> SignalExchange:
    r"""Estimate each cell's mean loss from those who take part, as a ratio of two sums.

    .. math:: \hat L_{ya} = \frac{\sum_{i\in P} S^{(i)}_{ya}}{\sum_{i\in P} n^{(i)}_{ya}}

    A group of which nobody has rows in a cell that the pooled counts have stays out of mu today.
    """

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        losses = engine.loss_sums(broadcast["params"], data, surrogate)
        return {"losses": losses, "rows": cell_counts(data)}, memory

    def read(total: Arrays, counts: Num[Array, "2 a"]) -> Float[Array, "r *l"]:
        rows = total["rows"]
        pooled = total["losses"] * ratio(counts, rows, empty=0.0)
        lacking = np.any((counts > 0) & (rows == 0), axis=0)
        return notion.signal(notion.share(pooled, counts, 0), counts, lacking)

    return SignalExchange(ClientTask("measure", "sum", run), read)


def single_signals(
    engine: Engine, notion: Notion, surrogate: Surrogate, quantiser: Quantiser | None
) -> SignalExchange:
    """Show the server the loss of each client that takes part, to compare them with each other."""

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        losses = engine.loss_sums(broadcast["params"], data, surrogate)
        share = notion.share(losses, broadcast["counts"], data.id)
        said = quantiser.encode(share, key) if quantiser else share
        return {"signal": said, "client": np.asarray(data.id)}, memory

    def read(stack: Arrays, counts: Num[Array, " i"]) -> Float[Array, "r i"]:
        said = quantiser.decode(stack["signal"]) if quantiser else stack["signal"]
        everyone = np.zeros((len(counts), *said.shape[1:]))
        everyone[stack["client"]] = said
        lacking = np.ones(len(counts), dtype=bool)
        lacking[stack["client"]] = False
        return notion.signal(everyone, counts, lacking)

    return SignalExchange(ClientTask("measure", "gather", run, _bits(quantiser)), read)


def _bits(quantiser: Quantiser | None) -> Mapping[str, int]:
    return {"signal": quantiser.bits} if quantiser else {}
