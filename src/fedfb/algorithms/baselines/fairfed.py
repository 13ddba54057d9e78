"""FairFed (Ezzeldin, Yan, He, Ferrara, Avestimehr: FairFed, AAAI 2023).

Clients whose gap is close to the gap of all rows have a larger weight in the average. Local
training removes bias as well.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np

from fedfb.algorithms.baselines.lft import READS, read_rule, train_fairbatch
from fedfb.algorithms.baselines.reweighing import independent_weights
from fedfb.algorithms.method import TRAINING, Knob, Method, Problem
from fedfb.algorithms.tasks import ModelState, average, global_model, make_task, weigh_model
from fedfb.core import Algorithm, Arrays, Ask, ClientData, ClientTask, Info, Key, LocalSolver
from fedfb.engine import Engine, cell_counts
from fedfb.errors import ConfigError
from fedfb.notions import DemographicParity, EqualOpportunity
from fedfb.notions.base import ratio
from fedfb.shapes import Array, Float

TwoGroupNotion = DemographicParity | EqualOpportunity

Debias = Callable[
    [Float[Array, "r p"], ClientData, Arrays, Key], tuple[Float[Array, "r p"], Arrays]
]
"""Local training from the common model: parameters, data, memory, key -> trained, memory."""


def fairfed(
    engine: Engine,
    notion: TwoGroupNotion,
    beta: Float[Array, " r"],
    debias: Debias,
    version: Literal["v3", "v1"] = "v3",
) -> Algorithm:
    r"""Return FairFed for two groups.

    Round t, at :math:`w^{t-1}` on training rows, with the gap
    :math:`F=P(\hat y=1\mid a=0)-P(\hat y=1\mid a=1)` (for equal opportunity given y = 1):

    .. math:: D_i=\begin{cases}|F_i-F| & \text{client i has both groups}\\
              |\text{Acc}_i-\text{Acc}| & \text{otherwise}\end{cases}

    .. math:: \texttt{v3}:\ \bar w_i^t=\bar w_i^{t-1}-\beta(D_i-\bar D),\quad
              \bar w_i^0=\tfrac{n_i}n,\qquad
              \texttt{v1}:\ \bar w_i^t=\tfrac{n_i}n e^{-\beta D_i},\qquad
              w^t=\frac{\sum_i\bar w_i^t\,w_i^t}{\sum_i\bar w_i^t}

    where :math:`w_i^t` comes from local training with ``debias``. Three short sums come before the
    models: F and Acc, then the mean of D, then the sum of the weights.

    A client keeps :math:`\bar w_i-n_i/n`, whose sum over clients stays 0. n is the number of rows
    of the round's participants. If they have rows of one group only, every :math:`D_i` is 0.

    Departs from the paper: a weight below 0 counts as 0 in the average (the recursion continues
    with the negative weight, so weights keep their sum). If no weight is above 0, all are equal.

    Args:
        engine: does the arithmetic.
        notion: demographic parity or equal opportunity, for two groups.
        beta: cost of a client's distance, one value per run.
        debias: local training.
        version: ``v3`` is the rule of AAAI 2023; ``v1`` is that of October 2021, with which FedFB's
            authors compare.
    """

    def sum_decisions(broadcast: Arrays, data: ClientData) -> Arrays:
        return _sums(engine, notion, broadcast["params"], data)

    def compare_gap(
        broadcast: Arrays, data: ClientData, memory: Arrays, key: Key
    ) -> tuple[Arrays, Arrays]:
        local = _measures(_sums(engine, notion, broadcast["params"], data))
        which = "gap" if local["comparable"] else "accuracy"
        distance = np.abs(local[which] - broadcast[which]) * broadcast["comparable"]
        return {"distance": distance, "clients": np.asarray(1.0)}, {**memory, "distance": distance}

    def weigh_client(
        broadcast: Arrays, data: ClientData, memory: Arrays, key: Key
    ) -> tuple[Arrays, Arrays]:
        share = len(data.y) / broadcast["rows"]
        distance, drift = memory["distance"], memory["drift"]
        if version == "v3":
            drift = drift - beta * (distance - broadcast["mean_distance"])
            weight = np.maximum(share + drift, 0.0)
        else:
            weight = share * np.exp(-beta * distance)
        memory = {**memory, "drift": drift, "weight": weight}
        return {"weight": weight, "clients": np.asarray(1.0)}, memory

    def fit_model(
        broadcast: Arrays, data: ClientData, memory: Arrays, key: Key
    ) -> tuple[Arrays, Arrays]:
        weight = ratio(memory["weight"], broadcast["weight"], empty=0.0)
        weight = np.where(broadcast["weight"] > 0, weight, 1.0 / broadcast["clients"])
        trained, memory = debias(broadcast["params"], data, memory, key)
        return weigh_model(trained, weight), memory

    # Weights are shares of 1. Those of v1 may be tiny and are divided by their sum, so they need
    # many binary places: a small bound leaves room for them.
    bounds = {"distance": 2.0, "weight": 2.0 if version == "v1" else 2.0**16, "weighted": 2.0**20}
    look = make_task("look", "sum", sum_decisions)
    compare = ClientTask("compare", "sum", compare_gap, bounds=bounds)
    weigh = ClientTask("weigh", "sum", weigh_client, bounds=bounds)
    fit = ClientTask("fit", "sum", fit_model, bounds=bounds)

    def memory(params: Float[Array, "r p"]) -> Arrays:
        return {name: np.zeros(len(params)) for name in ("distance", "drift", "weight")}

    def setup(params: Float[Array, "r p"], ask: Ask) -> ModelState:
        return ModelState(params)

    def round(s: ModelState, ask: Ask) -> tuple[ModelState, Info]:
        sums = ask(look, {"params": s.params})
        common = {"params": s.params, **_measures(sums)}
        distances = ask(compare, common)
        mean_distance = distances["distance"] / distances["clients"]
        weights = ask(weigh, {"mean_distance": mean_distance, "rows": sums["rows"]})
        total = ask(fit, {"params": s.params, **weights})
        return ModelState(average(total, s.params)), Info(signal=common["gap"][:, None])

    return global_model(
        "fairfed", engine, (look, compare, weigh, fit), ModelState, setup, round, memory
    )


def _sums(
    engine: Engine, notion: TwoGroupNotion, params: Float[Array, "r p"], data: ClientData
) -> Arrays:
    """Return the numbers of rows and decisions from which F and Acc follow; they can be added."""
    confusion, counts = engine.confusion(params, data), cell_counts(data)
    labels = slice(1, 2) if notion.name == "equal_opportunity" else slice(0, 2)
    return {
        "positives": confusion[:, labels, 1].sum(axis=1),
        "compared": counts[labels].sum(axis=0),
        "correct": confusion[:, 0, 0].sum(axis=1) + confusion[:, 1, 1].sum(axis=1),
        "rows": np.asarray(counts.sum()),
    }


def _measures(sums: Arrays) -> Arrays:
    """Return gap and accuracy from sums, of one client or of all clients."""
    rates = ratio(sums["positives"], sums["compared"], empty=0.0)
    return {
        "gap": rates[:, 0] - rates[:, -1],
        "accuracy": sums["correct"] / sums["rows"],
        "comparable": np.asarray(np.count_nonzero(sums["compared"]) == 2),
    }


def make_reweighing(engine: Engine, solver: LocalSolver) -> Debias:
    r"""Return training on rows of weight :math:`n^{(i)}_{y*}n^{(i)}_{*a}/(n^{(i)}n^{(i)}_{ya})`."""

    def debias(
        params: Float[Array, "r p"], data: ClientData, memory: Arrays, key: Key
    ) -> tuple[Float[Array, "r p"], Arrays]:
        omega = np.repeat(independent_weights(cell_counts(data))[None], len(params), axis=0)
        return engine.train(params, data, omega, solver, key), memory

    return debias


def _make(problem: Problem) -> Algorithm:
    notion = problem.notion
    if not isinstance(notion, TwoGroupNotion):
        raise ConfigError(
            f"fairfed measures one gap, of demographic parity or equal opportunity, not of "
            f"{notion.name}. Choose --notion dp or eo, or the algorithm fedfb."
        )
    if notion.groups > 2:
        raise ConfigError(
            f"fairfed compares two groups, and these data have {notion.groups}. Choose a sensitive "
            "attribute with two values, merge groups, or use the algorithm fedfb."
        )
    version, _, local = problem.variant.partition("-")
    if local == "fairbatch":
        debias: Debias = partial(
            train_fairbatch, problem.engine, problem.solver, read_rule(problem)
        )
    else:
        debias = make_reweighing(problem.engine, problem.solver)
    rule: Literal["v3", "v1"] = "v1" if version == "v1" else "v3"
    return fairfed(problem.engine, notion, problem.knobs["beta"], debias, rule)


WITH_FAIRBATCH = ("v3-fairbatch", "v1-fairbatch")

METHOD = Method(
    name="fairfed",
    summary="clients whose gap is close to the global one count more",
    paper="Ezzeldin et al. 2023",
    make=_make,
    knobs={
        "beta": Knob(
            1.0, (0.02, 1.0, 50.0), "How much a client's distance costs it in the average"
        ),
        "alpha": Knob(
            0.05,
            (0.0001, 0.001, 0.01, 0.05, 0.1),
            "Forms with fairbatch: step of each client's own fairness weights",
        ),
    },
    variants=("v3", "v1", *WITH_FAIRBATCH),
    notions=("demographic_parity", "equal_opportunity"),
    most_groups=2,
    learning_rates=(0.001, 0.005),
    additive=False,  # a client counts by its own gap
    reads={**TRAINING, **dict.fromkeys((*READS, "alpha"), WITH_FAIRBATCH)},
)
