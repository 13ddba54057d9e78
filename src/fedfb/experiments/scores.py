"""How the scores of a plain model are asked for: what a client needs of ``fedfb achievable``."""

from dataclasses import replace
from typing import Any

import numpy as np

from fedfb.algorithms.fedfb.threshold_rules import histogram_task
from fedfb.core import Arrays, ClientData, ClientTask, Key
from fedfb.engine import Engine
from fedfb.experiments.resolve import resolve
from fedfb.experiments.spec import Experiment
from fedfb.shapes import Array, Bool, Float

POPULATION_BINS = 200
"""Bins of the score, from 0 to 1."""

FEWEST_ROWS = 30
"""A group with rows, but fewer than this, is too small to estimate the law of its scores."""


def without_fairness(experiment: Experiment) -> Experiment:
    """Return what trains the model whose scores are counted: FedAvg, otherwise as declared."""
    usual = Experiment()
    of_method = ("alpha", "target", "cost", "outer", "knobs", "variant", "notion", "participation")
    plain: dict[str, Any] = {name: getattr(usual, name) for name in of_method}
    return resolve(replace(experiment, algorithm="fedavg", **plain))


def scores_task(engine: Engine) -> ClientTask:
    """Ask every client for the histogram of its scores, by label and group, and its id."""
    counting = histogram_task(engine, POPULATION_BINS)

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        upload, memory = counting.run(broadcast, data, memory, key)
        return {**upload, "client": np.array(data.id)}, memory

    return ClientTask("scores", "gather", run)


def tiny(counts: Float[Array, "*i a k"]) -> Bool[Array, "*i a"]:
    """Return which groups of each client have rows, but too few.

    >>> tiny(np.array([[3.0, 2.0], [0.0, 0.0], [20.0, 30.0]])).tolist()
    [True, False, False]
    """
    rows = counts.sum(axis=-1)
    few: Bool[Array, "*i a"] = (rows > 0) & (rows < FEWEST_ROWS)
    return few


def withheld(upload: Arrays) -> Arrays:
    """Return a client's upload with zeros for its counts, if one of its groups is tiny."""
    by_group = upload["rows"].sum(axis=(0, 1))
    return {**upload, "rows": 0.0 * upload["rows"]} if tiny(by_group).any() else upload
