"""FedFB (Zeng, Chen, Lee: Improving Fairness via Federated Learning).

Algorithms 1-5 of the paper's appendix. CFL, the paper's centralised FairBatch, is this algorithm
with all rows on one client.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from fedfb.algorithms.method import ALL_NOTIONS, Knob, Method, Problem
from fedfb.algorithms.quantise import Quantiser, bits_per_value
from fedfb.algorithms.signals import (
    SignalExchange,
    ratio_signal,
    single_signals,
    summed_signal,
)
from fedfb.algorithms.tasks import (
    Scaling,
    average,
    count_task,
    fit_and_measure_task,
    fit_task,
    global_model,
)
from fedfb.core import Algorithm, Arrays, Ask, ClientData, Info, LocalSolver
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
    quantity of any model). Unless ``everyone`` takes part in every round, the signal is estimated
    from those who do.
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
    everyone: bool = True


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

    def cell_weights(broadcast: Arrays, data: ClientData) -> Float[Array, "r 2 a"]:
        return notion.cell_weights(broadcast["weights"], data.id, data.groups)

    count, measure = count_task(notion), signal_exchange(engine, notion, outer)
    fit = fit_task(engine, solver, cell_weights, scaling)
    if outer.timing != "post":
        fit = fit_and_measure_task(
            fit, measure.task, "received" if outer.timing == "piggyback" else "trained"
        )

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
            total = ask(measure.task, {"params": params, "counts": s.counts})
        signal = measure.read(total, s.counts)
        step_size = outer.alpha * decay(t // outer.period, outer.decay)
        lam = notion.step(s.lam, normalised(signal, outer.normalise), s.counts, step_size)
        return State(params, lam, s.counts, t), Info(signal=signal, lam=lam)

    return global_model(
        "fedfb",
        engine,
        (count, fit, measure.task) if outer.timing == "post" else (count, fit),
        State,
        setup,
        round,
    )


def signal_exchange(engine: Engine, notion: Notion, outer: Outer) -> SignalExchange:
    """Return how the signal travels: in sums where the notion allows it, quantised where asked."""
    if notion.reduce == "gather":
        if outer.timing != "post":
            raise ConfigError(
                f"client parity takes each client's loss in an exchange of its own, so that models "
                f"stay in the sum; timing {outer.timing!r} would mix them. Use --timing post."
            )
        return single_signals(engine, notion, outer.surrogate, _quantiser(notion, outer))
    if outer.everyone:
        return summed_signal(engine, notion, outer.surrogate, _quantiser(notion, outer))
    if outer.bits:
        raise ConfigError(
            "quantised signals need every client in every round: a ratio of two sums cannot be "
            "read off codes of one. Leave out --bits, or use --participation 1."
        )
    return ratio_signal(engine, notion, outer.surrogate)


def _quantiser(notion: Notion, outer: Outer) -> Quantiser | None:
    if outer.bits is None:
        return None
    bits = bits_per_value(outer.bits, notion.values, outer.bits_mode)
    return Quantiser(bits, *notion.reach, outer.rounding)


def _make(problem: Problem) -> Algorithm:
    options = problem.options
    outer = Outer(
        alpha=problem.knobs["alpha"],
        surrogate=options["signal_loss"] or _usual_surrogate(problem.notion),
        normalise=options["normalise"],
        decay=options["decay"],
        timing=options["timing"],
        period=options["period"],
        bits=options["bits"],
        bits_mode=options["bits_mode"],
        rounding=options["rounding"],
        everyone=options["participation"] == 1,
    )
    return fedfb(problem.engine, problem.solver, problem.notion, outer, options["scaling"])


def _usual_surrogate(notion: Notion) -> Surrogate:
    """Return the loss whose gap is the disparity: |y - p| for rates, cross-entropy for clients."""
    return "ce" if notion.name == "client_parity" else "prob"


ALPHA = Knob(
    default=0.5,
    grid=(0.001, 0.05, 0.08, 0.1, 0.2, 0.5, 1.0, 2.0),
    help="step of the fairness weights",
    for_clients=(2.0, (0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0)),
)

METHOD = Method(
    name="fedfb",
    summary="FairBatch across clients: weights moved by summed signals",
    paper="Zeng, Chen, Lee 2021",
    make=_make,
    knobs={"alpha": ALPHA},
    notions=ALL_NOTIONS,
)

CFL = METHOD._replace(
    name="cfl",
    summary="the same rule on pooled rows: the limit without privacy",
    paper="Roh et al. 2021 (FairBatch)",
    pooled=METHOD.variants,
)
