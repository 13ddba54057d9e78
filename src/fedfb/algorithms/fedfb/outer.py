"""How lambda moves between rounds, and which round's model is the result.

Lambda moves to the point where the gaps should vanish (``solve``), or takes a step along the signal
(``step``). With ``solve``, the result is the model of the round that came nearest to the target on
training rows.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedfb.algorithms.fedfb.root_search import (
    FARTHEST,
    FREE,
    add_round,
    compared,
    find_shifts,
    gaps,
    line_effect,
    mean_over_groups,
)
from fedfb.notions import Notion, Surrogate
from fedfb.notions.base import decay, normalise, ratio
from fedfb.shapes import Array, Bool, Float, Num


@dataclass(frozen=True)
class Outer:
    r"""How lambda moves every ``period`` rounds, by the signal :math:`\mu`.

    Args:
        alpha: step size, one value per run. None: lambda moves to the point where the gaps vanish,
            or where the largest gap equals ``target``
            (:mod:`fedfb.algorithms.fedfb.root_search`), and the round whose training signal came
            nearest is the result. Otherwise lambda takes steps, and the last round is the result.
        surrogate: loss of the signal.
        normalise: ``none`` steps by :math:`\alpha_u\,\mu`, ``l2`` by
            :math:`\alpha_u\,\mu/\lVert\mu\rVert`.
        decay: how :math:`\alpha_u` falls with the number u of the step.
        timing: the model at which the signal is measured. ``post``: the new common model, in an
            exchange of its own. ``piggyback``: the received model, without an extra exchange;
            lambda is one round late. ``local``: each client's trained model, as the pseudo-code
            says literally; the sum is then not the signal of any one model.
        period: rounds between two moves.
        bits: bits of the quantised signal; None: exact numbers.
        bits_mode: whether ``bits`` is for each value or for a whole round.
        rounding: rounding of the quantiser.
        everyone: whether all clients take part in every round. If not, the signal is estimated
            from the participants.
        target: the disparity to train to, one value per run.
        private: whether the signal is sent as losses by cell, to which noise is added.
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
    r"""Return :math:`\Pi_\Lambda(\lambda+\alpha_u\mu)`, the paper's rule.

    Args:
        outer: step size, decay and normalisation.
        notion: projects onto :math:`\Lambda`.
        lam: lambda before the step.
        signal: mu.
        counts: pooled counts.
        update: number u of the step: 1, 2, ...
    """
    step_size = np.asarray(outer.alpha) * decay(update, outer.decay)
    return notion.step(lam, normalise(signal, outer.normalise), counts, step_size)


def solve(
    outer: Outer,
    notion: Notion,
    lam: Float[Array, "r *l"],
    gap: Float[Array, "r *l"],
    measured: Bool[Array, "*l"],
    counts: Num[Array, "*c"],
    record: Float[Array, "r k *l"],
    error: Float[Array, "*l"] | float = 0.0,
) -> tuple[Float[Array, "r *l"], Float[Array, "r k *l"]]:
    """Return the lambda at which the gaps should vanish by all rounds so far, and the new record.

    Args:
        outer: holds the target.
        notion: relates weights and shifts of the logits.
        lam: lambda of the round.
        gap: signed gaps of the round's model.
        measured: the parts of lambda whose gap was measured.
        counts: pooled counts.
        record: the record of the rounds before, see
            :class:`fedfb.algorithms.fedfb.root_search.LineRecord`.
        error: standard error of the gaps, see :func:`sampling_error`.
    """
    start = notion.init(counts)
    # Groups that are not compared keep their weights, and have no say in the mean.
    shares = np.where(compared(notion, counts), start, 0.0)
    weighed = shares > 0
    omega = np.where(weighed, lam / np.where(weighed, start, 1.0), 1.0)
    theta = notion.shift(omega)
    guess, measured = notion.guess_slope(counts), measured & weighed
    # A gap is a distance to a mean that the shifts move as well: put the mean back where it was.
    value = gap + mean_over_groups(line_effect(record, theta, guess), shares, measured)
    record = add_round(record, theta, value, guess, measured, error)
    omega_after = notion.omega(
        find_shifts(notion, record, theta, shares, guess, measured, outer.target)
    )
    return np.where(weighed, start * omega_after, lam), record


def sampling_error(
    notion: Notion, rows: Num[Array, "2 a"], counts: Num[Array, "2 a"]
) -> Float[Array, "*l"]:
    r"""Return the standard error of the groups' rates, :math:`\frac12\sqrt{1/m-1/n}` at most.

    Args:
        notion: says which rows are behind a rate.
        rows: rows of the participants by label and group, behind m.
        counts: pooled counts, behind n.
    """
    of_all = notion.init(counts) * counts.sum()
    present = notion.init(rows) * rows.sum()
    inverse = ratio(np.ones_like(present), present, 0.0) - ratio(np.ones_like(of_all), of_all, 0.0)
    error: Float[Array, "*l"] = 0.5 * np.sqrt(np.maximum(inverse, 0.0))
    return error


RELIABLE = 400
"""From this many rows of a group on its gap counts fully: its standard error is at most .025."""


def distances(
    outer: Outer,
    notion: Notion,
    gap: Float[Array, "r *l"],
    free: Bool[Array, " r"],
    counts: Num[Array, "*c"],
) -> tuple[Float[Array, " r"], Float[Array, " r"]]:
    r"""Return the distance that chooses a round, and the distance of its disparity to the target.

    The first distance uses the gaps :math:`g_a\min(1,\sqrt{n_a/400})`. The gap of a small group
    jumps by :math:`1/n_a`. Without the factor it would choose a round in which large groups are far
    apart.

    Args:
        outer: holds the target.
        notion: computes the disparity of the gaps.
        gap: signed gaps of the round's model, 0 for groups that are not compared.
        free: runs with every weight 1; their model may be fairer than the target asks for.
        counts: pooled counts.
    """
    rows = notion.init(counts) * counts.sum()
    # In proportion to what a standard error allows: it falls with the root of the rows.
    weighed = gap * np.minimum(1.0, np.sqrt(rows / RELIABLE))
    over = [notion.disparity(gaps) - outer.target for gaps in (weighed, gap)]
    # A free run below its target needs no weights: it is not too far, but fair enough.
    asks_nothing = np.asarray(outer.target) >= FREE
    choosing, off = (np.where(asks_nothing | (free & (far < 0)), 0.0, np.abs(far)) for far in over)
    return choosing, off


def has_start_weights(
    notion: Notion, lam: Float[Array, "r *l"], counts: Num[Array, "*c"]
) -> Bool[Array, " r"]:
    """Return True for the runs in which every weight is still 1, up to rounding.

    Args:
        notion: gives the initial lambda.
        lam: lambda by run.
        counts: pooled counts.
    """
    still = np.isclose(lam, notion.init(counts), rtol=1e-9, atol=0.0)
    return np.asarray(still.all(axis=tuple(range(1, lam.ndim))))


def is_at_bound(
    notion: Notion, lam: Float[Array, "r *l"], counts: Num[Array, "*c"]
) -> Bool[Array, "r *l"]:
    """Return True for the weights at their bound: the root, if there is one, is beyond it.

    The arguments are those of :func:`has_start_weights`.
    """
    start = notion.init(counts)
    weighed = compared(notion, counts) & (start > 0)
    omega = np.where(weighed, lam / np.where(weighed, start, 1.0), 1.0)
    return np.abs(notion.shift(omega)) >= FARTHEST - 1e-6


def measured_gaps(
    notion: Notion,
    signal: Float[Array, "r *l"],
    measured: Bool[Array, " a"],
    counts: Num[Array, "*c"],
) -> tuple[Float[Array, "r *l"], Bool[Array, "*l"]]:
    """Return the gaps of the compared groups that were measured, and where these are in lambda.

    Args:
        notion: says which groups are compared.
        signal: mu.
        measured: groups that had rows among the participants.
        counts: pooled counts.
    """
    measured = compared(notion, counts) & measured
    return gaps(signal, notion.init(counts), measured), measured


_NEAR = 0.005
"""Of the rounds within this distance of the target the last is chosen: it is trained longest."""


def keep_nearer(
    s: Any, params: Float[Array, "r p"], far: Float[Array, " r"], off: Float[Array, " r"]
) -> Any:
    """Return the state with the measured model as the best model of the runs that came nearer.

    Args:
        s: a state with the fields best, best_round, distance, off_target, and t.
        params: the model that was measured.
        far: its distance to the target, by the measure that chooses the round.
        off: distance of its training disparity to the target.
    """
    return _keep(s, far <= np.maximum(s.distance, _NEAR), params, far, off)


USEFUL = 0.1
"""A model is useful if it keeps this share of the best round's lead over a constant decision."""


def keep_best(
    s: Any,
    params: Float[Array, "r p"],
    far: Float[Array, " r"],
    off: Float[Array, " r"],
    error: Float[Array, " r"] | None,
    counts: Num[Array, "*c"],
) -> Any:
    """Return the state with the measured model where it is nearer, and useful.

    A constant decision has no gap, so distance alone would choose it. A model that is not useful is
    chosen only while no round was useful: then the one with the fewest wrong decisions.

    Args:
        s: a state as for :func:`keep_nearer`, with the fields error and least_error.
        params: the model that was measured.
        far: its distance to the target, by the measure that chooses the round.
        off: distance of its training disparity to the target.
        error: its share of wrong decisions; None: unknown, then the distance decides alone.
        counts: pooled counts by label and group.
    """
    if error is None:
        return keep_nearer(s, params, far, off)
    constant = constant_error(counts)
    least = np.minimum(s.least_error, error)
    worst = constant - USEFUL * np.maximum(constant - least, 0.0)
    useful, was_useful = (share < worst for share in (error, s.error))
    near = far <= np.maximum(s.distance, _NEAR)
    # Of two rounds that are both near the target, the later must not cost accuracy.
    near &= (s.distance > _NEAR) | (error <= s.error + _NEAR)
    fewer = (error < s.error) | ((error == s.error) & (far <= s.distance))
    better = np.where(useful & was_useful, near, np.where(useful | was_useful, useful, fewer))
    s = s._replace(error=np.where(better, error, s.error), least_error=least)
    return _keep(s, better, params, far, off)


def constant_error(counts: Num[Array, "2 a"]) -> float:
    """Return the share of wrong decisions of the best constant.

    >>> constant_error(np.array([[30, 10], [50, 10]]))
    0.4
    """
    by_label = counts.sum(axis=1)
    return float(by_label.min() / by_label.sum())


def _keep(
    s: Any,
    better: Bool[Array, " r"],
    params: Float[Array, "r p"],
    far: Float[Array, " r"],
    off: Float[Array, " r"],
) -> Any:
    return s._replace(
        best=np.where(better[:, None], params, s.best),
        best_round=np.where(better, s.t, s.best_round),
        distance=np.where(better, far, s.distance),
        off_target=np.where(better, off, s.off_target),
    )


def pick_model(s: Any) -> Float[Array, "r p"]:
    """Return the model of the chosen round; the last model if no round was measured."""
    return np.where(np.isfinite(s.distance)[:, None], s.best, s.params)


def describe_choice(s: Any) -> list[dict[str, Any]]:
    """Return for every run the chosen round and its distance to the target."""
    return [
        {"chosen_round": int(number), "off_target": float(far)} if number else {}
        for number, far in zip(s.best_round, s.off_target, strict=True)
    ]


def describe_error(s: Any) -> list[dict[str, Any]]:
    """Return for every run the training accuracy of the chosen round, and that of a constant."""
    return [
        {
            "training_accuracy": 1.0 - float(error),
            "constant_accuracy": 1.0 - constant_error(s.counts),
        }
        if np.isfinite(error)
        else {}
        for error in s.error
    ]
