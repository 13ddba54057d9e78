"""Tasks that several algorithms put to their clients, and the skeletons of their algorithms."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

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
"""The weights of one client's rows by cell, from the broadcast.

The function may read the client's id and the number of groups, but never the rows. Weights that
depend on rows would leave the client inside its model, and no noise would hide them.
"""

Scaling = Literal["mass", "sample"]


def make_task(
    name: str,
    reduce: Literal["sum", "gather"],
    measure: Callable[[Arrays, ClientData], Arrays],
    bits: Mapping[str, int] = MappingProxyType({}),
    bounds: Mapping[str, float] = MappingProxyType({}),
    sensitivity: Mapping[str, float] | None = None,
) -> ClientTask:
    """Return a task that neither changes the client's memory nor draws random numbers.

    Args:
        name: name of the task, as the ledger shows it.
        reduce: whether the method needs the sum of the uploads or each of them.
        measure: broadcast, data -> upload.
        bits: see :class:`fedfb.core.Task`.
        bounds: see :class:`fedfb.core.Task`.
        sensitivity: see :class:`fedfb.core.ClientTask`.
    """

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        return measure(broadcast, data), memory

    return ClientTask(name, reduce, run, bits, bounds, sensitivity)


def count_task(notion: Notion) -> ClientTask:
    """Ask for numbers of rows: by (label, group) in sum, or by client if clients are compared."""

    def measure(_: Arrays, data: ClientData) -> Arrays:
        counts = cell_counts(data)
        return {"counts": counts if notion.reduce == "sum" else np.asarray(counts.sum())}

    # One row is in one cell. The number of rows of a single client is not hidden by privacy.
    sensitivity = {"counts": 1.0} if notion.reduce == "sum" else None
    return make_task("count", notion.reduce, measure, sensitivity=sensitivity)


def read_counts(total: Arrays) -> Num[Array, "*c"]:
    """Return the pooled counts; a count that noise made negative becomes 0.

    If noise made all counts 0, nothing is known, and all cells count 1.

    >>> read_counts({"counts": np.array([3.5, -1.25])}), read_counts({"counts": np.array([-2.0])})
    (array([3.5, 0. ]), array([1.]))
    """
    counts = np.maximum(total["counts"], 0)
    return counts if counts.any() else np.ones_like(counts)


def equal_weights(broadcast: Arrays, data: ClientData) -> Float[Array, "r 2 a"]:
    """Return the weight 1 for every row."""
    return np.ones((len(broadcast["params"]), 2, data.groups))


def fit_task(
    engine: Engine, solver: LocalSolver, cell_weights: CellWeights, scaling: Scaling = "mass"
) -> ClientTask:
    r"""Ask for local training from the common model on rows with weights omega.

    ``mass``: objective :math:`\frac1{W_i}\sum_j\omega_j\ell_j`, weight :math:`W_i=\sum_j\omega_j`
    in the average; ``sample``: objective :math:`\frac1{n_i}\sum_j\omega_j\ell_j`, weight
    :math:`n_i`. In both forms the weighted sum of the objectives is proportional to the pooled
    objective. Adam cancels the scale of a loss, so only ``mass`` keeps the part of lambda that
    differs between clients. A client whose rows all have weight 0 has weight 0.

    Args:
        engine: does the arithmetic.
        solver: local epochs, minibatches and optimiser.
        cell_weights: weights omega by cell, from the broadcast.
        scaling: ``mass`` or ``sample``. Private training always uses ``sample``: the number of a
            client's rows is public, their cells are not, and the mass depends on cells.
    """
    scaling = "sample" if solver.private else scaling

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        omega = cell_weights(broadcast, data)
        mass = np.sum(omega * cell_counts(data), axis=(1, 2))
        weight, local = mass, omega * _inverse(mass / len(data.y))[:, None, None]
        if scaling == "sample":
            weight, local = np.full(len(mass), float(len(data.y))), omega
        trained = engine.train(broadcast["params"], data, local, solver, key)
        return weigh_model(trained, weight), memory

    # DP-SGD has already hidden the rows, so the upload itself needs no noise.
    sensitivity = {"weighted": 0.0, "weight": 0.0} if solver.private else None
    return ClientTask("fit", "sum", run, sensitivity=sensitivity, epochs=solver.epochs)


def weigh_model(params: Float[Array, "r p"], weight: Float[Array, " r"]) -> Arrays:
    """Return the upload of a model for a weighted average: w times the model, and w.

    The sum carries its own denominator, so any subset of clients can be averaged.
    """
    return {"weighted": params * weight[:, None], "weight": weight}


def average(total: Arrays, before: Float[Array, "r p"]) -> Float[Array, "r p"]:
    """Return the weighted mean of the clients' models.

    Args:
        total: sum of the uploads of :func:`weigh_model`.
        before: the model of a run whose total weight is 0.
    """
    weight = total["weight"][:, None]
    return np.where(weight > 0, total["weighted"] * _inverse(weight), before)


def fit_and_measure_task(
    fit: ClientTask, measure: ClientTask, at: Literal["received", "trained"]
) -> ClientTask:
    """Ask for training and for the signal in one exchange.

    Args:
        fit: the training task.
        measure: the task of the signal.
        at: whether the signal is measured at the received model, or at the model that the client
            has just trained.
    """

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        upload, memory = fit.run(broadcast, data, memory, key)
        received = broadcast["params"]
        params = received if at == "received" else average(upload, received)
        signal, memory = measure.run({**broadcast, "params": params}, data, memory, key)
        return {**upload, **signal}, memory

    bounds, sensitivity = {**fit.bounds, **measure.bounds}, None
    if fit.sensitivity is not None and measure.sensitivity is not None:
        sensitivity = {**fit.sensitivity, **measure.sensitivity}
    return ClientTask("fit and measure", "sum", run, measure.bits, bounds, sensitivity, fit.epochs)


def confusion_task(engine: Engine) -> ClientTask:
    """Ask for numbers of training rows by label, decision and group, to watch a run."""

    def measure(broadcast: Arrays, data: ClientData) -> Arrays:
        return {"confusion": engine.confusion(broadcast["params"], data)}

    return make_task("confusion", "sum", measure)


def predict_globally(engine: Engine, params: Float[Array, "r p"], examples: Examples) -> Prediction:
    """Score rows with one common model; the decision is positive where P(y=1) >= 1/2."""
    logits = engine.logits(params, examples.x)
    return Prediction(sigmoid(logits), decide(logits))


def empty_memory(params: Float[Array, "r p"]) -> Arrays:
    """Return the memory of a client that keeps nothing between exchanges."""
    return {}


def global_model(
    name: str,
    engine: Engine,
    tasks: tuple[ClientTask, ...],
    state: type[Any],
    setup: Callable[[Float[Array, "r p"], Ask], Any],
    round: Callable[[Any, Ask], tuple[Any, Info]],
    memory: Callable[[Float[Array, "r p"]], Arrays] = empty_memory,
) -> Algorithm:
    """Return an algorithm whose state holds one common model in the field ``params``.

    The arguments are the fields of :class:`fedfb.core.Algorithm`. The model predicts alone, from
    features: ``engine`` scores the rows.
    """
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


class ModelState(NamedTuple):
    """The state of an algorithm that carries on the common model only."""

    params: Float[Array, "r p"]


def averaging(
    name: str,
    engine: Engine,
    fit: ClientTask,
    memory: Callable[[Float[Array, "r p"]], Arrays] = empty_memory,
) -> Algorithm:
    """Return an algorithm whose round is one exchange: clients train, the server averages.

    Args:
        name: name of the algorithm.
        engine: scores the rows.
        fit: broadcast ``params`` -> upload of :func:`weigh_model`.
        memory: what a client keeps at the start, see :class:`fedfb.core.Algorithm`.
    """

    def setup(params: Float[Array, "r p"], ask: Ask) -> ModelState:
        return ModelState(params)

    def round(s: ModelState, ask: Ask) -> tuple[ModelState, Info]:
        return ModelState(average(ask(fit, {"params": s.params}), s.params)), Info()

    return global_model(name, engine, (fit,), ModelState, setup, round, memory)


def _inverse(value: Float[Array, "*s"]) -> Float[Array, "*s"]:
    return np.where(value > 0, 1.0 / np.where(value > 0, value, 1.0), 0.0)
