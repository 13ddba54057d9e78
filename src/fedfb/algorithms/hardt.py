"""Post-processing (Hardt, Price, Srebro: Equality of Opportunity in Supervised Learning, 2016).

Train without a thought of fairness, then give every group its own, possibly randomised, threshold.
"""

from typing import NamedTuple

import numpy as np

from fedfb.algorithms.method import Method, Problem
from fedfb.algorithms.tasks import average, equal_weights, fit_task
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
from fedfb.engine import Engine, sigmoid
from fedfb.errors import ConfigError
from fedfb.notions import DemographicParity, EqualizedOdds, EqualOpportunity
from fedfb.shapes import Array, Bool, Float, Int

BINS = 1000
"""Bins of scores between 0 and 1; a half is the lower edge of one."""

Compared = tuple[tuple[int, ...], ...]
"""The sets of labels among which groups shall have the same rate of positive decisions."""

COMPARED: dict[str, Compared] = {
    "demographic_parity": ((0, 1),),
    "equal_opportunity": ((1,),),
    "equalized_odds": ((0,), (1,)),
}


class State(NamedTuple):
    """The common model, and P(decide 1) of a row by its group and the bin of its score."""

    params: Float[Array, "r p"]
    chance: Float[Array, "r a k"]


def hardt(
    engine: Engine, solver: LocalSolver, groups: int, compared: Compared, bins: int = BINS
) -> Algorithm:
    r"""Return post-processing by group thresholds.

    Group a decides 1 where the score reaches a threshold, drawn from :math:`w_a`. With
    :math:`P_{yak}` the number of rows of label y in group a that reach threshold k, the linear
    programme is

    .. math:: \min_{w\ge 0,\,\sum_k w_{ak}=1}\sum_{a,k}w_{ak}(P_{0ak}-P_{1ak})
        \quad\text{s.t.}\quad
        \sum_k w_{ak}\frac{\sum_{y\in Y}P_{yak}}{\sum_{y\in Y}n_{ya}}=c_Y\ \text{for every a}

    that is, the fewest mistakes among equal rates: :math:`Y=\{1\}` for equal opportunity, {0} and
    {1} for equalized odds, {0, 1} (all rows) for demographic parity. What is kept is the chance
    :math:`P(\hat y=1\mid a,k)=\sum_{k'\le k}w_{ak'}`: mostly 0 or 1, a probability between two
    thresholds. A group that lacks a label to be compared by keeps the threshold 1/2. Predicting
    needs the group of a row; its score is the model's.

    Departs from the paper: thresholds stand on a grid of ``bins``, so scores within 1/``bins`` of
    one another may be decided alike; and they are chosen on the training rows, after every round.
    """
    fit, histogram = fit_task(engine, solver, equal_weights), histogram_task(engine, bins)

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        return State(params, np.tile(at_a_half(bins), (len(params), groups, 1)))

    def round(s: State, ask: Ask) -> tuple[State, Info]:
        params = average(ask(fit, {"params": s.params}), s.params)
        rows = ask(histogram, {"params": params})["rows"]
        return State(params, np.stack([equalise(run, compared) for run in rows])), Info()

    def predict(s: State, _: object, examples: Examples) -> Prediction:
        score = sigmoid(engine.logits(s.params, examples.x))
        run = np.arange(len(score))[:, None]
        return Prediction(score, s.chance[run, examples.group, bin_of(score, bins)])

    return Algorithm(
        name="hardt",
        tasks=(fit, histogram),
        state=State,
        memory=lambda params: {},
        setup=setup,
        round=round,
        params=lambda s: s.params,
        predict=predict,
    )


def equalise(rows: Float[Array, "2 a k"], compared: Compared) -> Float[Array, "a k"]:
    """Return P(decide 1) by group and bin: the fewest mistakes among equal rates.

    >>> rows = np.array([[[2.0, 0.0], [0.0, 0.0]], [[0.0, 2.0], [1.0, 1.0]]])
    >>> equalise(rows, compared=((1,),)) # the second group has no label 0: all are let in
    array([[0., 1.],
           [1., 1.]])
    """
    reach = np.zeros((*rows.shape[:2], rows.shape[2] + 1))
    reach[..., :-1] = np.cumsum(rows[..., ::-1], axis=2)[..., ::-1]
    chance = np.tile(at_a_half(rows.shape[2]), (rows.shape[1], 1))
    here = np.flatnonzero(_comparable(reach[..., 0], compared))
    if len(here):
        chance[here] = np.cumsum(mixtures(reach[:, here], compared), axis=1)[:, :-1]
    # The solver's sums to 1 are off by rounding.
    return np.clip(np.where(chance > 1 - 1e-9, 1.0, np.where(chance < 1e-9, 0.0, chance)), 0, 1)


def mixtures(reach: Float[Array, "2 a t"], compared: Compared) -> Float[Array, "a t"]:
    """Solve the linear programme for the weights of the thresholds, each group's sum to 1."""
    from scipy.optimize import linprog  # heavy: only those who use it should wait for it

    _, groups, thresholds = reach.shape
    size = groups * thresholds
    mistakes = np.concatenate([(reach[0] - reach[1]).ravel(), np.zeros(len(compared))])
    of_group = np.kron(np.eye(groups), np.ones(thresholds))
    blocks = [np.hstack([of_group, np.zeros((groups, len(compared)))])]
    for place, labels in enumerate(compared):
        among = reach[list(labels)].sum(axis=0)
        rate = of_group * (among / among[:, :1]).ravel()
        blocks.append(np.hstack([rate, -np.eye(len(compared))[[place] * groups]]))
    equal_to = np.concatenate([np.ones(groups), np.zeros(groups * len(compared))])
    found = linprog(mistakes, A_eq=np.vstack(blocks), b_eq=equal_to, bounds=(0, 1), method="highs")
    weights: Float[Array, "a t"] = found.x[:size].reshape(groups, thresholds)
    return weights


def at_a_half(bins: int) -> Float[Array, " k"]:
    """Return the usual decision by bin: 1 from the score 1/2 on.

    >>> at_a_half(4)
    array([0., 0., 1., 1.])
    """
    return (np.arange(bins) >= bins / 2).astype(np.float64)


def bin_of(score: Float[Array, "r n"], bins: int) -> Int[Array, "r n"]:
    """Return the bin of each score; a score of 1 falls into the last."""
    return np.minimum((score * bins).astype(np.int64), bins - 1)


def _comparable(counts: Float[Array, "2 a"], compared: Compared) -> Bool[Array, " a"]:
    """Tell which groups have rows of every set of labels that is compared."""
    return np.all([counts[list(labels)].sum(axis=0) > 0 for labels in compared], axis=0)


def histogram_task(engine: Engine, bins: int) -> ClientTask:
    """Ask how many rows of each label and group have their score in each bin."""

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        number = bin_of(sigmoid(engine.logits(broadcast["params"], data.x)), bins)
        cells = 2 * data.groups * bins
        rows = [np.bincount(data.cell * bins + run, minlength=cells) for run in number]
        return {"rows": np.reshape(rows, (-1, 2, data.groups, bins)).astype(np.float64)}, memory

    return ClientTask("histogram", "sum", run)


def _make(problem: Problem) -> Algorithm:
    match problem.notion:
        case (
            DemographicParity(groups=groups)
            | EqualOpportunity(groups=groups)
            | EqualizedOdds(groups=groups)
        ):
            compared = COMPARED[problem.notion.name]
            return hardt(problem.engine, problem.solver, groups, compared)
        case other:
            raise ConfigError(
                f"hardt gives every group its thresholds, which says nothing about {other.name!r}. "
                "Choose --notion dp, eo or eod, or another method (fedfb list)."
            )


METHOD = Method(
    name="hardt",
    summary="train plainly on pooled rows, then give every group its own threshold",
    paper="Hardt, Price, Srebro 2016",
    make=_make,
    pooled=("plain",),
)
