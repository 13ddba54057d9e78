r"""Descent under bounds on gaps: of each group's mean of a differentiable statistic to that of all.

Zafar's covariance and the performance gaps of FPFL and FedFair are such gaps. Clients send sums
over their rows, with gradients and denominators. The server divides after the sum, so the gaps are
the pooled gaps of the participants.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fedfb.algorithms.baselines.server_step import descend
from fedfb.algorithms.method import DESCENT, Method
from fedfb.algorithms.tasks import global_model, make_task
from fedfb.core import Algorithm, Arrays, Ask, ClientData, ClientTask, Info, LocalSolver
from fedfb.engine import Engine, RowLoss, cell_counts
from fedfb.notions.base import ratio
from fedfb.notions.values import enough
from fedfb.shapes import Array, Bool, Float


class GapStatistic(NamedTuple):
    r"""The statistic of a row with label y: :math:`s_y\ell(z,y)+1[s_y=-1]`.

    ``signs`` are :math:`(s_0,s_1)`. Rows of a label with sign 0 are not compared. For
    :math:`\ell=|y-p|` the signs (1, -1) give p, and (0, 1) give the soft miss 1-p of a positive.
    """

    loss: RowLoss
    signs: tuple[int, int]


MEAN_LOGIT = GapStatistic("logit", (1, 1))
MISTAKE_OF_POSITIVES = GapStatistic("mistake", (0, 1))
SOFT_POSITIVE_RATE = GapStatistic("prob", (1, -1))
SOFT_MISS_RATE = GapStatistic("prob", (0, 1))
LOSS_OF_POSITIVES = GapStatistic("ce", (0, 1))


class GroupGaps(NamedTuple):
    r"""The gaps :math:`h_a-h`, their gradients and each group's share of the compared rows.

    A group is not ``present`` if the participants have too few rows of it. Its gap, gradient and
    share are then 0.
    """

    value: Float[Array, "r a"]
    gradient: Float[Array, "r a p"]
    share: Float[Array, "r a"]
    present: Bool[Array, "r a"]


def gaps_task(engine: Engine, statistic: GapStatistic) -> ClientTask:
    """Ask for sums: the gradient of the loss and, by group, the statistic and its gradient."""

    def measure(broadcast: Arrays, data: ClientData) -> Arrays:
        params = broadcast["params"]
        everyone = np.ones((len(params), 2, data.groups))
        upload = {
            "loss_gradient": engine.gradient(params, data, everyone, "ce"),
            "rows": np.full(len(params), float(len(data.y))),
        }
        return {**upload, **statistic_sums(engine, params, data, statistic)}

    return make_task("gradients and gaps", "sum", measure)


def statistic_sums(
    engine: Engine, params: Float[Array, "r p"], data: ClientData, statistic: GapStatistic
) -> Arrays:
    """Return the statistic, its gradient and the compared rows, summed by group.

    Args:
        engine: computes loss sums and gradients.
        params: the common model.
        data: the client's rows.
        statistic: what is summed.
    """
    signs, counts = np.array(statistic.signs, dtype=float), cell_counts(data)
    loss_sums = engine.loss_sums(params, data, statistic.loss)
    constant = np.sum((signs == -1)[:, None] * counts, axis=0)
    compared = np.sum((signs != 0)[:, None] * counts, axis=0)
    return {
        "sums": np.einsum("y,rya->ra", signs, loss_sums) + constant,
        "gradients": group_gradients(engine, params, data, statistic),
        "compared": np.repeat(compared[None].astype(float), len(params), axis=0),
    }


def group_gradients(
    engine: Engine,
    params: Float[Array, "r p"],
    data: ClientData,
    statistic: GapStatistic,
    row_weights: Float[Array, "r n"] | None = None,
) -> Float[Array, "r a p"]:
    """Return the gradient of the statistic, summed over the rows of each group.

    Args:
        engine: computes gradients by cell.
        params: the common model.
        data: the client's rows.
        statistic: whose gradient.
        row_weights: weights of the rows by run; None: every row has weight 1.
    """
    signs = np.array(statistic.signs, dtype=float)
    by_cell = engine.cell_gradients(params, data, statistic.loss, row_weights)
    return np.einsum("y,ryap->rap", signs, by_cell)


def mean_loss_gradient(total: Arrays) -> Float[Array, "r p"]:
    """Return the gradient of the participants' mean loss."""
    mean: Float[Array, "r p"] = total["loss_gradient"] / total["rows"][:, None]
    return mean


def measure_gaps(total: Arrays, minimum: int = 1) -> GroupGaps:
    """Return the gaps of the participants' rows from the sum of their uploads.

    Args:
        total: sum of the uploads of :func:`gaps_task`.
        minimum: a group with fewer compared rows is not present.

    >>> total = {"sums": np.array([[3.0, 1.0]]), "compared": np.array([[4.0, 4.0]])}
    >>> measure_gaps({**total, "gradients": np.zeros((1, 2, 1))}).value
    array([[ 0.25, -0.25]])
    """
    present = enough(total["compared"], minimum)
    sums, compared = (np.where(present, total[name], 0.0) for name in ("sums", "compared"))
    gradients = np.where(present[..., None], total["gradients"], 0.0)
    everyone = compared.sum(axis=1, keepdims=True)
    value = ratio(sums, compared, 0.0) - ratio(sums.sum(axis=1, keepdims=True), everyone, 0.0)
    slope = ratio(gradients, compared[..., None], 0.0) - ratio(
        gradients.sum(axis=1, keepdims=True), everyone[..., None], 0.0
    )
    return GroupGaps(
        np.where(present, value, 0.0),
        np.where(present[..., None], slope, 0.0),
        ratio(compared, everyone, 0.0),
        present,
    )


class Push(NamedTuple):
    """What a method makes of the gaps of one step.

    Attributes:
        gradient: of the constraints; the step adds that of the mean loss.
        changes: fields of the next state, such as its multipliers.
        info: what the round reports.
    """

    gradient: Float[Array, "r p"]
    changes: Mapping[str, Any]
    info: Info


def descend_on_gaps(
    name: str,
    engine: Engine,
    solver: LocalSolver,
    tasks: tuple[ClientTask, ...],
    state: type[Any],
    setup: Callable[[Float[Array, "r p"], Ask], Any],
    push: Callable[[Any, GroupGaps, Arrays], Push],
    minimum: int = 1,
    broadcast: Callable[[Any], Arrays] = lambda s: {},
) -> Algorithm:
    r"""Return an algorithm whose round is one step on the loss and on constraints of gaps.

    .. math:: w\leftarrow w-\eta\big(\nabla\bar L(w)+\text{push}\big)

    Args:
        name: of the algorithm.
        engine: scores rows.
        solver: learning rate and optimiser of the server's step.
        tasks: the last one asks for the sums of :func:`gaps_task`, once a round.
        state: a named tuple with ``params``, ``moments`` and ``t``, the number of steps.
        setup: as in :class:`fedfb.core.Algorithm`.
        push: the gradient of the constraints and the next multipliers, from the state before the
            step, the gaps of the participants, and the total behind the gaps.
        minimum: a group with fewer compared rows is not present.
        broadcast: what the server sends beside the model.
    """

    def round(s: Any, ask: Ask) -> tuple[Any, Info]:
        total = ask(tasks[-1], {"params": s.params, **broadcast(s)})
        gradient, changes, info = push(s, measure_gaps(total, minimum), total)
        params, moments = descend(
            s.params, mean_loss_gradient(total) + gradient, s.moments, solver, s.t + 1
        )
        return s._replace(params=params, moments=moments, t=s.t + 1, **changes), info

    return global_model(name, engine, tasks, state, setup, round)


gap_method = partial(
    Method,
    rounds=300,
    learning_rate=0.03,
    learning_rates=(0.01, 0.03, 0.1),
    reads=DESCENT,
)
"""Declare a method whose round is one such step: many steps, and a rate for exact gradients."""


def excess(value: Float[Array, "r a"], bound: Float[Array, " r"]) -> Float[Array, "r 2 a"]:
    """Return how far values are above the bound, and below minus the bound; negative within it.

    Args:
        value: by run and group.
        bound: one value per run, at least 0; infinity is no bound.

    >>> excess(np.array([[-0.3], [0.1]]), np.array([0.1, np.inf])).round(1).tolist()
    [[[-0.4], [0.2]], [[-999999999.9], [-1000000000.1]]]
    """
    # An infinite bound must give a finite excess: a weight of 0 would give 0 * inf otherwise.
    finite = np.minimum(bound, 1e9)[:, None]
    return np.stack([value - finite, -value - finite], axis=1)


def pull(
    pressure: Float[Array, "r a"], value: Float[Array, "r a"], gradient: Float[Array, "r a p"]
) -> Float[Array, "r p"]:
    r"""Return :math:`\sum_a\text{pressure}_a\,\nabla|\text{value}_a|`; ``gradient`` is of value."""
    return np.einsum("ra,rap->rp", pressure * np.sign(value), gradient)
