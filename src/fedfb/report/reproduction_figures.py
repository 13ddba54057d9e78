"""The curves of a reproduction, one panel a data set; readable in grey."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedfb.files import make_folder
from fedfb.report.achievable import curve_points
from fedfb.report.figures import MARKERS
from fedfb.report.saving import save_figure

Found = Mapping[str, Any]

HEIGHT, WIDTH = 3.4, 4.2

APPROACHES = ("lft_ensemble", "lft_fedavg", "cfl")
"""The approaches whose best curve may be known; drawn in the colours of the first three rows."""


def draw_target(found: Found, folder: Path) -> None:
    """Draw accuracy against disparity, a curve for each row and a panel for each column."""
    from matplotlib.figure import Figure

    make_folder(folder)
    columns = list(dict.fromkeys(cell["column"] for cell in found["cells"]))
    rows = list(dict.fromkeys(cell["row"] for cell in found["cells"]))
    across = min(len(columns), 2)
    down = -(-len(columns) // across)
    figure = Figure(figsize=(WIDTH * across + 1.6, HEIGHT * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for panel, column in zip(panels, columns, strict=False):
        for cell in (cell for cell in found["cells"] if cell["column"] == column):
            _draw_cell(panel, cell, rows.index(cell["row"]))
        for place, name in enumerate(APPROACHES):
            if name in found["at_best"].get(column, {}):
                x, y = zip(*curve_points(found["at_best"][column][name]), strict=True)
                panel.plot(x, y, "-", color=f"C{place}", alpha=0.5, linewidth=2, zorder=1)
        panel.set_title(column, loc="left", fontsize=10)
        panel.set_xlabel("disparity (fairer: left)")
        panel.set_ylabel("accuracy")
        panel.set_xlim(left=0)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(color="0.93", linewidth=0.8)
    for panel in panels[len(columns) :]:
        panel.set_axis_off()
    handles = {}
    for panel in panels:
        handles.update(dict(zip(*panel.get_legend_handles_labels()[::-1], strict=True)))
    figure.legend(
        list(handles.values()), list(handles), loc="outside right upper", frameon=False, fontsize=8
    )
    save_figure(figure, folder / f"{found['target']}.svg")


def _rates(points: list[Found]) -> list[float | None]:
    """Return the learning rates that have a line each; [None] where one line joins all points.

    A target's learning rate was picked for it, so its points belong together.
    """
    settings = [point["settings"] for point in points]
    if not all("lr" in one and "target" not in one for one in settings):
        return [None] if points else []
    return list(dict.fromkeys(one["lr"] for one in settings))


def _draw_cell(panel: Any, cell: Found, place: int) -> None:
    known = [point for point in cell["points"] if point["disparity"]["mean"] is not None]
    x = [point["disparity"]["mean"] for point in known]
    y = [point["accuracy"]["mean"] for point in known]
    style = {"marker": MARKERS[place % len(MARKERS)], "color": f"C{place % 10}"}
    for number, rate in enumerate(_rates(known)):
        joined = [
            n for n, point in enumerate(known) if rate is None or rate == point["settings"]["lr"]
        ]
        named = {"label": cell["row"]} if number == 0 else {}
        at = [x[n] for n in joined], [y[n] for n in joined]
        panel.plot(*at, **style, **named, markersize=6, linewidth=0.8)
    if cell["published"]:
        paper = cell["published"]
        panel.plot(
            paper["disparity"]["mean"],
            paper["accuracy"]["mean"],
            **style,
            markersize=7,
            markerfacecolor="none",
            linestyle="none",
            label=f"{cell['row']}, printed",
        )
