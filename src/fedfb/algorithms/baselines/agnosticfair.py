"""After AgnosticFair (Du, Xu, Wu, Tong, SDM 2021): fair under the worst weights of the rows."""

from collections.abc import Callable
from math import inf
from typing import NamedTuple

import numpy as np

from fedfb.algorithms.baselines.group_gaps import (
    MEAN_LOGIT,
    GroupGaps,
    Push,
    descend_on_gaps,
    excess,
    gap_method,
    group_gradients,
    pull,
)
from fedfb.algorithms.baselines.server_step import no_moments
from fedfb.algorithms.method import Knob, Problem
from fedfb.algorithms.tasks import make_task
from fedfb.core import Algorithm, Arrays, Ask, ClientData, ClientTask, Info, LocalSolver, generator
from fedfb.engine import Engine
from fedfb.engine.base import loss
from fedfb.errors import ConfigError
from fedfb.notions import DemographicParity
from fedfb.notions.base import ratio
from fedfb.shapes import Array, Float

_Kernel = Callable[[Float[Array, "n d"]], Float[Array, "n m"]]
"""The basis functions K(x, b_m) at every row."""

RowKernel = Callable[[ClientData], "KernelSums"]
"""The kernel at a client's rows, with its sums."""

BASIS_POINTS = 20
FAINTEST = 1e-6
"""A basis function with a smaller mean over the rows is dropped: no row is near its point."""

KERNEL_BOUNDS = {"kernel": 2.0**26, "losses": 2.0**30}
"""Smaller than the default bounds: kernel values may be as small as 1e-6 and need binary places."""


def gaussian_kernel(features: int, points: int = BASIS_POINTS) -> _Kernel:
    r"""Return :math:`K(x,b_m)=e^{-\lVert x-b_m\rVert^2/2\sigma^2}` around public random points.

    The points are standard normal and depend only on the number of features. Everybody can draw
    them, and they show no row. :math:`\sigma` is the median distance between two points.
    """
    basis = generator((features, points)).normal(size=(points, features))
    apart = np.linalg.norm(basis[:, None] - basis, axis=2)
    sigma = np.median(apart[np.triu_indices(points, k=1)])

    def kernel(x: Float[Array, "n d"]) -> Float[Array, "n m"]:
        squares = np.sum(x**2, axis=1)[:, None] + np.sum(basis**2, axis=1) - 2 * x @ basis.T
        return np.exp(-np.maximum(squares, 0.0) / (2 * sigma**2))

    return kernel


def constant_kernel(x: Float[Array, "n d"]) -> Float[Array, "n m"]:
    """Return one basis function, 1 everywhere: all rows have the same weight."""
    return np.ones((len(x), 1))


class State(NamedTuple):
    """The common model, moments, the adversary's mixture of basis functions, their means, steps."""

    params: Float[Array, "r p"]
    moments: Float[Array, "r 2 p"]
    mixture: Float[Array, "r m"]
    kernel_means: Float[Array, " m"]
    t: int

    @property
    def alpha(self) -> Float[Array, "r m"]:
        r"""The weights :math:`\alpha_m=\beta_m/\bar k_m`, under which theta has mean 1."""
        return ratio(self.mixture, self.kernel_means, empty=0.0)


def agnosticfair(
    engine: Engine,
    solver: LocalSolver,
    tau: Float[Array, " r"],
    nu: Float[Array, " r"],
    kernel: _Kernel,
) -> Algorithm:
    r"""Return descent on the worst reweighted loss with a penalty on reweighted covariances.

    .. math:: \min_w\max_{\alpha\in\Lambda}\frac1n\sum_j\theta_\alpha(x_j)\ell_j
              +\nu\sum_a\max(0,|C_a|-\tau)^2,\qquad \theta_\alpha(x)=\sum_m\alpha_m K(x,b_m),

    .. math:: C_a=\frac1n\sum_j\theta_\alpha(x_j)(1[a_j=a]-\pi_a)z_j,\qquad
              \Lambda=\{\alpha\ge0,\ \tfrac1n\textstyle\sum_j\theta_\alpha(x_j)=1\}.

    A step is one exchange. The best response of the adversary is a vertex
    :math:`\alpha=e_m/\bar k_m`, m of the largest mean loss under :math:`K(\cdot,b_m)`, where
    :math:`\bar k_m` is the mean of :math:`K(x_j,b_m)`. The state keeps the average of these
    vertices: a mixture :math:`\beta\leftarrow(1-\frac1t)\beta+\frac1te_m` with
    :math:`\alpha_m=\beta_m/\bar k_m`. With one constant basis function :math:`\theta=1`: the
    distributed fairness constraint, Zafar's penalty form.

    After Du et al.: a reconstruction. Departs from the paper: :math:`\pi_a` is the reweighted share
    of group a, so that a constant classifier has covariance 0. The penalty is on the excess over
    :math:`\tau`, not on all of C. C is computed with the alpha of its gradient. Theta has no upper
    bound. The server's step may be Adam's.

    Args:
        engine: does the arithmetic.
        solver: learning rate and optimiser of the server's step.
        tau: covariance without penalty, one value per run.
        nu: weight of the penalty, one value per run.
        kernel: the basis functions.
    """
    row_kernel = _cache_kernel(kernel)
    ask_kernel, ask_sums = _kernel_task(row_kernel), _sums_task(engine, row_kernel)

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        means = _kernel_means(ask(ask_kernel, {}))
        reachable = np.repeat((means > 0)[None].astype(float), len(params), axis=0)
        return State(
            params, no_moments(params), reachable / reachable.sum(axis=1)[:, None], means, 0
        )

    def push(s: State, gap: GroupGaps, total: Arrays) -> Push:
        covariance = gap.share * gap.value
        pressure = 2 * nu[:, None] * np.maximum(0.0, excess(covariance, tau).max(axis=1))
        gradient = pull(pressure * gap.share, covariance, gap.gradient)
        means = _kernel_means(total)
        mean_losses = np.where(means > 0, ratio(total["losses"], total["kernel"], 0.0), -inf)
        vertex = np.eye(len(means))[np.argmax(mean_losses, axis=1)]
        mixture = s.mixture + (vertex - s.mixture) / (s.t + 1)
        after = {"mixture": mixture, "kernel_means": means}
        return Push(gradient, after, Info(signal=covariance, lam=s._replace(**after).alpha))

    return descend_on_gaps(
        "agnosticfair",
        engine,
        solver,
        (ask_kernel, ask_sums),
        State,
        setup,
        push,
        broadcast=lambda s: {"alpha": s.alpha},
    )


class KernelSums(NamedTuple):
    """The kernel at a client's rows, the groups of the rows, and sums, in double precision.

    The adversary takes the largest of mean losses that are often nearly equal, and covariances are
    differences of sums. In single precision the order of summation would decide, and this order
    differs between processors.
    """

    kernel: Float[Array, "n m"]
    belongs: Float[Array, "n a"]
    total: Float[Array, " m"]
    by_group: Float[Array, "m a"]


def _cache_kernel(kernel: _Kernel) -> RowKernel:
    """Return a function that computes the kernel of each client's rows once, for all steps."""
    cache: dict[int, tuple[Array, KernelSums]] = {}

    def row_kernel(data: ClientData) -> KernelSums:
        rows, close = cache.get(data.id, (None, None))
        if close is None or rows is not data.x:
            values = kernel(data.x.astype(np.float64))
            belongs = np.eye(data.groups)[data.group]
            close = KernelSums(values, belongs, values.sum(axis=0), values.T @ belongs)
            cache[data.id] = data.x, close
        return close

    return row_kernel


def _kernel_task(row_kernel: RowKernel) -> ClientTask:
    def measure(_: Arrays, data: ClientData) -> Arrays:
        return {"kernel": row_kernel(data).total, "count": np.asarray(len(data.y))}

    return make_task("kernel means", "sum", measure, bounds=KERNEL_BOUNDS)


def _sums_task(engine: Engine, row_kernel: RowKernel) -> ClientTask:
    """Ask for the reweighted gradients and covariances, and the loss under each basis function."""

    def measure(broadcast: Arrays, data: ClientData) -> Arrays:
        params, (close, belongs, total, by_group) = broadcast["params"], row_kernel(data)
        alpha = broadcast["alpha"]
        theta, z = alpha @ close.T, engine.logits(params, data.x).astype(np.float64)
        everyone = np.ones((len(params), 2, data.groups))
        return {
            "kernel": total,
            "count": np.asarray(len(data.y)),
            "losses": loss(z, data.y.astype(np.float64), "ce") @ close,
            "rows": alpha @ total,
            "loss_gradient": engine.gradient(params, data, everyone, "ce", theta),
            "compared": alpha @ by_group,
            "sums": (theta * z) @ belongs,
            "gradients": group_gradients(engine, params, data, MEAN_LOGIT, theta),
        }

    return make_task("reweighted gradients", "sum", measure, bounds=KERNEL_BOUNDS)


def _kernel_means(total: Arrays) -> Float[Array, " m"]:
    means = total["kernel"] / total["count"]
    means = np.where(means < FAINTEST, 0.0, means)
    if not means.any():
        raise ConfigError(
            "no row is near any of AgnosticFair's basis points, which are standard normal. "
            "Standardise the features, or choose the variant 'plain', which weighs all rows alike."
        )
    return means


def _make(problem: Problem) -> Algorithm:
    if not isinstance(problem.notion, DemographicParity):
        raise ConfigError(
            f"agnosticfair bounds the covariance of group and logit, which is demographic parity, "
            f"not {problem.notion.name!r}. Choose --notion dp, or the method zafar or fpfl."
        )
    engine, knobs = problem.engine, problem.knobs
    kernel = constant_kernel if problem.variant == "plain" else gaussian_kernel(engine.model.inputs)
    return agnosticfair(engine, problem.solver, knobs["tau"], knobs["nu"], kernel)


METHOD = gap_method(
    name="agnosticfair",
    summary="worst-case reweighted loss with a covariance penalty; one exchange per gradient step",
    paper="Du et al. 2021",
    make=_make,
    knobs={
        "tau": Knob(0.0, (0.0,), "covariance that costs nothing", high=inf),
        "nu": Knob(
            10.0,
            (0.0, 10.0, 100.0, 200.0, 500.0, 1000.0, 5000.0, 10000.0),
            "weight of the squared covariance",
        ),
    },
    variants=("kernel", "plain"),
    notions=("demographic_parity",),
    reconstruction=True,
)
