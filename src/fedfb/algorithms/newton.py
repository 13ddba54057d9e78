r"""Exact fits of logistic regression by sums: the federated fit is the pooled fit.

The objective is

.. math:: f(w)=\sum_j\omega_j\,\ell_j(w)+\frac{1}{2}\sum_kr_kw_k^2

Its gradient and its second derivatives are sums over rows, hence sums over clients. A Newton step

.. math:: w\leftarrow w-\Bigl(\sum_iH_i+R\Bigr)^{-1}\Bigl(\sum_ig_i+Rw\Bigr),\qquad
          g_i=\sum_{j\in i}\omega_j(p_j-y_j)x_j,\quad
          H_i=\sum_{j\in i}\omega_jp_j(1-p_j)x_jx_j^\top

is therefore the step on pooled rows, up to rounding, however the rows are distributed over clients.

If other clients take part in every round, the rows of earlier rounds count by their second
derivatives A, which fade: a round minimises :math:`f(w)+\frac12(w-w_0)^\top A(w-w_0)` from the last
parameters :math:`w_0`, and then :math:`A\leftarrow\rho(A+\sum_iH_i)`.
"""

from collections import deque
from collections.abc import Callable, Generator
from typing import NamedTuple

import numpy as np

from fedfb.algorithms.descent import (
    ENOUGH,
    PAIRS,
    AskSums,
    choose_ridges,
    first_alike,
    gradient_upload,
    recall_steps,
    run_fits,
    start_fit,
)
from fedfb.algorithms.tasks import CellWeights, Scaling, average, fit_task, make_task
from fedfb.core import Arrays, Ask, ClientData, ClientTask, Key, LocalSolver
from fedfb.engine import Engine, cell_counts
from fedfb.engine.rows import full_matrix
from fedfb.models import Model
from fedfb.shapes import Array, Float, Int

NEWTON = "newton"
"""The name of the task."""

MOST_PARAMETERS = 1000
"""Up to so many parameters clients upload all second derivatives: 500,500 numbers of 8 bytes. For
more they upload the diagonal, and the server corrects it by the gradients so far (L-BFGS)."""

RIDGE, RIDGE_OF_BIAS = 1.0, 1e-3
r"""The ridge :math:`r_k` of a weight and of the bias, beside ``weight_decay``. It keeps the fit
unique and finite if columns are collinear or labels separable, and costs as much as one row. It is
the default of scikit-learn, taken over and not tuned. Without it a fit of collinear columns takes
two to three times as many exchanges."""

CLOSE = 1e-9
"""A Newton step that lowers the mean loss by less than half of this is the last: Newton's method
squares errors, so after it about 1e-17 is left. L-BFGS stops at the square, CLOSE_SLOW."""

CLOSE_SLOW = 1e-14
MOST_STEPS, MOST_STEPS_SLOW = 50, 300
"""The most exchanges of a fit, with all second derivatives and with their diagonal."""

MOST_HALVINGS = 10
"""A step that does not lower the loss enough is halved, so many times at most."""


def count_exchanges(parameters: int) -> int:
    """Return how many exchanges a fit takes at most; usual are 1 to 9.

    >>> count_exchanges(100)
    551
    """
    steps = MOST_STEPS if parameters <= MOST_PARAMETERS else MOST_STEPS_SLOW
    return 1 + steps * (MOST_HALVINGS + 1)


FADING = 0.8
r"""The factor :math:`\rho` where a share of the clients takes part. Measured (a made table of 5
groups, two of them rare, 100 clients, participation .1, 10 rounds, 6 seeds; mean disparity of FedFB
for dp and eo, IID and Dirichlet): local training .26, :math:`\rho=0` .20, .5 .19, .8 .16."""


class Sums(NamedTuple):
    """The total of one run: weight of all rows, loss, gradient, second derivatives, ridge added."""

    weight: float
    loss: float
    gradient: Float[Array, " p"]
    second: Float[Array, "*q"]


def curvature_upload(
    engine: Engine, params: Float[Array, "r p"], data: ClientData, weights: Float[Array, "r 2 a"]
) -> Arrays:
    """Return one client's part of the sums.

    Args:
        engine: does the arithmetic.
        params: the point, by run.
        data: the client's rows.
        weights: weights of the rows by run, label and group; at least 0, so that f is convex.
    """
    full = engine.model.size <= MOST_PARAMETERS
    loss, gradient, second = engine.curvature(params, data, weights, full)
    weight = np.sum(weights * cell_counts(data), axis=(1, 2))
    return {"weight": weight, "loss": loss, "gradient": gradient, "second": second}


def curvature_task(engine: Engine, cell_weights: CellWeights) -> ClientTask:
    """Ask for loss, gradient and second derivatives, summed over weighted rows.

    Args:
        engine: does the arithmetic.
        cell_weights: weights omega by cell, from the broadcast.
    """

    def measure(broadcast: Arrays, data: ClientData) -> Arrays:
        weights = cell_weights(broadcast, data)
        return curvature_upload(engine, broadcast["params"], data, weights)

    return make_task(NEWTON, "sum", measure)


def fit_exactly(
    ask_sums: AskSums,
    start: Float[Array, "r p"],
    weight_decay: float,
    past: Float[Array, "r q"] | None = None,
) -> tuple[Float[Array, "r p"], list[Array]]:
    """Return the parameters that minimise f, and the second derivatives there, of every run.

    A run that is done is not asked for.

    Args:
        ask_sums: one exchange.
        start: where the search starts; a fit for nearly the same weights ends in 1 to 3 exchanges.
        weight_decay: added to the ridge once for each row of weight 1.
        past: second derivatives A of earlier rounds; None: none.
    """
    fits = [
        minimise(first, weight_decay, None if past is None else past[run])
        for run, first in enumerate(start)
    ]
    ends = run_fits(fits, ask_sums)
    return np.stack([params for params, _ in ends]), [second for _, second in ends]


def minimise(
    start: Float[Array, " p"], weight_decay: float, past: Float[Array, " q"] | None
) -> Generator[Float[Array, " p"], Arrays, tuple[Float[Array, " p"], Float[Array, " q"]]]:
    """Yield the points at which one run needs sums; return where f is least, and its curvature.

    The loss of the next exchange shows whether a step was too long: then it is halved. A total over
    other rows (clients dropped out) cannot be compared with the last, and the step is taken.
    """
    w, pairs = start, deque[tuple[Array, Array]](maxlen=PAIRS)

    def read(total: Arrays, at: Float[Array, " p"]) -> Sums:
        if past is not None:
            total = add_past(total, past, at - start)
        return read_sums(total, at, weight_decay)

    total = yield w
    here = read(total, w)
    full = here.second.ndim == 2
    for _ in range(MOST_STEPS if full else MOST_STEPS_SLOW):
        if here.weight <= 0:
            break
        step = (
            np.linalg.solve(here.second, here.gradient)
            if full
            else recall_steps(here.gradient, 1 / here.second, pairs)
        )
        promise = float(here.gradient @ step)
        if promise <= (CLOSE if full else CLOSE_SLOW) * here.weight:
            w = w - step
            break
        for halvings in range(MOST_HALVINGS + 1):
            moved, fall = step / 2**halvings, promise / 2**halvings
            total = yield w - moved
            there = read(total, w - moved)
            rose = there.loss - here.loss + ENOUGH * fall > CLOSE * here.weight
            if not (rose and np.isclose(there.weight, here.weight, rtol=1e-6)):
                break
        pairs.append((-moved, there.gradient - here.gradient))
        w, here = w - moved, there
    return w, total["second"]


def add_past(total: Arrays, past: Float[Array, " q"], move: Float[Array, " p"]) -> Arrays:
    """Return one run's total with the second derivatives of earlier rounds.

    Args:
        total: one run's part of the total of :func:`curvature_upload`.
        past: second derivatives, as in the upload.
        move: the point, less where the earlier rounds ended.
    """
    full = len(past) != len(move)
    slope = full_matrix(past, len(move)) @ move if full else past * move
    return {
        **total,
        "loss": total["loss"] + move @ slope / 2,
        "gradient": total["gradient"] + slope,
        "second": total["second"] + past,
    }


def read_sums(total: Arrays, w: Float[Array, " p"], weight_decay: float) -> Sums:
    """Return the sums of one run at a point, with the ridge.

    Args:
        total: one run's part of the total of :func:`curvature_upload`.
        w: the point.
        weight_decay: see :func:`fit_exactly`.
    """
    ridge = np.full(len(w), RIDGE + weight_decay * float(total["weight"]))
    ridge[-1] += RIDGE_OF_BIAS - RIDGE
    second = total["second"]
    full = len(second) != len(w)
    return Sums(
        float(total["weight"]),
        float(total["loss"] + ridge @ w**2 / 2),
        total["gradient"] + ridge * w,
        full_matrix(second, len(w)) + np.diag(ridge) if full else second + ridge,
    )


class Fitted(NamedTuple):
    """The parameters of a fit, and what the next one needs of it.

    ``past`` holds the second derivatives that count, or the ridge of a network: 0 before the first
    fit has chosen it.
    """

    params: Float[Array, "r p"]
    past: Float[Array, "r q"]


Solve = Callable[[Ask, Fitted, Arrays, Arrays], Fitted]
"""Ask, the last fit, and what the broadcast holds beside its parameters (arrays by run, arrays of
all runs) -> the fit."""


class Fit(NamedTuple):
    """A fit of weighted rows, by sums or by one round of local training: its task, and its run."""

    task: ClientTask
    solve: Solve


def start_of(params: Float[Array, "r p"], solver: LocalSolver) -> Fitted:
    """Return the state of a fit before the first round."""
    size = params.shape[1]
    sums = size * (size + 1) // 2 if size <= MOST_PARAMETERS else size
    remembered = sums if solver.newton and solver.fading else int(solver.lbfgs)
    return Fitted(params, np.zeros((len(params), remembered)))


def make_fit(
    engine: Engine, solver: LocalSolver, cell_weights: CellWeights, scaling: Scaling = "mass"
) -> Fit:
    """Return the fit that the solver asks for.

    Args:
        engine: does the arithmetic.
        solver: ``newton`` and ``lbfgs`` fit by sums; otherwise clients train, and the server
            averages.
        cell_weights: weights omega by cell, from the broadcast.
        scaling: see :func:`fedfb.algorithms.tasks.fit_task`; a fit by sums has no need of it.
    """
    if solver.newton:
        task = curvature_task(engine, cell_weights)
    elif solver.lbfgs:
        task = gradient_task(engine, cell_weights)
    else:
        task = fit_task(engine, solver, cell_weights, scaling)
    return Fit(task, fit_with(task, solver, engine.model))


def gradient_task(engine: Engine, cell_weights: CellWeights) -> ClientTask:
    """Ask for loss and gradient, summed over weighted rows.

    Args:
        engine: does the arithmetic.
        cell_weights: weights omega by cell, from the broadcast.
    """

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        weights = cell_weights(broadcast, data)
        return gradient_upload(engine, broadcast, data, weights, key), memory

    return ClientTask("descend", "sum", run)


def fit_with(task: ClientTask, solver: LocalSolver, model: Model) -> Solve:
    """Return the fit by a task.

    Args:
        task: its uploads are those of :func:`curvature_upload` if the solver is exact, those of
            :func:`fedfb.algorithms.descent.gradient_upload` for networks, otherwise those of
            :func:`fedfb.algorithms.tasks.weigh_model`.
        solver: ``newton``, ``lbfgs``, ``fading`` and ``weight_decay`` are read.
        model: what is fitted.
    """

    def train(ask: Ask, last: Fitted, by_run: Arrays, common: Arrays) -> Fitted:
        params = last.params
        return Fitted(average(ask(task, {"params": params, **by_run, **common}), params), last.past)

    def solve(ask: Ask, last: Fitted, by_run: Arrays, common: Arrays) -> Fitted:
        def ask_sums(points: Float[Array, "r p"], runs: Int[Array, " r"]) -> Arrays:
            return ask(task, {"params": points, **_parts_of(by_run, runs), **common})

        past = last.past if solver.fading else None
        params, seconds = fit_exactly(ask_sums, last.params, solver.weight_decay, past)
        if past is not None:
            past = solver.fading * (past + np.stack(seconds))
        return Fitted(params, last.past if past is None else past)

    def follow(ask: Ask, last: Fitted, by_run: Arrays, common: Arrays) -> Fitted:
        def ask_fold(
            points: Float[Array, "r p"], runs: Int[Array, " r"], folds: Int[Array, " r"]
        ) -> Arrays:
            parts = {**_parts_of(by_run, runs), "fold": folds}
            return ask(task, {"params": points, **parts, **common})

        params, ridges, decay = last.params, last.past[:, 0], solver.weight_decay
        if not ridges.all():
            alike = first_alike(params, by_run)
            params, ridges = choose_ridges(ask_fold, params, decay, alike, model)
        fits = [start_fit(w, float(r), decay, model) for w, r in zip(params, ridges, strict=True)]
        ends = run_fits(fits, lambda points, runs: ask_fold(points, runs, 0 * runs))
        return Fitted(np.stack([end.params for end in ends]), ridges[:, None])

    if solver.lbfgs:
        return follow
    return solve if solver.newton else train


def _parts_of(by_run: Arrays, runs: Int[Array, " r"]) -> Arrays:
    return {name: array[runs] for name, array in by_run.items()}
