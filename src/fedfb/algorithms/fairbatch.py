"""The original FairBatch (Roh, Lee, Whang, Suh: FairBatch, ICLR 2021): a sampler for two groups.

Its generalisation by weights, which FedFB carries to clients, is ``cfl``.
"""

from typing import NamedTuple

import numpy as np

from fedfb.algorithms.method import Knob, Method, Problem
from fedfb.algorithms.sampler import batch_sizes, batches, moved, signed_gaps
from fedfb.algorithms.server_step import descend, no_moments
from fedfb.algorithms.tasks import average, predict_globally
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
    generator,
)
from fedfb.data.synthetic import COVARIANCES, MEANS
from fedfb.engine import Engine, cell_counts, sigmoid
from fedfb.errors import ConfigError, unknown_name
from fedfb.models import Network
from fedfb.notions import DemographicParity, EqualizedOdds, EqualOpportunity
from fedfb.notions.base import ratio
from fedfb.shapes import Array, Float, Int

EPOCHS = {"equal_opportunity": 300, "equalized_odds": 400, "demographic_parity": 450}
"""Notions that the sampler knows, and how long its authors train for each."""

USUAL_EPOCHS = LocalSolver._field_defaults["epochs"]


class FairBatchFit(NamedTuple):
    """Weights and bias of the logit 2z, and the ratios (lb2, lb1), by label, in every epoch."""

    params: Float[Array, " p"]
    ratios: Float[Array, "e 2"]


def fairbatch(
    x: Float[Array, "n d"],
    y: Int[Array, " n"],
    group: Int[Array, " n"],
    notion: str,
    *,
    alpha: float = 0.005,
    learning_rate: float = 5e-4,
    batch: int = 100,
    epochs: int | None = None,
    seed: int = 0,
    start: Float[Array, " p"] | None = None,
    key: Key | None = None,
) -> FairBatchFit:
    r"""Train a linear classifier on batches whose composition follows the groups' losses.

    :math:`p=(\tanh z+1)/2=\sigma(2z)`, cross-entropy, Adam. Among a batch's rows of label y group 1
    has the share :math:`\lambda_y` (the authors' lb1 for y = 1, lb2 for y = 0), at first its share
    of all of them. Before every epoch one of them moves by :math:`\alpha`, see
    :func:`fedfb.algorithms.sampler.moved`.

    ``notion`` is a long name; ``start`` (of the logit 2z) and ``key`` replace what follows from the
    seed.

    Departs from the authors' code: ratios stay where losses are equal (theirs fall), and the ratio
    of a label that a group lacks is frozen.
    """
    if notion not in EPOCHS:
        raise ConfigError(unknown_name("notion of fairbatch", notion, EPOCHS))
    # A batch larger than the data would be none: then all rows are one.
    data, batch = ClientData(0, x, y, group, 2), min(batch, len(y))
    counts, rng = cell_counts(data), generator(key or (seed, 1))
    lam = ratio(counts[:, 1], counts.sum(axis=1), empty=0.0)
    w = (Network(x.shape[1]).init(seed) if start is None else start / 2)[None]
    adam, moments, t = LocalSolver(np.array([learning_rate])), no_moments(w), 0
    ratios = np.zeros((EPOCHS[notion] if epochs is None else epochs, 2))
    rows = np.column_stack([x, np.ones(len(y))])
    for epoch in range(len(ratios)):
        chance = sigmoid(rows @ (2 * w[0]))
        lam = ratios[epoch] = moved(lam, signed_gaps(chance, data, notion), notion, alpha)
        for chosen in batches(data.cell, batch_sizes(lam, counts, batch), len(y) // batch, rng):
            own = rows[chosen]
            error = 2 * (sigmoid(own @ (2 * w[0])) - y[chosen])
            gradient = error @ own / len(chosen)
            w, moments, t = *descend(w, gradient[None], moments, adam, t + 1), t + 1
    return FairBatchFit(2 * w[0], ratios)


def original_data(seed: int, rows: int = 2000, test: int = 1000) -> tuple[ClientData, Examples]:
    r"""Draw training and test rows (x1, x2, group) like those of the paper's synthetic data.

    .. math:: y\sim\mathrm{Bern}(.5),\quad x\mid y\sim N(\mu_y,\Sigma_y),\quad
              P(a=1\mid x)=\frac{p_1(x')}{p_0(x')+p_1(x')},\quad x'=R(-\pi/4)\,x

    with :math:`\mu_1=-\mu_0=(2,2)`, :math:`\Sigma_1=((5,1),(1,5))`,
    :math:`\Sigma_0=((10,1),(1,3))` and :math:`p_y` the density of label y. The group is a feature.

    A reading: the authors give rows, not the generator. These are Zafar et al.'s (2017) for the
    angle :math:`\pi/4`, which turn clockwise; ``synthetic`` turns the other way, has 60% positives
    and ties group and label closer together.
    """
    rng, n = generator((seed, 11)), rows + test
    y = (rng.random(n) < 0.5).astype(np.int64)
    factors = np.linalg.cholesky(COVARIANCES)
    x = MEANS[y] + np.einsum("nij,nj->ni", factors[y], rng.standard_normal((n, 2)))
    turned = x @ (np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2))
    away = turned[:, None] - MEANS[:2]
    squares = np.einsum("nai,aij,naj->na", away, np.linalg.inv(COVARIANCES[:2]), away)
    density = np.exp(-0.5 * squares) / np.sqrt(np.linalg.det(COVARIANCES[:2]))
    group = (rng.random(n) * density.sum(axis=1) < density[:, 1]).astype(np.int64)
    x = np.column_stack([x, group])
    train = ClientData(0, x[:rows], y[:rows], group[:rows], 2)
    return train, Examples(x[rows:], y[rows:], group[rows:], np.full(test, -1))


class State(NamedTuple):
    """The classifier."""

    params: Float[Array, "r p"]


def fairbatch_algorithm(
    engine: Engine, solver: LocalSolver, notion: str, alpha: Float[Array, " r"]
) -> Algorithm:
    """Return :func:`fairbatch` on one client that holds all rows; one round is a whole training.

    The logit is that of the engine's model, 2z: its parameters are twice those of z. A further
    round goes on from there with the ratios at their start. Of the solver it takes learning rate,
    batch and epochs; the optimiser is Adam. As 30 local epochs are usual here, they stand for the
    authors' 300, 400 or 450, other numbers for as many in proportion.
    """
    epochs = max(1, EPOCHS[notion] * solver.epochs // USUAL_EPOCHS)

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        fits = [
            fairbatch(
                data.x.astype(np.float64),
                data.y,
                data.group,
                notion,
                alpha=float(step),
                learning_rate=float(rate),
                batch=solver.batch,
                epochs=epochs,
                start=start,
                key=key,
            )
            for start, step, rate in zip(
                broadcast["params"], alpha, solver.learning_rate, strict=True
            )
        ]
        n = float(len(data.y))
        upload = {
            "weighted": n * np.stack([fit.params for fit in fits]),
            "ratios": n * np.stack([fit.ratios[-1] for fit in fits]),
            "weight": np.full(len(fits), n),
        }
        return upload, memory

    fit = ClientTask("fit", "sum", run)

    def round(s: State, ask: Ask) -> tuple[State, Info]:
        total = ask(fit, {"params": s.params})
        return State(average(total, s.params)), Info(lam=total["ratios"] / total["weight"][:, None])

    return Algorithm(
        name="fairbatch",
        tasks=(fit,),
        state=State,
        memory=lambda params: {},
        setup=lambda params, ask: State(params),
        round=round,
        params=lambda s: s.params,
        predict=lambda s, _, examples: predict_globally(engine, s.params, examples),
    )


def _make(problem: Problem) -> Algorithm:
    engine, notion = problem.engine, problem.notion
    if engine.model != Network(engine.model.inputs):
        raise ConfigError(
            "fairbatch trains its authors' linear classifier, and this model is another. "
            "Choose --model logistic, or cfl: the same rule by weights, for any model."
        )
    if not isinstance(notion, DemographicParity | EqualOpportunity | EqualizedOdds):
        raise ConfigError(
            f"fairbatch compares two groups by demographic parity, equal opportunity or equalized "
            f"odds, not by {notion.name!r}. Choose --notion dp, eo or eod, or the method cfl."
        )
    if notion.groups > 2:
        raise ConfigError(
            f"fairbatch compares two groups, and these data have {notion.groups}. Choose cfl: the "
            "same rule by weights, for any number of groups."
        )
    return fairbatch_algorithm(engine, problem.solver, notion.name, problem.knobs["alpha"])


METHOD = Method(
    name="fairbatch",
    summary="the original sampler on pooled rows: two groups, linear classifier",
    paper="Roh, Lee, Whang, Suh 2021",
    make=_make,
    knobs={"alpha": Knob(0.005, (0.001, 0.005, 0.01, 0.02), "step of the sampling ratios")},
    pooled=("plain",),
    most_groups=2,
    rounds=1,
    learning_rate=0.0005,
    learning_rates=(0.0005, 0.001, 0.005),
    additive=False,  # which rows fall into a batch follows their order
    reads={"local_epochs": (), "batch": ()},
)
