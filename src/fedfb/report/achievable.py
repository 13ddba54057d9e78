"""What each approach can reach, as a table and as pictures that read in grey."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedfb.errors import ConfigError
from fedfb.experiments.achievable import APPROACHES, sentence
from fedfb.report.tables import make_console, make_table, number
from fedfb.shapes import Array, Float
from fedfb.theory import (
    Population,
    cfl_curve,
    ensemble_range,
    erm,
    lft_ensemble,
    lft_ensemble_curve,
    lft_fedavg_curve,
    lft_fedavg_least,
)

STYLES = {"cfl": ("-", "o"), "lft_fedavg": ("--", "s"), "lft_ensemble": (":", "^")}
POINTS = 15
"""Points of a curve in a picture."""

BUDGETS = 21
"""Local budgets in each direction of a surface."""


def print_achievable(record: Mapping[str, Any], title: str) -> None:
    """Print the sentence, the least disparities and the best accuracy at each level."""
    console = make_console()
    console.print(title, style="bold")
    console.print(sentence(record) + "\n")
    levels = [point["disparity"] for point in record["cfl"]["curve"]]
    shown = [f"at {number(level, 2)}" for level in levels]
    table = make_table("Best accuracy with |P0 - P1| at most", "", "least", "there", *shown)
    for name, words in APPROACHES.items():
        one = record[name]
        there = one["at_least"] and one["at_least"]["accuracy"]
        accuracies = [number(point["accuracy"]) for point in one["curve"]]
        table.add_row(words, number(one["min_disparity"], 4), number(there), *accuracies)
    console.print(table)
    erm_ = record["erm"]
    console.print(
        f"\nWithout any thought of fairness: accuracy {number(erm_['accuracy'])}, |P0 - P1| "
        f"{number(erm_['disparity'])}, demographic parity (max |Pa - P|) "
        f"{number(erm_['demographic_parity'])}."
    )
    gaps = ", ".join(number(gap) for gap in record["client_gaps"])
    console.print(f"Its gap P0 - P1 on each client: {gaps}.")
    for name in ("lft_ensemble", "lft_fedavg"):
        _print_budgets(console, record[name], name)
    if "intervals" in record:
        for name, (low, high) in record["intervals"].items():
            words = (
                name.replace("_", " ")
                .replace("lft ensemble", "LFT+Ensemble's")
                .replace("erm", "ERM's")
            )
            console.print(f"95% interval of {words}: {number(low)} to {number(high)}.")
        console.print(record["revealed"])


def _print_budgets(console: Any, one: Mapping[str, Any], name: str) -> None:
    words = APPROACHES[name]
    if one["at_least"] and one["at_least"]["budgets"] is not None:
        budgets = ", ".join(number(budget, 4) for budget in one["at_least"]["budgets"])
        console.print(f"{words}: its least disparity takes the local budgets {budgets}.")
    if "at_eps" in one:
        at = one["at_eps"]
        console.print(
            f"{words} at the budgets asked for: accuracy {number(at['accuracy'], 4)}, P0 - P1 "
            f"{number(at['mean_difference'], 4)}, demographic parity "
            f"{number(at['demographic_parity'], 4)}."
        )


def draw_trade_off(panels: Mapping[str, Population], path: Path) -> None:
    """Draw accuracy against disparity for every approach, one panel for each population."""
    from matplotlib.figure import Figure

    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.6 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for place, (title, population) in enumerate(panels.items()):
        _draw_curves(axes.flat[place], population, title)
    for unused in list(axes.flat)[len(panels) :]:
        unused.set_axis_off()
    axes.flat[0].legend(frameon=False, fontsize=8, loc="lower right")
    _save(figure, path)


def _draw_curves(axes: Any, population: Population, title: str) -> None:
    most = erm(population).outcome.spd
    least = {
        "cfl": 0.0,
        "lft_fedavg": lft_fedavg_least(population).outcome.spd,
        "lft_ensemble": ensemble_range(population).least_disparity,
    }
    curves = {
        "cfl": cfl_curve,
        "lft_fedavg": lft_fedavg_curve,
        "lft_ensemble": lft_ensemble_curve,
    }
    for place, (name, words) in enumerate(APPROACHES.items()):
        # A little inside, or rounding would make the first point unreachable.
        levels = np.linspace(min(least[name] + 1e-6, most), max(most, 1e-6), POINTS)
        points = [p for p in curves[name](population, levels) if p.accuracy is not None]
        line, marker = STYLES[name]
        axes.plot(
            [p.level for p in points], [p.accuracy for p in points], line, marker=marker,
            color=f"C{place}", markersize=4, linewidth=1.4, label=words,
        )  # fmt: skip
        axes.axvline(least[name], color=f"C{place}", linestyle=line, linewidth=0.8, alpha=0.5)
    axes.set_xlim(left=0)
    axes.set_xlabel("|P0 - P1| (fairer: left)")
    axes.set_ylabel("accuracy (better: up)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.93", linewidth=0.8)
    axes.set_title(title, loc="left", fontsize=10)


def ensemble_surface(
    population: Population, budgets: Sequence[float] | Float[Array, " n"]
) -> Float[Array, "n n"]:
    """Return the ensemble's disparity at every pair of the two clients' local budgets."""
    if population.clients != 2:
        raise ConfigError(
            f"a surface over local budgets needs two clients, this population has "
            f"{population.clients}. Draw its trade-off instead."
        )
    return np.array(
        [[lft_ensemble(population, [e0, e1]).outcome.spd for e1 in budgets] for e0 in budgets]
    )


def draw_surface(population: Population, title: str, path: Path) -> None:
    """Draw the ensemble's disparity over the local budgets, with planes at 0 and at its least."""
    from matplotlib.figure import Figure

    budgets = np.linspace(0, 1, BUDGETS)
    disparity = ensemble_surface(population, budgets)
    least = ensemble_range(population).least_disparity
    first, second = np.meshgrid(budgets, budgets, indexing="ij")
    figure = Figure(figsize=(6.0, 4.8), layout="constrained")
    axes: Any = figure.add_subplot(projection="3d")
    axes.plot_surface(first, second, disparity, cmap="cividis", edgecolor="0.3", linewidth=0.2)
    for level, shade in ((0.0, "0.75"), (least, "0.45")):
        axes.plot_surface(first, second, np.full_like(disparity, level), color=shade, alpha=0.35)
    axes.set_xlabel("budget of client 0")
    axes.set_ylabel("budget of client 1")
    axes.set_zlabel("|P0 - P1| of the vote")
    axes.set_zlim(0, max(float(disparity.max()), 1e-3) * 1.05)
    axes.view_init(elev=22, azim=-130)
    axes.set_title(f"{title}: least {number(least, 4)} (darker plane)", loc="left", fontsize=10)
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise ConfigError(f"--plot {path} could not be written: {error.strerror}.") from None
