"""``--features auto``: numbers as they are, or with steps, by the loss on validation rows."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fedfb.algorithms.fedfb.root_search import FREE
from fedfb.core import Examples
from fedfb.data import Federation, hold_out
from fedfb.data.federation import without_steps
from fedfb.errors import ConfigError
from fedfb.experiments.evaluate import cross_entropy
from fedfb.experiments.resolve import given_grid
from fedfb.experiments.seed_result import FeatureChoice, Setting
from fedfb.experiments.spec import Resolved
from fedfb.experiments.train import fit_grid
from fedfb.experiments.tune import HELD_OUT
from fedfb.runtime import Progress, Saving
from fedfb.shapes import Array, Float

PHASES = ("features-1", "features-2")
"""The trainings of a seed, with steps and without, as the ledger calls them."""

ForEach = Callable[[Callable[[int, Callable[[Progress], None]], Any]], list[Any]]
"""Runs a task for every seed, and returns what the tasks return."""


class LossSums(NamedTuple):
    """Sums over validation rows: rows, loss with steps and without, and squares of the difference.

    Every client adds its rows to these four numbers.
    """

    rows: float
    with_steps: float
    without: float
    squares: float


def choose_features(
    experiment: Resolved,
    federations: Mapping[int, Federation],
    for_each_seed: ForEach,
    saving: Callable[[str, int, Federation], Saving | None],
) -> tuple[dict[int, Federation], FeatureChoice]:
    """Return the federations as they are trained on, for all seeds alike, and the choice.

    The model is trained without fairness on nine tenths of every client's rows, with and without
    steps. Steps are taken if they lower the mean loss on the other rows by more than the standard
    error of the difference.

    Args:
        experiment: what is trained.
        federations: rows by seed, with steps.
        for_each_seed: runs a task for every seed.
        saving: phase, seed, rows -> where the checkpoint of a training lies.
    """
    setting = given_grid(experiment)[0]
    if "target" in setting:
        setting = {**setting, "target": FREE}
    # Rows are split in one place, so that rows that seeds share stay the same object.
    plain = {id(one): without_steps(one) for one in federations.values()}

    def compare(seed: int, on_round: Callable[[Progress], None]) -> LossSums:
        forms = (federations[seed], plain[id(federations[seed])])
        losses = [
            _losses(experiment, form, setting, seed, phase, saving, on_round)
            for form, phase in zip(forms, PHASES, strict=True)
        ]
        stepped, straight = losses
        squares = float(((straight - stepped) ** 2).sum())
        return LossSums(len(stepped), float(stepped.sum()), float(straight.sum()), squares)

    total = LossSums(*np.sum([list(sums) for sums in for_each_seed(compare)], axis=0).tolist())
    choice = FeatureChoice(
        steps=prefers_steps(total),
        loss_with_steps=total.with_steps / total.rows,
        loss_without=total.without / total.rows,
    )
    if choice.steps:
        return dict(federations), choice
    return {seed: plain[id(one)] for seed, one in federations.items()}, choice


def prefers_steps(total: LossSums) -> bool:
    """Return whether steps lower the loss by more than a standard error.

    >>> prefers_steps(LossSums(100, 40.0, 45.0, 1.0)), prefers_steps(LossSums(100, 44.9, 45.0, 1.0))
    (True, False)
    """
    gain = (total.without - total.with_steps) / total.rows
    variance = max(total.squares / total.rows - gain**2, 0.0)
    return bool(gain > np.sqrt(variance / total.rows))


def _losses(
    experiment: Resolved,
    federation: Federation,
    setting: Setting,
    seed: int,
    phase: str,
    saving: Callable[[str, int, Federation], Saving | None],
    on_round: Callable[[Progress], None],
) -> Float[Array, " n"]:
    """Return the loss of every validation row of a seed."""
    rows, validation = hold_out(federation, HELD_OUT, seed)
    _refuse_no_rows(validation)
    checkpoint = saving(phase, seed, rows)
    grid = fit_grid(
        replace(experiment, cut=None),  # no cut changes a score
        rows,
        [setting],
        seed,
        validation,
        checkpoint,
        on_round,
        watched=False,
    )
    return cross_entropy(grid.prediction.score[0], validation.y)


def _refuse_no_rows(validation: Examples) -> None:
    if not len(validation.y):
        raise ConfigError(
            f"--features auto sets {HELD_OUT:.0%} of every client's rows aside to choose on, and "
            "no client has enough to spare one. Add rows, or give --features plain or binned."
        )
