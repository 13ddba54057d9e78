"""A reproduction as Markdown: ours beside what the paper printed, and the difference.

The curves of a reproduction, one panel a data set; readable in grey.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedfb.errors import ConfigError
from fedfb.experiments.compare import better, differs
from fedfb.files import make_folder
from fedfb.paper.targets import spread_of
from fedfb.report.figures import MARKERS, save_figure
from fedfb.report.numbers import number
from fedfb.theory.pictures import curve_points

Found = Mapping[str, Any]


CONSTANT = 0.004
"""A printed accuracy so near to the constant classifier's is it, at disparity 0: splits differ."""

USEFUL, ALIKE = 0.01, 0.005
"""How far below the best accuracy a setting may be, and disparities that count as equal."""

HEAD = """# The paper's tables and figures, ours beside the printed ones

Written by `fedfb reproduce`. Rows of FedFB:

- **ours**: the default, solved outer problem, learning rate picked on validation rows;
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


def as_markdown(found: Sequence[Found]) -> str:
    """Return all targets as one page."""
    return HEAD + "\n".join(line for one in found for line in _target(one))


def renew(page: str, one: Found) -> str:
    r"""Return a page with the section of one target written anew; the others stay as they are.

    >>> old = "# Head\n\n## T\n\n`fedfb reproduce t`: old.\n\n## U\n\n`fedfb reproduce u`: 1.\n"
    >>> found = {"title": "T", "label": None, "quick": False, "seeds": [0], "target": "t",
    ...          "cpu_seconds": 1.0, "kind": "comparison", "cells": []}
    >>> [line for line in renew(old, found).splitlines() if "reproduce" in line][-2:]
    ['`fedfb reproduce t`: 1 seed, 1 s of CPU time.', '`fedfb reproduce u`: 1.']
    """
    sections = re.split(r"(?m)^(?=## )", page)
    places = [n for n, text in enumerate(sections) if f"`fedfb reproduce {one['target']}`" in text]
    if len(places) != 1:
        raise ConfigError(
            f"the page has {len(places)} sections of {one['target']}, expected one to renew. "
            "Give a page that fedfb reproduce wrote."
        )
    [place] = places
    last = place == len(sections) - 1
    sections[place] = "\n".join(_target(one)) + ("" if last else "\n")
    return HEAD + "".join(sections[1:])


def _target(one: Found) -> Iterator[str]:
    seeds = len(one["seeds"])
    yield f"## {one['title']}\n"
    label = f" (`{one['label']}`)" if one["label"] else ""
    quick = " **A quick look: one seed, nothing tuned.**" if one["quick"] else ""
    yield (
        f"`fedfb reproduce {one['target']}`{label}: {seeds} seed{'s' if seeds > 1 else ''}, "
        f"{one['cpu_seconds']:.0f} s of CPU time.{quick}\n"
    )
    yield from KINDS[one["kind"]](one)


def _table(one: Found) -> Iterator[str]:
    columns = list(dict.fromkeys(cell["column"] for cell in one["cells"]))
    head = " | ".join(f"{name}: ours | paper" for name in columns)
    yield f"| | private | fair | {head} |"
    yield "|---" * (2 * len(columns) + 3) + "|"
    for row in dict.fromkeys(cell["row"] for cell in one["cells"]):
        own = {cell["column"]: cell for cell in one["cells"] if cell["row"] == row}
        cells = [text for name in columns for text in _cells(own.get(name))]
        yield f"| {row} | {' | '.join((*properties(list(own.values())), *cells))} |"
    yield (
        "\nAccuracy / disparity, mean ± spread over seeds. **Bold**: better than what is printed "
        "on one axis and not worse on the other, at the printed digits. *differs*: by more than "
        "two standard errors and .005. Private: rows stay with their owners. Fair: the method aims "
        "at it.\n"
    )
    yield from _constants(one)
    yield from _exchanged(one)
    yield from _explained(one)


def properties(cells: Sequence[Found]) -> tuple[str, str]:
    """Return the paper's columns Private and Fair, as the registry has them."""
    known = [cell["reveals"] for cell in cells if cell.get("reveals")]
    if not known:
        return "-", "-"
    return "no" if known[0]["pooled"] else "yes", "yes" if known[0]["fair"] else "no"


def _exchanged(one: Found) -> Iterator[str]:
    """List what a run sends, where that is compared."""
    if not one.get("exchanged"):
        return
    yield "| data | method | rounds | exchanges a run | bytes a client sends |"
    yield "|---|---|---|---|---|"
    for cell in one["cells"]:
        seen = cell.get("reveals")
        if seen and "rounds" in seen:
            exchanges, sent = (seen["rounds"] * seen[what] for what in ("exchanges", "bytes"))
            place = f"{cell['column']} | {cell['row']}"
            yield f"| {place} | {seen['rounds']} | {exchanges:,} | {sent:,} |"
    yield ""


def _explained(one: Found) -> Iterator[str]:
    """List what differs, and which switch of one cause at a time leads there."""
    if not one.get("explained"):
        return
    yield "| differs | cause: before -> after | of the difference | left |\n|---|---|---|---|"
    for why in one["explained"]:
        steps = steps_in_words(why["steps"])
        said = f"{why['verdict']} | {number(why['left'])}"
        yield (f"| {why['row']}, {why['column']} | {steps} | {number(why['apart'])} {said} |")
    yield ""


def steps_in_words(steps: Sequence[Found]) -> str:
    """Say which causes were switched, and what that did."""
    said = (f"{one['cause']}: {_means(one['before'])} -> {_means(one['after'])}" for one in steps)
    return "; ".join(said) or "-"


def _means(figures: Found) -> str:
    return f"{number(figures['accuracy']['mean'])} / {number(figures['disparity']['mean'])}"


def _cells(cell: Found | None) -> tuple[str, str]:
    if cell is None:
        return "", ""
    beside = cell["published"]
    paper = "-" if beside is None else _both(beside)
    if not cell["points"]:
        return cell["failed"], paper
    [point] = cell["points"]
    ours = _both(point)
    if beside is None:
        return ours, paper
    if better(point, beside):
        return f"**{ours}**", paper
    return (f"{ours} *differs*" if differs(point, beside) else ours), paper


def _both(figures: Found) -> str:
    return f"{spread_of(figures['accuracy'])} / {spread_of(figures['disparity'])}"


def _constants(one: Found) -> Iterator[str]:
    """Name the printed figures that a constant classifier has, which treats all alike."""
    for cell in one["cells"]:
        beside, constant = cell["published"], cell.get("constant")
        if beside is None or constant is None or cell["row"] != "FedFB, ours":
            continue
        if (
            abs(beside["accuracy"]["mean"] - constant) < CONSTANT
            and beside["disparity"]["mean"] == 0
        ):
            yield (
                f"The paper's {number(beside['accuracy']['mean'])} / .000 for FedFB on "
                f"{cell['column']} is the constant classifier, which decides all rows alike.\n"
            )


def _curves(one: Found) -> Iterator[str]:
    yield "| data | method | setting | accuracy | disparity |\n|---|---|---|---|---|"
    for cell in one["cells"]:
        if not cell["points"]:
            yield f"| {cell['column']} | {cell['row']} | failed: {cell['failed']} | | |"
        for point in cell["points"]:
            setting = ", ".join(f"{k} {v:g}" for k, v in point["settings"].items())
            values = f"{spread_of(point['accuracy'])} | {spread_of(point['disparity'])}"
            yield f"| {cell['column']} | {cell['row']} | {setting} | {values} |"
    yield f"\n![{one['title']}](reproduction/{one['target']}.svg)\n"
    yield from _claimed(one)


def _claimed(one: Found) -> Iterator[str]:
    """Hold what the paper says of its figure against each method's fairest useful setting."""
    if not one.get("claim"):
        return
    columns = list(dict.fromkeys(cell["column"] for cell in one["cells"]))
    fairest = {(c["row"], c["column"]): _fairest(one, c) for c in one["cells"]}
    least = {
        column: min(_mean(p, "disparity") for (_, at), p in fairest.items() if p and at == column)
        for column in columns
    }
    yield (
        f"The paper: {one['claim']}. Ours: the least disparity of each method among its settings "
        f"whose accuracy is within {number(USEFUL, 2)} of the best of all methods, and that "
        f"accuracy; **bold** within {number(ALIKE)} of the least of all methods.\n"
    )
    yield f"| | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    for row in dict.fromkeys(cell["row"] for cell in one["cells"]):
        shown = [_fair_and_useful(fairest.get((row, c)), least[c]) for c in columns]
        yield f"| {row} | {' | '.join(shown)} |"
    yield ""


def _fairest(one: Found, cell: Found) -> Found | None:
    """Return a cell's fairest setting that is about as accurate as any in its column, or None."""
    points = [p for c in one["cells"] if c["column"] == cell["column"] for p in c["points"]]
    floor = max(_mean(point, "accuracy") for point in points) - USEFUL
    able = [point for point in cell["points"] if _mean(point, "accuracy") >= floor]
    return min(able, key=lambda point: _mean(point, "disparity"), default=None)


def _fair_and_useful(point: Found | None, least: float) -> str:
    if point is None:
        return "-"
    text = f"{spread_of(point['disparity'])} at {number(_mean(point, 'accuracy'))}"
    return f"**{text}**" if _mean(point, "disparity") <= least + ALIKE else text


def _mean(point: Found, what: str) -> float:
    return float(point[what]["mean"])


def _comparison(one: Found) -> Iterator[str]:
    yield "| data | method | accuracy | disparity | server needs | exchanges a round | bytes |"
    yield "|---|---|---|---|---|---|---|"
    for cell in one["cells"]:
        if not cell["points"]:
            yield f"| {cell['column']} | {cell['row']} | failed: {cell['failed']} | | | | |"
            continue
        [point], reveals = cell["points"], cell["reveals"]
        seen = "all rows" if reveals["pooled"] else "sums" if reveals["sums_only"] else "single"
        yield (
            f"| {cell['column']} | {cell['row']} | {spread_of(point['accuracy'])} | "
            f"{spread_of(point['disparity'])} | {seen} | {reveals['exchanges']} | "
            f"{reveals['bytes']} |"
        )
    yield f"\n![{one['title']}](reproduction/{one['target']}.svg)\n"


KINDS = {"table": _table, "curves": _curves, "comparison": _comparison}


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
    for position, rate in enumerate(_rates(known)):
        joined = [
            n for n, point in enumerate(known) if rate is None or rate == point["settings"]["lr"]
        ]
        named = {"label": cell["row"]} if position == 0 else {}
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
