"""Post-processing (Hardt, Price, Srebro: Equality of Opportunity in Supervised Learning, 2016).

Train without fairness, then give every group its own threshold, which may be randomised.
"""

from fedfb.algorithms.fedavg import fedavg
from fedfb.algorithms.fedfb import fedfb
from fedfb.algorithms.fedfb.threshold_rules import refuse_without_group
from fedfb.algorithms.fedfb.thresholds import read_cutting, with_thresholds
from fedfb.algorithms.method import TRAINING, Method, Problem
from fedfb.core import Algorithm

_BINS = 1024
"""Number of bins of the scores from 0 to 1; 1/2 is the lower edge of a bin."""


def hardt(problem: Problem) -> Algorithm:
    """Return post-processing by group thresholds.

    The linear program is that of :mod:`fedfb.algorithms.fedfb.threshold_rules`, with mixtures. Most
    groups have one threshold. A random choice of two thresholds is used where one threshold cannot
    make rates equal.

    Departs from the paper: thresholds are on a grid of 1,024 points, so scores that differ by less
    than 1/1,024 may have the same decision. Thresholds are chosen on the training rows.
    """
    refuse_without_group("hardt", problem.options.sensitive_at_prediction)
    cutting = read_cutting(problem, mixed=True, minimum=0, bins=_BINS)
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
    one_fit=("plain",),
    reads={**TRAINING, "solver": ()},
)
