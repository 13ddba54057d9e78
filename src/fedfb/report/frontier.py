"""The frontier for a terminal, a pipe and a file: tables, CSV and pictures.

With privacy, a picture has one panel for every epsilon, on the same axes.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fedfb.experiments.result import Frontier, LeftOut, Point
from fedfb.experiments.shortfalls import other_notes
from fedfb.report.figures import (
    LEFT_ROOM,
    LIMIT_NAME,
    Palette,
    Series,
    algorithms_of,
    draw_series,
    knob_in_words,
    save_figure,
    series_of_frontier,
)
from fedfb.report.numbers import NAMES, coverage_of, number, shown_name, with_interval
from fedfb.report.table import Row, Table, make_console, print_table, to_csv
from fedfb.report.text import epsilon_in_words, print_first

FRONTIER_LEVELS = (0.01, 0.02, 0.05, 0.1, 0.2)
"""The disparities at which approaches are compared side by side."""

NOTHING_BETTER = "The Pareto set is empty: nothing is more accurate than a constant classifier."

_COLUMNS = (
    *("algorithm", "setting", "accuracy", "accuracy_low", "accuracy_high"),
    *("disparity", "disparity_low", "disparity_high", "pareto", "pooled", "limit"),
)


def best_within(frontier: Frontier, algorithm: str, level: float) -> Point | None:
    """Return a method's most accurate point with a mean disparity of at most ``level``."""
    able = [
        point
        for point in frontier.points
        if point.algorithm == algorithm
        and point.disparity.mean is not None
        and point.disparity.mean <= level
    ]
    return max(able, key=lambda point: point.accuracy.mean or 0.0, default=None)


def pareto_points(frontier: Frontier) -> list[Point]:
    """Return the Pareto set, fairest first."""
    chosen = [point for point in frontier.points if point.pareto]
    return sorted(
        chosen, key=lambda point: (point.disparity.mean or 0.0, point.accuracy.mean or 0.0)
    )


def point_figures(point: Point) -> tuple[str, str]:
    """Return accuracy and disparity of a point with their intervals; of one that diverged, none."""
    accuracy = "diverged" if point.diverged else with_interval(point.accuracy)
    return accuracy, with_interval(point.disparity)


def print_frontier(frontier: Frontier) -> None:
    """Print what each approach reaches, the Pareto set, and what was left out."""
    console = make_console()
    print_first([shortfall.sentence for shortfall in frontier.shortfalls], console)
    seeds = len(frontier.seeds)
    which = f"{seeds} seeds" if seeds > 1 else f"seed {frontier.seeds[0]}"
    console.print(f"{frontier.data}, {frontier.model}, {NAMES[frontier.notion]}, {which}\n")
    print_table(level_table(frontier, narrow=True), console)
    limit = f"{LIMIT_NAME}; " if any(point.limit for point in frontier.points) else ""
    console.print(f"\n{limit}p: trained on pooled rows\n")
    if chosen := pareto_points(frontier):
        table = point_table("Pareto set, with 95% intervals", chosen, "", str)
        print_table(table, console)
    else:
        console.print(NOTHING_BETTER)
    print_beside(frontier, console)


def print_beside(frontier: Frontier, console: Any, *more: str) -> None:
    """Print the lines below the tables of a frontier: coverage, constant, failures, notes.

    Args:
        frontier: the frontier.
        console: a console of rich.
        *more: lines to print after the constant classifier.
    """
    console.print(coverage_of(frontier), style="dim")
    if frontier.constant is not None:
        constant = number(frontier.constant)
        console.print(f"\nA constant classifier is {constant} accurate with disparity 0.")
    for line in more:
        console.print(line)
    for failure in frontier.failed:
        console.print(f"failed: {failure.algorithm}: {failure.reason}")
    for point in frontier.points:
        if point.diverged:
            console.print(f"diverged: {point.algorithm} {knob_in_words(point)}".rstrip())
    if frontier.left_out:
        console.print(f"left out: {left_out_in_words(frontier.left_out)}", style="dim")
    for note in other_notes(frontier):
        console.print(f"note: {note}", style="dim")


def level_table(frontier: Frontier, narrow: bool = False) -> Table:
    """Return what each approach reaches within several bounds on the disparity.

    Args:
        frontier: the frontier.
        narrow: for a terminal: short marks, and methods named as settings name them.
    """
    name, pooled, at_most = (str, " (p)", "<=") if narrow else (shown_name, " (pooled)", "≤")
    rows = []
    for algorithm in algorithms_of(frontier):
        best = [
            best_within(frontier, algorithm, level) for level in (*FRONTIER_LEVELS, float("inf"))
        ]
        first = next(point for point in frontier.points if point.algorithm == algorithm)
        mark = " (limit)" if first.limit else pooled if first.pooled else ""
        cells = [number(point.accuracy.mean) if point else "-" for point in best]
        rows.append((name(algorithm) + mark, *cells))
    columns = ("", *(f"{at_most} {number(level, 2)}" for level in FRONTIER_LEVELS), "any")
    note = "A dash: no setting that was tried is so fair. Pooled: all rows in one place."
    return Table(
        "Accuracy at a disparity of at most ...", columns, tuple(rows), "" if narrow else note
    )


def point_table(
    caption: str,
    points: Sequence[Point],
    covered: str,
    name: Callable[[str], str] = shown_name,
) -> Table:
    """Return points with their settings and intervals.

    Args:
        caption: of the table.
        points: one row each.
        covered: a sentence that says what the intervals cover.
        name: writes the name of a method.
    """
    rows = [
        (
            name(point.algorithm),
            knob_in_words(point),
            *point_figures(point),
        )
        for point in points
    ]
    return Table(caption, ("", "setting", "accuracy", "disparity"), tuple(rows), covered)


def pareto_group_table(frontier: Frontier) -> Table:
    """Return the rates of positive decisions by group, along the Pareto set."""
    rows = []
    for point in pareto_points(frontier):
        name = ", ".join(filter(None, (shown_name(point.algorithm), knob_in_words(point))))
        rates = [number(group.positive_rate) for group in point.groups]
        rows.append((name, number(point.disparity.mean), *rates))
    columns = ("", "disparity", *frontier.groups)
    return Table("Rate of positive decisions, by group", columns, tuple(rows), "Means over seeds.")


def left_out_in_words(left_out: Sequence[LeftOut]) -> str:
    """Name the methods behind each reason, so that each reason stands once."""
    by_reason: dict[str, list[str]] = {}
    for method in left_out:
        by_reason.setdefault(method.reason, []).append(method.algorithm)
    return "; ".join(f"{', '.join(names)} ({reason})" for reason, names in by_reason.items())


def frontier_csv(frontier: Frontier) -> str:
    """Return one row per point as CSV, with all digits."""
    rows: list[Row] = []
    for point in frontier.points:
        accuracy, disparity = point.accuracy, point.disparity
        cells = [
            *(point.algorithm, knob_in_words(point)),
            *(accuracy.mean, *(accuracy.interval or (None, None))),
            *(disparity.mean, *(disparity.interval or (None, None))),
            *(int(mark) for mark in (point.pareto, point.pooled, point.limit)),
        ]
        epsilon = {"epsilon": epsilon_in_words(point.epsilon)} if frontier.epsilons else {}
        rows.append({**dict(zip(_COLUMNS, cells, strict=True)), **epsilon})
    return to_csv(rows, _COLUMNS)


def _legend(series: Sequence[Series], palette: Palette) -> Iterator[dict[str, Any]]:
    """Yield how each entry of the legend is drawn."""
    for place, curve in {curve.place: curve for curve in series if not curve.limit}.items():
        colour = palette.series[place % len(palette.series)]
        line = {"color": colour, "linewidth": 1}
        yield {"label": curve.name, "marker": curve.marker, "markersize": 7, **line}
    ring = {"marker": "o", "markerfacecolor": "none", "markeredgecolor": palette.ink}
    yield {"label": "in the Pareto set", "linestyle": "none", **ring}
    if any(curve.limit for curve in series):
        dashed = {"color": palette.ink, "linestyle": (0, (4, 2))}
        yield {"label": LIMIT_NAME.replace(", ", ",\n"), **dashed}


def draw_frontier(frontier: Frontier, path: Path) -> None:
    """Draw every approach's curve; readable in grey, as every method has its marker."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    figure = Figure(figsize=(9, 5.4), layout="constrained")
    axes, palette = figure.subplots(), Palette()
    series = series_of_frontier(frontier)
    list(draw_series(axes, series, frontier.constant, frontier.notion, palette))
    handles = [Line2D([], [], **style) for style in _legend(series, palette)]
    figure.legend(handles=handles, loc="outside right upper", frameon=False, fontsize=9)
    seeds = len(frontier.seeds)
    title = f"{frontier.data}, {frontier.model}: {seeds} seed{'s' if seeds > 1 else ''}"
    axes.set_title(title, loc="left", fontsize=11)
    save_figure(figure, path)


EACH = (
    "Epsilon is that of one run: who trains all points, or several seeds, on the same rows spends "
    "all of them."
)


def of_epsilon(frontier: Frontier, epsilon: float | None) -> Frontier:
    """Return the frontier of one epsilon.

    Args:
        frontier: a frontier with several epsilons.
        epsilon: one of them; None is infinite, that is without noise.
    """
    points = tuple(point for point in frontier.points if point.epsilon == epsilon)
    return msgspec.structs.replace(frontier, points=points)


def print_private_frontier(frontier: Frontier) -> None:
    """Print what every approach reaches at every target and epsilon."""
    console = make_console()
    print_first([shortfall.sentence for shortfall in frontier.shortfalls], console)
    seeds = len(frontier.seeds)
    which = f"{seeds} seeds" if seeds > 1 else f"seed {frontier.seeds[0]}"
    delta = frontier.delta
    notion = NAMES[frontier.notion]
    console.print(f"{frontier.data}, {frontier.model}, {notion}, {which}, delta {delta:g}\n")
    columns = ("", "epsilon", "accuracy", "disparity")
    rows = tuple(
        (
            f"{point.algorithm} {knob_in_words(point)}".strip(),
            epsilon_in_words(epsilon),
            *point_figures(point),
        )
        for epsilon in frontier.epsilons
        for point in of_epsilon(frontier, epsilon).points
    )
    print_table(Table("By epsilon, with 95% intervals", columns, rows), console)
    print_beside(frontier, console, EACH)


def draw_private_frontier(frontier: Frontier, path: Path) -> None:
    """Draw a panel for every epsilon; the curves of the largest stand grey behind the others."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    epsilons, palette = frontier.epsilons, Palette()
    across = min(len(epsilons), 2)
    down = -(-len(epsilons) // across)
    figure = Figure(figsize=(1.5 + 4.2 * across, 0.8 + 3.4 * down), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    panels = list(grid.ravel())
    curves = [series_of_frontier(of_epsilon(frontier, epsilon)) for epsilon in epsilons]
    least = max(range(len(epsilons)), key=lambda at: epsilons[at] or float("inf"))
    for axes, epsilon, series in zip(panels, epsilons, curves, strict=False):
        if series is not curves[least]:
            _behind(axes, curves[least], palette)
        list(draw_series(axes, series, frontier.constant, frontier.notion, palette))
        axes.set_title(f"epsilon {epsilon_in_words(epsilon)}", loc="left", fontsize=11)
        axes.label_outer()
    for axes in panels[max(len(epsilons) - across, 0) : len(epsilons)]:
        axes.tick_params(labelbottom=True)  # where no panel is below
        axes.set_xlabel(panels[0].get_xlabel() or f"{NAMES[frontier.notion]}: disparity")
    for axes in panels[len(epsilons) :]:
        axes.set_visible(False)
    _same_limits(
        panels[: len(epsilons)], [curve for series in curves for curve in series], frontier
    )
    handles = [
        Line2D([], [], **style)
        for style in _private_legend(curves[least], epsilons[least], palette)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    seeds = len(frontier.seeds)
    figure.suptitle(
        f"{frontier.data}, {frontier.model}: {seeds} seed{'s' if seeds > 1 else ''}, "
        f"delta {frontier.delta:g}",
        fontsize=11,
    )
    save_figure(figure, path)


def _behind(axes: Any, series: Sequence[Series], palette: Palette) -> None:
    for curve in series:
        xs, ys = [p.disparity for p in curve.points], [p.accuracy for p in curve.points]
        style = {"color": palette.muted, "alpha": 0.35, "zorder": 0, "linewidth": 1.2}
        axes.plot(xs, ys, marker=curve.marker, markersize=6, markerfacecolor="none", **style)


def _same_limits(panels: Sequence[Any], series: Sequence[Series], frontier: Frontier) -> None:
    points = [point for curve in series for point in curve.points]
    accuracies = [point.accuracy for point in points]
    accuracies += [] if frontier.constant is None else [frontier.constant]
    room = 0.06 * max(max(accuracies) - min(accuracies), 0.02)
    for axes in panels:
        widest = max([*(point.disparity for point in points), 0.01])
        axes.set_xlim(-LEFT_ROOM * widest, 1.06 * widest)
        axes.set_ylim(min(accuracies) - room, max(accuracies) + room)


def _private_legend(
    series: Sequence[Series], least: float | None, palette: Palette
) -> list[dict[str, Any]]:
    """Return how each entry of the legend is drawn."""
    entries = []
    for place, curve in {curve.place: curve for curve in series}.items():
        colour = palette.series[place % len(palette.series)]
        entries.append(
            {"label": curve.name, "marker": curve.marker, "color": colour, "markersize": 7,
             "linewidth": 1}
        )  # fmt: skip
    ring = {"marker": "o", "markerfacecolor": "none", "markeredgecolor": palette.ink}
    entries.append({"label": "in the Pareto set of its epsilon", "linestyle": "none", **ring})
    grey = {"color": palette.muted, "alpha": 0.5}
    return [*entries, {"label": f"grey: epsilon {epsilon_in_words(least)}", **grey}]
