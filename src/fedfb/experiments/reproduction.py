"""The results of the paper's tables and figures, beside the printed ones."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import fedfb
from fedfb.algorithms import find_method
from fedfb.data import Federation, load
from fedfb.errors import FedFBError
from fedfb.experiments.differences import differs, explain
from fedfb.experiments.evaluation import Record, summarise
from fedfb.experiments.explain import explain as explain_method
from fedfb.experiments.folders import CELLS
from fedfb.experiments.outcome import run
from fedfb.experiments.published import printed
from fedfb.experiments.reporting import plain
from fedfb.experiments.resolve import resolve
from fedfb.experiments.selections import SELECTIONS
from fedfb.experiments.spec import Experiment
from fedfb.experiments.store import write_whole
from fedfb.experiments.targets import QUICK_SEEDS, SEEDS, Line, Target
from fedfb.notions import long_name

OnCell = Callable[[str, str], None]

_load = lru_cache(maxsize=len(SEEDS))(load)
"""Loads rows; those of the cell before may serve this one too."""


def reproduce(
    target: Target,
    folder: Path,
    quick: bool = False,
    on_cell: OnCell = lambda row, column: None,
    jobs: int | None = None,
) -> Record:
    """Run every cell that the folder does not hold yet, and return the whole target.

    A cell is kept under its experiment's hash as soon as it is done: a killed reproduction goes on
    where it stopped, and tables share their cells. A quick one leaves out rows that only explain,
    and columns that take long.
    """
    cells = []
    measure = target.measure or long_name(target.settings.get("notion", "dp"))
    rows = [row for row in target.rows if not (quick and row.explains)]
    columns = [column for column in target.columns if column.quick or not quick]
    # Column by column: its cells share the rows that were loaded.
    for column in columns:
        for row in rows:
            if not row.has(column.name):
                continue
            on_cell(row.name, column.name)
            kept = _found(target, row, column, folder / CELLS, quick, jobs)
            found = _of_measure(kept, measure)
            beside = printed(target.label, row.published, column.published)
            place = {"row": row.name, "column": column.name, "notion": measure}
            cells.append({**place, **found, "published": beside})
    order = [row.name for row in rows]
    cells.sort(key=lambda cell: order.index(cell["row"]))
    return {
        "target": target.name,
        "title": target.title,
        "kind": target.kind,
        "label": target.label,
        "quick": quick,
        "seeds": list(QUICK_SEEDS if quick else SEEDS),
        "exchanged": target.exchanged,
        "cells": cells,
        "explained": explanations(target, cells),
        "at_best": {c.name: at_best(c) for c in columns} if target.at_best else {},
        "cpu_seconds": sum(cell["cpu_seconds"] for cell in cells),
    }


def explanations(target: Target, cells: Sequence[Record]) -> list[Record]:
    """Return, of every cell that is further from the printed one than its noise, why."""
    rows = {row.name: row for row in target.rows}
    points = {(c["row"], c["column"]): c["points"][0] for c in cells if len(c["points"]) == 1}
    told = []
    for cell in cells:
        row, column, paper = rows[cell["row"]], cell["column"], cell["published"]
        ours = points.get((row.name, column))
        if ours is None or paper is None or row.explains:
            continue
        if differs(ours, paper):
            beside = {name: point for (name, place), point in points.items() if place == column}
            causes = [c for c in row.causes if not c.columns or column in c.columns]
            why = explain(ours, paper, beside, causes)
            steps = [step._asdict() for step in why.steps]
            said = {**why._asdict(), "steps": steps, "verdict": why.verdict}
            told.append({"row": row.name, "column": column, **said})
    return told


def at_best(column: Line) -> Record:
    """Return each approach's best curve on a column's population."""
    from fedfb.experiments.achievable import achievable, picture_levels
    from fedfb.theory import setting

    population = setting(column.settings["data"], *column.settings.get("q", ()))
    return achievable(population, picture_levels(population))


def _found(
    target: Target, row: Line, column: Line, folder: Path, quick: bool, jobs: int | None
) -> Record:
    """Return a cell, from the folder or by running it."""
    if row.released is None:
        experiment = target.experiment(row, column, quick)
        name = f"{experiment.hash} {experiment.seeds} {row.selection or ''}".rstrip()
        rows = row.released_rows.get(column.name)
        name += f" on the released rows {rows}" if rows else ""
        return _kept(name, folder, lambda: _cell(experiment, row.selection, rows, jobs))
    at = row.released.get(column.name)
    if at is None:
        why = "its settings are not known"
        return {"failed": why, "points": [], "cpu_seconds": 0.0}
    data = column.settings.get("data", "synthetic")
    seeds = QUICK_SEEDS if quick else SEEDS
    asked = {"model": target.settings["model"], "seeds": seeds, "data": data, **at}
    asked["method"], asked["flags"] = row.released["method"], row.released.get("flags", {})
    name = f"released {fedfb.__version__} {json.dumps(asked, sort_keys=True)}"
    return _kept(name, folder, lambda: _released(asked))


def _released(asked: Mapping[str, Any]) -> Record:
    """Run a cell as the authors' code does."""
    from fedfb import released

    start = time.process_time()
    settings = {name: value for name, value in asked.items() if name != "data"}
    records = released.run(asked["data"], **settings)
    point = {"settings": {k: asked[k] for k in ("lr", "alpha") if k in asked}}
    return {
        "points": [{**point, **summarise(records)}],
        "chosen": {},
        "reveals": {"pooled": False, "fair": asked["method"] != "fedavg"},
        "experiment": {**asked, "seeds": list(asked["seeds"])},
        "cpu_seconds": time.process_time() - start,
    }


def _kept(name: str, folder: Path, make: Callable[[], Record]) -> Record:
    """Return what the folder holds under a name; make and keep it where there is nothing."""
    path = folder / f"{sha256(name.encode()).hexdigest()[:16]}.json"
    if path.exists():
        try:
            kept: Record = json.loads(path.read_text(encoding="utf-8"))
            return kept
        except json.JSONDecodeError:
            path.unlink()  # cut short by a full disk: made anew
    folder.mkdir(parents=True, exist_ok=True)
    found = make()
    write_whole(path, json.dumps(found, allow_nan=False))
    return found


def _cell(
    experiment: Experiment, selection: str | None, released: str | None, jobs: int | None
) -> Record:
    """Run one cell; where it cannot be run, say why."""
    start = time.process_time()
    try:
        rows = _rows(experiment, released)
        report = run(experiment, jobs=jobs, federations=rows, watched=False, warn=False).report
    except FedFBError as error:
        return {"failed": str(error), "points": [], "cpu_seconds": time.process_time() - start}
    return {
        "points": [SELECTIONS[selection](report)] if selection else list(_points(report)),
        "chosen": (report["tuning"] or {}).get("chosen") or _picked(report["picked"]),
        "constant": report["runs"][0]["majority_accuracy"],
        "reveals": _reveals(experiment, rows[experiment.seeds[0]]),
        "experiment": plain(asdict(resolve(experiment))),
        "cpu_seconds": time.process_time() - start,
    }


def _rows(experiment: Experiment, released: str | None) -> dict[int, Federation]:
    """Return the rows of each seed; the released code has the same for all."""
    if released:
        from fedfb.released import as_federation
        from fedfb.released import load as load_released

        return dict.fromkeys(experiment.seeds, as_federation(load_released(released)))
    return {seed: _load(experiment.request, experiment.split_of(seed)) for seed in experiment.seeds}


def _points(report: Record) -> Iterator[Record]:
    for summary in report["summaries"]:
        yield {key: summary[key] for key in ("settings", "accuracy", "disparity")}


def _of_measure(cell: Record, measure: str) -> Record:
    """Return a cell with one of its disparities: another figure may show another."""
    points = [{**point, "disparity": point["disparity"][measure]} for point in cell["points"]]
    return {**cell, "points": points}


def _picked(picked: Sequence[Record]) -> Record:
    """Return what the seeds picked, one list a knob."""
    knobs = picked[0]["chosen"] if picked else {}
    return {knob: [one["chosen"][knob] for one in picked] for knob in knobs}


def _reveals(experiment: Experiment, rows: Federation) -> Record:
    """Return what a round exchanges: questions, bytes of one client, sums or single values."""
    size = (len(rows.group_names), len(rows.clients), len(rows.feature_names))
    explained, method = explain_method(experiment, *size), find_method(experiment.algorithm)
    return {
        "pooled": method.is_pooled(experiment.variant or method.variants[0]),
        "fair": method.fair,
        "exchanges": len(explained.in_a_round),
        "bytes": sum(one.bytes for one in explained.in_a_round),
        "sums_only": explained.sums_only,
        "rounds": resolve(experiment).rounds,
    }
