"""Questions that several algorithms put to their clients."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from fedfb.core import (
    Algorithm,
    Arrays,
    Ask,
    ClientData,
    ClientTask,
    Examples,
    Info,
    Key,
    LocalSolver,
    Prediction,
)
from fedfb.engine import Engine, cell_counts, decide, sigmoid
from fedfb.notions import Notion
from fedfb.shapes import Array, Float, Num

CellWeights = Callable[[Arrays, ClientData], Float[Array, "r 2 a"]]
"""The weights of one client's rows by cell, given what the server broadcast.

Of the client they may look at its id and the number of groups, never at rows: what is drawn from
these would leave the client with its model, and no noise would hide it.
"""

Scaling = Literal["mass", "sample"]


def count_task(notion: Notion) -> ClientTask:
    """Ask how many rows there are.

    By (label, group) in sum, or by client where the notion compares clients.
    """

    def run(_: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        counts = cell_counts(data)
        return {"counts": counts if notion.reduce == "sum" else np.asarray(counts.sum())}, memory

    # A row is in one cell; how many rows a single client has is not among what is hidden.
    sensitivity = {"counts": 1.0} if notion.reduce == "sum" else None
    return ClientTask("count", notion.reduce, run, sensitivity=sensitivity)


def read_counts(total: Arrays) -> Num[Array, "*c"]:
    """Return the pooled counts; what noise has made negative is none.

    Where noise left nothing at all, nothing is known, and all cells count alike.

    >>> read_counts({"counts": np.array([3.5, -1.25])}), read_counts({"counts": np.array([-2.0])})
    (array([3.5, 0. ]), array([1.]))
    """
    counts = np.maximum(total["counts"], 0)
    return counts if counts.any() else np.ones_like(counts)


def equal_weights(broadcast: Arrays, data: ClientData) -> Float[Array, "r 2 a"]:
    """Weigh every row 1."""
    return np.ones((len(broadcast["params"]), 2, data.groups))


def fit_task(
    engine: Engine, solver: LocalSolver, cell_weights: CellWeights, scaling: Scaling = "mass"
) -> ClientTask:
    r"""Ask for local training from the common model, weighted by omega.

    ``mass``: objective :math:`\frac1{W_i}\sum_j\omega_j\ell_j`, weight :math:`W_i=\sum_j\omega_j`
    in the average; ``sample``: objective :math:`\frac1{n_i}\sum_j\omega_j\ell_j`, weight
    :math:`n_i`. Either way the weighted sum of the objectives is proportional to the pooled one.
    Adam cancels the scale of a loss, so only ``mass`` keeps the part of lambda that differs between
    clients. A client whose rows all weigh 0 has weight 0.

    Private training leaves out nothing of a row but its being there: how many rows a client has is
    public, by which cells is not, so clients weigh as under ``sample``.
    """
    scaling = "sample" if solver.private else scaling

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        omega = cell_weights(broadcast, data)
        mass = np.sum(omega * cell_counts(data), axis=(1, 2))
        weight, local = mass, omega * _inverse(mass / len(data.y))[:, None, None]
        if scaling == "sample":
            weight, local = np.full(len(mass), float(len(data.y))), omega
        trained = engine.train(broadcast["params"], data, local, solver, key)
        return {"weighted": trained * weight[:, None], "weight": weight}, memory

    hidden = {"weighted": 0.0, "weight": 0.0} if solver.private else None
    return ClientTask("fit", "sum", run, sensitivity=hidden, epochs=solver.epochs)


def average(total: Arrays, before: Float[Array, "r p"]) -> Float[Array, "r p"]:
    """Return the weighted mean of the clients' models; a run without weight keeps its model."""
    weight = total["weight"][:, None]
    return np.where(weight > 0, total["weighted"] * _inverse(weight), before)


def fit_and_measure_task(
    fit: ClientTask, measure: ClientTask, at: Literal["received", "trained"]
) -> ClientTask:
    """Ask for both at once, the signal at the received or at the client's own trained model."""

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        upload, memory = fit.run(broadcast, data, memory, key)
        received = broadcast["params"]
        params = received if at == "received" else average(upload, received)
        signal, memory = measure.run({**broadcast, "params": params}, data, memory, key)
        return {**upload, **signal}, memory

    bounds = {**fit.bounds, **measure.bounds}
    known = fit.sensitivity is not None and measure.sensitivity is not None
    sensitivity = {**(fit.sensitivity or {}), **(measure.sensitivity or {})} if known else None
    return ClientTask("fit and measure", "sum", run, measure.bits, bounds, sensitivity, fit.epochs)


def confusion_task(engine: Engine) -> ClientTask:
    """Ask for the numbers of training rows by label, decision and group, to watch a run."""

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        return {"confusion": engine.confusion(broadcast["params"], data)}, memory

    return ClientTask("confusion", "sum", run)


def predict_globally(engine: Engine, params: Float[Array, "r p"], examples: Examples) -> Prediction:
    """Score rows with one global model and decide positively where P(y=1) >= 1/2."""
    logits = engine.logits(params, examples.x)
    return Prediction(sigmoid(logits), decide(logits))


def nothing_kept(params: Float[Array, "r p"]) -> Arrays:
    """Return the memory of a client that keeps nothing for itself."""
    return {}


def global_model(
    name: str,
    engine: Engine,
    tasks: tuple[ClientTask, ...],
    state: type[Any],
    setup: Callable[[Float[Array, "r p"], Ask], Any],
    round: Callable[[Any, Ask], tuple[Any, Info]],
    memory: Callable[[Float[Array, "r p"]], Arrays] = nothing_kept,
) -> Algorithm:
    """Return the algorithm of a method whose state holds one common model, ``params``."""
    return Algorithm(
        name=name,
        tasks=tasks,
        state=state,
        memory=memory,
        setup=setup,
        round=round,
        params=lambda s: s.params,
        predict=lambda s, _, examples: predict_globally(engine, s.params, examples),
    )


def _inverse(value: Float[Array, "*s"]) -> Float[Array, "*s"]:
    return np.where(value > 0, 1.0 / np.where(value > 0, value, 1.0), 0.0)
