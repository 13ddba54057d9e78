"""A reproduction as Markdown and as pictures: our numbers, the printed ones, and the difference.

``as_markdown`` writes docs/reproduction.md, ``renew`` replaces one section of it. ``draw_target``
draws the curves of a figure, one panel for each data set; the pictures read in grey.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedfb.errors import ConfigError
from fedfb.experiments.compare import better, differs
from fedfb.files import make_folder
from fedfb.paper.targets import spread_of
from fedfb.report.figures import MARKERS, colour_of, save_figure
from fedfb.report.numbers import number, setting_in_words
from fedfb.report.table import Table, to_markdown
from fedfb.theory.pictures import curve_points

Values = Mapping[str, Any]

_CONSTANT = 0.004
"""A printed accuracy so near to the constant classifier's is it, at disparity 0: splits differ."""

USEFUL, ALIKE = 0.01, 0.005
"""How far below the best accuracy a setting may be, and disparities that count as equal."""

PAGE_HEAD = """# The paper's tables and figures, ours beside the printed ones

Written by `fedfb reproduce`. Rows of FedFB:

- **ours**: solved outer problem, local training, learning rate picked on validation rows;
- **as printed**: the rule of Algorithm 2 (cross-entropy, normalised step, each client's own signal,
  every group compared with the first), tuned on validation rows; the average of models is weighted
  and lambda stays in its set, which the algorithm leaves open;
- **released**: the rules, data and random numbers of the authors' code of October 2021, which gave
  the printed digits, at the settings they were printed for (chosen by the authors, by test
  figures); **mended**: the same with a cause removed, which is the first client's missing weight in
  the **averages**, the first group's share as every group's **bound**, or a slip in the **split**;
- **the authors' rows**: ours, on the rows as that code prepares, splits and draws them.

As in the paper, the group is given to the model (`sensitive_at_prediction = true`), which is not
the default of `fedfb run`.

The other methods are ours, tuned on validation rows over the paper's grids. What is known of the
causes of differences is shown below each table, by runs that switch one cause each, from the
printed figure towards ours: **averaging** and **split** (as above), **selection** (the setting, or
what is averaged, taken by test figures), **rule** (Algorithm 2's step in place of the solved outer
problem), **rows** (the authors' in place of ours). Which causes are followed was chosen for each
column. What no run covers is left: above all what sets the released code, mended, apart from ours
on its rows, that is its rule, setting, initial weights and orders together. Derivations and 25
seeds of the released code are in [errata.md](errata.md).

CPU time is what a target takes alone. `fedfb reproduce all` takes less than their sum: what several
of them show is trained once.

"""


def as_markdown(targets: Sequence[Values]) -> str:
    """Return all targets as one page."""
    return PAGE_HEAD + "\n".join(line for target in targets for line in _section_of(target))


def renew(page: str, target: Values) -> str:
    r"""Return a page with one section written anew; the other sections stay as they are.

    Args:
        page: a page that ``as_markdown`` wrote.
        target: the result of the section, as ``reproduce`` returns it.

    >>> old = "# Head\n\n## T\n\n`fedfb reproduce t`: old.\n\n## U\n\n`fedfb reproduce u`: 1.\n"
    >>> found = {"title": "T", "label": None, "quick": False, "seeds": [0], "target": "t",
    ...          "cpu_seconds": 1.0, "kind": "comparison", "cells": []}
    >>> [line for line in renew(old, found).splitlines() if "reproduce" in line][-2:]
    ['`fedfb reproduce t`: 1 seed, 1 s of CPU time.', '`fedfb reproduce u`: 1.']
    """
    sections = re.split(r"(?m)^(?=## )", page)
    places = [
        n for n, text in enumerate(sections) if f"`fedfb reproduce {target['target']}`" in text
    ]
    if len(places) != 1:
        raise ConfigError(
            f"the page has {len(places)} sections of {target['target']}, expected one to renew. "
            "Give a page that fedfb reproduce wrote."
        )
    [place] = places
    last = place == len(sections) - 1
    sections[place] = "\n".join(_section_of(target)) + ("" if last else "\n")
    return PAGE_HEAD + "".join(sections[1:])


def _section_of(target: Values) -> Iterator[str]:
    seeds = len(target["seeds"])
    yield f"## {target['title']}\n"
    label = f" (`{target['label']}`)" if target["label"] else ""
    quick = " **A quick look: one seed, nothing tuned.**" if target["quick"] else ""
    yield (
        f"`fedfb reproduce {target['target']}`{label}: {seeds} seed{'s' if seeds > 1 else ''}, "
        f"{target['cpu_seconds']:.0f} s of CPU time.{quick}\n"
    )
    yield from _KINDS[target["kind"]](target)


def figures_table(
    target: Values, pair: Callable[[Values | None], tuple[str, str]], ours: str, note: str = ""
) -> Table:
    """Return our figures beside the printed ones, one row for each method.

    Args:
        target: the result, as ``reproduce`` returns it.
        pair: writes a cell: our figures, and the printed ones.
        ours: what follows the name of a column in its heading.
        note: below the table.
    """
    columns = list(dict.fromkeys(cell["column"] for cell in target["cells"]))
    rows = []
    for row in dict.fromkeys(cell["row"] for cell in target["cells"]):
        cell_in = {cell["column"]: cell for cell in target["cells"] if cell["row"] == row}
        cells = [text for column in columns for text in pair(cell_in.get(column))]
        rows.append((row, *properties(list(cell_in.values())), *cells))
    heads = [head for column in columns for head in (column + ours, "paper")]
    caption = "Accuracy / disparity, mean ± spread over seeds"
    return Table(caption, ("", "private", "fair", *heads), tuple(rows), note)


def _table(target: Values) -> Iterator[str]:
    yield to_markdown(figures_table(target, _cells, ": ours"))
    yield (
        "\nAccuracy / disparity, mean ± spread over seeds. **Bold**: better than what is printed "
        "on one axis and not worse on the other, at the printed digits. *differs*: by more than "
        "two standard errors and .005. Private: rows stay with their owners. Fair: the method aims "
        "at it.\n"
    )
    yield from _constants(target)
    yield from _exchanged(target)
    yield from _explained(target)


def properties(cells: Sequence[Values]) -> tuple[str, str]:
    """Return the paper's columns Private and Fair, as the registry of methods has them."""
    revealed = [cell["reveals"] for cell in cells if cell.get("reveals")]
    if not revealed:
        return "-", "-"
    return "no" if revealed[0]["pooled"] else "yes", "yes" if revealed[0]["fair"] else "no"


def _exchanged(target: Values) -> Iterator[str]:
    """List what a run sends, if the target compares that."""
    if not target.get("exchanged"):
        return
    rows = []
    for cell in target["cells"]:
        exchange = cell.get("reveals")
        if exchange and "rounds" in exchange:
            rounds = exchange["rounds"]
            exchanges, sent = (rounds * exchange[name] for name in ("exchanges", "bytes"))
            numbers = (str(rounds), f"{exchanges:,}", f"{sent:,}")
            rows.append((cell["column"], cell["row"], *numbers))
    columns = ("data", "method", "rounds", "exchanges a run", "bytes a client sends")
    yield to_markdown(Table("", columns, tuple(rows))) + "\n"


def _explained(target: Values) -> Iterator[str]:
    """List the cells that differ, and the causes that were switched one at a time."""
    if not target.get("explained"):
        return
    rows = tuple(
        (place, steps, f"{apart} {verdict}", left)
        for place, steps, apart, verdict, left in explained_rows(target)
    )
    columns = ("differs", "cause: before -> after", "of the difference", "left")
    yield to_markdown(Table("", columns, rows)) + "\n"


def explained_rows(target: Values) -> Iterator[tuple[str, ...]]:
    """Yield each cell that differs: place, causes, how far apart, the verdict, and what is left."""
    for explanation in target["explained"]:
        yield (
            f"{explanation['row']}, {explanation['column']}",
            _steps_in_words(explanation["steps"]),
            number(explanation["apart"]),
            explanation["verdict"],
            number(explanation["left"]),
        )


def _steps_in_words(steps: Sequence[Values]) -> str:
    """Return the causes that were switched, with the figures before and after."""
    sentences = (
        f"{step['cause']}: {_means(step['before'])} -> {_means(step['after'])}" for step in steps
    )
    return "; ".join(sentences) or "-"


def _means(figures: Values) -> str:
    return f"{number(figures['accuracy']['mean'])} / {number(figures['disparity']['mean'])}"


def _cells(cell: Values | None) -> tuple[str, str]:
    if cell is None:
        return "", ""
    published = cell["published"]
    paper = "-" if published is None else figures_in_words(published)
    if not cell["points"]:
        return cell["failed"], paper
    [point] = cell["points"]
    ours = figures_in_words(point)
    if published is None:
        return ours, paper
    if better(point, published):
        return f"**{ours}**", paper
    return (f"{ours} *differs*" if differs(point, published) else ours), paper


def figures_in_words(figures: Values) -> str:
    """Write accuracy and disparity with their spreads."""
    return f"{spread_of(figures['accuracy'])} / {spread_of(figures['disparity'])}"


def _constants(target: Values) -> Iterator[str]:
    """Name the printed figures that a constant classifier has, which treats all groups alike."""
    for cell in target["cells"]:
        published, constant = cell["published"], cell.get("constant")
        if published is None or constant is None or cell["row"] != "FedFB, ours":
            continue
        if (
            abs(published["accuracy"]["mean"] - constant) < _CONSTANT
            and published["disparity"]["mean"] == 0
        ):
            yield (
                f"The paper's {number(published['accuracy']['mean'])} / .000 for FedFB on "
                f"{cell['column']} is the constant classifier, which decides all rows alike.\n"
            )


def _curves(target: Values) -> Iterator[str]:
    rows = []
    for cell in target["cells"]:
        name = (cell["column"], cell["row"])
        if not cell["points"]:
            rows.append((*name, f"failed: {cell['failed']}", "", ""))
        for point in cell["points"]:
            values = (spread_of(point["accuracy"]), spread_of(point["disparity"]))
            rows.append((*name, setting_in_words(point["settings"]), *values))
    columns = ("data", "method", "setting", "accuracy", "disparity")
    yield to_markdown(Table("", columns, tuple(rows)))
    yield f"\n![{target['title']}](reproduction/{target['target']}.svg)\n"
    yield from _claimed(target)


def _claimed(target: Values) -> Iterator[str]:
    """Compare what the paper claims of its figure with each method's fairest useful setting."""
    if not target.get("claim"):
        return
    columns = list(dict.fromkeys(cell["column"] for cell in target["cells"]))
    fairest = {(c["row"], c["column"]): _fairest(target, c) for c in target["cells"]}
    least = {
        column: min(_mean(p, "disparity") for (_, at), p in fairest.items() if p and at == column)
        for column in columns
    }
    yield (
        f"The paper: {target['claim']}. Ours: the least disparity of each method among its "
        f"settings whose accuracy is within {number(USEFUL, 2)} of the best of all methods, and "
        f"that accuracy; **bold** within {number(ALIKE)} of the least of all methods.\n"
    )
    rows = tuple(
        (row, *(_fair_and_useful(fairest.get((row, c)), least[c]) for c in columns))
        for row in dict.fromkeys(cell["row"] for cell in target["cells"])
    )
    yield to_markdown(Table("", ("", *columns), rows)) + "\n"


def _fairest(target: Values, cell: Values) -> Values | None:
    """Return a cell's fairest setting that is about as accurate as the best of its column."""
    points = [p for c in target["cells"] if c["column"] == cell["column"] for p in c["points"]]
    floor = max(_mean(point, "accuracy") for point in points) - USEFUL
    candidates = [point for point in cell["points"] if _mean(point, "accuracy") >= floor]
    return min(candidates, key=lambda point: _mean(point, "disparity"), default=None)


def _fair_and_useful(point: Values | None, least: float) -> str:
    if point is None:
        return "-"
    text = f"{spread_of(point['disparity'])} at {number(_mean(point, 'accuracy'))}"
    return f"**{text}**" if _mean(point, "disparity") <= least + ALIKE else text


def _mean(point: Values, quantity: str) -> float:
    return float(point[quantity]["mean"])


def _comparison(target: Values) -> Iterator[str]:
    rows = []
    for cell in target["cells"]:
        name = (cell["column"], cell["row"])
        if not cell["points"]:
            rows.append((*name, f"failed: {cell['failed']}", "", "", "", ""))
            continue
        [point], reveals = cell["points"], cell["reveals"]
        needs = "all rows" if reveals["pooled"] else "sums" if reveals["sums_only"] else "single"
        values = (spread_of(point["accuracy"]), spread_of(point["disparity"]))
        rows.append((*name, *values, needs, str(reveals["exchanges"]), str(reveals["bytes"])))
    columns = (
        "data",
        "method",
        "accuracy",
        "disparity",
        "server needs",
        "exchanges a round",
        "bytes",
    )
    yield to_markdown(Table("", columns, tuple(rows)))
    yield f"\n![{target['title']}](reproduction/{target['target']}.svg)\n"


_KINDS = {"table": _table, "curves": _curves, "comparison": _comparison}


HEIGHT, WIDTH = 3.4, 4.2

_APPROACHES = ("lft_ensemble", "lft_fedavg", "cfl")
"""The approaches whose best curve may be known; drawn in the colours of the first three rows."""


def draw_target(target: Values, folder: Path) -> None:
    """Draw accuracy against disparity: a curve for each row, a panel for each column.

    Args:
        target: the result, as ``reproduce`` returns it.
        folder: the folder to write into.
    """
    from matplotlib.figure import Figure

    make_folder(folder)
    columns = list(dict.fromkeys(cell["column"] for cell in target["cells"]))
    rows = list(dict.fromkeys(cell["row"] for cell in target["cells"]))
    across = min(len(columns), 2)
    down = -(-len(columns) // across)
    figure = Figure(figsize=(WIDTH * across + 1.6, HEIGHT * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for panel, column in zip(panels, columns, strict=False):
        for cell in (cell for cell in target["cells"] if cell["column"] == column):
            _draw_cell(panel, cell, rows.index(cell["row"]))
        for place, name in enumerate(_APPROACHES):
            if name in target["at_best"].get(column, {}):
                x, y = zip(*curve_points(target["at_best"][column][name]), strict=True)
                panel.plot(x, y, "-", color=colour_of(place), alpha=0.5, linewidth=2, zorder=1)
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
    save_figure(figure, folder / f"{target['target']}.svg")


def _rates(points: list[Values]) -> list[float | None]:
    """Return the learning rates that have a line each; [None] if one line joins all points.

    The learning rate of a target was picked for it, so the points of all targets belong together.
    """
    settings = [point["settings"] for point in points]
    if not all("lr" in values and "target" not in values for values in settings):
        return [None] if points else []
    return list(dict.fromkeys(values["lr"] for values in settings))


def _draw_cell(panel: Any, cell: Values, place: int) -> None:
    points = [point for point in cell["points"] if point["disparity"]["mean"] is not None]
    x = [point["disparity"]["mean"] for point in points]
    y = [point["accuracy"]["mean"] for point in points]
    style = {"marker": MARKERS[place % len(MARKERS)], "color": colour_of(place)}
    for position, rate in enumerate(_rates(points)):
        places = [
            n for n, point in enumerate(points) if rate is None or rate == point["settings"]["lr"]
        ]
        label = {"label": cell["row"]} if position == 0 else {}
        at = [x[n] for n in places], [y[n] for n in places]
        panel.plot(*at, **style, **label, markersize=6, linewidth=0.8)
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
