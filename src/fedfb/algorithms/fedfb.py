"""FedFB (Zeng, Chen, Lee: Improving Fairness via Federated Learning).

Algorithms 1-5 of the paper's appendix. CFL, the paper's centralised FairBatch, is this algorithm
with all rows on one client.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from fedfb.algorithms.quantise import Quantiser, bits_per_value
from fedfb.algorithms.tasks import (
    Scaling,
    average,
    count_task,
    fit_and_measure_task,
    fit_task,
    measure_task,
    predict_globally,
)
from fedfb.core import Algorithm, Arrays, Ask, ClientData, Info, Key, LocalSolver
from fedfb.engine import Engine
from fedfb.errors import ConfigError
from fedfb.notions import Notion, Surrogate
from fedfb.notions.base import decay, normalised
from fedfb.shapes import Array, Float, Num


@dataclass(frozen=True)
class Outer:
    r"""How lambda moves: every ``period`` rounds, along the signal :math:`\mu`.

    The step is :math:`\alpha_u\,\mu`, or :math:`\alpha_u\,\mu/\lVert\mu\rVert` where ``normalise``
    is ``l2``.

    ``timing`` says where the signal is taken: at the new common model (``post``, an exchange of its
    own), at the received one (``piggyback``: no extra exchange, lambda lags one round), or at each
    client's own trained model (``local``: the pseudo-code taken literally; its sum is no pooled
    quantity of any model).
    """

    alpha: Float[Array, " r"]
    surrogate: Surrogate = "prob"
    normalise: Literal["none", "l2"] = "none"
    decay: Literal["const", "inv_sqrt", "inv"] = "inv_sqrt"
    timing: Literal["post", "piggyback", "local"] = "post"
    period: int = 1
    bits: int | None = None
    bits_mode: Literal["per_value", "per_round"] = "per_value"
    rounding: Literal["nearest", "stochastic"] = "nearest"


class State(NamedTuple):
    """The common model, the weights' lambda, the pooled counts, and the number of rounds done."""

    params: Float[Array, "r p"]
    lam: Float[Array, "r *l"]
    counts: Num[Array, "*c"]
    t: int


def fedfb(
    engine: Engine, solver: LocalSolver, notion: Notion, outer: Outer, scaling: Scaling = "mass"
) -> Algorithm:
    r"""Return FedFB for a notion of fairness.

    Round t: clients train on rows weighted by :math:`\omega(\lambda)`, the server averages; every k
    rounds the summed signal :math:`\mu` moves lambda,
    :math:`\lambda\leftarrow\Pi_\Lambda(\lambda+\alpha_u\mu)`. With lambda at its start every weight
    is 1, so the first round is FedAvg's.

    Departs from the paper: :math:`\mu` is measured at the common model (E7), the average is
    weighted (E14), lambda is projected (E15), and the default signal is :math:`|y-p|`, whose root
    is parity, not the cross-entropy (E19).
    """
    quantise = _Quantised(notion, outer)

    def cell_weights(broadcast: Arrays, data: ClientData) -> Float[Array, "r 2 a"]:
        return notion.cell_weights(broadcast["weights"], data.id, data.groups)

    count = count_task(notion)
    measure = measure_task(engine, notion, outer.surrogate, quantise.encode)
    fit = fit_task(engine, solver, cell_weights, scaling)
    if outer.timing != "post":
        if notion.reduce == "gather":
            raise ConfigError(
                f"client parity takes each client's loss in an exchange of its own, so that models "
                f"stay in the sum; timing {outer.timing!r} would mix them. Use --timing post."
            )
        at: Literal["received", "trained"] = (
            "received" if outer.timing == "piggyback" else "trained"
        )
        fit = fit_and_measure_task(fit, measure, at)

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        counts = ask(count, {})["counts"]
        lam = np.repeat(notion.init(counts)[None], len(params), axis=0)
        return State(params, lam, counts, 0)

    def round(s: State, ask: Ask) -> tuple[State, Info]:
        weights = notion.weights(s.lam, s.counts)
        total = ask(fit, {"params": s.params, "weights": weights, "counts": s.counts})
        params, t = average(total, s.params), s.t + 1
        if t % outer.period:
            return State(params, s.lam, s.counts, t), Info(lam=s.lam)
        if outer.timing == "post":
            total = ask(measure, {"params": params, "counts": s.counts})
        signal = notion.signal(quantise.decode(total["signal"]), s.counts)
        step_size = outer.alpha * decay(t // outer.period, outer.decay)
        lam = notion.step(s.lam, normalised(signal, outer.normalise), s.counts, step_size)
        return State(params, lam, s.counts, t), Info(signal=signal, lam=lam)

    return Algorithm(
        name="fedfb",
        tasks=(count, fit, measure) if outer.timing == "post" else (count, fit),
        state=State,
        memory=lambda params: {},
        setup=setup,
        round=round,
        params=lambda s: s.params,
        predict=lambda s, _, examples: predict_globally(engine, s.params, examples),
    )


class _Quantised(NamedTuple):
    """Shares as b-bit codes on the way to the sum; without ``bits`` they travel as they are."""

    notion: Notion
    outer: Outer

    def encode(self, share: Float[Array, "r s"], key: Key) -> Num[Array, "r s"]:
        return self._quantiser(share).encode(share, key) if self.outer.bits else share

    def decode(self, total: Num[Array, "*i r s"]) -> Float[Array, "*i r s"]:
        return self._quantiser(total).decode(total) if self.outer.bits else total

    def _quantiser(self, share: Num[Array, "*i r s"]) -> Quantiser:
        assert self.outer.bits is not None
        bits = bits_per_value(self.outer.bits, share.shape[-1], self.outer.bits_mode)
        return Quantiser(bits, *self.notion.reach, self.outer.rounding)
