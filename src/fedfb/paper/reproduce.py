"""Run the cells of the paper's tables and figures, and put the printed figures beside ours.

A cell is one row and column of a target (``fedfb.paper.targets``). It follows our methods, or
the released code (``fedfb.paper.released``). ``SELECTIONS`` are two ways in which the authors'
code reported a grid; they are a cause of its figures.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import fedfb
from fedfb.algorithms import find_method
from fedfb.data import Federation, load
from fedfb.data.datasets.fetch import FILES_OF, refuse_missing
from fedfb.errors import DataError, FedFBError
from fedfb.experiments.codec import to_builtins
from fedfb.experiments.compare import differs, explain_difference
from fedfb.experiments.evaluate import summarise
from fedfb.experiments.explain import explain_alone
from fedfb.experiments.outcome import run
from fedfb.experiments.reporting import plain
from fedfb.experiments.resolve import resolve
from fedfb.experiments.result import Picked, Result
from fedfb.experiments.run_folder import CELLS
from fedfb.experiments.seed_result import Quality, SeedResult
from fedfb.experiments.spec import Experiment
from fedfb.files import CHANGED, make_folder, read_json, say, write_json
from fedfb.notions import long_name
from fedfb.paper.targets import QUICK_SEEDS, SEEDS, Target, TargetLine, printed

_Record = dict[str, Any]  # nested JSON: its values have no common type


def report_over_grid(result: Result) -> _Record:
    """Report as the released code did: the first seed at every setting, others at the fairest.

    The spread is then one over settings, and the setting was chosen by test figures.
    """
    first, fairest = _first_seed(result)
    later = [run for run in result.runs if run.seed != first[0].seed]
    counted = [*first, *(run for run in later if run.settings == fairest)]
    return {"settings": fairest, **to_builtins(summarise(counted))}


def report_least_disparity(result: Result) -> _Record:
    """Report the setting that is fairest on the first seed's test rows, at any accuracy."""
    _, fairest = _first_seed(result)
    runs = [run for run in result.runs if run.settings == fairest]
    return {"settings": fairest, **to_builtins(summarise(runs))}


def _first_seed(result: Result) -> tuple[list[SeedResult], Mapping[str, float]]:
    first = [run for run in result.runs if run.seed == result.runs[0].seed]
    known = [run for run in first if run.disparity[result.notion] is not None]
    return first, min(known, key=lambda run: run.disparity[result.notion] or 0.0).settings


SELECTIONS: dict[str, Callable[[Result], _Record]] = {
    "over the grid": report_over_grid,
    "least disparity": report_least_disparity,
}
"""The rules by name."""


OnCell = Callable[[str, str], None]

_load = lru_cache(maxsize=len(SEEDS))(load)
"""Loads rows; those of the cell before may serve this one too."""


def reproduce(
    target: Target,
    folder: Path,
    quick: bool = False,
    on_cell: OnCell = lambda row, column: None,
    jobs: int | None = None,
) -> _Record:
    """Run every cell that the folder does not hold, and return the whole target.

    A finished cell is written under its experiment's hash at once: a reproduction that was stopped
    continues, and tables share their cells. A quick reproduction leaves out rows that only explain,
    and columns that take long.

    Args:
        target: the table or figure.
        folder: where finished cells are kept.
        quick: one seed, nothing tuned.
        on_cell: called with row and column before each cell.
        jobs: number of seeds trained at once; by default the number of cores.
    """
    check_data([target], folder, quick)
    cells = []
    measure = target.measure or long_name(target.settings.get("notion", "dp"))
    rows, columns = _lines(target, quick)
    for row, column in _places(target, quick):
        on_cell(row.name, column.name)
        cell = _get_cell(target, row, column, folder / CELLS, quick, jobs)
        figures = _of_measure(cell, measure)
        published = printed(target.label, row.published, column.published)
        place = {"row": row.name, "column": column.name, "notion": measure}
        cells.append({**place, **figures, "published": published})
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
        "explained": explain_differences(target, cells),
        "at_best": {c.name: best_curves(c) for c in columns} if target.at_best else {},
        "cpu_seconds": sum(cell["cpu_seconds"] for cell in cells),
    }


def check_data(targets: Sequence[Target], folder: Path, quick: bool) -> None:
    """Refuse targets whose data are missing, all at once, before any training.

    Args:
        targets: the tables and figures.
        folder: where finished cells are kept; these need no data.
        quick: as in ``reproduce``.
    """
    needed = {
        work.data.partition("-")[0]  # the released code's adult-0_1 is made of the file of adult
        for target in targets
        for row, column in _places(target, quick)
        if (work := _work(target, row, column, quick, None)) is not None
        and not _path(work.name, folder / CELLS).exists()
    }
    refuse_missing(name for name in FILES_OF if name in needed)


def _lines(target: Target, quick: bool) -> tuple[list[TargetLine], list[TargetLine]]:
    rows = [row for row in target.rows if not (quick and row.explains)]
    return rows, [column for column in target.columns if column.quick or not quick]


def _places(target: Target, quick: bool) -> Iterator[tuple[TargetLine, TargetLine]]:
    """Yield row and column of every cell, column by column: a column's cells share the data."""
    rows, columns = _lines(target, quick)
    return ((row, column) for column in columns for row in rows if row.has(column.name))


def explain_differences(target: Target, cells: Sequence[_Record]) -> list[_Record]:
    """Explain every cell that differs from the printed one by more than its noise.

    Args:
        target: the table or figure, with the causes of each row.
        cells: the results of all its cells.
    """
    rows = {row.name: row for row in target.rows}
    points = {(c["row"], c["column"]): c["points"][0] for c in cells if len(c["points"]) == 1}
    result = []
    for cell in cells:
        row, column, paper = rows[cell["row"]], cell["column"], cell["published"]
        ours = points.get((row.name, column))
        if ours is None or paper is None or row.explains:
            continue
        if differs(ours, paper):
            column_points = {
                name: point for (name, place), point in points.items() if place == column
            }
            causes = [c for c in row.causes if not c.columns or column in c.columns]
            explanation = explain_difference(ours, paper, column_points, causes)
            steps = [step._asdict() for step in explanation.steps]
            values = {**explanation._asdict(), "steps": steps, "verdict": explanation.verdict}
            result.append({"row": row.name, "column": column, **values})
    return result


def best_curves(column: TargetLine) -> _Record:
    """Return the best curve of each approach on the population of a column."""
    from fedfb.theory import setting
    from fedfb.theory.achievable import achievable, picture_levels

    population = setting(column.settings["data"], *column.settings.get("q", ()))
    return achievable(population, picture_levels(population))


def _get_cell(
    target: Target, row: TargetLine, column: TargetLine, folder: Path, quick: bool, jobs: int | None
) -> _Record:
    """Return a cell, from the folder or by running it."""
    work = _work(target, row, column, quick, jobs)
    if work is None:
        return {"failed": "its settings are not known", "points": [], "cpu_seconds": 0.0}
    return _load_or_make(work.name, folder, work.make)


class _Work(NamedTuple):
    """What makes a cell: the name under which it is kept, its data, and the function."""

    name: str
    data: str
    make: Callable[[], _Record]


def _work(
    target: Target, row: TargetLine, column: TargetLine, quick: bool, jobs: int | None
) -> _Work | None:
    """Return what makes a cell; None if its settings are not known."""
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
    arguments = {"model": target.settings["model"], "seeds": seeds, "data": data, **at}
    arguments["method"], arguments["flags"] = row.released["method"], row.released.get("flags", {})
    name = f"released {fedfb.__version__} {json.dumps(arguments, sort_keys=True)}"
    return _Work(name, arguments["data"], partial(_released, arguments))


def _released(arguments: Mapping[str, Any]) -> _Record:
    """Run a cell as the authors' code does."""
    from fedfb.paper import released

    start = time.process_time()
    settings = {name: value for name, value in arguments.items() if name != "data"}
    qualities = [
        Quality(accuracy=record["accuracy"], disparity=record["disparity"])
        for record in released.run_released(arguments["data"], **settings)
    ]
    point = {"settings": {k: arguments[k] for k in ("lr", "alpha") if k in arguments}}
    return {
        "points": [{**point, **to_builtins(summarise(qualities))}],
        "chosen": {},
        "reveals": {"pooled": False, "fair": arguments["method"] != "fedavg"},
        "experiment": {**arguments, "seeds": list(arguments["seeds"])},
        "cpu_seconds": time.process_time() - start,
    }


def _path(name: str, folder: Path) -> Path:
    return folder / f"{sha256(name.encode()).hexdigest()[:16]}.json"


def _load_or_make(name: str, folder: Path, make: Callable[[], _Record]) -> _Record:
    """Return what the folder holds under a name; if there is nothing, make and keep it."""
    path = _path(name, folder)
    if path.exists():
        try:
            cell: _Record = read_json(path, "a cell as fedfb reproduce writes it")
            if _is_cell(cell):
                return cell
            say(f"{path} is not a cell as fedfb reproduce writes it. It is computed again.")
        except DataError as error:
            say(f"{error} It is computed again.")
    make_folder(folder)
    cell = make()
    write_json(path, cell)
    return cell


def _is_cell(content: Any) -> bool:
    """Return True if content has what tables show of a cell, one that failed too.

    >>> _is_cell({"points": [], "cpu_seconds": 1.0}), _is_cell({"points": "", "cpu_seconds": None})
    (True, False)
    """
    try:
        figures = [content["cpu_seconds"]]
        for point in content["points"]:
            dict(point["settings"])
            for figure in (point["accuracy"], *point["disparity"].values()):
                figures += [figure["mean"] or 0.0, figure["std"] or 0.0]
        return all(map(isfinite, figures))
    except CHANGED:
        return False


def _cell(
    experiment: Experiment, selection: str | None, released: str | None, jobs: int | None
) -> _Record:
    """Run one cell; if it cannot be run, return the reason."""
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
        from fedfb.paper.released import load_released as load_released

        return dict.fromkeys(experiment.seeds, as_federation(load_released(released)))
    return {seed: _load(experiment.request, experiment.split_of(seed)) for seed in experiment.seeds}


def _points(result: Result) -> Iterator[_Record]:
    for summary in result.summaries:
        fields = to_builtins(summary)
        yield {key: fields[key] for key in ("settings", "accuracy", "disparity")}


def _of_measure(cell: _Record, measure: str) -> _Record:
    """Return a cell with one of its disparities: another figure may show another one."""
    points = [{**point, "disparity": point["disparity"][measure]} for point in cell["points"]]
    return {**cell, "points": points}


def _picked(picked: Sequence[Picked]) -> _Record:
    """Return what the seeds picked, one list for each knob."""
    knobs = picked[0].chosen if picked else {}
    return {knob: [choice.chosen[knob] for choice in picked] for knob in knobs}


def _reveals(experiment: Experiment, rows: Federation) -> _Record:
    """Return what the method exchanges in a round for one setting, and what the server needs."""
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
