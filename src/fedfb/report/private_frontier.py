"""Accuracy, disparity and epsilon together: one panel for every epsilon, on the same axes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedfb.report.frontier import knob_in_words, point_figures, print_beside
from fedfb.report.privacy import epsilon_in_words
from fedfb.report.saving import save_figure
from fedfb.report.scatter import Palette, Series, draw, series_of_frontier
from fedfb.report.tables import NAMES, make_console, make_table, print_first

Report = Mapping[str, Any]

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
        Line2D([], [], **style) for style in _legend(curves[least], epsilons[least], palette)
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
        axes.set_xlim(0, 1.06 * max([*(point.disparity for point in points), 0.01]))
        axes.set_ylim(min(accuracies) - room, max(accuracies) + room)


def _legend(
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
