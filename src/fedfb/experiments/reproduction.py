"""The paper's tables and figures as experiments, and their results beside the printed ones."""

import json
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import fedfb
from fedfb.algorithms import find_method
from fedfb.errors import ConfigError, FedFBError, unknown_name
from fedfb.experiments.evaluation import Record, summarise
from fedfb.experiments.explain import explain
from fedfb.experiments.outcome import run
from fedfb.experiments.published import printed
from fedfb.experiments.reporting import plain
from fedfb.experiments.resolve import resolve
from fedfb.experiments.spec import Experiment, from_values
from fedfb.experiments.store import write_whole
from fedfb.notions import long_name

FOLDER = "experiments/paper"
SEEDS, QUICK_SEEDS = (0, 1, 2, 3, 4), (0,)

OnCell = Callable[[str, str], None]


class Line(NamedTuple):
    """A row or a column of a table: its name, its settings, and where the paper has it.

    A row that is ``released`` follows the authors' code: its method, flags, and for each column the
    data, the learning rate and alpha that gave the printed digits.
    """

    name: str
    settings: Mapping[str, Any]
    published: str
    released: Mapping[str, Any] | None = None


class Target(NamedTuple):
    """One table or figure: experiments by row and column.

    ``kind`` is ``table`` where every cell is one setting, ``curves`` where it may be several,
    ``comparison`` where what is revealed stands beside. ``measure`` is the disparity that is shown,
    that of the notion unless another is named. ``at_best`` adds what each approach can reach at
    best on the population of a column.
    """

    name: str
    title: str
    kind: str
    label: str | None
    rows: tuple[Line, ...]
    columns: tuple[Line, ...]
    settings: Mapping[str, Any]
    measure: str | None = None
    at_best: bool = False

    def experiment(self, row: Line, column: Line, quick: bool) -> Experiment:
        """Return the experiment of a cell; a quick one has one seed and does not tune."""
        seeds = list(QUICK_SEEDS if quick else SEEDS)
        values = {**self.settings, **column.settings, **row.settings}
        experiment = from_values({"seeds": ",".join(map(str, seeds)) + ",", **values})
        return replace(experiment, tune=False) if quick else experiment


def names() -> list[str]:
    """Return the names of all targets, tables first."""
    found = files("fedfb").joinpath(FOLDER).iterdir()
    stems = [path.name.removesuffix(".toml") for path in found if path.name.endswith(".toml")]
    return sorted((n for n in stems if n != "published"), key=lambda n: (n[0] != "t", n))


def read_target(name: str) -> Target:
    """Read one table or figure.

    >>> read_target("table2").label
    'tab:dp_dh'
    """
    if name not in names():
        raise ConfigError(unknown_name("target", name, [*names(), "all"]))
    text = files("fedfb").joinpath(f"{FOLDER}/{name}.toml").read_text(encoding="utf-8")
    values = tomllib.loads(text)
    return Target(
        name=name,
        title=values["title"],
        kind=values["kind"],
        label=values.get("published"),
        rows=tuple(_line(one) for one in values["row"]),
        columns=tuple(_line(one) for one in values["column"]),
        settings=values["settings"],
        measure=values.get("measure"),
        at_best=values.get("at_best", False),
    )


def _line(values: Mapping[str, Any]) -> Line:
    name, released = values["name"], values.get("released")
    return Line(name, values.get("settings", {}), values.get("published", name), released)


def reproduce(
    target: Target, folder: Path, quick: bool = False, on_cell: OnCell = lambda row, column: None
) -> Record:
    """Run every cell that the folder does not hold yet, and return the whole target.

    A cell is kept under its experiment's hash as soon as it is done: a killed reproduction goes on
    where it stopped, and tables share their cells.
    """
    cells = []
    for row in target.rows:
        for column in target.columns:
            on_cell(row.name, column.name)
            kept = _found(target, row, column, folder / "cells", quick)
            measure = target.measure or long_name(target.settings.get("notion", "dp"))
            found = _of_measure(kept, measure)
            beside = printed(target.label, row.published, column.published)
            cells.append({"row": row.name, "column": column.name, **found, "published": beside})
    return {
        "target": target.name,
        "title": target.title,
        "kind": target.kind,
        "label": target.label,
        "quick": quick,
        "seeds": list(QUICK_SEEDS if quick else SEEDS),
        "cells": cells,
        "at_best": {c.name: at_best(c) for c in target.columns} if target.at_best else {},
        "cpu_seconds": sum(cell["cpu_seconds"] for cell in cells),
    }


def at_best(column: Line) -> Record:
    """Return each approach's best curve on a column's population."""
    from fedfb.experiments.achievable import achievable, picture_levels
    from fedfb.theory import setting

    population = setting(column.settings["data"], *column.settings.get("q", ()))
    return achievable(population, picture_levels(population))


def _found(target: Target, row: Line, column: Line, folder: Path, quick: bool) -> Record:
    """Return a cell, from the folder or by running it."""
    if row.released is None:
        experiment = target.experiment(row, column, quick)
        name = f"{experiment.hash} {experiment.seeds}"
        return _kept(name, folder, lambda: _cell(experiment))
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
        "reveals": None,
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


def _cell(experiment: Experiment) -> Record:
    """Run one cell; where it cannot be run, say why."""
    start = time.process_time()
    try:
        report = run(experiment).report
    except FedFBError as error:
        return {"failed": str(error), "points": [], "cpu_seconds": time.process_time() - start}
    return {
        "points": list(_points(report)),
        "chosen": (report["tuning"] or {}).get("chosen") or _picked(report["picked"]),
        "constant": report["runs"][0]["majority_accuracy"],
        "reveals": _reveals(experiment),
        "experiment": plain(asdict(resolve(experiment))),
        "cpu_seconds": time.process_time() - start,
    }


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


def _reveals(experiment: Experiment) -> Record:
    """Return what a round exchanges: questions, bytes of one client, sums or single values."""
    explained, method = explain(experiment), find_method(experiment.algorithm)
    return {
        "pooled": method.is_pooled(experiment.variant or method.variants[0]),
        "exchanges": len(explained.in_a_round),
        "bytes": sum(one.bytes for one in explained.in_a_round),
        "sums_only": explained.sums_only,
    }
