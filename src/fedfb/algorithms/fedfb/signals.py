"""The exchange of the unfairness signal: what a client uploads, and how the server reads the total.

An upload holds numbers, or the codes of a uniform quantiser. Integer codes can be summed: this is
FedFB(b bits).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Literal, NamedTuple

import numpy as np

from fedfb.algorithms.tasks import make_task
from fedfb.core import Arrays, ClientData, ClientTask, Key, generator
from fedfb.engine import Engine, cell_counts
from fedfb.errors import ConfigError
from fedfb.notions import Notion, Surrogate
from fedfb.notions.base import ratio
from fedfb.shapes import Array, Bool, Float, Int, Num


@dataclass(frozen=True)
class Quantiser:
    r"""A map of [low, high] to integers of b bits; the sum of codes decodes to the sum of values.

    A signed range [-R, R] gets an odd number of levels :math:`K=2^b-1`, so that 0 is one of them:
    :math:`\Delta=2R/(K-1)`, code :math:`\mathrm{round}(v/\Delta)`. One bit is the sign: levels -R
    and R. A range [0, R] gets :math:`2^b` levels. Values outside saturate. Within the range the
    error is at most :math:`\Delta/2` per client (:math:`\Delta` with stochastic rounding, which is
    unbiased).

    Departs from the released code: rounds to the nearest level, and a value below the range does
    not wrap to the top.

    >>> Quantiser(bits=3, low=-3.0, high=3.0).encode(np.array([0.2, 2.6, -9.0]), key=(0,))
    array([ 0,  3, -3])
    """

    bits: int
    low: float
    high: float
    rounding: Literal["nearest", "stochastic"] = "nearest"

    @property
    def step(self) -> float:
        """The distance of two neighbouring levels (for one bit on a signed range: half of it)."""
        codes: int = 2**self.bits
        if self.low == 0:
            return self.high / (codes - 1)
        return self.high if self.bits == 1 else 2 * self.high / (codes - 2)

    def encode(self, values: Float[Array, "*s"], key: Key) -> Int[Array, "*s"]:
        """Return the code of each value; the key drives stochastic rounding."""
        level = np.clip(values, self.low, self.high) / self.step
        draw = generator((*key, 1)).random(level.shape) if self.rounding == "stochastic" else 0.5
        if self.bits == 1 and self.low < 0:
            return np.where((level + 1) / 2 >= draw, 1, -1)
        codes: Int[Array, "*s"] = np.floor(level + draw).astype(np.int64)
        return codes

    def decode(self, codes: Num[Array, "*s"]) -> Float[Array, "*s"]:
        """Return the value of a code, or of a sum of codes."""
        return codes * self.step


class SignalExchange(NamedTuple):
    """The task of the signal, and how the server reads mu from the total and the pooled counts.

    ``measured`` returns True for the groups (or clients) of which participants have rows.
    ``mistakes`` returns the share of wrong decisions; None: the exchange does not show it.
    """

    task: ClientTask
    read: Callable[[Arrays, Num[Array, "*c"]], Float[Array, "r *l"]]
    measured: Callable[[Arrays, Num[Array, "*c"]], Bool[Array, " a"]]
    mistakes: Callable[[Arrays, Num[Array, "*c"]], Float[Array, " r"]] | None = None


def all_measured(total: Arrays, counts: Num[Array, "*c"]) -> Bool[Array, " a"]:
    """Return True for all groups."""
    return np.ones(counts.shape[-1], dtype=bool)


def summed_signal(
    engine: Engine,
    notion: Notion,
    surrogate: Surrogate,
    quantiser: Quantiser | None,
    judging: bool = False,
) -> SignalExchange:
    """Return the exchange that sums the clients' shares. All clients must take part.

    Args:
        engine: computes losses.
        notion: computes shares and the signal. A share is A-1 numbers.
        surrogate: loss of the signal.
        quantiser: encodes the shares; None: exact numbers.
        judging: whether the number of wrong decisions is summed as well.
    """

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        losses = engine.loss_sums(broadcast["params"], data, surrogate)
        share = notion.share(losses, broadcast["counts"], data.id)
        upload = {"signal": quantiser.encode(share, key) if quantiser else share}
        if judging:
            upload["mistakes"] = _mistakes(engine, broadcast, data)
        return upload, memory

    def read(total: Arrays, counts: Num[Array, "*c"]) -> Float[Array, "r *l"]:
        share = quantiser.decode(total["signal"]) if quantiser else total["signal"]
        return notion.signal(share, counts)

    # A share is divided by the rows of all clients, so it is small. A code is a whole number.
    bounds = {} if quantiser else {"signal": 2.0**16}
    task = ClientTask("measure", "sum", run, _bits(quantiser), bounds)
    return SignalExchange(task, read, all_measured, _share_of_all if judging else None)


def _mistakes(engine: Engine, broadcast: Arrays, data: ClientData) -> Float[Array, " r"]:
    """Return the number of a client's rows that each run decides wrongly."""
    wrong: Float[Array, " r"] = engine.loss_sums(broadcast["params"], data, "zero_one").sum((1, 2))
    return wrong


def _share_of_all(total: Arrays, counts: Num[Array, "2 a"]) -> Float[Array, " r"]:
    return total["mistakes"] / max(float(counts.sum()), 1.0)


def cell_signal(engine: Engine, notion: Notion, surrogate: Surrogate) -> SignalExchange:
    """Return the exchange that sums losses by cell, from which shares follow. All take part.

    The signal is the same, from more numbers. One row is in one cell and, with a bounded loss,
    moves it by at most 1: noise can hide this.
    """

    def upload_losses(broadcast: Arrays, data: ClientData) -> Arrays:
        return {"losses": engine.loss_sums(broadcast["params"], data, surrogate)}

    def read(total: Arrays, counts: Num[Array, "2 a"]) -> Float[Array, "r *l"]:
        return notion.signal(notion.share(total["losses"], counts, 0), counts)

    bounded = None if surrogate == "ce" else {"losses": 1.0}
    task = make_task("measure", "sum", upload_losses, sensitivity=bounded)
    judge = _share_of_losses if surrogate == "zero_one" else None
    return SignalExchange(task, read, all_measured, judge)


def _share_of_losses(total: Arrays, counts: Num[Array, "2 a"]) -> Float[Array, " r"]:
    """Return the share of wrong decisions from sums of the 0-1 loss, which noise may have moved."""
    wrong: Float[Array, " r"] = total["losses"].sum(axis=(1, 2)) / max(float(counts.sum()), 1.0)
    return np.clip(wrong, 0.0, 1.0)


def ratio_signal(
    engine: Engine, notion: Notion, surrogate: Surrogate, judging: bool = False
) -> SignalExchange:
    r"""Return the exchange that estimates each cell's mean loss from the participants P.

    .. math:: \hat L_{ya} = \frac{\sum_{i\in P} S^{(i)}_{ya}}{\sum_{i\in P} n^{(i)}_{ya}}

    If the pooled counts have rows in a cell and no participant has, mu leaves out its group in this
    round.
    """

    def upload_losses(broadcast: Arrays, data: ClientData) -> Arrays:
        losses = engine.loss_sums(broadcast["params"], data, surrogate)
        upload = {"losses": losses, "rows": cell_counts(data)}
        if judging:
            upload["mistakes"] = _mistakes(engine, broadcast, data)
        return upload

    def measured(total: Arrays, counts: Num[Array, "2 a"]) -> Bool[Array, " a"]:
        return ~np.any((counts > 0) & (total["rows"] == 0), axis=0)

    def read(total: Arrays, counts: Num[Array, "2 a"]) -> Float[Array, "r *l"]:
        pooled = total["losses"] * ratio(counts, total["rows"], empty=0.0)
        return notion.signal(notion.share(pooled, counts, 0), counts, ~measured(total, counts))

    def mistakes(total: Arrays, counts: Num[Array, "2 a"]) -> Float[Array, " r"]:
        return total["mistakes"] / max(float(total["rows"].sum()), 1.0)

    task = make_task("measure", "sum", upload_losses)
    return SignalExchange(task, read, measured, mistakes if judging else None)


def single_signals(
    engine: Engine, notion: Notion, surrogate: Surrogate, quantiser: Quantiser | None
) -> SignalExchange:
    """Return the exchange that shows the server the loss of each participant.

    The arguments are those of :func:`summed_signal`.
    """

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        losses = engine.loss_sums(broadcast["params"], data, surrogate)
        share = notion.share(losses, broadcast["counts"], data.id)
        value = quantiser.encode(share, key) if quantiser else share
        return {"signal": value, "client": np.asarray(data.id)}, memory

    def measured(stack: Arrays, counts: Num[Array, " i"]) -> Bool[Array, " i"]:
        took_part = np.zeros(len(counts), dtype=bool)
        took_part[stack["client"]] = True
        return took_part

    def read(stack: Arrays, counts: Num[Array, " i"]) -> Float[Array, "r i"]:
        values = quantiser.decode(stack["signal"]) if quantiser else stack["signal"]
        everyone = np.zeros((len(counts), *values.shape[1:]))
        everyone[stack["client"]] = values
        return notion.signal(everyone, counts, ~measured(stack, counts))

    return SignalExchange(ClientTask("measure", "gather", run, _bits(quantiser)), read, measured)


def _bits(quantiser: Quantiser | None) -> Mapping[str, int]:
    return {"signal": quantiser.bits} if quantiser else {}


COARSEST = 0.3
r"""The largest useful step. A client's share of a gap below half a step becomes 0, so a gap of
:math:`I\Delta/2` of I clients can vanish. Measured (3 seeds, disparity by FedAvg, by codes
of 3 and 4 bits, and exactly): COMPAS, dp: .243, .281, .099, .035; eod: .317, .238, .164, .066;
synthetic of 3 groups, dp: .457, .189 (at 12 points less accuracy than exactly), .112, .022."""


def fewest_bits(low: float, high: float) -> int:
    """Return the smallest number of bits with which the step of a range is at most COARSEST.

    >>> fewest_bits(-2.0, 2.0), fewest_bits(-1.0, 1.0), fewest_bits(0.0, 1.4)
    (4, 4, 3)
    """
    return next(bits for bits in count(1) if Quantiser(bits, low, high).step <= COARSEST)


def bits_per_value(bits: int, values: int, mode: Literal["per_value", "per_round"]) -> int:
    """Return the bits of each value.

    Args:
        bits: bits of each value, or of a whole round.
        values: number of values that a client sends in a round.
        mode: what ``bits`` counts.

    >>> bits_per_value(10, 3, "per_round")
    3
    """
    value_bits = bits if mode == "per_value" else bits // max(values, 1)
    if value_bits < 1:
        raise ConfigError(
            f"{bits} bits a round leave less than one for each of {values} values. "
            f"Give at least --bits {values}, or count them per value (--bits-mode per_value)."
        )
    return value_bits
