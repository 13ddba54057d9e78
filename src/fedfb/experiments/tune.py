"""Choosing hyper-parameters on validation rows, with a floor under the accuracy."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedfb.core import Examples, Prediction
from fedfb.experiments.evaluation import Record, cross_entropy
from fedfb.experiments.resolve import Setting

HELD_OUT = 0.1
"""The share of every client's training rows that tuning sets aside."""


class Candidate(NamedTuple):
    """What one setting reached on the validation rows, in the mean over seeds."""

    setting: Setting
    accuracy: float
    disparity: float | None
    loss: float


class Choice(NamedTuple):
    """The chosen setting, the floor it had to reach, and what it was chosen from."""

    setting: Setting
    floor: float
    candidates: tuple[Candidate, ...]


def validation_loss(prediction: Prediction, examples: Examples) -> list[float]:
    """Return the mean cross-entropy of every run."""
    return [float(cross_entropy(score, examples.y).mean()) for score in prediction.score]


def candidates(
    settings: Sequence[Setting],
    records: Sequence[Sequence[Record]],
    losses: Sequence[Sequence[float]],
    notion: str,
    measure: str = "disparity",
) -> tuple[Candidate, ...]:
    """Average records[seed][setting] over the seeds.

    The measure is ``local_disparity`` for a method that aims at every client's own.
    """
    found = []
    for number, setting in enumerate(settings):
        seen = [of_seed[number] for of_seed in records]
        known = [d for r in seen if (d := r[measure].get(notion)) is not None]
        found.append(
            Candidate(
                setting,
                float(np.mean([record["accuracy"] for record in seen])),
                float(np.mean(known)) if len(known) == len(seen) else None,
                float(np.mean([of_seed[number] for of_seed in losses])),
            )
        )
    return tuple(found)


def choose(found: Sequence[Candidate], fair: bool, majority: float, floor_share: float) -> Choice:
    """Choose the fairest setting that is accurate enough.

    For a method without a notion, choose the one of least loss. The floor lies ``floor_share`` of
    the way from the constant classifier's accuracy to the best one found: the least disparity alone
    would choose a constant classifier, whose disparity is 0. Even at share 0, what is no better
    than constant is chosen only where nothing is.

    >>> constant = Candidate({"lr": 1.0}, 0.88, 0.0, 0.3)
    >>> useful = Candidate({"lr": 0.1}, 0.9, 0.02, 0.2)
    >>> choose([constant, useful], fair=True, majority=0.88, floor_share=0.25).setting
    {'lr': 0.1}
    """
    best = max(candidate.accuracy for candidate in found)
    floor = majority + floor_share * max(best - majority, 0.0)
    useful = [c for c in found if c.accuracy > majority] or found
    able = [c for c in useful if c.accuracy >= floor and c.disparity is not None]
    if fair and able:
        chosen = min(able, key=lambda c: (c.disparity, -c.accuracy))
    else:
        chosen = min(found, key=lambda c: c.loss)
    return Choice(chosen.setting, floor, tuple(found))
