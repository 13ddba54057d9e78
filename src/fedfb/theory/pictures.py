"""Tables and pictures of what each approach can reach; the pictures read in grey.

``print_achievable`` prints the record of ``fedfb achievable``, ``draw_trade_off``, ``draw_gaps``
and ``draw_surface`` draw it. ``draw_toy`` draws the paper's toy example: three clients, each fair
to its people, whose vote is not fair.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedfb.errors import ConfigError
from fedfb.report.figures import MARKERS, colour_of, save_figure
from fedfb.report.numbers import number
from fedfb.report.table import Table, make_console, print_table
from fedfb.shapes import Array, Float
from fedfb.theory import (
    AtomPopulation,
    Decisions,
    Outcome,
    Population,
    Rule,
    cfl,
    ensemble_range,
    gap_curves,
    lambda_axis,
    lft_ensemble,
    local_optima,
)
from fedfb.theory.achievable import APPROACHES, MEASURES, summarise_in_words

STYLES = {
    "cfl": ("-", {"marker": "o", "markersize": 3.5}),
    # Hollow and larger: where both curves coincide, both are seen.
    "lft_fedavg": ("--", {"marker": "s", "markersize": 7, "markerfacecolor": "none"}),
    "lft_ensemble": (":", {"marker": "^", "markersize": 5}),
}
INTERVALS = {
    "erm_disparity": "{measure} of plain training",
    "lft_ensemble_min_disparity": "LFT+Ensemble's least {measure}",
    "cost_of_parity": "the accuracy that parity costs",
}
LINES = ("--", ":", "-.")
_MOST_NAMED = 6
"""Clients that the legend of a picture of g names."""

BUDGETS = 21
"""Local budgets in each direction of a surface."""


def print_achievable(record: Mapping[str, Any], title: str) -> None:
    """Print the sentence, the least disparities and the best accuracy at each level.

    Args:
        record: as ``achievable`` returns it.
        title: of the table.
    """
    console, measure = make_console(), MEASURES[record["measure"]]
    console.print(title, style="bold")
    console.print(summarise_in_words(record) + "\n")
    print_table(_table(record, measure), console)
    plain = record["erm"]
    console.print(
        f"\nWithout any thought of fairness: accuracy {number(plain['accuracy'])}, {measure} "
        f"{number(plain['disparity'])}"
        + (_parity(plain) if record["measure"] == "spd" else "")
        + "."
    )
    gap = "P0 - P1" if record["measure"] == "spd" else "max Pa - min Pa"
    gaps = ", ".join(number(gap) for gap in record["client_gaps"])
    console.print(f"Its gap {gap} on each client: {gaps}.")
    for name in ("lft_fedavg", "lft_ensemble"):
        if name in record:
            _print_budgets(console, record[name], name, measure)
    if "limit" in record.get("lft_ensemble", {}):
        console.print(limit_in_words(record["lft_ensemble"]))
    if "left_out" in record:
        console.print(record["left_out"])
    for name, (low, high) in record.get("intervals", {}).items():
        quantity = INTERVALS[name].format(measure=measure)
        console.print(f"95% interval of {quantity}: {number(low)} to {number(high)}.")
    if "revealed" in record:
        console.print(record["revealed"])


def _table(record: Mapping[str, Any], measure: str) -> Table:
    approaches = {name: words for name, words in APPROACHES.items() if name in record}
    rows: list[tuple[str, ...]] = []
    for place, point in enumerate(record["cfl"]["curve"]):
        accuracies = [number(record[name]["curve"][place]["accuracy"], 4) for name in approaches]
        rows.append((number(point["disparity"], 3), *accuracies))
    rows.append((f"least {measure}", *(_least(record[n]["min_disparity"]) for n in approaches)))
    fairest = [record[name]["at_least"] for name in approaches]
    rows.append(("accuracy there", *(number(at and at["accuracy"], 4) for at in fairest)))
    caption = f"Best accuracy with {measure} at most"
    return Table(caption, ("", *approaches.values()), tuple(rows))


def _least(value: float) -> str:
    """Return a least disparity with four digits; a number above 0 is never printed as 0."""
    return "<.0001" if 0 < value < 5e-5 else number(value, 4)


def limit_in_words(voting: Mapping[str, Any]) -> str:
    """Return the sentence that says whether the lemma on votes applies, and which condition fails.

    >>> condition = {"statement": "there are two clients", "holds": False, "numbers": "3 clients"}
    >>> limit = {"applies": False, "bound": None, "conditions": [condition]}
    >>> limit_in_words({"limit": limit, "min_disparity": 0.0})
    ... # doctest: +NORMALIZE_WHITESPACE
    'Lemma ufl_limit (no budgets make the vote of two clients fair) does not apply: it asks that
    there are two clients (3 clients). The exact least disparity is 0.'
    """
    limit, least = voting["limit"], voting["min_disparity"]
    lemma = "Lemma ufl_limit (no budgets make the vote of two clients fair)"
    if limit["applies"]:
        numbers = "; ".join(condition["numbers"] for condition in limit["conditions"][-2:])
        return f"{lemma} applies: {numbers}. Every vote has at least {number(limit['bound'], 4)}."
    fails = "; ".join(
        f"{condition['statement']} ({condition['numbers']})"
        for condition in limit["conditions"]
        if not condition["holds"]
    )
    exact = _least(least) if least else "0"
    return f"{lemma} does not apply: it asks that {fails}. The exact least disparity is {exact}."


def _parity(classifier: Mapping[str, Any]) -> str:
    return f", demographic parity (max |Pa - P|) {number(classifier['demographic_parity'])}"


def _print_budgets(console: Any, approach: Mapping[str, Any], name: str, measure: str) -> None:
    words = APPROACHES[name]
    if approach["at_least"] and approach["at_least"]["budgets"] is not None:
        budgets = ", ".join(number(budget, 4) for budget in approach["at_least"]["budgets"])
        console.print(f"{words}: its least disparity takes the local budgets {budgets}.")
    if "tau" in approach:
        console.print(f"{words} equals CFL from {measure} = {number(approach['tau'], 4)} on.")
    if not approach["exact"]:
        console.print(f"{words}: budgets were tried, better ones may exist. CFL bounds them.")
    if "at_eps" in approach:
        at = approach["at_eps"]
        gap = at["mean_difference"]
        console.print(
            f"{words} at the budgets asked for: accuracy {number(at['accuracy'], 4)}, "
            + (f"P0 - P1 {number(gap, 4)}, " if gap is not None else "")
            + f"demographic parity {number(at['demographic_parity'], 4)}."
        )


def draw_trade_off(panels: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Draw accuracy against disparity of every approach.

    Args:
        panels: records of ``achievable`` by title, one panel each.
        path: the file to write.
    """
    from matplotlib.figure import Figure

    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.6 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for place, (title, record) in enumerate(panels.items()):
        _draw_curves(axes.flat[place], record, title)
    for unused in list(axes.flat)[len(panels) :]:
        unused.set_axis_off()
    axes.flat[0].legend(frameon=False, fontsize=8, loc="lower right")
    save_figure(figure, path)


def _draw_curves(axes: Any, record: Mapping[str, Any], title: str) -> None:
    for place, (name, words) in enumerate(APPROACHES.items()):
        if name not in record:
            continue
        points = curve_points(record[name])
        line, marks = STYLES[name]
        axes.plot(
            [level for level, _ in points], [accuracy for _, accuracy in points], line,
            **marks, color=colour_of(place), linewidth=1.4, label=words,
        )  # fmt: skip
        least = record[name]["min_disparity"]
        axes.axvline(least, color=colour_of(place), linestyle=line, linewidth=0.8, alpha=0.5)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"{MEASURES[record['measure']]} (fairer: left)")
    axes.set_ylabel("accuracy (better: up)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.93", linewidth=0.8)
    axes.set_title(title, loc="left", fontsize=10)


def curve_points(approach: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Return the points of a curve, from its least disparity on.

    >>> curve = [{"disparity": 0.1, "accuracy": None}, {"disparity": 1.0, "accuracy": 0.8}]
    >>> curve_points({"min_disparity": 0.2, "at_least": {"accuracy": 0.7}, "curve": curve})
    [(0.2, 0.7), (1.0, 0.8)]
    """
    reached = [
        (p["disparity"], p["accuracy"]) for p in approach["curve"] if p["accuracy"] is not None
    ]
    if approach["at_least"] is None:
        return reached
    return [(approach["min_disparity"], approach["at_least"]["accuracy"]), *reached]


def draw_gaps(population: Population, title: str, path: Path) -> None:
    """Draw g and every client's g_i against lambda.

    A curve is thick where the client's budgets can place its lambda: from 0 to the zero of g_i.

    Args:
        population: a population of two groups.
        title: of the picture.
        path: the file to write.
    """
    from matplotlib.figure import Figure

    curves = gap_curves(population, lambda_axis(population))
    fair = [optimum.multiplier for optimum in local_optima(population, 0.0)]
    figure = Figure(figsize=(5.6, 4.0), layout="constrained")
    axes = figure.add_subplot()
    axes.axhline(0.0, color="0.6", linewidth=0.8)
    axes.axvline(0.0, color="0.6", linewidth=0.8)
    axes.plot(
        curves.lam, curves.together, "-", color="black", linewidth=1.6, label="g, all clients"
    )
    for client, gaps in enumerate(curves.clients):
        if np.isnan(gaps).all():
            continue  # a client that lacks a group has no gap
        line, marker = LINES[client % len(LINES)], MARKERS[client % len(MARKERS)]
        colour, end = colour_of(client), fair[client]
        named = f"g_{client}" if client < _MOST_NAMED else None
        axes.plot(curves.lam, gaps, line, color=colour, linewidth=1.2, label=named)
        inside = (curves.lam >= min(end, 0.0)) & (curves.lam <= max(end, 0.0))
        axes.plot(curves.lam[inside], gaps[inside], "-", color=colour, linewidth=4, alpha=0.35)
        axes.plot(end, np.interp(end, curves.lam, gaps), marker, color=colour, markersize=5)
    axes.set_xlabel("lambda (below 0: group 0 is judged more strictly)")
    axes.set_ylabel("mean difference P0 - P1")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.93", linewidth=0.8)
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    axes.set_title(title, loc="left", fontsize=10)
    save_figure(figure, path)


def ensemble_surface(
    population: Population, budgets: Sequence[float] | Float[Array, " n"]
) -> Float[Array, "n n"]:
    """Return the ensemble's disparity at every pair of local budgets of two clients.

    Args:
        population: a population of two clients.
        budgets: the budgets of each direction.
    """
    if population.clients != 2:
        raise ConfigError(
            f"a surface over local budgets needs two clients, this population has "
            f"{population.clients}. Draw its trade-off instead."
        )
    return np.array(
        [[lft_ensemble(population, [e0, e1]).outcome.spd for e1 in budgets] for e0 in budgets]
    )


def draw_surface(population: Population, title: str, path: Path) -> None:
    """Draw the ensemble's disparity over the local budgets, with planes at 0 and at its least.

    Args:
        population: a population of two clients.
        title: of the picture.
        path: the file to write.
    """
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
    save_figure(figure, path)


LETTERS = ("F", "M")
HEIGHTS = (1.0, 0.0)
"""Where a panel has the line of each group."""


def draw_toy(population: AtomPopulation, path: Path) -> None:
    """Draw each client's people and fair thresholds, then the vote and one rule for all."""
    from matplotlib.figure import Figure

    clients = population.clients
    figure = Figure(figsize=(7.2, 1.25 * clients + 2.2), layout="constrained")
    axes = figure.subplots(
        clients + 1, 1, sharex=True, squeeze=False, height_ratios=[1.0] * clients + [1.5]
    )[:, 0]
    for optimum in local_optima(population, 0.0):
        _draw_people(axes[optimum.client], population, population.masses[optimum.client])
        _draw_thresholds(axes[optimum.client], population, optimum.rule, ":")
        axes[optimum.client].set_title(
            f"client {optimum.client}: fair at home", loc="left", fontsize=9
        )
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
    for height, t in zip(HEIGHTS, _thresholds(population, rule), strict=True):
        axes.plot([t, t], [height - 0.45, height + 0.45], line, color=colour_of(0), linewidth=2.2)
        axes.annotate(
            "accepted", (t, height + 0.4), xytext=(3, -3), textcoords="offset points",
            fontsize=7, color=colour_of(0),
        )  # fmt: skip


def _thresholds(population: AtomPopulation, rule: Rule) -> list[float]:
    """Return for each group the point at which decisions become positive, between two people.

    Args:
        population: laws on atoms.
        rule: decisions at each point.
    """
    assert isinstance(rule, Decisions)
    positions = []
    for row in rule.probability:
        inside, outside = population.points[row > 0.5], population.points[row <= 0.5]
        ends = (outside.max(initial=0.0), inside.min(initial=1.0))
        positions.append(float(np.mean(ends)))
    return positions


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
    for height, t in zip(HEIGHTS, _thresholds(population, together.rule), strict=True):
        axes.plot([t, t], [height - 0.3, height + 0.45], "-", color=colour_of(2), linewidth=2.2)
    axes.set_title(
        f"all: votes for each person, {_describe_outcome(vote.outcome)}\n"
        f"one rule for all (lines), {_describe_outcome(together.outcome)}",
        loc="left", fontsize=9,
    )  # fmt: skip


def _describe_outcome(outcome: Outcome) -> str:
    rates = " and ".join(f"{number(r)} of {a}" for r, a in zip(outcome.rates, LETTERS, strict=True))
    return f"accepts {rates}: |P0 - P1| {number(outcome.spd)}, accuracy {number(outcome.accuracy)}"
