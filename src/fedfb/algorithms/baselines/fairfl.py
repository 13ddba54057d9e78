"""FairFL-style participation, after Zhang, Kou, Wang: FairFL (IEEE BigData 2020).

Clients learn by reinforcement whether to take part in a round; the team is rewarded for groups with
the same F1.
"""

from typing import NamedTuple

import numpy as np

from fedfb.algorithms.method import Knob, Method, Problem
from fedfb.algorithms.tasks import average, confusion_task, equal_weights, global_model
from fedfb.core import (
    Algorithm,
    Arrays,
    Ask,
    ClientData,
    ClientTask,
    Info,
    Key,
    LocalSolver,
    generator,
)
from fedfb.engine import Engine, cell_counts, sigmoid
from fedfb.errors import ConfigError
from fedfb.notions import DemographicParity, EqualOpportunity
from fedfb.notions.base import ratio
from fedfb.notions.values import enough
from fedfb.shapes import Array, Float

KEPT = 0.9
"""How much of the baseline stays when a reward comes in."""

OWN = 4
"""Observations beside the group shares: size, label rate, loss, previous action."""


class State(NamedTuple):
    """The common model, the last reward less its moving average, that average, rows, rounds."""

    params: Float[Array, "r p"]
    surprise: Float[Array, " r"]
    baseline: Float[Array, " r"]
    rows: int
    t: int


def fairfl(
    engine: Engine,
    solver: LocalSolver,
    groups: int,
    beta: Float[Array, " r"],
    eta_pi: Float[Array, " r"],
    start: float = 0.0,
    minimum: int = 1,
) -> Algorithm:
    r"""Return FairFL-style training. After the abstract of FairFL: a reconstruction.

    Client i sees :math:`o_i=` (group shares, size share, label rate, its mean loss, its previous
    action) and takes part with probability :math:`\pi_i=\sigma(\theta_i\cdot o_i)`; the server
    averages the models of those who do. From the summed confusion table at the new model,

    .. math:: F_a=\frac{2TP_a}{2TP_a+FP_a+FN_a},\quad
              DI_a=F_a-\operatorname{mean}_{b\ne a}F_b,\quad
              R=\operatorname{mean}_a F_a-\beta\max_a|DI_a|

    and with the baseline :math:`b\leftarrow .9b+.1R` (at first the first reward) every client moves
    its own policy, :math:`\theta_i\leftarrow\theta_i+\eta_\pi(R-b)(u_i-\pi_i)o_i`.

    :math:`F_a=0` where nothing is positive; groups of fewer rows than ``minimum`` are left out,
    and a single one has :math:`DI=0`. Policies begin at :math:`\pi_i=\sigma(\texttt{start})`.
    Should nobody want to take part, all do: to find the most willing would show the server single
    :math:`\pi_i`. Those who stay away send zeros of weight 0, so the server needs only sums,
    one of them the number of participants.
    """
    count, choose, fit = _count_task(), _choose_task(engine, eta_pi), _fit_task(engine, solver)
    measure = confusion_task(engine)._replace(name="measure")

    def memory(params: Float[Array, "r p"]) -> Arrays:
        runs = len(params)
        theta = np.zeros((runs, groups + OWN))
        theta[:, :groups] = start  # the shares sum to 1: this is the logit of taking part
        nothing = np.zeros((runs, groups + OWN))
        return {"theta": theta, "score": nothing, "action": np.zeros(runs), "t": np.asarray(0)}

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        nothing = np.zeros(len(params))
        return State(params, nothing, nothing, int(ask(count, {})["rows"]), 0)

    def round(s: State, ask: Ask) -> tuple[State, Info]:
        t = s.t + 1
        told = {"rows": np.asarray(s.rows), "surprise": s.surprise, "t": np.asarray(t)}
        willing = ask(choose, {"params": s.params, **told})["action"]
        total = ask(fit, {"params": s.params, "everyone": willing == 0})
        params = average(total, s.params)
        index, reward = reward_of(ask(measure, {"params": params})["confusion"], beta, minimum)
        baseline = reward if t == 1 else s.baseline
        state = State(params, reward - baseline, KEPT * baseline + (1 - KEPT) * reward, s.rows, t)
        return state, Info(signal=index, lam=total["action"][:, None])

    return global_model(
        "fairfl", engine, (count, choose, fit, measure), State, setup, round, memory
    )


def reward_of(
    confusion: Float[Array, "r 2 2 a"], beta: Float[Array, " r"], minimum: int = 1
) -> tuple[Float[Array, "r a"], Float[Array, " r"]]:
    """Return each group's discrimination index (0 if it has too few rows) and the team's reward.

    >>> confusion = np.array([[[[1.0, 2.0], [1.0, 0.0]], [[1.0, 2.0], [1.0, 0.0]]]])
    >>> reward_of(confusion, beta=np.array([1.0]))  # F1 of 1/2 and, nothing found, 0
    (array([[ 0.5, -0.5]]), array([-0.25]))
    """
    hits, mistakes = 2 * confusion[:, 1, 1], confusion[:, 0, 1] + confusion[:, 1, 0]
    f1 = ratio(hits, hits + mistakes, empty=0.0)
    here = enough(confusion.sum(axis=(1, 2)), minimum)
    number = here.sum(axis=1, keepdims=True)
    total = np.sum(f1 * here, axis=1, keepdims=True)
    others = ratio(total - f1 * here, number - 1, empty=0.0)
    index = np.where(here & (number > 1), f1 - others, 0.0)
    mean = ratio(total, number, empty=0.0)[:, 0]
    return index, mean - beta * np.abs(index).max(axis=1)


def observe(
    engine: Engine, params: Float[Array, "r p"], data: ClientData, rows: int, action: Array
) -> Float[Array, "r o"]:
    """Return what a client knows when it decides: group shares and the four of its own."""
    counts, n = cell_counts(data), len(data.y)
    loss = engine.loss_sums(params, data, "ce").sum(axis=(1, 2)) / n
    known = np.concatenate([counts.sum(axis=0) / n, [n / rows, counts[1].sum() / n]])
    return np.column_stack([np.tile(known, (len(params), 1)), loss, action])


def _choose_task(engine: Engine, eta_pi: Float[Array, " r"]) -> ClientTask:
    """Ask who wants to take part; before that, every client learns from the last reward."""

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        t = int(broadcast["t"])
        # A client that was not asked in the last round had no part in its reward.
        gain = eta_pi * broadcast["surprise"] * (int(memory["t"]) == t - 1)
        theta = memory["theta"] + gain[:, None] * memory["score"]
        rows, params = int(broadcast["rows"]), broadcast["params"]
        seen = observe(engine, params, data, rows, memory["action"])
        chance = sigmoid(np.sum(theta * seen, axis=1))
        # One draw serves all runs of a grid, so that a run is the same alone and among others.
        action = (generator(key).random() < chance).astype(np.float64)
        kept = {"theta": theta, "action": action, "t": np.asarray(t)}
        return {"action": action}, {**kept, "score": (action - chance)[:, None] * seen}

    return ClientTask("choose", "sum", run)


def _fit_task(engine: Engine, solver: LocalSolver) -> ClientTask:
    """Ask for local training; those who stay away answer with weight 0."""

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        params, everyone = broadcast["params"], broadcast["everyone"]
        action = np.where(everyone, 1.0, memory["action"])
        weight, trained = action * len(data.y), np.zeros_like(params)
        if action.any():
            trained = engine.train(params, data, equal_weights(broadcast, data), solver, key)
        upload = {"weighted": trained * weight[:, None], "weight": weight, "action": action}
        return upload, {**memory, "action": action}

    return ClientTask("fit", "sum", run)


def _count_task() -> ClientTask:
    def run(_: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        return {"rows": np.asarray(len(data.y))}, memory

    return ClientTask("count", "sum", run)


def _make(problem: Problem) -> Algorithm:
    match problem.notion:
        case DemographicParity(groups=groups) | EqualOpportunity(groups=groups):
            beta, eta_pi = problem.knobs["beta"], problem.knobs["eta_pi"]
            minimum = problem.notion.minimum
            return fairfl(problem.engine, problem.solver, groups, beta, eta_pi, minimum=minimum)
        case other:
            raise ConfigError(
                f"fairfl rewards equal F1 of groups, which is nearest to demographic parity and "
                f"equal opportunity, not to {other.name!r}. Choose --notion dp or --notion eo."
            )


METHOD = Method(
    name="fairfl",
    summary="FairFL-style: clients learn whether to take part, rewarded for equal F1 of groups",
    paper="Zhang, Kou, Wang 2020",
    make=_make,
    knobs={
        "beta": Knob(1.0, (0.5, 1.0, 2.0, 5.0), "weight of the discrimination index"),
        "eta_pi": Knob(1.0, (0.1, 1.0, 10.0), "step of the participation policies"),
    },
    notions=("demographic_parity", "equal_opportunity"),
    rounds=30,
    reconstruction=True,
    additive=False,  # a client decides as a whole
)
