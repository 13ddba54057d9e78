"""What fairness each approach can reach on a population, before anyone trains."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedfb.experiments.evaluation import Record
from fedfb.theory import (
    CurvePoint,
    Population,
    Solution,
    cfl_curve,
    ensemble_range,
    erm,
    lft_ensemble,
    lft_ensemble_curve,
    lft_fedavg,
    lft_fedavg_curve,
    lft_fedavg_least,
    tau,
)

LEVELS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)
"""The disparities (spd) at which curves are evaluated unless others are asked for."""

APPROACHES = {
    "cfl": "CFL (together)",
    "lft_fedavg": "LFT+FedAvg",
    "lft_ensemble": "LFT+Ensemble",
}
NEGLIGIBLE = 5e-5


def achievable(
    population: Population,
    levels: Sequence[float] = LEVELS,
    eps: Sequence[float] | None = None,
) -> Record:
    r"""Return for every approach the least disparity it can reach, and its best accuracies.

    ``disparity``, ``min_disparity`` and the levels are :math:`|P_0-P_1|` (``spd``); the record of
    a classifier also has ``demographic_parity``, :math:`\max_a|P_a-P|`. With local budgets ``eps``
    the classifiers that local training leads to are described as well.
    """
    reach, fedavg_at_best = ensemble_range(population), lft_fedavg_least(population)
    best_of_ensemble = lft_ensemble(population, reach.budgets)
    together = cfl_curve(population, [0.0])[0].solution
    record: Record = {
        "measure": "spd",
        "erm": _classifier(erm(population)),
        "client_gaps": [float(gap) for gap in erm(population).outcome.client_gaps],
        "cfl": _approach(0.0, together, cfl_curve(population, levels)),
        "lft_ensemble": _approach(
            reach.least_disparity, best_of_ensemble, lft_ensemble_curve(population, levels)
        ),
        "lft_fedavg": _approach(
            _clean(fedavg_at_best.outcome.spd), fedavg_at_best, lft_fedavg_curve(population, levels)
        ),
    }
    record["lft_ensemble"]["tau"] = tau(population)
    if eps is not None:
        record["lft_ensemble"]["at_eps"] = _classifier(lft_ensemble(population, eps))
        record["lft_fedavg"]["at_eps"] = _classifier(lft_fedavg(population, eps))
    return record


def sentence(record: Mapping[str, Any]) -> str:
    """Say in plain words what the record comes to.

    >>> at = {"min_disparity": 0.0, "at_least": {"accuracy": 0.8}}
    >>> sentence({"erm": {"accuracy": 0.85, "disparity": 0.3}, "cfl": at, "lft_fedavg": at,
    ...           "lft_ensemble": {"min_disparity": 0.16}})
    ... # doctest: +NORMALIZE_WHITESPACE
    'Training locally and voting cannot get below |P0 - P1| = .160 here, averaging locally fair
    models reaches 0; training together reaches 0 at a cost of 5.0 points of accuracy.'
    """
    cost = 100 * (record["erm"]["accuracy"] - record["cfl"]["at_least"]["accuracy"])
    vote, mean = record["lft_ensemble"]["min_disparity"], record["lft_fedavg"]["min_disparity"]
    voting = (
        f"cannot get below |P0 - P1| = {_short(vote)} here" if vote > NEGLIGIBLE else "reaches 0"
    )
    averaging = f"not below {_short(mean)}" if mean > NEGLIGIBLE else "reaches 0"
    return (
        f"Training locally and voting {voting}, averaging locally fair models {averaging}; "
        f"training together reaches 0 at a cost of {cost:.1f} points of accuracy."
    )


def _approach(least: float, best: Solution | None, curve: Sequence[CurvePoint]) -> Record:
    return {
        "min_disparity": float(least),
        "at_least": None if best is None else _classifier(best),
        "curve": [{"disparity": float(p.level), "accuracy": p.accuracy} for p in curve],
        "exact": all(point.exact for point in curve),
    }


def _classifier(solution: Solution) -> Record:
    seen = solution.outcome
    return {
        "accuracy": float(seen.accuracy),
        "disparity": float(seen.spd),
        "mean_difference": float(seen.mean_difference),
        "demographic_parity": float(seen.demographic_parity),
        "budgets": None if solution.budgets is None else [float(b) for b in solution.budgets],
    }


def _clean(value: float) -> float:
    """Return 0 for what is 0 up to the solver's accuracy."""
    return 0.0 if value < 1e-9 else float(value)


def _short(value: float) -> str:
    return f"{value:.3f}".lstrip("0")
