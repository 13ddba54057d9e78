"""Of all rounds, the one whose model is the result: the nearest to the target on training rows."""

from typing import Any

import numpy as np

from fedfb.shapes import Array, Float

NEAR = 0.005
"""Of the rounds that come this near to the target the last is taken: it is trained best."""


def take_nearer(
    s: Any,
    params: Float[Array, "r p"],
    far: Float[Array, " r"],
    off: Float[Array, " r"],
    period: int,
) -> Any:
    """Return the state with the model of the runs that came nearer.

    Args:
        s: a state with the fields best, best_round, distance, off_target, and t.
        params: the model that was measured.
        far: how far from the target it is, by the measure that chooses the round.
        off: how far its training disparity is from the target.
        period: rounds between two measurements.
    """
    # The first round is FedAvg's, or has not learnt anything yet: no row, no gap.
    nearer = (far <= np.maximum(s.distance, NEAR)) & (s.t > period)
    return s._replace(
        best=np.where(nearer[:, None], params, s.best),
        best_round=np.where(nearer, s.t, s.best_round),
        distance=np.where(nearer, far, s.distance),
        off_target=np.where(nearer, off, s.off_target),
    )


def chosen(s: Any) -> Float[Array, "r p"]:
    """Return the model of the chosen round; the last where no round was measured."""
    return np.where(np.isfinite(s.distance)[:, None], s.best, s.params)


def choice(s: Any) -> list[dict[str, Any]]:
    """Return for every run which round was chosen, and how far from the target it was."""
    return [
        {"chosen_round": int(number), "off_target": float(far)} if number else {}
        for number, far in zip(s.best_round, s.off_target, strict=True)
    ]
