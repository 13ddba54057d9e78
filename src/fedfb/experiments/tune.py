"""Choosing hyper-parameters on validation rows, with a floor under the accuracy."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from fedfb.core import Examples, Prediction
from fedfb.experiments.evaluate import cross_entropy
from fedfb.experiments.seed_result import Divergence, Evaluation, Setting

HELD_OUT = 0.1
"""The share of every client's training rows that tuning sets aside."""

CLOSE = 0.005
"""Training disparities this near to one another are alike: rounds differ by as much."""


class Candidate(NamedTuple):
    """What one setting reached on the validation rows, in the mean over seeds.

    ``off_target`` is how far its training disparity stayed from what was asked for.
    """

    setting: Setting
    accuracy: float
    disparity: float | None
    loss: float
    off_target: float = 0.0


class Choice(NamedTuple):
    """What was chosen, the floor under the accuracy if there was one, and what from.

    ``rates`` are the learning rates that were picked: of every setting, and of the free model last.
    ``diverged`` are the settings that were tried in vain, each with where it diverged.
    """

    setting: Setting
    floor: float | None
    candidates: tuple[Candidate, ...]
    rates: tuple[float, ...] = ()
    diverged: tuple[tuple[Setting, Divergence], ...] = ()


class Choices(NamedTuple):
    """What was chosen: by tuning, for all seeds in common; or by every seed for itself."""

    common: Choice | None = None
    by_seed: Mapping[int, Choice] = MappingProxyType({})

    def of(self, seed: int) -> Choice | None:
        """Return what was chosen for a seed."""
        return self.common or self.by_seed.get(seed)


def validation_loss(prediction: Prediction, examples: Examples) -> list[float]:
    """Return the mean cross-entropy of every run."""
    return [float(cross_entropy(score, examples.y).mean()) for score in prediction.score]


def candidates(
    settings: Sequence[Setting],
    evaluations: Sequence[Sequence[Evaluation]],
    losses: Sequence[Sequence[float]],
    off_target: Sequence[Sequence[float]],
    notion: str,
    local: bool = False,
) -> tuple[Candidate, ...]:
    """Return each setting with its figures on validation rows, averaged over seeds.

    Args:
        settings: the settings that were tried.
        evaluations: by seed, then by setting.
        losses: mean loss, by seed and setting.
        off_target: distance to the target in training, by seed and setting.
        notion: long name of the notion.
        local: for a method that aims at the disparity among each client's rows.
    """
    averages = []
    for number, setting in enumerate(settings):
        of_setting = [of_seed[number] for of_seed in evaluations]
        values = [e.local_disparity if local else e.disparity for e in of_setting]
        estimable = [value for of_seed in values if (value := of_seed.get(notion)) is not None]
        averages.append(
            Candidate(
                setting,
                float(np.mean([a for e in of_setting if (a := e.accuracy) is not None])),
                float(np.mean(estimable)) if len(estimable) == len(of_setting) else None,
                float(np.mean([of_seed[number] for of_seed in losses])),
                float(np.mean([of_seed[number] for of_seed in off_target])),
            )
        )
    return tuple(averages)


def pick(
    candidates: Sequence[Candidate],
    rows: int,
    cost: float | None = None,
    tried: Sequence[Setting] = (),
) -> Choice:
    """Pick a learning rate for every other setting, and the target where the cost is bounded.

    The target is the least one whose accuracy is at most ``cost`` below that of the free model,
    which has the largest target.

    Args:
        candidates: the settings that did not diverge.
        rows: number of validation rows behind each accuracy.
        cost: accuracy that may be given up; None picks no target.
        tried: all settings, with those that diverged. A setting that diverged at all rates gets
            the least rate.

    >>> slow = Candidate({"lr": 0.001}, 0.8, 0.0, 0.3, off_target=0.05)
    >>> good = Candidate({"lr": 0.005}, 0.8, 0.0, 0.4, off_target=0.001)
    >>> pick([slow, good], rows=100).setting
    {'lr': 0.005}
    """
    alike: dict[Others, list[Candidate]] = {}
    for candidate in candidates:
        alike.setdefault(_others(candidate.setting), []).append(candidate)
    best = {others: _best_rate(same_setting, rows) for others, same_setting in alike.items()}
    rates = _rates(best, tried or [candidate.setting for candidate in candidates])
    if cost is None:
        return Choice({"lr": rates[0]}, None, tuple(candidates), rates)
    by_target = sorted(best.values(), key=lambda candidate: candidate.setting["target"])
    floor = by_target[-1].accuracy - cost
    least = next(candidate for candidate in by_target if candidate.accuracy >= floor)
    if rates:
        rates = (least.setting["lr"], by_target[-1].setting["lr"])
    return Choice(least.setting, floor, tuple(candidates), rates)


Others = tuple[tuple[str, float], ...]
"""A setting without its learning rate."""


def _rates(best: Mapping[Others, Candidate], tried: Sequence[Setting]) -> tuple[float, ...]:
    """Return the learning rate of every other setting, in the order tried; none of exact fits."""
    least: dict[Others, float] = {}
    for setting in tried:
        if "lr" in setting:
            rate, others = setting["lr"], _others(setting)
            least[others] = min(rate, least.get(others, rate))
    return tuple(
        best[others].setting["lr"] if others in best else rate for others, rate in least.items()
    )


def _others(setting: Setting) -> Others:
    return tuple((knob, value) for knob, value in setting.items() if knob != "lr")


def _best_rate(candidates: Sequence[Candidate], rows: int) -> Candidate:
    """Return the candidate of the best learning rate.

    Of those that come as close to the target as any (up to :data:`CLOSE`), and are as accurate as
    the best of these up to one standard error, the one of least loss: losses are less noisy than
    accuracies, but do not say who is fair.
    """
    nearest = min(candidate.off_target for candidate in candidates)
    able = [candidate for candidate in candidates if candidate.off_target <= nearest + CLOSE]
    best = max(candidate.accuracy for candidate in able)
    error = (best * (1 - best) / rows) ** 0.5
    able = [candidate for candidate in able if candidate.accuracy >= best - error]
    return min(able, key=lambda candidate: candidate.loss)


def choose(
    candidates: Sequence[Candidate], fair: bool, majority: float, floor_share: float
) -> Choice:
    """Choose the fairest setting that is accurate enough.

    For a method without a notion, choose the setting of least loss. The least disparity alone would
    choose a constant classifier, whose disparity is 0. Even at share 0, a setting that is no better
    than constant is chosen only where all are.

    Args:
        candidates: the settings that did not diverge.
        fair: whether the method has a notion.
        majority: accuracy of the constant classifier.
        floor_share: where the floor of the accuracy lies on the way from ``majority`` to the
            best candidate, 0 to 1.

    >>> constant = Candidate({"lr": 1.0}, 0.88, 0.0, 0.3)
    >>> useful = Candidate({"lr": 0.1}, 0.9, 0.02, 0.2)
    >>> choose([constant, useful], fair=True, majority=0.88, floor_share=0.25).setting
    {'lr': 0.1}
    """
    best = max(candidate.accuracy for candidate in candidates)
    floor = majority + floor_share * max(best - majority, 0.0)
    # Where nothing beats the constant classifier, all candidates stay.
    useful = [c for c in candidates if c.accuracy > majority] or candidates
    able = [c for c in useful if c.accuracy >= floor and c.disparity is not None]
    if fair and able:
        chosen = min(able, key=lambda c: (c.disparity, -c.accuracy))
    else:
        chosen = min(candidates, key=lambda c: c.loss)
    return Choice(chosen.setting, floor, tuple(candidates))
