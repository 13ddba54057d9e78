r"""Local search among the attainable rules of LFT+FedAvg.

Within one orthant of :math:`\lambda` attainability is a smooth constraint,
:math:`\sigma_i M_i\le 0`, and no inner problem has to be solved: sequential quadratic
programming, first on softened rules (:mod:`fedfb.theory.sketch`), then on the exact ones.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize

from fedfb.shapes import Array, Bool, Float
from fedfb.theory.sketch import Linearised

Rules = Callable[[Array], Linearised]


class Goal(NamedTuple):
    """Best accuracy with :math:`|MD|` at most a level, or the least :math:`|MD|`."""

    towards: Literal["accuracy", "parity"]
    level: float


class Effort(NamedTuple):
    """How many steps a search makes at most, and below which gain it ends."""

    steps: int
    gain: float = 1e-10


def climb(
    rules: Rules, free: Bool[Array, " i"], goal: Goal, start: Float[Array, " i"], effort: Effort
) -> Float[Array, " i"]:
    """Return where the search ends, within the orthant of its start.

    ``free`` marks clients that hold both groups; the others carry no multiplier.
    """
    at = _remembering(rules, free)
    first = at(start[free])
    side = np.where(start == 0, -np.sign(first.gaps), np.sign(start))[free]
    side = np.where(side == 0, 1.0, side)
    direction = np.sign(first.mean_difference) or 1.0
    for_accuracy = goal.towards == "accuracy"
    most, least = (goal.level, goal.level) if for_accuracy else (1.0, 0.0)

    def loss(lam: Array) -> float:
        return -at(lam).accuracy if for_accuracy else direction * at(lam).mean_difference

    def loss_slope(lam: Array) -> Array:
        if for_accuracy:
            return -at(lam).accuracy_slope[free]
        return direction * at(lam).parity_slope[free]

    def room(lam: Array) -> Array:
        gap = direction * at(lam).mean_difference
        return np.concatenate([-side * at(lam).gaps[free], [most - gap, least + gap]])

    def room_slope(lam: Array) -> Array:
        gap = direction * at(lam).parity_slope[free][None, :]
        own = at(lam).gaps_slope[np.ix_(free, free)]
        return np.concatenate([-side[:, None] * own, -gap, gap])

    ended = minimize(
        loss,
        start[free],
        jac=loss_slope,
        method="SLSQP",
        bounds=[(0.0, None) if s > 0 else (None, 0.0) for s in side],
        constraints=[{"type": "ineq", "fun": room, "jac": room_slope}],
        options={"maxiter": effort.steps, "ftol": effort.gain},
    )
    reached = np.where(np.isfinite(ended.x), ended.x, start[free])
    return _whole(np.where(side * reached < 0, 0.0, reached), free)


def _whole(lam: Array, free: Bool[Array, " i"]) -> Float[Array, " i"]:
    full = np.zeros(len(free))
    full[free] = lam
    return full


def _remembering(rules: Rules, free: Bool[Array, " i"]) -> Rules:
    # Objective, constraints and gradients are asked at the same places one after the other.
    @lru_cache(maxsize=8)
    def remembered(key: bytes) -> Linearised:
        return rules(_whole(np.frombuffer(key), free))

    return lambda lam: remembered(np.ascontiguousarray(lam, float).tobytes())


def misses(seen: Linearised, lam: Float[Array, " i"], level: float) -> float:
    """Return by how much a rule misses attainability or a level."""
    wrong = np.where(lam * seen.gaps > 0, np.abs(seen.gaps), 0.0)
    return max(float(wrong.max(initial=0.0)), abs(seen.mean_difference) - level)
