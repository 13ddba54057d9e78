"""FedFB for client parity: weights without a step size, from sums alone.

The search of :mod:`fedfb.algorithms.fedfb.root_search` fits a line to every client. Each client
can fit its own line. The level at which all lines meet follows from sums.
"""

from typing import Any, NamedTuple

import numpy as np

from fedfb.algorithms.descent import gradient_upload
from fedfb.algorithms.fedfb.outer import describe_choice, keep_nearer, pick_model
from fedfb.algorithms.fedfb.root_search import (
    FAR_LEVEL,
    FREE,
    add_round,
    empty_record,
    limit_shifts,
    line_effect,
    lines,
)
from fedfb.algorithms.newton import Fitted, curvature_upload, fit_with, start_of
from fedfb.algorithms.tasks import (
    equal_weights,
    global_model,
    predict_globally,
    weigh_model,
)
from fedfb.core import Algorithm, Arrays, Ask, ClientData, ClientTask, Info, Key, LocalSolver
from fedfb.engine import Engine
from fedfb.notions import Surrogate
from fedfb.notions.base import ratio
from fedfb.notions.client_parity import LOSS_SLOPE
from fedfb.shapes import Array, Float, Int

LEVELS, GRIDS = 65, 3
"""Clients upload their weights at 65 levels, then at 65 levels between two of these, and once more.
The last levels differ by :math:`20/64^3`, which changes a shift by at most .004 (at the smallest
slope)."""

MEASURE = "the root mean square gap of the clients' losses, which follows from sums"
"""What a target bounds, in the words of a report."""

GUESS, NEVER = np.asarray(LOSS_SLOPE), np.asarray(0)


class State(NamedTuple):
    """The common model, the number of rounds, and the model of the round nearest to parity.

    ``level`` is where the lines of the participants of the last search meet. ``part`` is the part
    of every gap that the weights shall remove. The clients keep shifts and lines.
    """

    params: Float[Array, "r p"]
    t: int
    level: Float[Array, " r"]
    part: Float[Array, " r"]
    best: Float[Array, "r p"]
    best_round: Int[Array, " r"]
    distance: Float[Array, " r"]
    off_target: Float[Array, " r"]
    past: Float[Array, "r q"]


def fedfb_by_sums(
    engine: Engine,
    solver: LocalSolver,
    surrogate: Surrogate = "ce",
    period: int = 1,
    target: Float[Array, " r"] | float = 0.0,
    minimum: int = 1,
) -> Algorithm:
    r"""Return FedFB for client parity with solved weights, for which the server needs only sums.

    Client i has the weight :math:`n_i\omega_i` in the average, :math:`\omega_i=e^{\theta_i}`. It
    never sends its shift :math:`\theta_i` and its line
    :math:`L_i-\bar L\approx b_i-s_i\theta_i`. Every ``period`` rounds it adds to two sums,

    .. math:: \bar L=\frac1n\sum_in_iL_i,\qquad \bar v=-\frac1n\sum_in_is_i\theta_i

    takes :math:`L_i-\bar L+\bar v` as the next value of its line, and uploads its weight for many
    levels c at once, with the shift :math:`\theta_i(c)=(b_i-c)/s_i` that reaches the level. The
    server takes the c that keeps the sum of weights,
    :math:`\sum_in_i\omega(\theta_i(c))=\sum_in_i`.

    Up to the grid's width, the search is that of :func:`fedfb.algorithms.fedfb.fedfb.fedfb`. One
    thing differs: the ``target`` bounds, and the round is chosen by, the root mean square of the
    gaps,

    .. math:: D=\sqrt{\tfrac1n\sum_in_i(L_i-\bar L)^2}

    which follows from sums, where the largest gap would need every loss. With a target
    :math:`\tau` clients add :math:`n_ib_i` and :math:`n_ib_i^2` to two more sums, from which the
    root mean square :math:`B` of the lines' gaps follows, and all gaps shrink in the same
    proportion: :math:`\theta_i(c)=(\rho b_i-c)/s_i` with the part
    :math:`\rho=\max(0,1-\tau/B)`. Where the part is 0, at a target of 1 (FREE) always, every
    weight is 1.

    Args:
        engine: does the arithmetic.
        solver: local training.
        surrogate: loss that is compared.
        period: rounds between two searches.
        target: largest root mean square gap, one value per run.
        minimum: a client with fewer rows trains with weight 1 and adds 0 to every other sum: the
            mean loss of a few rows would decide the weights of all clients.
    """
    target = np.asarray(target, dtype=np.float64)
    free = target >= FREE
    aimed = bool(np.any((target > 0) & ~free))

    def compared_rows(data: ClientData) -> int:
        return len(data.y) if len(data.y) >= minimum else 0

    def apply_shift(broadcast: Arrays, memory: Arrays) -> Arrays:
        """Return the memory after the last search, if the client took part in it."""
        if memory["searched"] != broadcast["searched"] or not memory["searched"]:
            return memory
        record = memory["next"]
        theta = client_shifts(record, memory["theta"], broadcast["part"], broadcast["level"])
        return {**memory, "theta": theta, "seen": record, "searched": NEVER}

    def train(
        broadcast: Arrays, data: ClientData, memory: Arrays, key: Key
    ) -> tuple[Arrays, Arrays]:
        memory = apply_shift(broadcast, memory)
        weights = equal_weights(broadcast, data)
        trained = engine.train(broadcast["params"], data, weights, solver, key)
        weight = np.exp(memory["theta"]) * len(data.y)
        return weigh_model(trained, weight), memory

    def shifted_weights(
        broadcast: Arrays, data: ClientData, memory: Arrays
    ) -> tuple[Arrays, Float[Array, "r 2 a"]]:
        # The first exchange of a fit is for all runs: shifts move then, and not again.
        memory = apply_shift(broadcast, memory)
        omega = np.exp(memory["theta"])[broadcast["run"], None, None]
        return memory, omega * equal_weights(broadcast, data)

    def upload_curvature(
        broadcast: Arrays, data: ClientData, memory: Arrays, key: Key
    ) -> tuple[Arrays, Arrays]:
        memory, weights = shifted_weights(broadcast, data, memory)
        return curvature_upload(engine, broadcast["params"], data, weights), memory

    def upload_gradient(
        broadcast: Arrays, data: ClientData, memory: Arrays, key: Key
    ) -> tuple[Arrays, Arrays]:
        memory, weights = shifted_weights(broadcast, data, memory)
        return gradient_upload(engine, broadcast, data, weights, key), memory

    def upload_loss(
        broadcast: Arrays, data: ClientData, memory: Arrays, key: Key
    ) -> tuple[Arrays, Arrays]:
        loss = engine.loss_sums(broadcast["params"], data, surrogate).sum(axis=(1, 2))
        loss, rows = loss / len(data.y), compared_rows(data)
        upload = {
            "rows": np.asarray(rows),
            "loss": rows * loss,
            "square": rows * loss**2,
            "by_line": rows * line_effect(memory["seen"], memory["theta"], GUESS),
        }
        return upload, {**memory, "loss": loss, "measured": broadcast["round"]}

    def add_measurement(broadcast: Arrays, memory: Arrays) -> Float[Array, "r k"]:
        """Return the client's record with this round."""
        value = memory["loss"] - broadcast["mean_loss"] + broadcast["mean_by_line"]
        measured = np.asarray(memory["measured"] == broadcast["round"])
        return add_round(memory["seen"], memory["theta"], value, GUESS, measured)

    def upload_line(
        broadcast: Arrays, data: ClientData, memory: Arrays, key: Key
    ) -> tuple[Arrays, Arrays]:
        rows, gap = compared_rows(data), lines(add_measurement(broadcast, memory), GUESS)[0]
        return {"rows": np.asarray(rows), "gap": rows * gap, "square": rows * gap**2}, memory

    def upload_weights(
        broadcast: Arrays, data: ClientData, memory: Arrays, key: Key
    ) -> tuple[Arrays, Arrays]:
        record, theta, rows = (
            add_measurement(broadcast, memory),
            memory["theta"],
            compared_rows(data),
        )
        at_levels = client_shifts(
            record[..., None], theta[:, None], broadcast["part"][:, None], broadcast["levels"]
        )
        upload = {"weight": rows * np.exp(at_levels), "rows": np.asarray(rows)}
        searched = broadcast["round"] if rows else NEVER
        return upload, {**memory, "next": record, "searched": searched}

    fit = ClientTask("fit", "sum", train)
    if solver.newton:
        fit = ClientTask("newton", "sum", upload_curvature)
    if solver.lbfgs:
        fit = ClientTask("descend", "sum", upload_gradient)
    solve = fit_with(fit, solver, engine.model)
    measure = ClientTask("measure", "sum", upload_loss)
    line_up = ClientTask("line up", "sum", upload_line)
    search = ClientTask("search", "sum", upload_weights)
    tasks = (fit, measure, line_up, search) if aimed else (fit, measure, search)

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        nought, never = np.zeros(len(params)), np.zeros(len(params), dtype=int)
        far = nought + np.inf
        past = start_of(params, solver).past
        return State(params, 0, nought, nought, params, never, far, far, past)

    def round(s: State, ask: Ask) -> tuple[State, Info]:
        searched = np.asarray(s.t - s.t % period)
        place = {"level": s.level, "part": s.part, "run": np.arange(len(s.params))}
        fitted = solve(ask, Fitted(s.params, s.past), place, {"searched": searched})
        s = s._replace(params=fitted.params, past=fitted.past, t=s.t + 1)
        if s.t % period:
            return s, Info()
        total = ask(measure, {"params": s.params, "round": np.asarray(s.t)})
        # If no client has enough rows, nothing is compared, and every weight stays 1.
        gap = root_mean_square(total, "loss")
        means = {
            "mean_loss": ratio(total["loss"], total["rows"], empty=0.0),
            "mean_by_line": ratio(total["by_line"], total["rows"], empty=0.0),
            "round": np.asarray(s.t),
        }
        over = gap - target
        # A model with all weights 1 may be fairer than the target.
        far = np.where(free | ((s.part == 0) & (over < 0)), 0.0, np.abs(over))
        part = choose_part(means, ask)
        s = s._replace(part=part, level=find_level({**means, "part": part}, ask))
        # The first local training does not count: a model that has learnt nothing has no gap.
        if s.t > period or solver.by_sums:
            s = keep_nearer(s, s.params, far, far)
        return s, Info(signal=gap[:, None])

    def choose_part(broadcast: Arrays, ask: Ask) -> Float[Array, " r"]:
        """Return the part of every client's gap that its weight shall remove."""
        whole = np.where(free, 0.0, np.ones(len(broadcast["mean_loss"])))
        if not aimed:
            return whole
        gap = root_mean_square(ask(line_up, broadcast), "gap")
        return np.where(target > 0, whole * np.clip(1.0 - ratio(target, gap, 1.0), 0.0, 1.0), whole)

    def find_level(broadcast: Arrays, ask: Ask) -> Float[Array, " r"]:
        """Return the level that keeps the sum of weights, between two levels of a fine grid."""
        high = np.full(len(broadcast["mean_loss"]), FAR_LEVEL)
        low = -high
        for _ in range(GRIDS):
            levels = np.linspace(low, high, LEVELS, axis=1)
            total = ask(search, {**broadcast, "levels": levels})
            low, high, level = bracket(levels, ratio(total["weight"], total["rows"], empty=1.0))
        return level

    def memory(params: Float[Array, "r p"]) -> Arrays:
        nought = np.zeros(len(params))
        record = empty_record(nought)
        return {
            "theta": nought,
            "loss": nought,
            "seen": record,
            "next": record,
            "measured": NEVER,
            "searched": NEVER,
        }

    def describe(s: State) -> list[dict[str, Any]]:
        return [{**facts, "target_is_for": MEASURE} for facts in describe_choice(s)]

    algorithm = global_model("fedfb", engine, tasks, State, setup, round, memory)
    return algorithm._replace(
        predict=lambda s, _, examples: predict_globally(engine, pick_model(s), examples),
        describe=describe,
    )


def client_shifts(
    record: Float[Array, "r k *f"],
    theta: Float[Array, "r *f"],
    part: Float[Array, "r *f"],
    level: Float[Array, "r *g"],
) -> Float[Array, "r *g"]:
    """Return the shifts that remove a part of a client's gap, down to a level.

    Args:
        record: the client's record.
        theta: its shift.
        part: the part of the gap; 0 leaves every weight at 1, at any level.
        level: one or several levels.
    """
    guess = np.full(theta.shape[1:], LOSS_SLOPE)
    fall = part * lines(record, guess)[0] - level
    return np.where(part > 0, limit_shifts(record, theta, fall, guess), 0.0)


def root_mean_square(total: Arrays, name: str) -> Float[Array, " r"]:
    """Return the root mean square deviation of a value from its mean, by sums over rows.

    >>> total = {"rows": np.array(4), "loss": np.array([4.0]), "square": np.array([20.0])}
    >>> root_mean_square(total, "loss")
    array([2.])
    """
    mean, square = (ratio(total[part], total["rows"], empty=0.0) for part in (name, "square"))
    return np.sqrt(np.maximum(square - mean**2, 0.0))


def bracket(
    levels: Float[Array, "r k"], weight: Float[Array, "r k"]
) -> tuple[Float[Array, " r"], Float[Array, " r"], Float[Array, " r"]]:
    """Return the two levels between which a falling weight passes 1, and the level between them.

    Args:
        levels: ascending levels, by run.
        weight: mean weight at each level; falls with the level.

    >>> bracket(np.array([[0.0, 1.0, 2.0]]), np.array([[3.0, 2.0, 0.0]]))
    (array([1.]), array([2.]), array([1.5]))
    """
    first = np.clip(np.sum(weight > 1.0, axis=1) - 1, 0, levels.shape[1] - 2)
    run = np.arange(len(levels))
    low, high = levels[run, first], levels[run, first + 1]
    above, below = weight[run, first], weight[run, first + 1]
    part = np.where(above > below, (above - 1.0) / np.where(above > below, above - below, 1.0), 0.0)
    return low, high, low + np.clip(part, 0.0, 1.0) * (high - low)
