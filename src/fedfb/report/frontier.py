"""The frontier for a terminal, a pipe and a file: tables, CSV, and the picture."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from fedfb.experiments.shortfalls import other_notes
from fedfb.report.numbers import number
from fedfb.report.privacy import epsilon_in_words
from fedfb.report.saving import save_figure
from fedfb.report.scatter import (
    LIMIT_NAME,
    Palette,
    Series,
    algorithms_of,
    draw,
    series_of_frontier,
    setting_in_words,
)
from fedfb.report.tables import (
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
