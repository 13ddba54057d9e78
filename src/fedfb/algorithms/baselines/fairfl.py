"""FairFL-style participation, after Zhang, Kou, Wang: FairFL (IEEE BigData 2020).

Clients learn by reinforcement whether to take part in a round. The reward is high if all groups
have the same F1.
"""

from typing import NamedTuple

import numpy as np

from fedfb.algorithms.method import Knob, Method, Problem
from fedfb.algorithms.tasks import (
    average,
    confusion_task,
    equal_weights,
    global_model,
    make_task,
    weigh_model,
)
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

BASELINE_DECAY = 0.9
"""The weight of the old baseline when a new reward arrives."""

OWN_OBSERVATIONS = 4
"""Number of observations besides the group shares: size, label rate, loss, previous action."""


class State(NamedTuple):
    """The common model, the last reward less its moving average, this average, rows, rounds."""

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

    Client i observes :math:`o_i=` (group shares, size share, label rate, its mean loss, its
    previous action) and takes part with probability :math:`\pi_i=\sigma(\theta_i\cdot o_i)`. The
    server averages the models of the participants. From the summed confusion table at the new
    model,

    .. math:: F_a=\frac{2TP_a}{2TP_a+FP_a+FN_a},\quad
              DI_a=F_a-\operatorname{mean}_{b\ne a}F_b,\quad
              R=\operatorname{mean}_a F_a-\beta\max_a|DI_a|

    and with the baseline :math:`b\leftarrow .9b+.1R` (at first the first reward) every client moves
    its own policy, :math:`\theta_i\leftarrow\theta_i+\eta_\pi(R-b)(u_i-\pi_i)o_i`.

    :math:`F_a=0` if nothing is positive. Groups with fewer rows than ``minimum`` are left out, and
    a single group has :math:`DI=0`. If no client wants to take part, all do: a choice of the most
    willing client would show the server single :math:`\pi_i`. Clients that stay away send zeros of
    weight 0, so the server needs only sums. One of the sums is the number of participants.

    Args:
        engine: does the arithmetic.
        solver: local training.
        groups: number of groups.
        beta: weight of the discrimination index, one value per run.
        eta_pi: step of the policies, one value per run.
        start: policies start at :math:`\pi_i=\sigma(\texttt{start})`.
        minimum: smallest number of rows of a compared group.
    """
    count, choose, fit = _count_task(), _choose_task(engine, eta_pi), _fit_task(engine, solver)
    measure = confusion_task(engine)._replace(name="measure")

    def memory(params: Float[Array, "r p"]) -> Arrays:
        runs = len(params)
        theta = np.zeros((runs, groups + OWN_OBSERVATIONS))
        theta[:, :groups] = start  # group shares sum to 1: start is the logit of taking part
        nothing = np.zeros((runs, groups + OWN_OBSERVATIONS))
        return {"theta": theta, "score": nothing, "action": np.zeros(runs), "t": np.asarray(0)}

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        nothing = np.zeros(len(params))
        return State(params, nothing, nothing, int(ask(count, {})["rows"]), 0)

    def round(s: State, ask: Ask) -> tuple[State, Info]:
        t = s.t + 1
        broadcast = {"rows": np.asarray(s.rows), "surprise": s.surprise, "t": np.asarray(t)}
        willing = ask(choose, {"params": s.params, **broadcast})["action"]
        total = ask(fit, {"params": s.params, "everyone": willing == 0})
        params = average(total, s.params)
        index, reward = reward_of(ask(measure, {"params": params})["confusion"], beta, minimum)
        baseline = reward if t == 1 else s.baseline
        state = State(
            params,
            reward - baseline,
            BASELINE_DECAY * baseline + (1 - BASELINE_DECAY) * reward,
            s.rows,
            t,
        )
        return state, Info(signal=index, lam=total["action"][:, None])

    return global_model(
        "fairfl", engine, (count, choose, fit, measure), State, setup, round, memory
    )


def reward_of(
    confusion: Float[Array, "r 2 2 a"], beta: Float[Array, " r"], minimum: int = 1
) -> tuple[Float[Array, "r a"], Float[Array, " r"]]:
    """Return each group's discrimination index (0 if it has too few rows) and the reward.

    Args:
        confusion: numbers of rows by run, label, decision and group.
        beta: weight of the largest index, one value per run.
        minimum: smallest number of rows of a compared group.

    >>> confusion = np.array([[[[1.0, 2.0], [1.0, 0.0]], [[1.0, 2.0], [1.0, 0.0]]]])
    >>> reward_of(confusion, beta=np.array([1.0]))  # F1 of 1/2 and, nothing found, 0
    (array([[ 0.5, -0.5]]), array([-0.25]))
    """
    hits, mistakes = 2 * confusion[:, 1, 1], confusion[:, 0, 1] + confusion[:, 1, 0]
    f1 = ratio(hits, hits + mistakes, empty=0.0)
    compared = enough(confusion.sum(axis=(1, 2)), minimum)
    number = compared.sum(axis=1, keepdims=True)
    total = np.sum(f1 * compared, axis=1, keepdims=True)
    other_mean = ratio(total - f1 * compared, number - 1, empty=0.0)
    index = np.where(compared & (number > 1), f1 - other_mean, 0.0)
    mean = ratio(total, number, empty=0.0)[:, 0]
    return index, mean - beta * np.abs(index).max(axis=1)


def observe(
    engine: Engine, params: Float[Array, "r p"], data: ClientData, rows: int, action: Array
) -> Float[Array, "r o"]:
    """Return the observations of a client: group shares, and OWN_OBSERVATIONS further values.

    Args:
        engine: computes the loss.
        params: the common model.
        data: the client's rows.
        rows: rows of all clients.
        action: the client's previous action, by run.
    """
    counts, n = cell_counts(data), len(data.y)
    loss = engine.loss_sums(params, data, "ce").sum(axis=(1, 2)) / n
    facts = np.concatenate([counts.sum(axis=0) / n, [n / rows, counts[1].sum() / n]])
    return np.column_stack([np.tile(facts, (len(params), 1)), loss, action])


def _choose_task(engine: Engine, eta_pi: Float[Array, " r"]) -> ClientTask:
    """Ask whether a client takes part. Before that, the client learns from the last reward."""

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        t = int(broadcast["t"])
        # A client that was not in the last round did not contribute to its reward.
        gain = eta_pi * broadcast["surprise"] * (int(memory["t"]) == t - 1)
        theta = memory["theta"] + gain[:, None] * memory["score"]
        rows, params = int(broadcast["rows"]), broadcast["params"]
        observation = observe(engine, params, data, rows, memory["action"])
        chance = sigmoid(np.sum(theta * observation, axis=1))
        # One draw for all runs of a grid: a run gives the same result alone and in a grid.
        action = (generator(key).random() < chance).astype(np.float64)
        record = {"theta": theta, "action": action, "t": np.asarray(t)}
        return {"action": action}, {**record, "score": (action - chance)[:, None] * observation}

    return ClientTask("choose", "sum", run)


def _fit_task(engine: Engine, solver: LocalSolver) -> ClientTask:
    """Ask for local training; clients that stay away have weight 0."""

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        params, everyone = broadcast["params"], broadcast["everyone"]
        action = np.where(everyone, 1.0, memory["action"])
        weight, trained = action * len(data.y), np.zeros_like(params)
        if action.any():
            trained = engine.train(params, data, equal_weights(broadcast, data), solver, key)
        upload = {**weigh_model(trained, weight), "action": action}
        return upload, {**memory, "action": action}

    return ClientTask("fit", "sum", run)


def _count_task() -> ClientTask:
    return make_task("count", "sum", lambda _, data: {"rows": np.asarray(len(data.y))})


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
