"""The paper's toy picture: three clients, each fair to its own people, whose vote is not fair."""

from pathlib import Path
from typing import Any

import numpy as np

from fedfb.report.numbers import number
from fedfb.report.saving import save_figure
from fedfb.shapes import Array, Float
from fedfb.theory import (
    AtomPopulation,
    Decisions,
    Outcome,
    Rule,
    cfl,
    lft_ensemble,
    local_optima,
)

LETTERS = ("F", "M")
HEIGHTS = (1.0, 0.0)
"""Where a panel has the line of each group."""


def draw_toy(population: AtomPopulation, path: Path) -> None:
    """Draw every client's people and fair thresholds, then the vote and one rule for all."""
    from matplotlib.figure import Figure

    clients = population.clients
    figure = Figure(figsize=(7.2, 1.25 * clients + 2.2), layout="constrained")
    axes = figure.subplots(
        clients + 1, 1, sharex=True, squeeze=False, height_ratios=[1.0] * clients + [1.5]
    )[:, 0]
    for one in local_optima(population, 0.0):
        _draw_people(axes[one.client], population, population.masses[one.client])
        _draw_thresholds(axes[one.client], population, one.rule, ":")
        axes[one.client].set_title(f"client {one.client}: fair at home", loc="left", fontsize=9)
    _draw_all(axes[-1], population)
    axes[-1].set_xlabel("chance of a positive label (grey box: above one half)")
    save_figure(figure, path)


def _draw_people(axes: Any, population: AtomPopulation, masses: Float[Array, "a k"]) -> None:
    for letter, height, row in zip(LETTERS, HEIGHTS, masses, strict=True):
        axes.axhline(height, color="0.85", linewidth=0.8, zorder=0)
        for place in np.flatnonzero(row):
            shade = "0.78" if population.eta[place] > 0.5 else "white"
            axes.text(
                population.points[place], height, letter, ha="center", va="center", fontsize=9,
                bbox={"boxstyle": "square,pad=0.25", "facecolor": shade, "edgecolor": "0.3"},
            )  # fmt: skip
    axes.set_ylim(-0.6, 1.6)
    axes.set_xlim(0.0, 1.0)
    axes.set_yticks([])
    axes.spines[["top", "right", "left"]].set_visible(False)


def _draw_thresholds(axes: Any, population: AtomPopulation, rule: Rule, line: str) -> None:
    for height, t in zip(HEIGHTS, thresholds(population, rule), strict=True):
        axes.plot([t, t], [height - 0.45, height + 0.45], line, color="C0", linewidth=2.2)
        axes.annotate(
            "accepted", (t, height + 0.4), xytext=(3, -3), textcoords="offset points",
            fontsize=7, color="C0",
        )  # fmt: skip


def thresholds(population: AtomPopulation, rule: Rule) -> list[float]:
    """Return for each group where decisions turn positive, half-way between two people."""
    assert isinstance(rule, Decisions)
    found = []
    for row in rule.probability:
        inside, outside = population.points[row > 0.5], population.points[row <= 0.5]
        ends = (outside.max(initial=0.0), inside.min(initial=1.0))
        found.append(float(np.mean(ends)))
    return found


def _draw_all(axes: Any, population: AtomPopulation) -> None:
    vote, together = lft_ensemble(population, 0.0), cfl(population, 0.0)
    assert isinstance(vote.rule, Decisions)
    _draw_people(axes, population, population.masses.sum(axis=0))
    everybody: Array = population.masses.sum(axis=0)
    for height, row, votes in zip(HEIGHTS, everybody, vote.rule.probability, strict=True):
        for place in np.flatnonzero(row):
            share = f"{round(votes[place] * population.clients)}/{population.clients}"
            at = (population.points[place], height - 0.42)
            axes.text(*at, share, ha="center", va="center", fontsize=7)
    for height, t in zip(HEIGHTS, thresholds(population, together.rule), strict=True):
        axes.plot([t, t], [height - 0.3, height + 0.45], "-", color="C2", linewidth=2.2)
    axes.set_title(
        f"all: votes for each person, {_said(vote.outcome)}\n"
        f"one rule for all (lines), {_said(together.outcome)}",
        loc="left", fontsize=9,
    )  # fmt: skip


def _said(done: Outcome) -> str:
    rates = " and ".join(f"{number(r)} of {a}" for r, a in zip(done.rates, LETTERS, strict=True))
    return f"accepts {rates}: |P0 - P1| {number(done.spd)}, accuracy {number(done.accuracy)}"
