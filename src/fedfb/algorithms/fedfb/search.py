"""FedFB for client parity, its weights found without a step to choose and from sums alone.

The search of :mod:`fedfb.algorithms.fedfb.root_search` fits a line to every client. Each client can
do that for itself; the level at which all lines meet follows from sums.
"""

from typing import Any, NamedTuple

import numpy as np

from fedfb.algorithms.fedfb.outer import choice, chosen, take_nearer
from fedfb.algorithms.fedfb.root_search import (
    FAR_LEVEL,
    FREE,
    by_line,
    lines,
    look,
    nothing_seen,
    towards,
)
from fedfb.algorithms.tasks import average, equal_weights, global_model, predict_globally
from fedfb.core import Algorithm, Arrays, Ask, ClientData, ClientTask, Info, Key, LocalSolver
from fedfb.engine import Engine
from fedfb.notions import Surrogate
from fedfb.notions.base import ratio
from fedfb.notions.client_parity import LOSS_SLOPE
from fedfb.shapes import Array, Float, Int

LEVELS, GRIDS = 65, 3
"""At so many levels the clients say what they would weigh; then at as many between two of these,
and so on. The last two lie :math:`20/64^3` apart, which moves a shift by at most .004 (over the
least slope)."""

MEASURE = "the root mean square gap of the clients' losses, which follows from sums"
"""What a target is for, in the words of a report."""

GUESS, NEVER = np.asarray(LOSS_SLOPE), np.asarray(0)


class State(NamedTuple):
    """The common model, the number of rounds, and the model of the round nearest to parity.

    ``level`` is where the lines of those who took part in the last search meet, ``part`` the part
    of every gap that their weights are to take away. Shifts and lines are with the clients.
    """

    params: Float[Array, "r p"]
    t: int
    level: Float[Array, " r"]
    part: Float[Array, " r"]
    best: Float[Array, "r p"]
    best_round: Int[Array, " r"]
    distance: Float[Array, " r"]
    off_target: Float[Array, " r"]


def fedfb_by_sums(
    engine: Engine,
    solver: LocalSolver,
    surrogate: Surrogate = "ce",
    period: int = 1,
    target: Float[Array, " r"] | float = 0.0,
    minimum: int = 1,
) -> Algorithm:
    r"""Return FedFB for client parity with solved weights, for which the server needs only sums.

    Client i weighs :math:`n_i\omega_i` in the average, :math:`\omega_i=e^{\theta_i}`, and keeps its
    shift :math:`\theta_i` and its line :math:`L_i-\bar L\approx b_i-s_i\theta_i` to itself. Every
    ``period`` rounds it adds to two sums,

    .. math:: \bar L=\frac1n\sum_in_iL_i,\qquad \bar v=-\frac1n\sum_in_is_i\theta_i

    sees :math:`L_i-\bar L+\bar v` as its line's next value, and says for many levels c at once what
    it would weigh with the shift that brings it there, :math:`\theta_i(c)=(b_i-c)/s_i`. The server
    takes the c that keeps the weights' sum, :math:`\sum_in_i\omega(\theta_i(c))=\sum_in_i`.

    The same search as FedFB's for any notion, :func:`fedfb.algorithms.fedfb.fedfb.fedfb`, up to the
    grid's fineness. One thing differs: the disparity that the ``target`` is for, and by which the
    round is chosen, is the root mean square of the gaps,

    .. math:: D=\sqrt{\tfrac1n\sum_in_i(L_i-\bar L)^2}

    which follows from sums, where the largest gap would need every loss. With a target
    :math:`\tau` clients add :math:`n_ib_i` and :math:`n_ib_i^2` to two more sums, from which the
    root mean square :math:`B` of the lines' gaps follows, and all gaps shrink in the same
    proportion: :math:`\theta_i(c)=(\rho b_i-c)/s_i` with the part
    :math:`\rho=\max(0,1-\tau/B)`. Where the part is 0, at a target of 1 (FREE) always, every
    weight is 1.

    A client with fewer rows than ``minimum`` trains with weight 1 and adds 0 to every other sum:
    the mean loss of a few rows would steer all others.
    """
    target = np.asarray(target, dtype=np.float64)
    free = target >= FREE
    aimed = bool(np.any((target > 0) & ~free))

    def compared_rows(data: ClientData) -> int:
        return len(data.y) if len(data.y) >= minimum else 0

    def moved(broadcast: Arrays, memory: Arrays) -> Arrays:
        """Return the memory after the last search, if the client took part in it."""
        if memory["searched"] != broadcast["searched"] or not memory["searched"]:
            return memory
        seen = memory["next"]
        theta = shifts(seen, memory["theta"], broadcast["part"], broadcast["level"])
        return {**memory, "theta": theta, "seen": seen, "searched": NEVER}

    def train(
        broadcast: Arrays, data: ClientData, memory: Arrays, key: Key
    ) -> tuple[Arrays, Arrays]:
        memory = moved(broadcast, memory)
        weights = equal_weights(broadcast, data)
        trained = engine.train(broadcast["params"], data, weights, solver, key)
        weight = np.exp(memory["theta"]) * len(data.y)
        return {"weighted": trained * weight[:, None], "weight": weight}, memory

    def tell_loss(
        broadcast: Arrays, data: ClientData, memory: Arrays, key: Key
    ) -> tuple[Arrays, Arrays]:
        loss = engine.loss_sums(broadcast["params"], data, surrogate).sum(axis=(1, 2))
        loss, rows = loss / len(data.y), compared_rows(data)
        upload = {
            "rows": np.asarray(rows),
            "loss": rows * loss,
            "square": rows * loss**2,
            "by_line": rows * by_line(memory["seen"], memory["theta"], GUESS),
        }
        return upload, {**memory, "loss": loss, "measured": broadcast["round"]}

    def updated(broadcast: Arrays, memory: Arrays) -> Float[Array, "r k"]:
        """Return what the client has seen, this round included."""
        value = memory["loss"] - broadcast["mean_loss"] + broadcast["mean_by_line"]
        here = np.asarray(memory["measured"] == broadcast["round"])
        return look(memory["seen"], memory["theta"], value, GUESS, here)

    def tell_line(
        broadcast: Arrays, data: ClientData, memory: Arrays, key: Key
    ) -> tuple[Arrays, Arrays]:
        rows, gap = compared_rows(data), lines(updated(broadcast, memory), GUESS)[0]
        return {"rows": np.asarray(rows), "gap": rows * gap, "square": rows * gap**2}, memory

    def tell_weights(
        broadcast: Arrays, data: ClientData, memory: Arrays, key: Key
    ) -> tuple[Arrays, Arrays]:
        seen, theta, rows = updated(broadcast, memory), memory["theta"], compared_rows(data)
        at_levels = shifts(
            seen[..., None], theta[:, None], broadcast["part"][:, None], broadcast["levels"]
        )
        upload = {"weight": rows * np.exp(at_levels), "rows": np.asarray(rows)}
        searched = broadcast["round"] if rows else NEVER
        return upload, {**memory, "next": seen, "searched": searched}

    fit = ClientTask("fit", "sum", train)
    measure = ClientTask("measure", "sum", tell_loss)
    line_up = ClientTask("line up", "sum", tell_line)
    search = ClientTask("search", "sum", tell_weights)
    tasks = (fit, measure, line_up, search) if aimed else (fit, measure, search)

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        nought, never = np.zeros(len(params)), np.zeros(len(params), dtype=int)
        far = nought + np.inf
        return State(params, 0, nought, nought, params, never, far, far)

    def round(s: State, ask: Ask) -> tuple[State, Info]:
        searched = np.asarray(s.t - s.t % period)
        place = {"level": s.level, "part": s.part, "searched": searched}
        total = ask(fit, {"params": s.params, **place})
        s = s._replace(params=average(total, s.params), t=s.t + 1)
        if s.t % period:
            return s, Info()
        found = ask(measure, {"params": s.params, "round": np.asarray(s.t)})
        # Where no client has enough rows nothing is compared, and every weight stays 1.
        gap = root_mean_square(found, "loss")
        means = {
            "mean_loss": ratio(found["loss"], found["rows"], empty=0.0),
            "mean_by_line": ratio(found["by_line"], found["rows"], empty=0.0),
            "round": np.asarray(s.t),
        }
        over = gap - target
        # A model whose weights were 1 may be fairer than the target asks for.
        far = np.where(free | ((s.part == 0) & (over < 0)), 0.0, np.abs(over))
        part = part_to_take(means, ask)
        s = s._replace(part=part, level=meeting({**means, "part": part}, ask))
        return take_nearer(s, s.params, far, far, period), Info(signal=gap[:, None])

    def part_to_take(told: Arrays, ask: Ask) -> Float[Array, " r"]:
        """Return which part of every client's gap its weight is to take away."""
        whole = np.where(free, 0.0, np.ones(len(told["mean_loss"])))
        if not aimed:
            return whole
        gap = root_mean_square(ask(line_up, told), "gap")
        return np.where(target > 0, whole * np.clip(1.0 - ratio(target, gap, 1.0), 0.0, 1.0), whole)

    def meeting(told: Arrays, ask: Ask) -> Float[Array, " r"]:
        """Return the level that keeps the weights' sum, between two of a fine grid."""
        high = np.full(len(told["mean_loss"]), FAR_LEVEL)
        low = -high
        for _ in range(GRIDS):
            levels = np.linspace(low, high, LEVELS, axis=1)
            found = ask(search, {**told, "levels": levels})
            low, high, level = bracket(levels, ratio(found["weight"], found["rows"], empty=1.0))
        return level

    def memory(params: Float[Array, "r p"]) -> Arrays:
        nought = np.zeros(len(params))
        seen = nothing_seen(nought)
        return {
            "theta": nought,
            "loss": nought,
            "seen": seen,
            "next": seen,
            "measured": NEVER,
            "searched": NEVER,
        }

    def tell(s: State) -> list[dict[str, Any]]:
        return [{**one, "target_is_for": MEASURE} for one in choice(s)]

    algorithm = global_model("fedfb", engine, tasks, State, setup, round, memory)
    return algorithm._replace(
        predict=lambda s, _, examples: predict_globally(engine, chosen(s), examples), tell=tell
    )


def shifts(
    seen: Float[Array, "r k *f"],
    theta: Float[Array, "r *f"],
    part: Float[Array, "r *f"],
    level: Float[Array, "r *g"],
) -> Float[Array, "r *g"]:
    """Return the shifts that take this part of a client's gap away, down to a level.

    A part of 0 leaves every weight at 1, whatever the level: its sum is kept by itself.
    """
    guess = np.full(theta.shape[1:], LOSS_SLOPE)
    fall = part * lines(seen, guess)[0] - level
    return np.where(part > 0, towards(seen, theta, fall, guess), 0.0)


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
    """Return the two levels between which a falling weight passes 1, and where by their line.

    >>> bracket(np.array([[0.0, 1.0, 2.0]]), np.array([[3.0, 2.0, 0.0]]))
    (array([1.]), array([2.]), array([1.5]))
    """
    first = np.clip(np.sum(weight > 1.0, axis=1) - 1, 0, levels.shape[1] - 2)
    run = np.arange(len(levels))
    low, high = levels[run, first], levels[run, first + 1]
    above, below = weight[run, first], weight[run, first + 1]
    part = np.where(above > below, (above - 1.0) / np.where(above > below, above - below, 1.0), 0.0)
    return low, high, low + np.clip(part, 0.0, 1.0) * (high - low)
