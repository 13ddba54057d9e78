r"""Thresholds by group from a histogram of scores: the fewest mistakes with equal rates.

With :math:`P_{yak}` the number of rows of label y in group a whose score reaches threshold k, a
group decides 1 where the score reaches a threshold drawn from :math:`w_a`:

.. math:: \min_{w\ge 0,\,\sum_k w_{ak}=1}\sum_{a,k}w_{ak}(P_{0ak}-P_{1ak})
    \quad\text{s.t.}\quad |r_{Ya}-r_Y|\le\tau,\qquad
    r_{Ya}=\sum_k w_{ak}\frac{\sum_{y\in Y}P_{yak}}{\sum_{y\in Y}n_{ya}}

with :math:`r_Y` the rate of all groups together: a linear programme. :math:`Y=\{1\}` for equal
opportunity, {0} and {1} for equalized odds, {0, 1} (all rows) for demographic parity.

**Bins.** All rows of a bin have the same decision, so bins cost accuracy compared with thresholds
on the scores. Let :math:`m_a` be the largest number of rows of group a in one bin.

1. Under demographic parity at most :math:`\sum_a m_a/2` more mistakes are made: the optimal
   threshold of a group lies within a bin. A random decision for this bin's rows with the same rate
   p changes a share 2p(1-p) of them, at most half.
2. Under any notion, moving thresholds to the edges of their bins changes at most
   :math:`\sum_a m_a` decisions, and a gap by at most :math:`2\max_{Y,a} m_{Ya}/n_{Ya}`.
3. Halving bins never costs accuracy: every rule on wide bins is also a rule on narrow bins.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedfb.algorithms.tasks import make_task
from fedfb.core import Arrays, ClientData, ClientTask
from fedfb.engine import Engine, sigmoid
from fedfb.errors import ConfigError
from fedfb.notions import DemographicParity, EqualizedOdds, EqualOpportunity, Notion
from fedfb.notions.base import simplex
from fedfb.notions.values import enough
from fedfb.shapes import Array, Bool, Float, Int, Num

Compared = tuple[tuple[int, ...], ...]
"""Sets of labels; the rate of positive decisions among the rows of each set is to be equal."""

COMPARED: dict[str, Compared] = {
    "demographic_parity": ((0, 1),),
    "equal_opportunity": ((1,),),
    "equalized_odds": ((0,), (1,)),
}


class Cut(NamedTuple):
    """P(decide 1) by group and bin, with its accuracy and disparity on the rows."""

    chance: Float[Array, "a k"]
    accuracy: float
    disparity: float


def compared_groups(name: str, notion: Notion) -> tuple[int, Compared]:
    """Return the number of groups and the compared rates; refuse client parity.

    Args:
        name: name of the method, for the message.
        notion: the notion.
    """
    match notion:
        case (
            DemographicParity(groups=groups)
            | EqualOpportunity(groups=groups)
            | EqualizedOdds(groups=groups)
        ):
            return groups, COMPARED[notion.name]
        case other:
            raise ConfigError(
                f"{name} gives every group its thresholds, which says nothing about "
                f"{other.name!r}. Choose --notion dp, eo or eod, or another method (fedfb list)."
            )


def refuse_without_group(name: str, group_given: bool) -> None:
    """Refuse a method that decides by the group, unless the user has allowed it.

    Args:
        name: name of the method, for the message.
        group_given: whether the setting ``sensitive_at_prediction`` is on.
    """
    if not group_given:
        raise ConfigError(
            f"{name} decides by the group of a row: two rows that differ in nothing else may be "
            "decided differently. To use a protected attribute for deciding is a choice that a "
            "person has to make, so the group is not given to a model by default. If you may use "
            "it here, add --sensitive-at-prediction yes (in Python: sensitive_at_prediction=True). "
            "Otherwise choose a method that only weighs rows, such as fedfb."
        )


def cut(
    rows: Float[Array, "2 a k"], compared: Compared, target: float = 0.0, mixed: bool = True
) -> Cut:
    """Return the decisions with the fewest mistakes and a disparity of at most the target.

    A group that lacks a compared label keeps the threshold 1/2.

    Args:
        rows: histogram: numbers of rows by label, group and bin.
        compared: the sets of labels whose rates are compared.
        target: largest disparity.
        mixed: whether a group may choose between thresholds at random. If not, it has the threshold
            whose rate is nearest to that of the optimal mixture. With several sets of labels only a
            mixture can make all rates equal, and ``mixed`` has no effect.
    """
    chance = np.tile(decide_at_half(rows.shape[2]), (rows.shape[1], 1))
    present = comparable(rows.sum(axis=2), compared)
    if present.any():
        filled, of_bin = _filled(rows[:, present])
        reach = count_reach(filled)
        weights = mixtures(reach, compared, target)
        if not mixed and len(compared) == 1:
            weights = _single(weights, rates(reach, compared[0]))
        chance[present] = np.cumsum(weights, axis=1)[:, :-1][:, of_bin]
    # The solver's weights sum to 1 only up to rounding.
    chance = np.clip(np.where(chance > 1 - 1e-9, 1.0, np.where(chance < 1e-9, 0.0, chance)), 0, 1)
    right = np.sum(rows[1] * chance) + np.sum(rows[0] * (1.0 - chance))
    gap = largest_gap(rows[:, present], chance[present], compared)
    return Cut(chance, float(right / max(rows.sum(), 1.0)), gap)


def count_reach(rows: Float[Array, "2 a k"]) -> Float[Array, "2 a t"]:
    """Return by label, group and threshold how many rows reach it; the last one none reaches.

    >>> count_reach(np.array([[[1.0, 2.0]], [[0.0, 3.0]]])).tolist()
    [[[3.0, 2.0, 0.0]], [[3.0, 3.0, 0.0]]]
    """
    reach = np.zeros((*rows.shape[:2], rows.shape[2] + 1))
    reach[..., :-1] = np.cumsum(rows[..., ::-1], axis=2)[..., ::-1]
    return reach


def _filled(rows: Float[Array, "2 a k"]) -> tuple[Float[Array, "2 a f"], Int[Array, " k"]]:
    """Drop bins without rows; an empty bin has the decision of the next filled bin below."""
    places = np.flatnonzero(rows.sum(axis=(0, 1)) > 0)
    below = np.searchsorted(places, np.arange(rows.shape[2]), side="right") - 1
    return rows[..., places], np.maximum(below, 0)


def mixtures(
    reach: Float[Array, "2 a t"], compared: Compared, target: float = 0.0
) -> Float[Array, "a t"]:
    """Solve the linear programme for the weights of the thresholds; each group's sum is 1.

    Mistakes and rates are linear in a mixture's two numbers of positive decisions, one for each
    label. So only thresholds at corners of the group's ROC curve can have a weight: the programme
    with these columns alone has the same optimum.

    Args:
        reach: numbers of rows by label, group and threshold whose score reaches the threshold.
        compared: the sets of labels whose rates are compared.
        target: largest disparity.
    """
    from scipy.optimize import linprog  # imported here: scipy takes long to import

    _, groups, thresholds = reach.shape
    corners = [roc_corners(reach[:, group]) for group in range(groups)]
    group = np.repeat(np.arange(groups), [len(places) for places in corners])
    threshold = np.concatenate(corners)
    of_group = (np.arange(groups)[:, None] == group).astype(np.float64)
    chosen_rates = [rates(reach, labels)[group, threshold] for labels in compared]
    gaps = np.vstack([
        _gaps(of_group, rate, reach[list(labels), :, 0].sum(axis=0))
        for rate, labels in zip(chosen_rates, compared, strict=True)
    ])  # fmt: skip
    bounded = {"A_ub": np.vstack([gaps, -gaps]), "b_ub": np.full(2 * len(gaps), target)}
    equal = {"A_eq": of_group, "b_eq": np.ones(groups)}
    # At target 0 the two inequalities are one equation.
    if target == 0:
        everything = np.vstack([of_group, gaps])
        equal = {"A_eq": everything, "b_eq": np.repeat([1.0, 0.0], [groups, len(gaps)])}
        bounded = {}
    mistakes = (reach[0] - reach[1])[group, threshold]
    solution = linprog(mistakes, **bounded, **equal, bounds=(0, 1), method="highs")
    weights = np.zeros((groups, thresholds))
    weights[group, threshold] = solution.x
    return weights


def roc_corners(reach: Float[Array, "2 t"]) -> Int[Array, " c"]:
    """Return the thresholds at the corners of the convex hull of a group's ROC curve, ascending.

    Andrew's monotone chain: a curve is in order already.

    Args:
        reach: numbers of rows by label and threshold whose score reaches the threshold.

    >>> roc_corners(np.array([[4.0, 1.0, 1.0, 0.0], [4.0, 3.0, 1.0, 0.0]])).tolist()
    [0, 1, 3]
    >>> roc_corners(np.array([[4.0, 2.0, 0.0], [4.0, 2.0, 0.0]])).tolist()
    [0, 2]
    """
    # Thresholds that cut the rows alike are one point; the lowest of them stands for it.
    steps = np.flatnonzero(np.any(np.diff(reach, axis=1) != 0, axis=0)) + 1
    places = [0, *steps.tolist()]
    x, y = (of_label.tolist() for of_label in reach)
    corners = set()
    for side in (1.0, -1.0):
        chain: list[int] = []
        for place in places:
            while len(chain) > 1 and side * _turn(x, y, chain[-2], chain[-1], place) <= 0:
                chain.pop()
            chain.append(place)
        corners.update(chain)
    return np.array(sorted(corners))


def _turn(x: Sequence[float], y: Sequence[float], a: int, b: int, c: int) -> float:
    """Return twice the area of a triangle, positive if its corners are anticlockwise."""
    return (x[b] - x[a]) * (y[c] - y[a]) - (y[b] - y[a]) * (x[c] - x[a])


def _gaps(
    of_group: Float[Array, "a v"], rate: Float[Array, " v"], among: Float[Array, " a"]
) -> Float[Array, "a v"]:
    """Return the rows of the programme for the gap of each group's rate to the rate of all.

    Args:
        of_group: 1 where a column belongs to a group.
        rate: rate of positive decisions at each column's threshold.
        among: rows of each group that the rate is among.
    """
    by_group = of_group * rate
    return by_group - (among / among.sum()) @ by_group


def rates(reach: Float[Array, "2 a t"], labels: tuple[int, ...]) -> Float[Array, "a t"]:
    """Return the rate of positive decisions at every threshold, among the rows of these labels."""
    among = reach[list(labels)].sum(axis=0)
    return among / among[:, :1]


def _single(weights: Float[Array, "a t"], rate: Float[Array, "a t"]) -> Float[Array, "a t"]:
    """Return weights that are 1 at the threshold whose rate is nearest to the mixture's."""
    mixture_rate = np.sum(weights * rate, axis=1, keepdims=True)
    nearest = np.argmin(np.abs(rate - mixture_rate), axis=1)
    return np.eye(rate.shape[1])[nearest]


def largest_gap(
    rows: Float[Array, "2 a k"], chance: Float[Array, "a k"], compared: Compared
) -> float:
    """Return the largest absolute gap of a group's rate to the rate of all groups.

    Args:
        rows: numbers of rows by label, group and bin.
        chance: P(decide 1) by group and bin.
        compared: the sets of labels whose rates are compared.
    """
    if not rows.size:
        return 0.0
    gaps = []
    for labels in compared:
        among = rows[list(labels)].sum(axis=0)
        positives, total = (among * chance).sum(axis=1), among.sum(axis=1)
        gaps.extend(np.abs(positives / total - positives.sum() / total.sum()).tolist())
    return float(max(gaps))


def decide_at_half(bins: int) -> Float[Array, " k"]:
    """Return the default decision by bin: 1 from the score 1/2 on.

    >>> decide_at_half(4)
    array([0., 0., 1., 1.])
    """
    return (np.arange(bins) >= bins / 2).astype(np.float64)


def find_bins(score: Float[Array, "r n"], bins: int) -> Int[Array, "r n"]:
    """Return the bin of each score; a score of 1 is in the last bin."""
    return np.minimum((score * bins).astype(np.int64), bins - 1)


def look_up(
    chance: Float[Array, "r a k"], group: Int[Array, " n"], score: Float[Array, "r n"]
) -> Float[Array, "r n"]:
    """Return P(decide 1) of each row.

    Args:
        chance: P(decide 1) by run, group and bin. If there is one group, it stands for all rows.
        group: group of each row; -1, a group that training did not have, is decided at 1/2.
        score: score by run and row.

    >>> look_up(np.zeros((1, 2, 2)), np.array([0, -1, -1]), np.array([[0.9, 0.9, 0.1]]))
    array([[0., 1., 0.]])
    """
    runs, groups, bins = chance.shape
    group = group if groups > 1 else np.zeros_like(group)
    plain = np.broadcast_to(decide_at_half(bins), (runs, 1, bins))
    chance = np.concatenate([chance, plain], axis=1)  # the last group, which -1 stands for
    return chance[np.arange(runs)[:, None], group, find_bins(score, bins)]


def comparable(
    counts: Num[Array, "2 a"], compared: Compared, minimum: int = 1
) -> Bool[Array, " a"]:
    """Return True for the groups with at least ``minimum`` rows of every compared set of labels."""
    rows = [counts[list(labels)].sum(axis=0) for labels in compared]
    return np.all([enough(of_labels, minimum) for of_labels in rows], axis=0)


def histogram_task(engine: Engine, bins: int) -> ClientTask:
    """Ask for numbers of rows by label, group and bin of the score.

    The client sets groups that are not ``wanted`` (in the broadcast) to 0 before it uploads.
    """

    def count(broadcast: Arrays, data: ClientData) -> Arrays:
        number = find_bins(sigmoid(engine.logits(broadcast["params"], data.x)), bins)
        cells = 2 * data.groups * bins
        rows = [np.bincount(data.cell * bins + run, minlength=cells) for run in number]
        table = np.reshape(rows, (-1, 2, data.groups, bins)).astype(np.float64)
        wanted = broadcast.get("wanted", np.ones(data.groups, dtype=bool))
        return {"rows": np.where(wanted[:, None], table, 0.0)}

    return make_task("histogram", "sum", count, sensitivity={"rows": 1.0})


def read_histogram(total: Arrays) -> Float[Array, "r 2 a k"]:
    """Return the summed histogram; noise may have made numbers negative.

    Then it is the nearest histogram without negative numbers that has the same number of rows of
    every label and group.

    >>> read_histogram({"rows": np.array([[[[3.0, -1.0, 2.0]], [[1.0, 0.0, 4.0]]]])})
    array([[[[2.5, 0. , 1.5]],
    <BLANKLINE>
            [[1. , 0. , 4. ]]]])
    """
    rows = total["rows"]
    if np.all(rows >= 0):
        return rows
    flat = rows.reshape(-1, rows.shape[-1])
    mass = np.maximum(flat.sum(axis=1), 0.0)
    near = [simplex(cell[None], size)[0] for cell, size in zip(flat, mass.tolist(), strict=True)]
    return np.stack(near).reshape(rows.shape)
