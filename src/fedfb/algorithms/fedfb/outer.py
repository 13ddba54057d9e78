"""How lambda moves between rounds: to where the gaps vanish, or a step along the signal.

Of all rounds, the one whose model is the result: the nearest to the target on training rows.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedfb.algorithms.fedfb.root_search import (
    FARTHEST,
    FREE,
    by_line,
    compared,
    gaps,
    look,
    mean_of,
    meet,
)
from fedfb.notions import Notion, Surrogate
from fedfb.notions.base import decay, normalise
from fedfb.shapes import Array, Bool, Float, Num


@dataclass(frozen=True)
class Outer:
    r"""How lambda moves: every ``period`` rounds, by the signal :math:`\mu`.

    Without ``alpha`` it goes where the gaps vanish, or the largest equals its run's ``target``
    (:mod:`fedfb.algorithms.fedfb.root_search`). The round whose training signal came nearest is the
    result. With it, it takes the step :math:`\alpha_u\,\mu`, or
    :math:`\alpha_u\,\mu/\lVert\mu\rVert` where ``normalise`` is ``l2``, and the last round is.

    ``timing`` says where the signal is taken: at the new common model (``post``, an exchange of its
    own), at the received one (``piggyback``: no extra exchange, lambda lags one round), or at each
    client's own trained model (``local``: the pseudo-code taken literally; its sum is no pooled
    quantity of any model). Unless ``everyone`` takes part in every round, the signal is estimated
    from those who do. A ``private`` signal travels as losses by cell, to which noise is added.
    """

    alpha: Float[Array, " r"] | None = None
    surrogate: Surrogate = "prob"
    normalise: Literal["none", "l2"] = "none"
    decay: Literal["const", "inv_sqrt", "inv"] = "inv_sqrt"
    timing: Literal["post", "piggyback", "local"] = "post"
    period: int = 1
    bits: int | None = None
    bits_mode: Literal["per_value", "per_round"] = "per_value"
    rounding: Literal["nearest", "stochastic"] = "nearest"
    everyone: bool = True
    target: Float[Array, " r"] | float = 0.0
    private: bool = False


def step(
    outer: Outer,
    notion: Notion,
    lam: Float[Array, "r *l"],
    signal: Float[Array, "r *l"],
    counts: Num[Array, "*c"],
    update: int,
) -> Float[Array, "r *l"]:
    r"""Return :math:`\Pi_\Lambda(\lambda+\alpha_u\mu)`, the paper's rule."""
    step_size = np.asarray(outer.alpha) * decay(update, outer.decay)
    return notion.step(lam, normalise(signal, outer.normalise), counts, step_size)


def solve(
    outer: Outer,
    notion: Notion,
    lam: Float[Array, "r *l"],
    gap: Float[Array, "r *l"],
    there: Bool[Array, "*l"],
    counts: Num[Array, "*c"],
    seen: Float[Array, "r k *l"],
) -> tuple[Float[Array, "r *l"], Float[Array, "r k *l"]]:
    """Return the lambda at which the gaps should vanish, judging by all rounds so far."""
    start = notion.init(counts)
    shares = np.where(compared(notion, counts), start, 0.0)
    weighed = shares > 0
    omega = np.where(weighed, lam / np.where(weighed, start, 1.0), 1.0)
    theta = notion.shift(omega)
    guess, there = notion.guess_slope(counts), there & weighed
    value = gap + mean_of(by_line(seen, theta, guess), shares, there)
    seen = look(seen, theta, value, guess, there)
    moved = notion.omega(meet(notion, seen, theta, shares, guess, there, outer.target))
    return np.where(weighed, start * moved, lam), seen


RELIABLE = 400
"""From so many rows on a gap counts in full: chance alone shows .025 there, and more below."""


def distances(
    outer: Outer,
    notion: Notion,
    gap: Float[Array, "r *l"],
    free: Bool[Array, " r"],
    counts: Num[Array, "*c"],
) -> tuple[Float[Array, " r"], Float[Array, " r"]]:
    r"""Return what chooses a round, and how far its training disparity lies from the target.

    The round is chosen by gaps :math:`g_a\min(1,\sqrt{n_a/400})`: the gap of a group of few rows
    jumps by :math:`1/n_a`, and would choose a round in which the large groups are far apart.

    Args:
        outer: holds the target.
        notion: makes one disparity of the gaps.
        gap: signed gaps of the round's model, 0 for groups that are not compared.
        free: runs with every weight 1; their model may be fairer than the target asks for.
        counts: pooled rows, as the notion takes them.
    """
    rows = notion.init(counts) * counts.sum()
    weighed = gap * np.minimum(1.0, np.sqrt(rows / RELIABLE))
    over = [notion.disparity(gaps) - outer.target for gaps in (weighed, gap)]
    asks_nothing = np.asarray(outer.target) >= FREE
    choosing, off = (np.where(asks_nothing | (free & (far < 0)), 0.0, np.abs(far)) for far in over)
    return choosing, off


def unmoved(
    notion: Notion, lam: Float[Array, "r *l"], counts: Num[Array, "*c"]
) -> Bool[Array, " r"]:
    """Tell for which runs every weight is still 1, up to rounding."""
    still = np.isclose(lam, notion.init(counts), rtol=1e-9, atol=0.0)
    return np.asarray(still.all(axis=tuple(range(1, lam.ndim))))


def at_a_bound(
    notion: Notion, lam: Float[Array, "r *l"], counts: Num[Array, "*c"]
) -> Bool[Array, "r *l"]:
    """Tell which weights have been moved as far as they go: the root, if any, lies beyond."""
    start = notion.init(counts)
    weighed = compared(notion, counts) & (start > 0)
    omega = np.where(weighed, lam / np.where(weighed, start, 1.0), 1.0)
    return np.abs(notion.shift(omega)) >= FARTHEST - 1e-6


def measured_gaps(
    notion: Notion,
    signal: Float[Array, "r *l"],
    there: Bool[Array, " a"],
    counts: Num[Array, "*c"],
) -> tuple[Float[Array, "r *l"], Bool[Array, "*l"]]:
    """Return the gaps of the groups that were measured, and which these are."""
    measured = compared(notion, counts) & there
    return gaps(signal, notion.init(counts), measured), measured


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
