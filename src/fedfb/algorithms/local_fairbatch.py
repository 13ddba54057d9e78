"""FairBatch on one client's rows alone, the local half of LFT and of one form of FairFed."""

from typing import Literal, NamedTuple

import numpy as np

from fedfb.algorithms.method import GROUP_NOTIONS, Problem
from fedfb.core import Arrays, ClientData, Key, LocalSolver
from fedfb.engine import Engine, Rebalance, cell_counts
from fedfb.errors import ConfigError
from fedfb.notions import Notion, Surrogate
from fedfb.shapes import Array, Float

READS = ("signal_loss", "normalise", "decay", "reference")
"""The settings of the rule."""


class LocalFairBatch(NamedTuple):
    """How a client moves its own lambda: FedFB's rule on the counts of its own rows."""

    notion: Notion
    alpha: Float[Array, " r"]
    surrogate: Surrogate = "prob"
    normalise: Literal["none", "l2"] = "none"
    decay: Literal["const", "inv_sqrt", "inv"] = "inv_sqrt"


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

    The memory carries :math:`\lambda^{(i)}` and u on; a client that has not trained yet starts
    where every row weighs 1. Where fewer than two groups can be compared :math:`\mu^{(i)}=0`, and
    this is plain training.
    """
    counts = cell_counts(data)
    start = np.repeat(rule.notion.init(counts)[None], len(params), axis=0)
    lam, done = memory.get("lam", start), int(memory.get("epochs", 0))
    moves = Rebalance(
        rule.notion, counts, rule.alpha, rule.surrogate, rule.normalise, rule.decay, updates=done
    )
    trained, lam = engine.train_rebalancing(params, data, lam, moves, solver, key)
    return trained, {**memory, "lam": lam, "epochs": np.asarray(done + solver.epochs)}


def rule_of(problem: Problem) -> LocalFairBatch:
    """Return the rule that the settings describe; those not given keep the rule's defaults."""
    if problem.notion.name not in GROUP_NOTIONS:
        raise ConfigError(
            f"local FairBatch compares groups within one client, and {problem.notion.name} "
            "compares clients. Choose --notion dp, eo or eod, or the algorithm fedfb."
        )
    options = problem.options
    rule = LocalFairBatch(problem.notion, problem.knobs["alpha"])
    return rule._replace(
        surrogate=options.get("signal_loss") or rule.surrogate,
        normalise=options.get("normalise", rule.normalise),
        decay=options.get("decay", rule.decay),
    )
