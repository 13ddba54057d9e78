"""FedAvg in which every group counts the same, however few rows it has."""

from typing import NamedTuple

import numpy as np

from fedfb.algorithms.method import GROUP_NOTIONS, Method, Problem
from fedfb.algorithms.tasks import average, count_task, fit_task, predict_globally
from fedfb.core import Algorithm, Info


class State(NamedTuple):
    params: np.ndarray  # the common model: runs x parameters
    weights: np.ndarray  # what a row weighs, by label and group


def make(problem: Problem) -> Algorithm:
    """Weigh a row of group a with n / (A n_a), so that each of A groups weighs the same."""
    engine = problem.engine

    def cell_weights(broadcast, data):
        return np.repeat(broadcast["weights"][None], len(broadcast["params"]), axis=0)

    count = count_task(problem.notion)  # rows by label and group, summed over clients
    fit = fit_task(engine, problem.solver, cell_weights)  # weighted local training

    def setup(params, ask):
        rows = ask(count, {})["counts"].sum(axis=0)
        groups = np.count_nonzero(rows)
        return State(params, np.repeat([rows.sum() / (groups * np.maximum(rows, 1))], 2, axis=0))

    def round(s, ask):
        total = ask(fit, {"params": s.params, "weights": s.weights})
        return State(average(total, s.params), s.weights), Info()

    return Algorithm(
        name="balanced",
        tasks=(count, fit),
        state=State,
        memory=lambda params: {},
        setup=setup,
        round=round,
        params=lambda s: s.params,
        predict=lambda s, memories, examples: predict_globally(engine, s.params, examples),
    )


METHOD = Method(
    "balanced", "every group counts the same", "an example", make, notions=GROUP_NOTIONS
)
