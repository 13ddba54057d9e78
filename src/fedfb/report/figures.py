"""Pictures of accuracy against disparity, as series of points: for files and for the page.

Pictures are readable in grey: every method has its own marker. A picture that is drawn again has
the same bytes.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from os import W_OK, access
from pathlib import Path
from typing import Any, NamedTuple

from fedfb.errors import ConfigError
from fedfb.experiments.result import Comparison, Figures, Frontier, Printed, Result
from fedfb.experiments.result import Point as FrontierPoint
from fedfb.experiments.seed_result import Interval
from fedfb.extras import refuse_without
from fedfb.files import write_whole
from fedfb.report.numbers import METHOD_NAMES, NAMES, mean, number, setting_in_words, shown_name

DATES = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""Metadata that would hold the time of writing, by format."""


def save_figure(figure: Any, path: Path) -> None:
    """Write a picture: the whole file, or nothing.

    Args:
        figure: a figure of matplotlib.
        path: its ending is the format.
    """
    from matplotlib import rc_context

    # Without a salt matplotlib draws random ids, and the same picture would have other bytes.
    options: Any = {"svg.hashsalt": "fedfb"}
    ending, content = path.suffix.lower(), io.BytesIO()
    with rc_context(options):
        figure.savefig(content, format=ending[1:], dpi=150, metadata=DATES.get(ending))
    write_whole(path, content.getvalue())


MARKERS = "osD^vPX*<>hpd"
FORMATS = (".png", ".svg", ".pdf")


def check_figure_path(path: Path) -> None:
    """Refuse a picture that could not be written, before any training."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"--plot {path}: give a name that ends in {', '.join(FORMATS)}.")
    if path.is_dir():
        raise ConfigError(f"--plot {path} is a folder. Give the name of a file.")
    if not path.parent.is_dir():
        raise ConfigError(f"--plot {path}: there is no folder {path.parent}. Make it first.")
    if not access(path if path.exists() else path.parent, W_OK):
        raise ConfigError(f"--plot {path} may not be written to. Give another place.")
    refuse_without("report", "--plot", "matplotlib")


class Palette(NamedTuple):
    """Colours by what they are for."""

    ink: str = "#1f2430"
    muted: str = "#6a7180"
    faint: str = "#e7e9ee"
    paper: str = "#ffffff"
    series: tuple[str, ...] = (
        *("#0b6bcb", "#c2410c", "#0f8a5f", "#9333ea", "#b45309", "#be185d"),
        *("#0e7490", "#4d7c0f", "#6d28d9", "#57534e"),
    )


def colour_of(place: int) -> str:
    """Return the colour of the method at a place among those of a picture.

    >>> colour_of(0) == colour_of(10)
    True
    """
    series = Palette().series
    return series[place % len(series)]


def draw_comparison(
    comparison: Comparison, paper: Mapping[str, Printed | None], path: Path
) -> None:
    """Draw a comparison into a file, see :func:`comparison_figure`.

    Args:
        comparison: results of several methods.
        paper: printed figures by method; None or absent where the paper has none.
        path: the file; its ending is the format.
    """
    save_figure(comparison_figure(comparison.results, paper), path)


def comparison_figure(results: Sequence[Result], paper: Mapping[str, Printed | None]) -> Any:
    """Draw every method's seeds and means, the paper's figure, and the constant classifier.

    Each setting of a grid has a mean of its own; a line joins them.

    Args:
        results: one for each method, on the same data and notion.
        paper: printed figures by method; None or absent where the paper has none.
    """
    refuse_without("report", "a picture", "matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.subplots()
    notion = results[0].notion
    for place, result in enumerate(results):
        _draw_method(axes, result, paper.get(result.algorithm), place, notion)
    level = mean([run.majority_accuracy for run in results[0].runs]) or 0.0
    axes.axhline(level, color="0.6", linewidth=1, linestyle=":", zorder=0)
    axes.annotate(
        "a constant classifier, disparity 0", (1, level), xycoords=("axes fraction", "data"),
        xytext=(-4, 4), textcoords="offset points", color="0.4", fontsize=8, ha="right",
    )  # fmt: skip
    axes.plot(0, level, marker="+", color="0.4", markersize=9, clip_on=False, zorder=3)
    axes.set_xlim(left=-LEFT_ROOM * axes.get_xlim()[1])
    axes.set_xlabel(f"{notion.replace('_', ' ')} disparity (fairer: left)")
    axes.set_ylabel("accuracy (better: up)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.93", linewidth=0.8)
    axes.set_axisbelow(True)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=9, loc="lower right", bbox_to_anchor=(1, 0.12))
    seeds = len(results[0].seeds)
    title = f"{results[0].data}, {results[0].model}: {seeds} seed{'s' if seeds > 1 else ''}"
    axes.set_title(title, loc="left", fontsize=11)
    return figure


def _draw_method(
    axes: Any, result: Result, printed: Printed | None, place: int, notion: str
) -> None:
    runs = [run for run in result.runs if run.disparity[notion] is not None]
    x, y = [run.disparity[notion] for run in runs], [run.accuracy for run in runs]
    marker, colour = MARKERS[place % len(MARKERS)], colour_of(place)
    name = shown_name(result.algorithm)
    means = [
        (summary.disparity[notion].mean, summary.accuracy.mean)
        for summary in result.summaries
        if summary.disparity[notion].mean is not None
    ]
    if means:
        axes.scatter(x, y, marker=marker, s=18, color=colour, alpha=0.35, linewidths=0)
        axes.plot(
            *zip(*means, strict=True), marker=marker, markersize=10, color=colour, label=name,
            linestyle="-" if len(means) > 1 else "none", linewidth=0.6,
        )  # fmt: skip
    if printed:
        at = (printed.disparity.mean, printed.accuracy.mean)
        axes.plot(
            *at, marker=marker, markersize=9, markerfacecolor="none", markeredgecolor=colour,
            linestyle="none", label=f"{name}, as printed in the paper",
        )  # fmt: skip


LIMIT_NAME = "limit: pooled rows, a threshold per group"
_FOCUS = METHOD_NAMES["fedfb"]
"""The method whose curve stands out among the others."""

_ROOM = 0.04
"""The room left around the points, as a share of their range."""

LEFT_ROOM = 0.02
"""The room left of disparity 0, as a share of the axis: a marker at 0 is drawn whole."""


class PlottedPoint(NamedTuple):
    """A setting's mean: where it stands, how sure it is, and what to call it."""

    disparity: float
    accuracy: float
    disparity_ends: Interval | None
    accuracy_ends: Interval | None
    setting: str
    pareto: bool = False


class Series(NamedTuple):
    """The points of one method in the order of a knob, and the seeds behind them."""

    name: str
    place: int
    points: tuple[PlottedPoint, ...]
    seeds: tuple[tuple[float, float], ...] = ()
    limit: bool = False

    @property
    def marker(self) -> str:
        """The marker, which distinguishes methods in a grey picture."""
        return MARKERS[self.place % len(MARKERS)]

    def words(self, point: PlottedPoint) -> str:
        """Say what a point is: method, setting, accuracy and disparity with their intervals."""
        setting = f", {point.setting}" if point.setting else ""
        return (
            f"{self.name}{setting}: accuracy {_with_ends(point.accuracy, point.accuracy_ends)}, "
            f"disparity {_with_ends(point.disparity, point.disparity_ends)}"
        )


def _with_ends(value: float, ends: Interval | None) -> str:
    """Write a mean with its interval.

    >>> _with_ends(0.5, (0.4, 0.6))
    '.500 (.400 to .600)'
    """
    return number(value) + (f" ({number(ends[0])} to {number(ends[1])})" if ends else "")


def series_of_frontier(frontier: Frontier) -> list[Series]:
    """Return the curves of a frontier; a method's curves along several knobs share its marker."""
    places = {name: place for place, name in enumerate(algorithms_of(frontier))}
    curve_series = []
    curves = dict.fromkeys((point.algorithm, point.knob) for point in frontier.points)
    for algorithm, knob in curves:
        of_curve = [p for p in frontier.points if (p.algorithm, p.knob) == (algorithm, knob)]
        points = tuple(drawn for point in of_curve if (drawn := _frontier_point(point)) is not None)
        limit = of_curve[0].limit
        curve_series.append(Series(shown_name(algorithm), places[algorithm], points, limit=limit))
    return [series for series in curve_series if series.points]


def algorithms_of(frontier: Frontier) -> list[str]:
    """Return the methods of a frontier in their order; the limit comes last and has no marker."""
    names = dict.fromkeys(point.algorithm for point in frontier.points if not point.limit)
    return [*names, *dict.fromkeys(p.algorithm for p in frontier.points if p.limit)]


def _frontier_point(point: FrontierPoint) -> PlottedPoint | None:
    if point.disparity.mean is None or point.accuracy.mean is None:
        return None
    return PlottedPoint(
        point.disparity.mean,
        point.accuracy.mean,
        point.disparity.interval,
        point.accuracy.interval,
        knob_in_words(point),
        point.pareto,
    )


def knob_in_words(point: FrontierPoint) -> str:
    """Say where on its curve a point is."""
    return setting_in_words({k: v for k, v in point.settings.items() if k == point.knob})


def series_of_results(results: Sequence[Result]) -> list[Series]:
    """Return every method's settings and seeds, and after them the model trained without fairness.

    What is trained without fairness is told once, by the first result that has it.
    """
    notion, all_series = results[0].notion, []
    for place, result in enumerate(results):
        several = len(result.summaries) > 1
        points = tuple(
            point
            for summary in result.summaries
            if (point := _mean_point(summary, notion, summary.settings if several else {}))
        )
        seeds = tuple(
            (disparity, run.accuracy)
            for run in result.runs
            if (disparity := run.disparity[notion]) is not None and run.accuracy is not None
        )
        all_series.append(Series(shown_name(result.algorithm), place, points, seeds))
    plain = any(result.algorithm == "fedavg" for result in results)
    free = None if plain else _free(results, notion)
    if free is not None:
        all_series.append(Series("the same without fairness", len(results), (free,)))
    return [series for series in all_series if series.points]


def _mean_point(figures: Figures, notion: str, setting: Mapping[str, float]) -> PlottedPoint | None:
    """Return the point of a summary, None where it has no disparity."""
    accuracy, disparity = figures.accuracy, figures.disparity[notion]
    if accuracy.mean is None or disparity.mean is None:
        return None
    ends = disparity.interval, accuracy.interval
    return PlottedPoint(disparity.mean, accuracy.mean, *ends, setting_in_words(setting))


def _free(results: Sequence[Result], notion: str) -> PlottedPoint | None:
    for result in results:
        free = result.summary and result.summary.free
        point = _mean_point(free, notion, {}) if free else None
        if point is not None:
            return point._replace(disparity_ends=None, accuracy_ends=None)
    return None


def draw_series(
    axes: Any,
    series: Sequence[Series],
    constant: float | None,
    notion: str,
    palette: Palette,
    prefix: str = "",
) -> Iterator[tuple[str, str]]:
    """Draw series, limit and constant classifier; yield the id and the words of every point.

    Args:
        axes: axes of matplotlib.
        series: points of each method or curve.
        constant: accuracy of the constant classifier; None draws none.
        notion: long name of the notion, for the label of the axis.
        palette: colours.
        prefix: start of every id, so that ids of two pictures on a page differ.
    """
    _frame(axes, series, constant, notion, palette)
    number_of = 0
    for curve in series:
        colour = palette.ink if curve.limit else palette.series[curve.place % len(palette.series)]
        xs, ys = [p.disparity for p in curve.points], [p.accuracy for p in curve.points]
        if curve.limit:
            axes.plot(xs, ys, color=colour, linewidth=1.4, linestyle=(0, (4, 2)), zorder=2)
        elif len(xs) > 1:
            width, alpha = (2.0, 0.8) if curve.name == _FOCUS else (1.0, 0.45)
            axes.plot(xs, ys, color=colour, linewidth=width, alpha=alpha, zorder=2)
        if curve.seeds:
            axes.scatter(
                *zip(*curve.seeds, strict=True), marker=curve.marker, s=22, color=colour,
                alpha=0.35, linewidths=0, zorder=2,
            )  # fmt: skip
        for point in curve.points:
            _draw_interval(axes, point, colour)
            gid = f"{prefix}point-{number_of}"
            _draw_point(axes, curve, point, colour, palette, gid)
            number_of += 1
            yield gid, curve.words(point)
    if constant is not None:
        gid = f"{prefix}constant"
        axes.plot(0, constant, marker="+", color=palette.muted, markersize=11, markeredgewidth=1.6,
                  clip_on=False, zorder=3, gid=gid)  # fmt: skip
        yield gid, f"a constant classifier: accuracy {number(constant)}, disparity 0"


def _draw_interval(axes: Any, point: PlottedPoint, colour: str) -> None:
    style = {"color": colour, "linewidth": 1, "alpha": 0.3, "zorder": 1}
    if point.disparity_ends:
        axes.plot([max(point.disparity_ends[0], 0), point.disparity_ends[1]],
                  [point.accuracy] * 2, **style)  # fmt: skip
    if point.accuracy_ends:
        axes.plot([point.disparity] * 2, point.accuracy_ends, **style)


def _draw_point(
    axes: Any, curve: Series, point: PlottedPoint, colour: str, palette: Palette, gid: str
) -> None:
    marker, size = ("_", 8) if curve.limit else (curve.marker, 9)
    ring = palette.ink if point.pareto else palette.paper
    axes.plot(
        point.disparity, point.accuracy, marker=marker, markersize=size, linestyle="none",
        color=colour, markeredgecolor=colour if curve.limit else ring,
        markeredgewidth=1.5 if point.pareto or curve.limit else 0.8, gid=gid,
        zorder=5 if point.pareto else 4, clip_on=False,
    )  # fmt: skip


def _frame(
    axes: Any, series: Sequence[Series], constant: float | None, notion: str, palette: Palette
) -> None:
    xs = [p.disparity for curve in series for p in curve.points] + [
        d for curve in series for d, _ in curve.seeds
    ]
    ys = [p.accuracy for curve in series for p in curve.points] + [
        a for curve in series for _, a in curve.seeds
    ]
    ys += [] if constant is None else [constant]
    height = max(max(ys) - min(ys), 0.02)
    widest = max([*xs, 0.01])
    axes.set_xlim(-LEFT_ROOM * widest, widest * (1 + _ROOM))
    axes.set_ylim(min(ys) - _ROOM * height, max(ys) + _ROOM * height)
    if constant is not None:
        axes.axhline(constant, color=palette.muted, linewidth=1, linestyle=":", zorder=0)
        axes.annotate(
            "a constant classifier", (1, constant), xycoords=("axes fraction", "data"),
            xytext=(-2, 4), textcoords="offset points", color=palette.muted, fontsize=11,
            ha="right",
        )  # fmt: skip
    axes.set_xlabel(f"{NAMES[notion]}: disparity (fairer: left)", color=palette.ink, fontsize=12)
    axes.set_ylabel("accuracy (better: up)", color=palette.ink, fontsize=12)
    style(axes, palette)


def style(axes: Any, palette: Palette) -> None:
    """Give axes the colours of a palette, and only the lines that help to read."""
    axes.spines[["top", "right"]].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(palette.muted)
    axes.tick_params(colors=palette.ink, labelsize=11)
    axes.grid(color=palette.faint, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_facecolor("none")
