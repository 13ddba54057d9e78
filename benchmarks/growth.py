"""(e) Growth: CPU time and peak memory as one size at a time is made larger.

Every point is a fresh process, so that its peak memory is its own.
"""

import shutil
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from measure import HERE, Sample, in_turns, short
from page import Claim, Section, table

from fedfb.report.figures import save_figure
from tables import drawn

ROWS_A_CLIENT = 100
TITLE = "Growth"


class Size(NamedTuple):
    """Everything about a task that can grow."""

    rows: int = 100_000
    clients: int = 10
    groups: int = 2
    features: int = 20
    hidden: int = 4
    runs: int = 24


AXES: dict[str, tuple[int, ...]] = {
    "rows": (10_000, 100_000, 1_000_000, 10_000_000),
    "clients": (2, 10, 100, 1_000, 10_000),
    "groups": (2, 4, 8, 16, 32, 64),
    "features": (10, 20, 50, 200, 500, 2_000),
    "hidden": (4, 16, 64, 256),
    "runs": (1, 4, 24, 96, 480),
}
QUICK_LIMIT = {"rows": 1_000_000, "clients": 1_000, "features": 500, "hidden": 64}


def size(axis: str, value: int) -> Size:
    """Return the task of one point; more clients bring rows of their own."""
    if axis == "clients":
        return Size(clients=value, rows=value * ROWS_A_CLIENT)
    if axis == "features":
        return Size(features=value, rows=20_000)
    return Size()._replace(**{axis: value})


def section(work: Path, quick: bool) -> Section:
    measured = {axis: _measure(axis, work, quick) for axis in AXES}
    _draw(measured, work / "growth.svg")
    parts = [_intro(), "![CPU time and peak memory](performance/growth.svg)"]
    parts += [_table(axis, points) for axis, points in measured.items()]
    return Section(TITLE, "\n\n".join(parts), tuple(_claims(measured)))


Points = dict[int, list[Sample]]


def _measure(axis: str, work: Path, quick: bool) -> Points:
    values = [v for v in AXES[axis] if not quick or v <= QUICK_LIMIT.get(axis, v)]
    folders = {value: work / f"{axis}-{value}" for value in values}
    for value, folder in folders.items():
        s = size(axis, value)
        drawn(folder, rows=s.rows, features=s.features, clients=s.clients, groups=s.groups)
    commands = {str(value): _command(size(axis, value), folders[value]) for value in values}
    print(axis, file=sys.stderr)
    samples = in_turns(commands, 1 if quick else 3)
    for folder in folders.values():
        shutil.rmtree(folder)
    return {value: samples[str(value)] for value in values}


def _command(s: Size, folder: Path) -> list[str | Path]:
    budget = ["--only", "fit", "--rounds", "1", "--epochs", "3", "--at-least", "0.3"]
    shape = ["--hidden", str(s.hidden), "--runs", str(s.runs)]
    return [sys.executable, HERE / "train_fedfb.py", folder, *budget, *shape]


def _seconds(samples: Sequence[Sample]) -> float:
    return statistics.median(sample.said["train_cpu_s"] for sample in samples)


def _peak(samples: Sequence[Sample]) -> float:
    return max(sample.said["peak_mb"] for sample in samples)


def _table_mb(axis: str, value: int) -> float:
    s = size(axis, value)
    return 4 * s.rows * s.features / 2**20


def _intro() -> str:
    base = ", ".join(f"{v:,} {name}" for name, v in Size()._asdict().items())
    return (
        f"One round of 3 local epochs of FedFB's grid from {base}, one of them varied at a time "
        f"(with {ROWS_A_CLIENT} rows a client where clients are, 20,000 rows where features are). "
        "CPU time of training with its fairness exchanges; peak memory of the whole process, "
        "Python and libraries included. Rows are a memory-mapped float32 table, labels and groups "
        "take four bytes each."
    )


def _table(axis: str, points: Points) -> str:
    unit = "µs for each" if axis in ("rows", "clients") else "ms for each"
    factor = 1e6 if axis in ("rows", "clients") else 1e3
    rows = [
        [
            f"{value:,}",
            short(_seconds(samples)),
            short(factor * _seconds(samples) / value),
            f"{_peak(samples):.0f}",
            f"{_table_mb(axis, value):.0f}",
        ]
        for value, samples in points.items()
    ]
    return table([axis, "CPU s", unit, "peak memory, MB", "table, MB"], rows)


def _claims(measured: dict[str, Points]) -> list[Claim]:
    """Return what is claimed of the largest sizes; a quick look does not reach them."""
    rows, clients = measured["rows"], measured["clients"]
    claims = []
    if (most := AXES["rows"][-1]) in rows:
        by_row = _growth(rows, min(rows), most)
        what = f"growth of time a row, {min(rows):,} to {most:,} rows"
        claims.append(Claim(what, "at most 2", short(by_row), by_row <= 2))
        held = _peak(rows[most]) / _table_mb("rows", most)
        what = f"peak memory over the table, {most:,} rows of {Size().features} features"
        claims.append(Claim(what, "at most 1.3", f"{held:.2f}", held <= 1.3))
    if (most := AXES["clients"][-1]) in clients:
        by_client = _growth(clients, 10, most)
        what = f"growth of time a client, 10 to {most:,} clients"
        claims.append(Claim(what, "at most 1.5", short(by_client), by_client <= 1.5))
    return claims


def _growth(points: Points, first: int, last: int) -> float:
    """Return how many times the time for each unit grows from one size to another."""
    each = [_seconds(points[value]) / value for value in (first, last)]
    return each[1] / each[0]


def _draw(measured: dict[str, Points], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 5))
    panels = figure.subplots(2, len(measured), sharey="row", sharex="col")
    for (top, bottom), (axis, points) in zip(panels.T, measured.items(), strict=True):
        values = np.array(list(points))
        seconds = np.array([_seconds(samples) for samples in points.values()])
        top.loglog(values, seconds, "o-")
        top.loglog(values, seconds[-1] * values / values[-1], ":", color="grey")
        bottom.loglog(values, [_peak(samples) for samples in points.values()], "o-")
        bottom.loglog(values, [_table_mb(axis, value) for value in values], ":", color="grey")
        ends = [values[0], values[-1]]  # powers of ten would crowd a narrow panel, or miss it
        bottom.set_xticks(ends, [f"{value:,}" for value in ends])
        bottom.set_xticks([], minor=True)
        bottom.set_xlabel(axis)
    panels[0, 0].set_ylabel("CPU s (dotted: proportional)")
    panels[1, 0].set_ylabel("peak MB (dotted: the table)")
    figure.tight_layout()
    save_figure(figure, path)
