"""Local fair training (LFT): the two baselines of the paper (Zeng, Chen, Lee 2021, Section 3).

In both, every client runs FairBatch on its own rows for its own constraint
(:func:`train_fairbatch`, which one form of FairFed uses too).

- LFT+Ensemble (code: UFL): every client sends its model once, and a mixture of models decides.
- LFT+FedAvg (code: FFL): FedAvg, whose clients run FairBatch.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np

from fedfb.algorithms.method import GROUP_NOTIONS, TRAINING, Knob, Method, Problem
from fedfb.algorithms.tasks import averaging, empty_memory, weigh_model
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
from fedfb.engine import Engine, Rebalance, cell_counts, decide, sigmoid
from fedfb.errors import ConfigError
from fedfb.notions import Notion, Surrogate
from fedfb.shapes import Array, Float

READS = ("signal_loss", "normalise", "decay", "reference")
"""The settings of the rule."""


class LocalFairBatch(NamedTuple):
    """The rule by which a client moves its own lambda: FedFB's rule on the client's counts."""

    notion: Notion
    alpha: Float[Array, " r"]
    surrogate: Surrogate = "prob"
    normalise: Literal["none", "l2"] = "none"
    decay: Literal["const", "inv_sqrt", "inv"] = "inv_sqrt"


Mixing = Literal["randomised", "soft", "vote"]
VARIANTS: Mapping[str, Mixing] = {"randomised": "randomised", "soft": "soft", "vote": "vote"}

ROUNDS_AT_ONCE = 10
"""The ensemble's one exchange trains as long as ten rounds: 300 epochs, as in the paper."""


class EnsembleState(NamedTuple):
    """The members, their weights in the mixture (not normalised), and the number of exchanges."""

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

    Client i solves a problem of its own rows, counts and constraint,

    .. math:: \min_{f_i} P(\hat y\ne y\mid i)\quad\text{s.t. the groups of client i are alike,}

    by local FairBatch (:func:`train_fairbatch`) with ten times the solver's epochs. All clients
    start from the same parameters. The mixture of the members' decisions
    :math:`d_i(x)=1[p_i(x)\ge\tfrac12]` decides

    .. math:: P(\hat y=1\mid x)=\begin{cases}\frac1I\sum_i d_i(x) & \texttt{randomised}\\
              1[\frac1I\sum_i p_i(x)\ge\frac12] & \texttt{soft}\\
              1[\frac1I\sum_i d_i(x)\ge\frac12] & \texttt{vote}\end{cases}

    and its score is :math:`\frac1I\sum_i p_i(x)`. The gap of a randomised ensemble is the mean of
    its members' gaps on all rows, whatever their gaps on their own rows. There is one exchange;
    later rounds have none. There is no common model.

    Departs from the released code: members have equal weights, as in the paper; probabilities are
    not divided by a batch's total (defect D12); counts are the client's (D7); lambda steps along
    :math:`|y-p|` by :math:`\alpha/\sqrt u`.

    Args:
        engine: does the arithmetic.
        solver: local training.
        rule: how each client moves its lambda.
        mixing: how the mixture decides.
        weighting: equal weights of the members, or their numbers of rows.
    """

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        longer = solver._replace(epochs=ROUNDS_AT_ONCE * solver.epochs)
        trained, _ = train_fairbatch(engine, longer, rule, broadcast["params"], data, {}, key)
        weight = np.asarray(1.0 if weighting == "uniform" else float(len(data.y)))
        return {"params": trained, "weight": weight, "client": np.asarray(data.id)}, memory

    # A mixture of decisions needs every member: the sum of parameters is a different model.
    fit = ClientTask("fit alone", "gather", run)

    def setup(params: Float[Array, "r p"], ask: Ask) -> EnsembleState:
        return EnsembleState(params[:, None], np.ones(1), 0)

    def round(s: EnsembleState, ask: Ask) -> tuple[EnsembleState, Info]:
        if s.t:
            return s, Info()
        stack = ask(fit, {"params": s.members[:, 0]})
        return EnsembleState(np.moveaxis(stack["params"], 0, 1), stack["weight"], 1), Info()

    def predict(s: EnsembleState, _: Mapping[int, Arrays], examples: Examples) -> Prediction:
        members = np.moveaxis(s.members, 1, 0)
        logits = np.stack([engine.logits(member, examples.x) for member in members])
        return mix(logits, s.weights, mixing)

    return Algorithm(
        name="lft-ensemble",
        tasks=(fit,),
        state=EnsembleState,
        memory=empty_memory,
        setup=setup,
        round=round,
        params=lambda s: None,
        predict=predict,
    )


def mix(logits: Float[Array, "i r n"], weights: Float[Array, " i"], mixing: Mixing) -> Prediction:
    """Return the prediction of a mixture; half of the votes, or of p, is a positive decision.

    Args:
        logits: by member, run and row.
        weights: weights of the members; they need not sum to 1.
        mixing: how the mixture decides.

    >>> logits, ones = np.array([[[3.0, -1.0]], [[-1.0, -1.0]]]), np.ones(2)
    >>> [mix(logits, ones, mixing).decision.tolist() for mixing in ("randomised", "soft", "vote")]
    [[[0.5, 0.0]], [[1.0, 0.0]], [[1.0, 0.0]]]
    """
    score = np.tensordot(weights, sigmoid(logits), axes=1) / weights.sum()
    votes = np.tensordot(weights, decide(logits), axes=1)
    if mixing == "randomised":
        return Prediction(score, votes / weights.sum())
    if mixing == "soft":
        return Prediction(score, decide(score - 0.5))
    return Prediction(score, decide(2 * votes - weights.sum()))


_ALPHA = Knob(
    0.05,
    (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 1.0),
    "Step of each client's own fairness weights, after every local epoch",
)


def _make_ensemble(problem: Problem) -> Algorithm:
    return lft_ensemble(
        problem.engine, problem.solver, read_rule(problem), VARIANTS[problem.variant]
    )


LFT_ENSEMBLE = Method(
    name="lft-ensemble",
    summary="FairBatch on each client alone, then a mixture of the models",
    paper="Zeng, Chen, Lee 2021 (baseline)",
    make=_make_ensemble,
    knobs={"alpha": _ALPHA},
    variants=tuple(VARIANTS),
    rounds=1,
    additive=False,  # every client trains its own model and weights
    reads={**TRAINING, **dict.fromkeys(READS, ())},
)


def _lft_fedavg(engine: Engine, solver: LocalSolver, rule: LocalFairBatch) -> Algorithm:
    r"""Return LFT+FedAvg.

    The problem is :math:`\min_f P(\hat y\ne y)` s.t. the groups of every client are alike.
    Round t: client i trains E epochs from :math:`w^t` on

    .. math:: \frac1{W_i}\sum_{j\in i}\omega_j(\lambda^{(i)})\,\ell_j,\qquad
              W_i=\sum_{j\in i}\omega_j(\lambda^{(i)}),\qquad
              \lambda^{(i)}\leftarrow\Pi\bigl(\lambda^{(i)}+\alpha u^{-1/2}\mu^{(i)}\bigr)

    where lambda moves after every epoch, u counts the client's epochs over all rounds, and weights,
    signal and projection use local counts. The server averages as FedAvg does,
    :math:`w^{t+1}=\sum_i\frac{n_i}n w_i`. With :math:`\alpha=0` this is FedAvg. With one client it
    is FairBatch on all rows, with a move per epoch; with E = 1 it is exactly CFL, round by round.

    The weight of a client in the average is its number of rows, not the mass :math:`W_i`. Lambda
    moves within the round, so the mass is not unique, and lambda stays at the client. Rows and mass
    differ for demographic parity only; otherwise :math:`W_i=n_i`.

    Departs from the released code: the step decays over all epochs by :math:`1/\sqrt u` (there:
    1/(epoch+1), from the start in every round), lambda moves once per epoch and uses the client's
    counts (defect D7), the average is a weighted mean (D1), the signal is :math:`|y-p|` (E19).

    Args:
        engine: does the arithmetic.
        solver: local training.
        rule: how each client moves its lambda.
    """

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        params = broadcast["params"]
        trained, memory = train_fairbatch(engine, solver, rule, params, data, memory, key)
        return weigh_model(trained, np.full(len(params), float(len(data.y)))), memory

    return averaging("lft-fedavg", engine, ClientTask("fit", "sum", run))


def _make_fedavg(problem: Problem) -> Algorithm:
    return _lft_fedavg(problem.engine, problem.solver, read_rule(problem))


LFT_FEDAVG = Method(
    name="lft-fedavg",
    summary="FedAvg of clients that each run FairBatch for themselves",
    paper="Zeng, Chen, Lee 2021 (baseline)",
    make=_make_fedavg,
    knobs={"alpha": _ALPHA},
    additive=False,  # every client moves its own weights
    reads={**TRAINING, **dict.fromkeys(READS, ())},
)


def train_fairbatch(
    engine: Engine,
    solver: LocalSolver,
    rule: LocalFairBatch,
    params: Float[Array, "r p"],
    data: ClientData,
    memory: Arrays,
    key: Key,
) -> tuple[Float[Array, "r p"], Arrays]:
    r"""Train on the client's rows weighted by its own :math:`\lambda^{(i)}`.

    .. math:: \lambda^{(i)}\leftarrow\Pi_{\Lambda^{(i)}}
              \bigl(\lambda^{(i)}+\alpha\,u^{-1/2}\mu^{(i)}\bigr)
              \quad\text{after the u-th local epoch}

    The memory holds :math:`\lambda^{(i)}` and u. A client that has not trained yet starts with
    weight 1 for every row. If fewer than two groups can be compared, :math:`\mu^{(i)}=0`, and this
    is plain training.

    Args:
        engine: does the arithmetic.
        solver: local training.
        rule: how the client moves its lambda.
        params: where training starts.
        data: the client's rows.
        memory: the client's memory; its other entries are returned unchanged.
        key: draws the order of the rows.
    """
    counts = cell_counts(data)
    start = np.repeat(rule.notion.init(counts)[None], len(params), axis=0)
    lam, done = memory.get("lam", start), int(memory.get("epochs", 0))
    moves = Rebalance(
        rule.notion, counts, rule.alpha, rule.surrogate, rule.normalise, rule.decay, updates=done
    )
    trained, lam = engine.train_rebalancing(params, data, lam, moves, solver, key)
    return trained, {**memory, "lam": lam, "epochs": np.asarray(done + solver.epochs)}


def read_rule(problem: Problem) -> LocalFairBatch:
    """Return the rule of the settings; a setting that is not set has the rule's default."""
    if problem.notion.name not in GROUP_NOTIONS:
        raise ConfigError(
            f"local FairBatch compares groups within one client, and {problem.notion.name} "
            "compares clients. Choose --notion dp, eo or eod, or the algorithm fedfb."
        )
    options = problem.options
    rule = LocalFairBatch(problem.notion, problem.knobs["alpha"])
    return rule._replace(
        surrogate=options.signal_loss or rule.surrogate,
        normalise=options.normalise,
        decay=options.decay,
    )
