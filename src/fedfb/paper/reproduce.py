"""The results of the paper's tables and figures, beside the printed ones.

How the authors' code reported a grid, where that is a cause of its figures.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import fedfb
from fedfb.algorithms import find_method
from fedfb.data import Federation, load
from fedfb.data.datasets.fetch import FILES_OF, refuse_missing
from fedfb.errors import DataError, FedFBError
from fedfb.experiments.compare import differs, explain
from fedfb.experiments.evaluate import summarise
from fedfb.experiments.explain import explain_alone
from fedfb.experiments.outcome import run
from fedfb.experiments.reporting import plain
from fedfb.experiments.resolve import resolve
from fedfb.experiments.result import Picked, Quality, Result, SeedResult, to_builtins
from fedfb.experiments.run_folder import CELLS
from fedfb.experiments.spec import Experiment
from fedfb.files import make_folder, read_json, say, write_json
from fedfb.notions import long_name
from fedfb.paper.targets import QUICK_SEEDS, SEEDS, Line, Target, printed

Record = dict[str, Any]  # nested JSON: its values have no common type


def over_the_grid(result: Result) -> Record:
    """Report as the released code did: the first seed at every setting, the others at its fairest.

    The spread is then one over settings, and the setting was chosen by test figures.
    """
    first, fairest = _first_seed(result)
    later = [run for run in result.runs if run.seed != first[0].seed]
    counted = [*first, *(run for run in later if run.settings == fairest)]
    return {"settings": fairest, **to_builtins(summarise(counted))}


def least_disparity(result: Result) -> Record:
    """Report the setting that is fairest on the first seed's test rows, however accurate it is."""
    _, fairest = _first_seed(result)
    runs = [run for run in result.runs if run.settings == fairest]
    return {"settings": fairest, **to_builtins(summarise(runs))}


def _first_seed(result: Result) -> tuple[list[SeedResult], Mapping[str, float]]:
    first = [run for run in result.runs if run.seed == result.runs[0].seed]
    known = [run for run in first if run.disparity[result.notion] is not None]
    return first, min(known, key=lambda run: run.disparity[result.notion] or 0.0).settings


SELECTIONS: dict[str, Callable[[Result], Record]] = {
    "over the grid": over_the_grid,
    "least disparity": least_disparity,
}
"""The rules by name."""


CELL = {"points", "cpu_seconds"}
"""What every cell has, one that failed too."""

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
    check_data([target], folder, quick)
    cells = []
    measure = target.measure or long_name(target.settings.get("notion", "dp"))
    rows, columns = _lines(target, quick)
    for row, column in _places(target, quick):
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
        "claim": target.claim,
        "cells": cells,
        "explained": explanations(target, cells),
        "at_best": {c.name: at_best(c) for c in columns} if target.at_best else {},
        "cpu_seconds": sum(cell["cpu_seconds"] for cell in cells),
    }


def check_data(targets: Sequence[Target], folder: Path, quick: bool) -> None:
    """Refuse targets whose data are missing, all at once, before anything is trained.

    Cells that the folder holds need no data.
    """
    needed = {
        work.data.partition("-")[0]  # the released code's adult-0_1 is made of the file of adult
        for target in targets
        for row, column in _places(target, quick)
        if (work := _work(target, row, column, quick, None)) is not None
        and not _path(work.name, folder / CELLS).exists()
    }
    refuse_missing(name for name in FILES_OF if name in needed)


def _lines(target: Target, quick: bool) -> tuple[list[Line], list[Line]]:
    rows = [row for row in target.rows if not (quick and row.explains)]
    return rows, [column for column in target.columns if column.quick or not quick]


def _places(target: Target, quick: bool) -> Iterator[tuple[Line, Line]]:
    """Yield row and column of every cell, column by column: these share the rows loaded."""
    rows, columns = _lines(target, quick)
    return ((row, column) for column in columns for row in rows if row.has(column.name))


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
    from fedfb.theory import setting
    from fedfb.theory.achievable import achievable, picture_levels

    population = setting(column.settings["data"], *column.settings.get("q", ()))
    return achievable(population, picture_levels(population))


def _found(
    target: Target, row: Line, column: Line, folder: Path, quick: bool, jobs: int | None
) -> Record:
    """Return a cell, from the folder or by running it."""
    work = _work(target, row, column, quick, jobs)
    if work is None:
        return {"failed": "its settings are not known", "points": [], "cpu_seconds": 0.0}
    return _kept(work.name, folder, work.make)


class _Work(NamedTuple):
    """What makes a cell: the name it is kept under, its data, and how it is made."""

    name: str
    data: str
    make: Callable[[], Record]


def _work(target: Target, row: Line, column: Line, quick: bool, jobs: int | None) -> _Work | None:
    """Return what makes a cell, None where its settings are not known."""
    if row.released is None:
        experiment = target.experiment(row, column, quick)
        name = f"{experiment.hash} {experiment.seeds} {row.selection or ''}".rstrip()
        rows = row.released_rows.get(column.name)
        name += f" on the released rows {rows}" if rows else ""
        make = partial(_cell, experiment, row.selection, rows, jobs)
        return _Work(name, rows or experiment.data, make)
    at = row.released.get(column.name)
    if at is None:
        return None
    data = column.settings.get("data", "synthetic")
    seeds = QUICK_SEEDS if quick else SEEDS
    asked = {"model": target.settings["model"], "seeds": seeds, "data": data, **at}
    asked["method"], asked["flags"] = row.released["method"], row.released.get("flags", {})
    name = f"released {fedfb.__version__} {json.dumps(asked, sort_keys=True)}"
    return _Work(name, asked["data"], partial(_released, asked))


def _released(asked: Mapping[str, Any]) -> Record:
    """Run a cell as the authors' code does."""
    from fedfb import released

    start = time.process_time()
    settings = {name: value for name, value in asked.items() if name != "data"}
    qualities = [
        Quality(accuracy=record["accuracy"], disparity=record["disparity"])
        for record in released.run(asked["data"], **settings)
    ]
    point = {"settings": {k: asked[k] for k in ("lr", "alpha") if k in asked}}
    return {
        "points": [{**point, **to_builtins(summarise(qualities))}],
        "chosen": {},
        "reveals": {"pooled": False, "fair": asked["method"] != "fedavg"},
        "experiment": {**asked, "seeds": list(asked["seeds"])},
        "cpu_seconds": time.process_time() - start,
    }


def _path(name: str, folder: Path) -> Path:
    return folder / f"{sha256(name.encode()).hexdigest()[:16]}.json"


def _kept(name: str, folder: Path, make: Callable[[], Record]) -> Record:
    """Return what the folder holds under a name; make and keep it where there is nothing."""
    path = _path(name, folder)
    if path.exists():
        try:
            kept: Record = read_json(path, "a cell as fedfb reproduce writes it")
            if isinstance(kept, dict) and kept.keys() >= CELL:
                return kept
            say(f"{path} is not a cell as fedfb reproduce writes it. It is computed again.")
        except DataError as error:
            say(f"{error} It is computed again.")
    make_folder(folder)
    found = make()
    write_json(path, found)
    return found


def _cell(
    experiment: Experiment, selection: str | None, released: str | None, jobs: int | None
) -> Record:
    """Run one cell; where it cannot be run, say why."""
    start = time.process_time()
    try:
        rows = _rows(experiment, released)
        result = run(experiment, jobs=jobs, federations=rows, watched=False, warn=False)
    except FedFBError as error:
        return {"failed": str(error), "points": [], "cpu_seconds": time.process_time() - start}
    return {
        "points": [SELECTIONS[selection](result)] if selection else list(_points(result)),
        "chosen": result.tuning.chosen if result.tuning else _picked(result.picked),
        "constant": result.runs[0].majority_accuracy,
        "reveals": _reveals(experiment, rows[experiment.seeds[0]]),
        "experiment": plain(asdict(resolve(experiment))),
        "cpu_seconds": time.process_time() - start,
    }


def _rows(experiment: Experiment, released: str | None) -> dict[int, Federation]:
    """Return the rows of each seed; the released code has the same for all."""
    if released:
        from fedfb.paper.released import as_federation
        from fedfb.paper.released import load as load_released

        return dict.fromkeys(experiment.seeds, as_federation(load_released(released)))
    return {seed: _load(experiment.request, experiment.split_of(seed)) for seed in experiment.seeds}


def _points(result: Result) -> Iterator[Record]:
    for summary in result.summaries:
        fields = to_builtins(summary)
        yield {key: fields[key] for key in ("settings", "accuracy", "disparity")}


def _of_measure(cell: Record, measure: str) -> Record:
    """Return a cell with one of its disparities: another figure may show another."""
    points = [{**point, "disparity": point["disparity"][measure]} for point in cell["points"]]
    return {**cell, "points": points}


def _picked(picked: Sequence[Picked]) -> Record:
    """Return what the seeds picked, one list a knob."""
    knobs = picked[0].chosen if picked else {}
    return {knob: [of_seed.chosen[knob] for of_seed in picked] for knob in knobs}


def _reveals(experiment: Experiment, rows: Federation) -> Record:
    """Return what the method exchanges in a round for one setting, and what it needs of that."""
    size = (len(rows.group_names), len(rows.clients), len(rows.feature_names))
    explained, method = explain_alone(experiment, *size), find_method(experiment.algorithm)
    return {
        "pooled": explained.pooled,
        "fair": method.fair,
        "exchanges": explained.exchanges_a_round,
        "bytes": explained.bytes_a_round,
        "sums_only": explained.needs_only_sums,
        "rounds": resolve(experiment).rounds,
    }
