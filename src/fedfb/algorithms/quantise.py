"""A uniform quantiser whose integer codes can be summed: FedFB(b bits)."""

from dataclasses import dataclass
from itertools import count
from typing import Literal

import numpy as np

from fedfb.core import Key, generator
from fedfb.errors import ConfigError
from fedfb.shapes import Array, Float, Int, Num


@dataclass(frozen=True)
class Quantiser:
    r"""Map values of [low, high] to integers of b bits whose sum decodes to the sum of values.

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


COARSEST = 0.3
r"""The largest step that is of use. A client's share of a gap below half a step becomes 0, so that
of I clients a gap of :math:`I\Delta/2` can vanish. Measured (3 seeds, disparity by FedAvg, by codes
of 3 and 4 bits, and exactly): COMPAS, dp: .243, .281, .099, .035; eod: .317, .238, .164, .066;
synthetic of 3 groups, dp: .457, .189 (at 12 points less accuracy than exactly), .112, .022."""


def fewest_bits(low: float, high: float) -> int:
    """Return with how many bits the step of a range is no coarser than :data:`COARSEST`.

    >>> fewest_bits(-2.0, 2.0), fewest_bits(-1.0, 1.0), fewest_bits(0.0, 1.4)
    (4, 4, 3)
    """
    return next(bits for bits in count(1) if Quantiser(bits, low, high).step <= COARSEST)


def bits_per_value(bits: int, values: int, mode: Literal["per_value", "per_round"]) -> int:
    """Return the bits of each value when ``bits`` is meant for each, or for a whole round.

    >>> bits_per_value(10, 3, "per_round")
    3
    """
    each = bits if mode == "per_value" else bits // max(values, 1)
    if each < 1:
        raise ConfigError(
            f"{bits} bits a round leave less than one for each of {values} values. "
            f"Give at least --bits {values}, or count them per value (--bits-mode per_value)."
        )
    return each
