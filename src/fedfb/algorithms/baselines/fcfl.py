"""FCFL (Cui, Pan, Liang, Zhang, Wang, NeurIPS 2021): the worst client, fair on each client."""

from typing import NamedTuple

import numpy as np

from fedfb.algorithms.baselines.server_step import descend, no_moments
from fedfb.algorithms.method import Knob, Method, Problem
from fedfb.algorithms.tasks import global_model, make_task
from fedfb.core import Algorithm, Arrays, Ask, ClientData, ClientTask, Info, LocalSolver
from fedfb.engine import Engine, cell_counts
from fedfb.errors import ConfigError
from fedfb.notions import DemographicParity, EqualOpportunity
from fedfb.notions.base import ratio
from fedfb.shapes import Array, Float

FIRST_STAGE = 0.4
"""The share of the steps in stage 1, which lowers the worst loss. Stage 2 lowers all losses."""

WARMEST, COLDEST = 0.5, 1e-4
"""The first temperature, and the temperature below which cooling stops."""


class State(NamedTuple):
    """The common model, the temperatures of losses and disparities, and the steps done."""

    params: Float[Array, "r p"]
    temperature: Float[Array, "r 2"]
    t: int


def fcfl(
    engine: Engine,
    solver: LocalSolver,
    eps: Float[Array, " r"],
    labels: tuple[int, ...],
    first_stage: int,
) -> Algorithm:
    r"""Return FCFL for two groups: every client's own disparity at most epsilon.

    .. math:: D_i=\Big|\operatorname*{mean}_{a=1}\sigma(10z)-\operatorname*{mean}_{a=0}
              \sigma(10z)\Big|\ \text{ on client i's rows (of label 1 for equal opportunity)}

    Stage 1 lowers the worst loss while it keeps, or approaches, :math:`\max_iD_i\le\epsilon`:
    with :math:`d_l=\sum_iu_i\nabla F_i,\ u=\mathrm{softmax}(F/\delta_l)` and
    :math:`d_g=\sum_iv_i\nabla D_i,\ v=\mathrm{softmax}(D/\delta_g)` it goes along
    :math:`t\,d_l+(1-t)\,d_g` (:func:`share_of_loss`). A temperature above 1e-4 falls to a hundredth
    once :math:`0.1\lVert d\rVert\le\delta`. Stage 2 goes along :math:`b^\top G` that lowers the
    mean loss most while no client's loss, nor a violated disparity, rises (:func:`common_descent`).

    The server needs every client's loss, disparity and their gradients. A client without one of the
    groups has disparity 0. Descent is always plain: Adam would change the direction.

    Departs from the released code: every step uses all rows. An epsilon of 1 or more is never
    exceeded, and is no constraint (the code may still follow :math:`d_g`).

    Args:
        engine: does the arithmetic.
        solver: learning rate and weight decay of the server's step.
        eps: bound on each client's disparity, one value per run.
        labels: labels of the rows that are compared.
        first_stage: number of steps in stage 1.
    """
    local = _local_task(engine, labels)
    plain = solver._replace(optimiser="sgd")

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        return State(params, np.full((len(params), 2), WARMEST), 0)

    def round(s: State, ask: Ask) -> tuple[State, Info]:
        stack, t = ask(local, {"params": s.params}), s.t + 1
        void = (eps >= 1)[:, None]
        d_l = _soft_maximum(stack["loss"], stack["loss_gradient"], s.temperature[:, 0])
        d_g = _soft_maximum(stack["disparity"], stack["disparity_gradient"], s.temperature[:, 1])
        d_g = np.where(void, 0.0, d_g)
        worst, temperature = stack["disparity"].max(axis=0), s.temperature
        if t <= first_stage:
            share = share_of_loss(d_l, d_g, worst <= eps)[:, None]
            direction = share * d_l + (1 - share) * d_g
            temperature = cool(s.temperature, np.stack([d_l, d_g], axis=1))
        else:
            disparity_gradient = np.where((worst < eps)[:, None], 0.0, d_g)
            by_run = np.swapaxes(stack["loss_gradient"], 0, 1)
            direction = np.stack(
                [common_descent(g, k) for g, k in zip(by_run, disparity_gradient, strict=True)]
            )
        params, _ = descend(s.params, direction, no_moments(s.params), plain, t)
        return State(params, temperature, t), Info(signal=stack["disparity"].T, lam=temperature)

    return global_model("fcfl", engine, (local,), State, setup, round)


def share_of_loss(
    d_l: Float[Array, "r p"], d_g: Float[Array, "r p"], within_budget: Array
) -> Float[Array, " r"]:
    r"""Return t of the direction :math:`t\,d_l+(1-t)\,d_g`.

    Within the budget, t is 0 or 1, whichever lowers the loss faster. Otherwise t lowers the
    disparity fastest without a larger loss. If the gradients agree, :math:`d_l\cdot d_g\ge0`, it is
    the better of 0 and 1. If not, :math:`t=\frac{-d_l\cdot d_g}{\lVert d_l\rVert^2-d_l\cdot d_g}`,
    whose direction is orthogonal to :math:`d_l`.

    Args:
        d_l: gradient of the soft worst loss.
        d_g: gradient of the soft worst disparity.
        within_budget: runs whose worst disparity is at most epsilon.

    >>> share_of_loss(np.array([[1.0, 0.0]]), np.array([[-1.0, 1.0]]), np.array([False]))
    array([0.5])
    """
    inner = np.sum(d_l * d_g, axis=1)
    loss, gap = np.sum(d_l**2, axis=1), np.sum(d_g**2, axis=1)
    agreeing = np.where(within_budget, loss >= inner, inner > gap).astype(float)
    opposed = ratio(-inner, loss - inner, empty=1.0)
    return np.where(~within_budget & (inner < 0), opposed, agreeing)


def cool(
    temperature: Float[Array, "r 2"], directions: Float[Array, "r 2 p"]
) -> Float[Array, "r 2"]:
    """Return the temperatures after a step: a hundredth if the direction is short.

    Args:
        temperature: temperatures of losses and disparities, by run.
        directions: the gradients d_l and d_g, by run.
    """
    length = np.linalg.norm(directions, axis=2)
    cooling = (temperature > COLDEST) & (0.1 * length <= temperature)
    return np.where(cooling, 0.01 * temperature, temperature)


def common_descent(clients: Float[Array, "i p"], gap: Float[Array, " p"]) -> Float[Array, " p"]:
    r"""Return :math:`b^\top G` along which no objective rises and the mean loss falls fastest.

    .. math:: \max_{b\in\Delta}\,(b^\top G)\cdot\bar g\quad\text{s.t.}\quad
              (b^\top G)\cdot G_r\ge 0\ \text{ for every row } G_r

    The rows are the gradients of the clients and of the disparity. :math:`\bar g` is the mean of
    the clients' gradients. If the solver fails, the result is the shortest point of the convex
    hull, which is always feasible.

    Args:
        clients: gradients of the clients' losses.
        gap: gradient of the disparity; zeros if it is not violated.
    """
    from scipy.optimize import linprog  # imported here: scipy takes long to import

    rows = np.vstack([clients, gap])
    gram = rows @ rows.T
    scale = np.abs(gram).max()
    if scale == 0:
        return np.zeros_like(gap)
    gram = gram / scale
    solution = linprog(
        -gram[:, :-1].mean(axis=1),
        A_ub=-gram,
        b_ub=np.zeros(len(rows)),
        A_eq=np.ones((1, len(rows))),
        b_eq=[1.0],
        bounds=(0, 1),
        method="highs",
    )
    weights = solution.x if solution.success else find_shortest(rows / scale**0.5)
    combined: Float[Array, " p"] = weights @ rows
    return combined


def find_shortest(rows: Float[Array, "k p"]) -> Float[Array, " k"]:
    r"""Return the convex weights of the shortest vector in the hull of rows.

    With :math:`u=sb`, b convex, :math:`\min_{u\ge0}\lVert u^\top G\rVert^2+(\mathbf1^\top u-1)^2`
    has the value :math:`N/(1+N)` at the best s, with :math:`N=\lVert b^\top G\rVert^2`. Its
    minimiser is therefore that of the shortest vector, up to scale.

    >>> find_shortest(np.array([[1.0, 0.0], [0.0, 1.0]]))
    array([0.5, 0.5])
    """
    from scipy.optimize import nnls

    target = np.zeros(rows.shape[1] + 1)
    target[-1] = 1.0
    weights, _ = nnls(np.vstack([rows.T, np.ones(len(rows))]), target)
    convex: Float[Array, " k"] = weights / weights.sum()
    return convex


def _soft_maximum(
    values: Float[Array, "i r"], gradients: Float[Array, "i r p"], delta: Float[Array, " r"]
) -> Float[Array, "r p"]:
    """Return the gradient of the soft maximum over clients: a softmax-weighted sum."""
    odds = np.exp((values - values.max(axis=0)) / delta)
    return np.einsum("ir,irp->rp", odds / odds.sum(axis=0), gradients)


def _local_task(engine: Engine, labels: tuple[int, ...]) -> ClientTask:
    """Ask every client for its mean loss, its disparity, and the gradients of both."""

    def measure(broadcast: Arrays, data: ClientData) -> Arrays:
        params, n = broadcast["params"], len(data.y)
        everyone = np.ones((len(params), 2, data.groups))
        counts = cell_counts(data)[list(labels)].sum(axis=0)
        weights = np.zeros((2, data.groups))
        if data.groups == 2 and counts.all():
            weights[list(labels)] = np.array([-1.0, 1.0]) / counts
        signed = np.sum(weights * engine.loss_sums(params, data, "steep"), axis=(1, 2))
        towards = np.sign(signed)[:, None, None] * weights
        return {
            "client": np.asarray(data.id),
            "loss": engine.loss_sums(params, data, "ce").sum(axis=(1, 2)) / n,
            "loss_gradient": engine.gradient(params, data, everyone) / n,
            "disparity": np.abs(signed),
            "disparity_gradient": engine.gradient(params, data, towards, "steep"),
        }

    return make_task("local losses and disparities", "gather", measure)


def _make(problem: Problem) -> Algorithm:
    match problem.notion:
        case DemographicParity(groups=groups):
            labels: tuple[int, ...] = (0, 1)
        case EqualOpportunity(groups=groups):
            labels = (1,)
        case other:
            raise ConfigError(
                f"fcfl bounds demographic parity or equal opportunity on every client, not "
                f"{other.name!r}. Choose --notion dp or --notion eo."
            )
    if groups > 2:
        raise ConfigError(
            f"fcfl compares two groups, and there are {groups}. Name one sensitive column with two "
            "values, or choose a method for any number of groups, such as fedfb or fpfl."
        )
    steps = problem.options.rounds or METHOD.rounds
    first = round(FIRST_STAGE * steps)
    return fcfl(problem.engine, problem.solver, problem.knobs["eps"], labels, first)


METHOD = Method(
    name="fcfl",
    summary="the worst client's loss under a bound on every client's disparity; gathers gradients",
    paper="Cui et al. 2021",
    make=_make,
    knobs={"eps": Knob(0.05, (0.01, 0.05, 0.1), "bound on each client's disparity", high=1.0)},
    notions=("demographic_parity", "equal_opportunity"),
    most_groups=2,
    rounds=300,
    learning_rate=1.0,
    additive=False,  # every client has its own budget and loss
    local=True,
    learning_rates=(0.1, 0.3, 1.0),
    reads={"weight_decay": ()},
)
