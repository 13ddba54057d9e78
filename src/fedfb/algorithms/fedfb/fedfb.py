"""FedFB (Zeng, Chen, Lee: Improving Fairness via Federated Learning).

Algorithms 1-5 of the paper's appendix. CFL, the paper's centralised FairBatch, is this algorithm
with all rows on one client.
"""

from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from fedfb.algorithms.fedfb.outer import (
    Outer,
    describe_choice,
    describe_error,
    distances,
    has_start_weights,
    is_at_bound,
    keep_best,
    measured_gaps,
    pick_model,
    sampling_error,
    solve,
    step,
)
from fedfb.algorithms.fedfb.root_search import empty_record, ignores_weight
from fedfb.algorithms.fedfb.signals import (
    COARSEST,
    Quantiser,
    SignalExchange,
    bits_per_value,
    cell_signal,
    fewest_bits,
    ratio_signal,
    single_signals,
    summed_signal,
)
from fedfb.algorithms.method import ALL_NOTIONS, TRAINING, Knob, Method, OuterRule, Problem
from fedfb.algorithms.newton import Fitted, make_fit, start_of
from fedfb.algorithms.tasks import (
    Scaling,
    average,
    count_task,
    fit_and_measure_task,
    global_model,
    predict_globally,
    read_counts,
)
from fedfb.core import Algorithm, Arrays, Ask, ClientData, Info, LocalSolver
from fedfb.engine import Engine
from fedfb.errors import ConfigError
from fedfb.notions import Notion, Surrogate, symmetric
from fedfb.shapes import Array, Bool, Float, Int, Num


class State(NamedTuple):
    """The common model, the weights' lambda, the pooled counts, and the number of rounds done.

    If lambda is solved for: the record of the rounds so far (``seen``), the model of the round
    whose training signal came nearest to the target, the number of this round, its distance to the
    target by the measure that chooses, and by the disparity, its share of wrong decisions, and the
    least share of all rounds. ``past``: what counts of the rows of earlier rounds. ``models`` and
    ``free``: where a share of the clients takes part, the model of every measured round, and
    whether its weights were 1: all clients measure them after the last round.
    """

    params: Float[Array, "r p"]
    lam: Float[Array, "r *l"]
    counts: Num[Array, "*c"]
    t: int
    seen: Float[Array, "r k *l"]
    best: Float[Array, "r p"]
    best_round: Int[Array, " r"]
    distance: Float[Array, " r"]
    off_target: Float[Array, " r"]
    error: Float[Array, " r"]
    least_error: Float[Array, " r"]
    past: Float[Array, "r q"]
    models: Float[Array, "r t p"]
    free: Bool[Array, "r t"]
    finished: int


def fedfb(
    engine: Engine, solver: LocalSolver, notion: Notion, outer: Outer, scaling: Scaling = "mass"
) -> Algorithm:
    r"""Return FedFB for a notion of fairness.

    In round t, clients train on rows weighted by :math:`\omega(\lambda)`, and the server averages;
    or the weighted rows are fitted by sums (:mod:`fedfb.algorithms.newton`).
    Every k rounds the summed signal :math:`\mu` moves lambda: to the point where the signal should
    vanish, or by the paper's step :math:`\lambda\leftarrow\Pi_\Lambda(\lambda+\alpha_u\mu)`. At the
    initial lambda every weight is 1, so the first round is FedAvg's.

    Departs from the paper: :math:`\mu` is measured at the common model (E7), the average is
    weighted (E14), lambda is projected (E15), and the root of the default signal is parity, not
    that of the cross-entropy (E19).

    Args:
        engine: does the arithmetic.
        solver: local training.
        notion: the fairness notion.
        outer: how lambda moves.
        scaling: see :func:`fedfb.algorithms.tasks.fit_task`.
    """
    solving, coarse = outer.alpha is None, _too_coarse(notion, outer)
    measured_by_all = outer.everyone or notion.reduce == "gather"

    def cell_weights(broadcast: Arrays, data: ClientData) -> Float[Array, "r 2 a"]:
        return notion.cell_weights(broadcast["weights"], data.id, data.groups)

    count, measure = count_task(notion), signal_exchange(engine, notion, outer)
    fit = make_fit(engine, solver, cell_weights, scaling)
    joint = None
    if outer.timing != "post":
        at: Literal["received", "trained"] = (
            "received" if outer.timing == "piggyback" else "trained"
        )
        joint = fit_and_measure_task(fit.task, measure.task, at)

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        counts = read_counts(ask(count, {}))
        lam = np.repeat(notion.init(counts)[None], len(params), axis=0)
        never, far = np.zeros(len(params), dtype=int), np.full(len(params), np.inf)
        record = empty_record(lam)
        past = start_of(params, solver).past
        models, free = params[:, None][:, :0], np.zeros((len(params), 0), dtype=bool)
        best = (params, never, far, far, far, far)
        return State(params, lam, counts, 0, record, *best, past, models, free, 0)

    def round(s: State, ask: Ask) -> tuple[State, Info]:
        weights, measured = notion.weights(s.lam, s.counts), s.params
        if joint is None:
            last = Fitted(s.params, s.past)
            params, past = fit.solve(ask, last, {"weights": weights}, {"counts": s.counts})
            s = s._replace(past=past)
        else:
            total = ask(joint, {"params": s.params, "weights": weights, "counts": s.counts})
            params = average(total, s.params)
        s = s._replace(params=params, t=s.t + 1)
        if s.t % outer.period:
            return s, Info(lam=s.lam)
        if joint is None:
            measured = s.params
            total = ask(measure.task, {"params": measured, "counts": s.counts})
        signal = measure.read(total, s.counts)
        if solving:
            error = measure.mistakes(total, s.counts) if measure.mistakes else None
            present = measure.measured(total, s.counts)
            noise = 0.0 if measured_by_all else sampling_error(notion, total["rows"], s.counts)
            s = solve_weights(s, measured, signal, present, error, noise)
        else:
            s = s._replace(lam=step(outer, notion, s.lam, signal, s.counts, s.t // outer.period))
        return s, Info(signal=signal, lam=s.lam)

    def solve_weights(
        s: State,
        measured_at: Float[Array, "r p"],
        signal: Float[Array, "r *l"],
        present: Bool[Array, " a"],
        error: Float[Array, " r"] | None,
        noise: Float[Array, "*l"] | float,
    ) -> State:
        gap, measured = measured_gaps(notion, signal, present, s.counts)
        free = has_start_weights(notion, s.lam, s.counts)
        far, off = distances(outer, notion, gap, free, s.counts)
        lam, record = solve(outer, notion, s.lam, gap, measured, s.counts, s.seen, noise)
        s = s._replace(lam=lam, seen=record)
        if not measured_by_all:
            models = np.concatenate([s.models, measured_at[:, None]], axis=1)
            s = s._replace(models=models, free=np.concatenate([s.free, free[:, None]], axis=1))
        # The first local training does not count: a model that has learnt nothing has no gap.
        if s.t <= outer.period and not solver.by_sums:
            return s
        chosen: State = keep_best(s, measured_at, far, off, error, s.counts)
        return chosen

    def finish(s: State, ask: Ask) -> State:
        """Choose the round by what all clients measure: a few clients would choose by chance."""
        runs, number, size = s.models.shape
        flat = s.models.reshape(runs * number, size)
        total = ask(measure.task, {"params": flat, "counts": s.counts})
        gap, _ = measured_gaps(
            notion, measure.read(total, s.counts), measure.measured(total, s.counts), s.counts
        )
        target = np.repeat(np.broadcast_to(outer.target, (runs,)), number)
        aimed = replace(outer, target=target)
        far, off = distances(aimed, notion, gap, s.free.reshape(-1), s.counts)
        error = measure.mistakes(total, s.counts) if measure.mistakes else None
        nothing = np.full(runs, np.inf)
        last, s = s.t, s._replace(distance=nothing, error=nothing, least_error=nothing)
        first = 0 if solver.by_sums or number == 1 else 1
        for place in range(first, number):
            rows = np.arange(runs) * number + place
            s = s._replace(t=(place + 1) * outer.period)
            wrong = None if error is None else error[rows]
            s = keep_best(s, s.models[:, place], far[rows], off[rows], wrong, s.counts)
        return s._replace(t=last)

    def describe(s: State) -> list[dict[str, Any]]:
        if not solving:
            return [coarse for _ in s.params]
        bound = is_at_bound(notion, s.lam, s.counts)
        idle = ignores_weight(s.seen, notion.guess_slope(s.counts))
        if solver.by_sums:  # nobody drifts: such a gap lies with the features
            idle = np.zeros_like(idle)
        return [
            {**facts, **judged, "at_bound": _groups_of(stuck), "idle": _groups_of(still), **coarse}
            for facts, judged, stuck, still in zip(
                describe_choice(s), describe_error(s), bound, idle, strict=True
            )
        ]

    algorithm = global_model(
        "fedfb",
        engine,
        (count, fit.task, measure.task) if joint is None else (count, joint),
        State,
        setup,
        round,
    )
    if not solving:
        return algorithm._replace(describe=describe) if coarse else algorithm
    return algorithm._replace(
        predict=lambda s, _, examples: predict_globally(engine, pick_model(s), examples),
        describe=describe,
        finish=None if measured_by_all else finish,
    )


def _groups_of(parts: Bool[Array, "*l"]) -> list[int]:
    """Return the groups (or clients) of which some part of lambda is marked."""
    return np.flatnonzero(parts.reshape(-1, parts.shape[-1]).any(axis=0)).tolist()


def signal_exchange(engine: Engine, notion: Notion, outer: Outer) -> SignalExchange:
    """Return the exchange of the signal: a sum if the notion allows it, quantised if wanted."""
    if outer.timing == "local" and outer.alpha is None:
        raise ConfigError(
            "signals of the clients' own trained models (--timing local) belong to no model that "
            "could be chosen. Use --timing post, or the step rule (--outer step)."
        )
    if notion.reduce == "gather":
        if outer.timing != "post":
            raise ConfigError(
                f"client parity takes each client's loss in an exchange of its own, so that models "
                f"stay in the sum; timing {outer.timing!r} would mix them. Use --timing post."
            )
        return single_signals(engine, notion, outer.surrogate, _quantiser(notion, outer))
    if outer.everyone and outer.private:
        return cell_signal(engine, notion, outer.surrogate)
    if outer.everyone:
        quantiser = _quantiser(notion, outer)
        # Codes are for those who send as few bits as possible.
        judging = outer.alpha is None and quantiser is None
        return summed_signal(engine, notion, outer.surrogate, quantiser, judging)
    if outer.bits:
        raise ConfigError(
            "quantised signals need every client in every round: a ratio of two sums cannot be "
            "read off codes of one. Leave out --bits, or use --participation 1 and no --dropout."
        )
    return ratio_signal(engine, notion, outer.surrogate, judging=outer.alpha is None)


def _quantiser(notion: Notion, outer: Outer) -> Quantiser | None:
    if outer.bits is None:
        return None
    bits = bits_per_value(outer.bits, notion.values, outer.bits_mode)
    needed = fewest_bits(*notion.reach)
    # A user who sets the bits of each value knows their number, and gets a note in the report.
    if outer.bits_mode == "per_round" and bits < needed:
        raise ConfigError(
            f"{outer.bits} bits a round leave {bits} for each of {notion.values} values, in which "
            f"gaps of groups vanish: the model may end less fair than FedAvg's. Give at least "
            f"--bits {needed * notion.values}, or count them per value (--bits-mode per_value)."
        )
    return Quantiser(bits, *notion.reach, outer.rounding)


def _too_coarse(notion: Notion, outer: Outer) -> dict[str, Any]:
    """Return the facts for a report on codes with too few bits; otherwise an empty record."""
    quantiser = _quantiser(notion, outer)
    if quantiser is None or quantiser.step <= COARSEST:
        return {}
    needed = fewest_bits(quantiser.low, quantiser.high)
    return {"coarse": {"bits": quantiser.bits, "step": quantiser.step, "needed": needed}}


def from_settings(problem: Problem, outer_rule: OuterRule | None = None) -> Algorithm:
    """Return FedFB for a problem: its settings choose the outer rule and the signal.

    Args:
        problem: gives engine, solver, notion, knobs and settings.
        outer_rule: how weights are found, where that is not the user's choice.
    """
    options, notion = problem.options, problem.notion
    rule = outer_rule or options.outer
    outer = Outer(
        alpha=None if rule == "solve" else problem.knobs["alpha"],
        surrogate=options.signal_loss or _usual_surrogate(notion, rule),
        normalise="l2" if rule == "paper" else options.normalise,
        decay=options.decay,
        timing=options.timing,
        period=options.period,
        bits=options.bits,
        bits_mode=options.bits_mode,
        rounding=options.rounding,
        everyone=options.participation == 1 and not options.dropout,
        target=problem.knobs["target"] if rule == "solve" else 0.0,
        private=options.privacy_epsilon is not None,
    )
    if rule == "solve":
        notion = symmetric(notion)
        if notion.reduce == "gather" and _sums_suffice(outer):
            from fedfb.algorithms.fedfb.search import fedfb_by_sums  # imported here: rarely needed

            return fedfb_by_sums(
                problem.engine,
                problem.solver,
                outer.surrogate,
                outer.period,
                outer.target,
                notion.minimum,
            )
    return fedfb(problem.engine, problem.solver, notion, outer, options.scaling)


def _sums_suffice(outer: Outer) -> bool:
    """Return True if sums of the clients' losses suffice; codes of few bits are read singly."""
    return outer.timing == "post" and not outer.bits


def _usual_surrogate(notion: Notion, rule: OuterRule | None) -> Surrogate:
    """Return the default loss of the signal; in the paper it is the cross-entropy.

    A step of fixed size needs the smooth :math:`|y-p|`. The search uses the decisions, whose gap is
    the reported disparity.
    """
    if notion.name == "client_parity" or rule == "paper":
        return "ce"
    return "zero_one" if rule == "solve" else "prob"


_ALPHA = Knob(
    default=0.5,
    grid=(0.001, 0.05, 0.08, 0.1, 0.2, 0.5, 1.0, 2.0),
    help="step of the fairness weights",
    for_clients=(2.0, (0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0)),
)

TARGET = Knob(
    default=0.0,
    grid=(0.0,),
    help="the disparity to train to",
    high=1.0,
)

SIGNAL = {"signal_loss": (), "timing": (), "period": (), "bits": ()}
"""The settings of the signal that every outer rule reads."""

METHOD = Method(
    name="fedfb",
    summary="FairBatch across clients: weights moved by summed signals",
    paper="Zeng, Chen, Lee 2021",
    make=from_settings,
    knobs={"alpha": _ALPHA, "target": TARGET},
    notions=ALL_NOTIONS,
    outer_rules=("solve", "step", "paper"),
    reads={
        **TRAINING,
        **SIGNAL,
        "scaling": (),
        "solver": (),
        "normalise": ("step",),
        "decay": ("step", "paper"),
        "reference": ("step", "paper"),
    },
)

CFL = METHOD._replace(
    name="cfl",
    summary="the same rule on pooled rows: the limit without privacy",
    paper="Roh et al. 2021 (FairBatch)",
    pooled=METHOD.variants,
)
