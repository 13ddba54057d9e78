"""The paper's tables and figures as experiments: what stands in each cell."""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from typing import Any, NamedTuple

from fedfb.errors import ConfigError, unknown_name
from fedfb.experiments.differences import Cause
from fedfb.experiments.spec import Experiment
from fedfb.experiments.spec_file import from_values

FOLDER = "experiments/paper"
SEEDS, QUICK_SEEDS = (0, 1, 2, 3, 4), (0,)


class Line(NamedTuple):
    """A row or a column of a table: its name, its settings, and where the paper has it.

    A row that is ``released`` follows the authors' code: its method, flags, and for each column the
    data, the learning rate and alpha that gave the printed digits. One with ``released_rows`` is
    ours on the rows that code makes, named for each column that it has. ``selection`` is a rule of
    ``selections`` where a row's grid is reported as the authors did, by test figures. ``only`` are
    the columns that a row has, ``causes`` what may set it apart from the printed one. A column that
    is not ``quick`` is left out of a quick look.
    """

    name: str
    settings: Mapping[str, Any]
    published: str
    released: Mapping[str, Any] | None = None
    released_rows: Mapping[str, str] = {}
    selection: str | None = None
    only: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()
    quick: bool = True

    @property
    def explains(self) -> bool:
        """Whether the row is there to show what sets others apart from the printed figures."""
        return bool(self.released is not None or self.released_rows or self.selection)

    def has(self, column: str) -> bool:
        """Whether the row has a cell in a column."""
        return column in (self.released_rows or self.only or (column,))


class Target(NamedTuple):
    """One table or figure: experiments by row and column.

    ``kind`` is ``table`` where every cell is one setting, ``curves`` where it may be several,
    ``comparison`` where what the server needs stands beside. ``measure`` is the disparity shown,
    that of the notion unless another is named. ``at_best`` adds what each approach can reach at
    best on the population of a column, ``exchanged`` what a run sends. ``claim`` is what the paper
    says of its figure, which the page holds against ours.
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
    exchanged: bool = False
    claim: str | None = None

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
        exchanged=values.get("exchanged", False),
        claim=values.get("claim"),
    )


def _line(values: Mapping[str, Any]) -> Line:
    return Line(
        name=values["name"],
        settings=values.get("settings", {}),
        published=values.get("published", values["name"]),
        released=values.get("released"),
        released_rows=values.get("released_rows", {}),
        selection=values.get("selection"),
        only=tuple(values.get("only", ())),
        quick=values.get("quick", True),
        causes=tuple(_cause(*one) for one in values.get("causes", ())),
    )


def _cause(name: str, before: str, after: str, *columns: str) -> Cause:
    return Cause(name, before, after, columns)
