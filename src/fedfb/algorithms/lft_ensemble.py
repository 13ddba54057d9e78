"""LFT+Ensemble: local fair training, then a mixture (Zeng, Chen, Lee 2021, Section 3; code: UFL).

The paper's first baseline: every client runs FairBatch on its own rows and sends its model once.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np

from fedfb.algorithms.local_fairbatch import READS, LocalFairBatch, rule_of, train_fairbatch
from fedfb.algorithms.method import TRAINING, Knob, Method, Problem
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
from fedfb.engine import Engine, decide, sigmoid
from fedfb.shapes import Array, Float

Mixing = Literal["randomised", "soft", "vote"]
VARIANTS: Mapping[str, Mixing] = {"randomised": "randomised", "soft": "soft", "vote": "vote"}

ROUNDS_AT_ONCE = 10
"""One exchange gets the training of ten rounds: the paper's 300 epochs at 30 local epochs."""


class State(NamedTuple):
    """The members, their weights in the mixture (not normalised), and the exchanges done."""

    members: Float[Array, "r i p"]
    weights: Float[Array, " i"]
    t: int


def lft_ensemble(
    engine: Engine,
    solver: LocalSolver,
    rule: LocalFairBatch,
    mixing: Mixing = "randomised",
    weighting: Literal["uniform", "rows"] = "uniform",
) -> Algorithm:
    r"""Return LFT+Ensemble.

    Client i solves its own problem, with its own rows, counts and constraint,

    .. math:: \min_{f_i} P(\hat y\ne y\mid i)\quad\text{s.t. the groups of client i are alike,}

    by ten times the solver's epochs of local FairBatch (see
    :func:`~fedfb.algorithms.local_fairbatch.train_fairbatch`), all from one start. The mixture
    of the members' decisions :math:`d_i(x)=1[p_i(x)\ge\tfrac12]` decides

    .. math:: P(\hat y=1\mid x)=\begin{cases}\frac1I\sum_i d_i(x) & \texttt{randomised}\\
              1[\frac1I\sum_i p_i(x)\ge\frac12] & \texttt{soft}\\
              1[\frac1I\sum_i d_i(x)\ge\frac12] & \texttt{vote}\end{cases}

    and scores :math:`\frac1I\sum_i p_i(x)`. A randomised ensemble's gap is the mean of its members'
    gaps on all rows, whatever they are on the members' own. There is one exchange; later rounds ask
    nothing. Nobody has a single global model.

    Departs from the released code: members weigh the same, as in the paper (``rows``: by their
    number of rows), probabilities are not divided by a batch's total (defect D12), counts are the
    client's own (D7), lambda steps along :math:`|y-p|` by :math:`\alpha/\sqrt u`.
    """

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        longer = solver._replace(epochs=ROUNDS_AT_ONCE * solver.epochs)
        trained, _ = train_fairbatch(engine, longer, rule, broadcast["params"], data, {}, key)
        weight = np.asarray(1.0 if weighting == "uniform" else float(len(data.y)))
        return {"params": trained, "weight": weight, "client": np.asarray(data.id)}, memory

    # A mixture of decisions needs every member: their sum is another model.
    fit = ClientTask("fit alone", "gather", run)

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        return State(params[:, None], np.ones(1), 0)

    def round(s: State, ask: Ask) -> tuple[State, Info]:
        if s.t:
            return s, Info()
        answers = ask(fit, {"params": s.members[:, 0]})
        return State(np.moveaxis(answers["params"], 0, 1), answers["weight"], 1), Info()

    def predict(s: State, _: Mapping[int, Arrays], examples: Examples) -> Prediction:
        members = np.moveaxis(s.members, 1, 0)
        logits = np.stack([engine.logits(member, examples.x) for member in members])
        return mixed(logits, s.weights, mixing)

    return Algorithm(
        name="lft-ensemble",
        tasks=(fit,),
        state=State,
        memory=lambda params: {},
        setup=setup,
        round=round,
        params=lambda s: None,
        predict=predict,
    )


def mixed(logits: Float[Array, "i r n"], weights: Float[Array, " i"], mixing: Mixing) -> Prediction:
    """Return the mixture of the members' logits; half of the votes, or of p, decides positively.

    >>> logits, ones = np.array([[[3.0, -1.0]], [[-1.0, -1.0]]]), np.ones(2)
    >>> [mixed(logits, ones, mixing).decision.tolist() for mixing in ("randomised", "soft", "vote")]
    [[[0.5, 0.0]], [[1.0, 0.0]], [[1.0, 0.0]]]
    """
    score = np.tensordot(weights, sigmoid(logits), axes=1) / weights.sum()
    votes = np.tensordot(weights, decide(logits), axes=1)
    if mixing == "randomised":
        return Prediction(score, votes / weights.sum())
    if mixing == "soft":
        return Prediction(score, decide(score - 0.5))
    return Prediction(score, decide(2 * votes - weights.sum()))


def _make(problem: Problem) -> Algorithm:
    return lft_ensemble(problem.engine, problem.solver, rule_of(problem), VARIANTS[problem.variant])


METHOD = Method(
    name="lft-ensemble",
    summary="FairBatch on each client alone, then a mixture of the models",
    paper="Zeng, Chen, Lee 2021 (baseline)",
    make=_make,
    knobs={
        "alpha": Knob(
            0.05,
            (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 1.0),
            "Step of each client's own fairness weights, after every local epoch",
        )
    },
    variants=tuple(VARIANTS),
    rounds=1,
    additive=False,  # every client trains a model and weights of its own
    reads={**TRAINING, **dict.fromkeys(READS, ())},
)
