"""Pictures: accuracy against disparity. Readable in grey: every method has its own marker."""

from collections.abc import Mapping, Sequence
from os import W_OK, access
from pathlib import Path
from typing import Any

from fedfb.errors import ConfigError
from fedfb.extras import refuse_without
from fedfb.report.saving import save_figure

Report = Mapping[str, Any]

MARKERS = "osD^vPX*<>hpd"
NAMES = {"fedavg": "FedAvg", "fedfb": "FedFB", "cfl": "CFL"}
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


def draw_comparison(
    reports: Sequence[Report], paper: Mapping[str, Report | None], path: Path
) -> None:
    """Draw every method's seeds and means, the paper's figure, and the constant classifier.

    Of a grid, every setting has a mean of its own, joined by a line.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.subplots()
    notion = reports[0]["notion"]
    for place, report in enumerate(reports):
        _draw_method(axes, report, paper.get(report["algorithm"]), place, notion)
    constant = [run["majority_accuracy"] for run in reports[0]["runs"]]
    level = sum(constant) / len(constant)
    axes.axhline(level, color="0.6", linewidth=1, linestyle=":", zorder=0)
    axes.annotate(
        "a constant classifier, disparity 0", (1, level), xycoords=("axes fraction", "data"),
        xytext=(-4, 4), textcoords="offset points", color="0.4", fontsize=8, ha="right",
    )  # fmt: skip
    axes.plot(0, level, marker="+", color="0.4", markersize=9, clip_on=False, zorder=3)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"{notion.replace('_', ' ')} disparity (fairer: left)")
    axes.set_ylabel("accuracy (better: up)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.93", linewidth=0.8)
    axes.set_axisbelow(True)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=9, loc="lower right", bbox_to_anchor=(1, 0.12))
    seeds = len(reports[0]["settings"]["seeds"])
    title = f"{reports[0]['data']}, {reports[0]['model']}: {seeds} seed{'s' if seeds > 1 else ''}"
    axes.set_title(title, loc="left", fontsize=11)
    save_figure(figure, path)


def _draw_method(
    axes: Any, report: Report, printed: Report | None, place: int, notion: str
) -> None:
    runs = [run for run in report["runs"] if run["disparity"][notion] is not None]
    x, y = [run["disparity"][notion] for run in runs], [run["accuracy"] for run in runs]
    marker, colour = MARKERS[place % len(MARKERS)], f"C{place % 10}"
    name = NAMES.get(report["algorithm"], report["algorithm"])
    means = [
        (summary["disparity"][notion]["mean"], summary["accuracy"]["mean"])
        for summary in report["summaries"]
        if summary["disparity"][notion]["mean"] is not None
    ]
    if means:
        axes.scatter(x, y, marker=marker, s=18, color=colour, alpha=0.35, linewidths=0)
        axes.plot(
            *zip(*means, strict=True), marker=marker, markersize=10, color=colour, label=name,
            linestyle="-" if len(means) > 1 else "none", linewidth=0.6,
        )  # fmt: skip
    if printed:
        at = (printed["disparity"]["mean"], printed["accuracy"]["mean"])
        axes.plot(
            *at, marker=marker, markersize=9, markerfacecolor="none", markeredgecolor=colour,
            linestyle="none", label=f"{name}, as printed in the paper",
        )  # fmt: skip
