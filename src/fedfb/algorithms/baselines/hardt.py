"""Post-processing (Hardt, Price, Srebro: Equality of Opportunity in Supervised Learning, 2016).

Train without a thought of fairness, then give every group its own, possibly randomised, threshold.
"""

from fedfb.algorithms.fedavg import fedavg
from fedfb.algorithms.fedfb import fedfb
from fedfb.algorithms.fedfb.threshold_rules import refuse_without_group
from fedfb.algorithms.fedfb.thresholds import cutting_of, with_thresholds
from fedfb.algorithms.method import Method, Problem
from fedfb.core import Algorithm

BINS = 1024
"""Bins of scores between 0 and 1; a half is the lower edge of one."""


def hardt(problem: Problem) -> Algorithm:
    """Return post-processing by group thresholds.

    The linear program is that of :mod:`fedfb.algorithms.fedfb.threshold_rules` with its mixtures:
    mostly one threshold, and a coin between two where rates would not be equal otherwise.

    Departs from the paper: thresholds stand on a grid of :data:`BINS`, so scores within 1/BINS of
    one another may be decided alike; and they are chosen on the training rows.
    """
    refuse_without_group("hardt", problem.options["sensitive_at_prediction"])
    cutting = cutting_of(problem, mixed=True, minimum=0, bins=BINS)
    base = fedavg(problem.engine, problem.solver)
    return with_thresholds(
        base._replace(name="hardt"),
        lambda s: s.params,
        problem.engine,
        problem.notion,
        cutting,
    )


METHOD = Method(
    name="hardt",
    summary="train plainly on pooled rows, then give every group its own threshold",
    paper="Hardt, Price, Srebro 2016",
    make=hardt,
    knobs={"target": fedfb.TARGET},
    pooled=("plain",),
    outer_rules=("solve",),
)
