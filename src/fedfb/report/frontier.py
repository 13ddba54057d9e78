"""The frontier for a terminal, a pipe and a file: tables, CSV, and the picture.

Accuracy, disparity and epsilon together: one panel for every epsilon, on the same axes.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from fedfb.experiments.shortfalls import other_notes
from fedfb.report.figures import (
    LEFT_ROOM,
    LIMIT_NAME,
    Palette,
    Series,
    algorithms_of,
    draw,
    save_figure,
    series_of_frontier,
    setting_in_words,
)
from fedfb.report.numbers import number
from fedfb.report.privacy import epsilon_in_words
from fedfb.report.text import (
    NAMES,
    coverage_of,
    make_console,
    make_table,
    print_first,
    with_interval,
)

Report = Mapping[str, Any]


LEVELS = (0.01, 0.02, 0.05, 0.1, 0.2)
"""The disparities at which approaches are compared side by side."""

NOTHING_BETTER = "The Pareto set is empty: nothing is more accurate than a constant classifier."

COLUMNS = (
    *("algorithm", "setting", "accuracy", "accuracy_low", "accuracy_high"),
    *("disparity", "disparity_low", "disparity_high", "pareto", "pooled", "limit"),
)


def best_within(record: Report, algorithm: str, level: float) -> Report | None:
    """Return a method's most accurate point whose mean disparity is at most ``level``.

    >>> one = {"algorithm": "a", "accuracy": {"mean": 0.7}, "disparity": {"mean": 0.0}}
    >>> other = {"algorithm": "a", "accuracy": {"mean": 0.8}, "disparity": {"mean": 0.04}}
    >>> best_within({"points": [one, other]}, "a", 0.05)["accuracy"]
    {'mean': 0.8}
    """
    able = [
        point
        for point in record["points"]
        if point["algorithm"] == algorithm
        and point["disparity"]["mean"] is not None
        and point["disparity"]["mean"] <= level
    ]
    return max(able, key=lambda point: point["accuracy"]["mean"], default=None)


def pareto_points(record: Report) -> list[Report]:
    """Return the Pareto set, fairest first."""
    found = [point for point in record["points"] if point["pareto"]]
    return sorted(found, key=lambda point: (point["disparity"]["mean"], point["accuracy"]["mean"]))


def knob_in_words(point: Report) -> str:
    """Say where on its curve a point is."""
    settings = point["settings"]
    return setting_in_words({point["knob"]: settings[point["knob"]]}) if point["knob"] else ""


def point_figures(point: Report) -> tuple[str, str]:
    """Return accuracy and disparity of a point with their intervals; of one that diverged, none."""
    accuracy = "diverged" if point.get("diverged") else with_interval(point["accuracy"])
    return accuracy, with_interval(point["disparity"])


def print_frontier(record: Report) -> None:
    """Print what each approach reaches, the Pareto set, and what was left out."""
    console = make_console()
    print_first([one["sentence"] for one in record.get("shortfalls", ())], console)
    seeds = len(record["seeds"])
    which = f"{seeds} seeds" if seeds > 1 else f"seed {record['seeds'][0]}"
    console.print(f"{record['data']}, {record['model']}, {NAMES[record['notion']]}, {which}\n")
    console.print(_levels_table(record))
    limit = f"{LIMIT_NAME}; " if any(point["limit"] for point in record["points"]) else ""
    console.print(f"\n{limit}p: trained on pooled rows\n")
    console.print(_pareto_table(record) if pareto_points(record) else NOTHING_BETTER)
    print_beside(record, console)


def print_beside(record: Report, console: Any, *more: str) -> None:
    """Print what stands below the tables of a frontier: coverage, constant, failures, notes."""
    console.print(coverage_of(record), style="dim")
    if record["constant"] is not None:
        constant = number(record["constant"])
        console.print(f"\nA constant classifier is {constant} accurate with disparity 0.")
    for line in more:
        console.print(line)
    for one in record["failed"]:
        console.print(f"failed: {one['algorithm']}: {one['reason']}")
    for point in record["points"]:
        if point.get("diverged"):
            console.print(f"diverged: {point['algorithm']} {knob_in_words(point)}".rstrip())
    if record["left_out"]:
        console.print(f"left out: {left_out_in_words(record['left_out'])}", style="dim")
    for note in other_notes(record):
        console.print(f"note: {note}", style="dim")


def _levels_table(record: Report) -> Any:
    columns = [f"<= {number(level, 2)}" for level in LEVELS]
    table = make_table("Accuracy at a disparity of at most ...", "", *columns, "any")
    for algorithm in algorithms_of(record):
        best = [best_within(record, algorithm, level) for level in (*LEVELS, float("inf"))]
        cells = [number(point["accuracy"]["mean"]) if point else "-" for point in best]
        table.add_row(_marked(record, algorithm), *cells)
    return table


def _marked(record: Report, algorithm: str) -> str:
    first = next(point for point in record["points"] if point["algorithm"] == algorithm)
    return algorithm + (" (limit)" if first["limit"] else " (p)" if first["pooled"] else "")


def _pareto_table(record: Report) -> Any:
    columns = ("", "setting", "accuracy", "disparity")
    table = make_table("Pareto set, with 95% intervals", *columns)
    for point in pareto_points(record):
        table.add_row(point["algorithm"], knob_in_words(point), *point_figures(point))
    return table


def left_out_in_words(left_out: Sequence[Report]) -> str:
    """Name the methods behind each reason, so that a reason is told once."""
    by_reason: dict[str, list[str]] = {}
    for one in left_out:
        by_reason.setdefault(one["reason"], []).append(one["algorithm"])
    return "; ".join(f"{', '.join(names)} ({reason})" for reason, names in by_reason.items())


def csv_rows(record: Report) -> Iterator[Sequence[Any]]:
    """Yield a header and one row per point."""
    private = bool(record.get("epsilons"))
    yield (*COLUMNS, *(["epsilon"] if private else []))
    for point in record["points"]:
        numbers = []
        for axis in ("accuracy", "disparity"):
            numbers += [point[axis]["mean"], *(point[axis]["interval"] or (None, None))]
        marks = [int(point[mark]) for mark in ("pareto", "pooled", "limit")]
        epsilon = [epsilon_in_words(point["epsilon"])] if private else []
        yield [point["algorithm"], knob_in_words(point), *numbers, *marks, *epsilon]


def write_csv(record: Report, file: TextIO) -> None:
    """Write the points of a frontier as CSV."""
    csv.writer(file, lineterminator="\n").writerows(csv_rows(record))


def _legend(series: Sequence[Series], palette: Palette) -> Iterator[dict[str, Any]]:
    """Yield how each entry of the legend is drawn."""
    for place, one in {one.place: one for one in series if not one.limit}.items():
        colour = palette.series[place % len(palette.series)]
        line = {"color": colour, "linewidth": 1}
        yield {"label": one.name, "marker": one.marker, "markersize": 7, **line}
    ring = {"marker": "o", "markerfacecolor": "none", "markeredgecolor": palette.ink}
    yield {"label": "in the Pareto set", "linestyle": "none", **ring}
    if any(one.limit for one in series):
        dashed = {"color": palette.ink, "linestyle": (0, (4, 2))}
        yield {"label": LIMIT_NAME.replace(", ", ",\n"), **dashed}


def draw_frontier(record: Report, path: Path) -> None:
    """Draw every approach's curve; readable in grey, as every method has its marker."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    figure = Figure(figsize=(9, 5.4), layout="constrained")
    axes, palette = figure.subplots(), Palette()
    series = series_of_frontier(record)
    list(draw(axes, series, record["constant"], record["notion"], palette))
    handles = [Line2D([], [], **style) for style in _legend(series, palette)]
    figure.legend(handles=handles, loc="outside right upper", frameon=False, fontsize=9)
    seeds = len(record["seeds"])
    title = f"{record['data']}, {record['model']}: {seeds} seed{'s' if seeds > 1 else ''}"
    axes.set_title(title, loc="left", fontsize=11)
    save_figure(figure, path)


EACH = (
    "Epsilon is that of one run: who trains all points, or several seeds, on the same rows spends "
    "all of them."
)


def of_epsilon(record: Report, epsilon: float | None) -> Report:
    """Return the frontier of one epsilon."""
    return {**record, "points": [p for p in record["points"] if p["epsilon"] == epsilon]}


def print_private_frontier(record: Report) -> None:
    """Print what every approach reaches at every target and epsilon."""
    console = make_console()
    print_first([one["sentence"] for one in record.get("shortfalls", ())], console)
    seeds = len(record["seeds"])
    which = f"{seeds} seeds" if seeds > 1 else f"seed {record['seeds'][0]}"
    delta = record["settings"]["privacy_delta"]
    notion = NAMES[record["notion"]]
    console.print(f"{record['data']}, {record['model']}, {notion}, {which}, delta {delta:g}\n")
    columns = ("", "epsilon", "accuracy", "disparity")
    table = make_table("By epsilon, with 95% intervals", *columns)
    for epsilon in record["epsilons"]:
        for point in of_epsilon(record, epsilon)["points"]:
            name = " ".join([point["algorithm"], knob_in_words(point)]).strip()
            table.add_row(name, epsilon_in_words(epsilon), *point_figures(point))
    console.print(table)
    print_beside(record, console, EACH)


def draw_private_frontier(record: Report, path: Path) -> None:
    """Draw a panel for every epsilon; the curves of the largest stand grey behind the others."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    epsilons, palette = record["epsilons"], Palette()
    across = min(len(epsilons), 2)
    down = -(-len(epsilons) // across)
    figure = Figure(figsize=(1.5 + 4.2 * across, 0.8 + 3.4 * down), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    panels = list(grid.ravel())
    curves = [series_of_frontier(of_epsilon(record, epsilon)) for epsilon in epsilons]
    least = max(range(len(epsilons)), key=lambda at: epsilons[at] or float("inf"))
    for axes, epsilon, series in zip(panels, epsilons, curves, strict=False):
        if series is not curves[least]:
            _behind(axes, curves[least], palette)
        list(draw(axes, series, record["constant"], record["notion"], palette))
        axes.set_title(f"epsilon {epsilon_in_words(epsilon)}", loc="left", fontsize=11)
        axes.label_outer()
    for axes in panels[max(len(epsilons) - across, 0) : len(epsilons)]:
        axes.tick_params(labelbottom=True)  # where no panel is below
        axes.set_xlabel(panels[0].get_xlabel() or f"{NAMES[record['notion']]}: disparity")
    for axes in panels[len(epsilons) :]:
        axes.set_visible(False)
    _same_limits(panels[: len(epsilons)], [one for series in curves for one in series], record)
    handles = [
        Line2D([], [], **style)
        for style in _private_legend(curves[least], epsilons[least], palette)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    seeds = len(record["seeds"])
    figure.suptitle(
        f"{record['data']}, {record['model']}: {seeds} seed{'s' if seeds > 1 else ''}, "
        f"delta {record['settings']['privacy_delta']:g}",
        fontsize=11,
    )
    save_figure(figure, path)


def _behind(axes: Any, series: Sequence[Series], palette: Palette) -> None:
    for one in series:
        xs, ys = [p.disparity for p in one.points], [p.accuracy for p in one.points]
        style = {"color": palette.muted, "alpha": 0.35, "zorder": 0, "linewidth": 1.2}
        axes.plot(xs, ys, marker=one.marker, markersize=6, markerfacecolor="none", **style)


def _same_limits(panels: Sequence[Any], series: Sequence[Series], record: Report) -> None:
    points = [point for one in series for point in one.points]
    accuracies = [point.accuracy for point in points]
    accuracies += [] if record["constant"] is None else [record["constant"]]
    room = 0.06 * max(max(accuracies) - min(accuracies), 0.02)
    for axes in panels:
        widest = max([*(point.disparity for point in points), 0.01])
        axes.set_xlim(-LEFT_ROOM * widest, 1.06 * widest)
        axes.set_ylim(min(accuracies) - room, max(accuracies) + room)


def _private_legend(
    series: Sequence[Series], least: float | None, palette: Palette
) -> list[dict[str, Any]]:
    """Return how each entry of the legend is drawn."""
    found = []
    for place, one in {one.place: one for one in series}.items():
        colour = palette.series[place % len(palette.series)]
        found.append(
            {"label": one.name, "marker": one.marker, "color": colour, "markersize": 7,
             "linewidth": 1}
        )  # fmt: skip
    ring = {"marker": "o", "markerfacecolor": "none", "markeredgecolor": palette.ink}
    found.append({"label": "in the Pareto set of its epsilon", "linestyle": "none", **ring})
    grey = {"color": palette.muted, "alpha": 0.5}
    return [*found, {"label": f"grey: epsilon {epsilon_in_words(least)}", **grey}]
