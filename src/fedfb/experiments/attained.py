"""Whether a run's training reached its target, allowing for what chance does to so many rows."""

from collections.abc import Sequence

import numpy as np

from fedfb.core import Examples
from fedfb.experiments.seed_result import SeedResult, Training
from fedfb.notions.chance import draw_blind_disparities
from fedfb.notions.values import MINIMUM_ROWS, enough
from fedfb.runtime import RoundRecord
from fedfb.shapes import Array, Float

REACHED = 0.005
"""A training disparity this near to the target counts as the target."""

_LEVEL = 0.95
"""Gaps that so many draws of groups with equal rates stay below are within chance."""

CLIENT_PARITY = "client_parity"


def measure_training(
    history: Sequence[RoundRecord],
    run: int,
    notion: str,
    target: float,
    result: SeedResult,
    minimum: int = 1,
) -> Training | None:
    """Return the training disparity of a run that has a target, and whether it missed the target.

    A group's gap counts as a miss only beyond the target and what chance shows for so many rows.

    Args:
        history: the rounds of the seed; with training rows by label, decision and group, or
            without, where nobody looked at them.
        run: the place of the run on the run axis.
        notion: the long name of the notion that was trained for.
        target: the disparity that was asked for.
        result: the run, with the method's account and test figures.
        minimum: least training rows of a group that is compared.
    """
    off = result.method.off_target
    if off is None:
        return None

    def training(missed: bool) -> Training:
        return Training(target=target, disparity=target + off, missed=missed)

    if off <= REACHED:
        return training(missed=False)
    if result.method.thresholds is not None:
        rows = _rows_and_positives(result)[0] if notion != CLIENT_PARITY else np.ones((2, 1))
        return training(missed=off > _one_row(rows))
    if notion == CLIENT_PARITY:
        return training(missed=off > _client_chance(history, result))
    gaps, rows, rate = _gaps(history, run, notion, result, minimum)
    beyond = np.abs(gaps) - target > np.maximum(chance(rows, rate), REACHED)
    return training(missed=bool(beyond.any()))


def warn_of_target(
    targets: Sequence[float], notion: str, test: Examples, groups: int
) -> tuple[str, ...]:
    """Say before training that a target is below what test rows can show.

    Groups that are treated alike have a disparity on these rows all the same. Its mean is that of
    as many positive decisions as positive labels under demographic parity, else of one half, which
    is where chance is largest.

    Args:
        targets: the targets that were asked for. 0 asks for the least there is: it is not judged.
        notion: long name of the notion; client parity is not judged before there are losses.
        test: the test rows.
        groups: number of groups.
    """
    least = min((target for target in targets if target > 0), default=None)
    if least is None or notion == CLIENT_PARITY or groups < 2:
        return ()
    by_label = np.bincount(test.y * groups + test.group, minlength=2 * groups).reshape(2, groups)
    rows = _blocks(notion, by_label.astype(np.float64))
    if enough(rows, MINIMUM_ROWS).sum(axis=1).min() < 2:
        return ()
    share = by_label[1].sum() / by_label.sum() if notion == "demographic_parity" else 0.5
    by_chance = float(draw_blind_disparities(share * rows, rows, MINIMUM_ROWS).mean())
    if least >= by_chance:
        return ()
    return (
        f"target {least:g} is below what the test rows can show: groups that are treated alike "
        f"show a disparity of {by_chance:.3f} by chance. Bring more test rows, merge small groups, "
        "or raise the target.",
    )


def chance(rows: Float[Array, "b a"], rate: Float[Array, "b 1"]) -> Float[Array, "b a"]:
    r"""Return how far the rates of groups may lie from the common rate by chance.

    .. math:: z\sqrt{p(1-p)\left(\tfrac1{n_a}-\tfrac1n\right)}

    with the normal quantile z of ``_LEVEL`` for all k gaps together (Bonferroni).

    Args:
        rows: rows by block and group; 0 where the group is not compared.
        rate: common rate of each block.

    >>> chance(np.array([[1000.0, 1000.0]]), np.array([[0.5]])).round(3)
    array([[0.025, 0.025]])
    """
    from statistics import NormalDist  # here: few runs need it

    compared = rows > 0
    z = NormalDist().inv_cdf(1 - (1 - _LEVEL) / 2 / max(int(compared.sum()), 1))
    inverse = 1 / np.where(compared, rows, 1.0) - 1 / np.maximum(rows.sum(axis=1), 1.0)[:, None]
    return np.where(compared, z * np.sqrt(rate * (1 - rate) * np.maximum(inverse, 0.0)), np.inf)


def _gaps(
    history: Sequence[RoundRecord], run: int, notion: str, result: SeedResult, minimum: int
) -> tuple[Float[Array, "b a"], Float[Array, "b a"], Float[Array, "b 1"]]:
    """Return the training gaps of the chosen round by block and group, their rows and rates.

    Where nobody looked at training rows, the gaps are the signal's, and the rows those of the test.
    """
    number = result.method.chosen_round or len(history)
    signal, _, confusion = history[number - 1]
    rows, positives = (
        _rows_and_positives(result)
        if confusion is None
        else (confusion[run].sum(axis=1), confusion[run][:, 1])
    )
    rows, positives = _blocks(notion, rows), _blocks(notion, positives)
    if confusion is not None:
        compared = enough(rows, minimum)
        rows, positives = np.where(compared, rows, 0.0), np.where(compared, positives, 0.0)
    rate = positives.sum(axis=1, keepdims=True) / np.maximum(rows.sum(axis=1, keepdims=True), 1.0)
    if confusion is not None or signal is None or signal[run].size != rows.size:
        return positives / np.where(rows > 0, rows, 1.0) - rate, rows, rate
    gaps = signal[run].reshape(rows.shape)
    centre = (gaps * rows).sum(axis=1, keepdims=True) / np.maximum(rows.sum(axis=1), 1.0)[:, None]
    return gaps - centre, rows, rate


def _blocks(notion: str, by_label: Float[Array, "2 a"]) -> Float[Array, "b a"]:
    """Return counts by label and group as the notion compares them: by label, or all together."""
    if notion == "equalized_odds":
        return by_label
    return by_label[1:] if notion == "equal_opportunity" else by_label.sum(axis=0, keepdims=True)


def _rows_and_positives(result: SeedResult) -> tuple[Float[Array, "2 a"], Float[Array, "2 a"]]:
    """Return the test rows by label and group, and how many of them are decided positively."""
    groups = result.groups
    rows = np.array([[g.n - g.positives, g.positives] for g in groups], float).T
    rates = np.array([[g.fpr or 0.0, g.tpr or 0.0] for g in groups]).T
    return rows, rows * rates


def _one_row(rows: Float[Array, "2 a"]) -> float:
    """Return by how much one row moves a rate: no threshold can come nearer."""
    return max(REACHED, float(1 / rows[rows > 0].min(initial=np.inf)))


def _client_chance(history: Sequence[RoundRecord], result: SeedResult) -> float:
    """Return how far clients' mean losses lie apart by chance: their range, or its mean square."""
    clients = result.clients
    rows = sum(client.n for client in clients)
    if not rows or result.loss_spread is None:
        return REACHED
    error = result.loss_spread * (len(clients) / rows) ** 0.5
    signal = history[-1].signal
    is_mean_square = signal is not None and signal[0].size == 1
    return max(REACHED, (2 if is_mean_square else 4) * float(error))
