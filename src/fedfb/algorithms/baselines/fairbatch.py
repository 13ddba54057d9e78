"""The original FairBatch (Roh, Lee, Whang, Suh: FairBatch, ICLR 2021): a sampler for two groups.

The sampler composes each batch from the two groups, and moves their ratios after every epoch. The
generalisation with weights, which FedFB distributes over clients, is ``cfl``.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fedfb.algorithms.baselines.server_step import descend, no_moments
from fedfb.algorithms.method import Knob, Method, Problem
from fedfb.algorithms.tasks import ModelState, average, global_model, weigh_model
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
from fedfb.data.datasets.synthetic import COVARIANCES, MEANS
from fedfb.engine import Engine, cell_counts, sigmoid
from fedfb.errors import ConfigError, unknown_name
from fedfb.models import Network
from fedfb.notions import DemographicParity, EqualizedOdds, EqualOpportunity
from fedfb.notions.base import ratio
from fedfb.shapes import Array, Float, Int

EPOCHS = {"equal_opportunity": 300, "equalized_odds": 400, "demographic_parity": 450}
"""The notions of the sampler, with the number of epochs that its authors train."""

USUAL_EPOCHS = LocalSolver._field_defaults["epochs"]


class FairBatchFit(NamedTuple):
    """Weights and bias of the logit 2z, and the ratios (lb2, lb1) of labels 0, 1 in every epoch."""

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
    :func:`fedfb.algorithms.baselines.fairbatch.move_ratios`.

    Departs from the authors' code: equal losses do not move a ratio (there it falls), and the ratio
    of a label that a group lacks does not move.

    Args:
        x: features.
        y: labels 0 and 1.
        group: groups 0 and 1.
        notion: a long name, one of EPOCHS.
        alpha: step of the ratios.
        learning_rate: of Adam.
        batch: rows of a batch; at most all rows.
        epochs: None: the authors' number.
        seed: draws the first parameters and the batches.
        start: first parameters of the logit 2z, in place of those of the seed.
        key: draws the batches, in place of the seed.
    """
    if notion not in EPOCHS:
        raise ConfigError(unknown_name("notion of fairbatch", notion, EPOCHS))
    # With a batch larger than the data an epoch would have no batch. All rows are one batch then.
    data, batch = ClientData(0, x, y, group, 2), min(batch, len(y))
    counts, rng = cell_counts(data), generator(key or (seed, 1))
    lam = ratio(counts[:, 1], counts.sum(axis=1), empty=0.0)
    w = (Network(x.shape[1]).init(seed) if start is None else start / 2)[None]
    adam, moments, t = LocalSolver(np.array([learning_rate])), no_moments(w), 0
    ratios = np.zeros((EPOCHS[notion] if epochs is None else epochs, 2))
    rows = np.column_stack([x, np.ones(len(y))])
    for epoch in range(len(ratios)):
        chance = sigmoid(rows @ (2 * w[0]))
        lam = ratios[epoch] = move_ratios(lam, signed_gaps(chance, data, notion), notion, alpha)
        for batch_rows in batches(data.cell, batch_sizes(lam, counts, batch), len(y) // batch, rng):
            batch_x = rows[batch_rows]
            error = 2 * (sigmoid(batch_x @ (2 * w[0])) - y[batch_rows])
            gradient = error @ batch_x / len(batch_rows)
            w, moments, t = *descend(w, gradient[None], moments, adam, t + 1), t + 1
    return FairBatchFit(2 * w[0], ratios)


def original_data(seed: int, rows: int = 2000, test: int = 1000) -> tuple[ClientData, Examples]:
    r"""Draw training and test rows (x1, x2, group) like those of the paper's synthetic data.

    .. math:: y\sim\mathrm{Bern}(.5),\quad x\mid y\sim N(\mu_y,\Sigma_y),\quad
              P(a=1\mid x)=\frac{p_1(x')}{p_0(x')+p_1(x')},\quad x'=R(-\pi/4)\,x

    with :math:`\mu_1=-\mu_0=(2,2)`, :math:`\Sigma_1=((5,1),(1,5))`,
    :math:`\Sigma_0=((10,1),(1,3))` and :math:`p_y` the density of label y. The group is a feature.

    An interpretation: the authors published rows, not the generator. This is the generator of Zafar
    et al. (2017) with the angle :math:`\pi/4`, which turns clockwise. ``synthetic`` turns
    counter-clockwise, has 60% positives, and has a stronger relation of group and label.

    Args:
        seed: draws the rows.
        rows: training rows.
        test: test rows.
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


def fairbatch_algorithm(
    engine: Engine, solver: LocalSolver, notion: str, alpha: Float[Array, " r"]
) -> Algorithm:
    """Return :func:`fairbatch` for one client that holds all rows. A round is a whole training.

    The model of the engine has the logit 2z: its parameters are twice those of z. A second round
    continues from the parameters, with the ratios at their start.

    Args:
        engine: scores the rows; its model is linear.
        solver: learning rate, batch and epochs; the optimiser is Adam. The default of 30 local
            epochs stands for the authors' 300, 400 or 450; other numbers in proportion.
        notion: a long name.
        alpha: step of the ratios, one value per run.
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
        upload = weigh_model(np.stack([fit.params for fit in fits]), np.full(len(fits), n))
        return {**upload, "ratios": n * np.stack([fit.ratios[-1] for fit in fits])}, memory

    fit = ClientTask("fit", "sum", run)

    def round(s: ModelState, ask: Ask) -> tuple[ModelState, Info]:
        total = ask(fit, {"params": s.params})
        return ModelState(average(total, s.params)), Info(
            lam=total["ratios"] / total["weight"][:, None]
        )

    return global_model(
        "fairbatch", engine, (fit,), ModelState, lambda params, ask: ModelState(params), round
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


_TIE = 1e-12
"""Gaps up to this size count as 0."""


def signed_gaps(chance: Float[Array, " n"], data: ClientData, notion: str) -> Float[Array, " 2"]:
    r"""Return for each label how much more weight group 1 needs; 0 if a group lacks the label.

    .. math:: D_y = L_{y1}-L_{y0},\qquad\text{for demographic parity}\quad
              D_y = (2y-1)(G_{y1}-G_{y0}),\ G_{ya}=\frac1{n_a}\sum_{(y,a)}\ell(1,p)

    with the mean losses :math:`L_{ya}`. More weight on rows of label 0 lowers predictions: hence
    the sign.

    Args:
        chance: predicted probability of label 1.
        data: labels and groups.
        notion: a long name.
    """
    counts, parity = cell_counts(data), notion == "demographic_parity"
    target = np.ones_like(data.y) if parity else data.y
    losses = -np.log(np.maximum(np.where(target == 1, chance, 1 - chance), 1e-12))
    sums = np.bincount(data.cell, losses, minlength=4).reshape(2, 2)
    means = ratio(sums, counts.sum(axis=0) if parity else counts, empty=0.0)
    gaps = np.where((counts > 0).all(axis=1), means[:, 1] - means[:, 0], 0.0)
    return gaps * (np.array([-1.0, 1.0]) if parity else 1.0)


def move_ratios(
    lam: Float[Array, " 2"], gaps: Float[Array, " 2"], notion: str, alpha: float
) -> Float[Array, " 2"]:
    r"""Return the ratios after a step of :math:`\alpha`, limited to [0, 1].

    Only the label with the larger gap moves (equal opportunity: only label 1), towards the group
    that needs more. A gap of 0 moves nothing.

    Args:
        lam: ratio of group 1 for each label.
        gaps: see :func:`signed_gaps`.
        notion: a long name.
        alpha: the step.

    >>> move_ratios(np.array([0.5, 0.5]), np.array([0.3, -0.2]), "equalized_odds", 0.1)
    array([0.6, 0.5])
    >>> move_ratios(np.array([0.5, 0.5]), np.array([0.3, -0.2]), "equal_opportunity", 0.1)
    array([0.5, 0.4])
    """
    label = 1 if notion == "equal_opportunity" or abs(gaps[1]) > abs(gaps[0]) else 0
    after = lam.copy()
    if abs(gaps[label]) > _TIE:
        after[label] = np.clip(lam[label] + alpha * np.sign(gaps[label]), 0.0, 1.0)
    return after


def batch_sizes(
    lam: Float[Array, " 2"], counts: Int[Array, "2 2"], batch: int
) -> Int[Array, "2 2"]:
    r"""Return the number of rows of each cell (label, group) in a batch.

    The number is :math:`B\frac{n_y}{n}(1-\lambda_y,\lambda_y)`, rounded.

    Args:
        lam: ratio of group 1 for each label.
        counts: rows of each cell in the data.
        batch: rows B of a batch.

    >>> batch_sizes(np.array([0.5, 0.2]), np.array([[20, 20], [30, 30]]), batch=100)
    array([[20, 20],
           [48, 12]])
    """
    of_label = batch * counts.sum(axis=1) / counts.sum()
    sizes = np.stack([1 - lam, lam], axis=1) * of_label[:, None]
    # .35 and 1 - .65 are different floats. Rounding first makes halves round alike for both groups.
    sizes = np.rint(np.round(sizes, 9))
    return np.where(counts > 0, sizes, 0).astype(np.int64)


def batches(
    cell: Int[Array, " n"], sizes: Int[Array, "2 2"], number: int, rng: np.random.Generator
) -> Iterator[Int[Array, " b"]]:
    """Yield batches: the rows of every cell in random order, again from the start at the end.

    Args:
        cell: cell number of each row.
        sizes: rows of each cell in a batch.
        number: number of batches.
        rng: draws the order.
    """
    # One order for all rows, so that swapping the numbers of the groups changes no batch.
    order = rng.permutation(len(cell))
    by_cell = [order[cell[order] == number_of_cell] for number_of_cell in range(4)]
    parts = [
        rows[np.arange(number * size) % len(rows)].reshape(number, size)
        for rows, size in zip(by_cell, sizes.ravel(), strict=True)
        if size
    ]
    yield from np.concatenate(parts, axis=1) if parts else ()
