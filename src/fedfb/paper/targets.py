"""The paper's tables and figures as experiments, and the figures that the paper printed.

Each target is a file ``tables/NAME.toml``. The printed figures stand in ``tables/published.toml``,
by the label of the table.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec

from fedfb.algorithms import find_method
from fedfb.data.request import DRAWN, SEVERAL_ATTRIBUTES
from fedfb.errors import ConfigError, unknown_name
from fedfb.experiments.compare import Cause
from fedfb.experiments.effect import forms_that_read
from fedfb.experiments.resolve import outer_rule, picks_rate, resolve
from fedfb.experiments.result import Printed
from fedfb.experiments.seed_result import Statistic
from fedfb.experiments.spec import Experiment
from fedfb.experiments.spec_file import from_values
from fedfb.notions import long_name
from fedfb.report.numbers import spread

FOLDER = "tables"
SEEDS, QUICK_SEEDS = (0, 1, 2, 3, 4), (0,)


class TargetLine(NamedTuple):
    """A row or a column of a table.

    Attributes:
        name: as shown.
        settings: of the experiment.
        published: the name of the row or column in the printed table.
        released: if not None the row follows the authors' code: method, flags, and for each column
            the data, learning rate and alpha that gave the printed digits.
        released_rows: by column, the rows of the authors' code on which our method is trained.
        selection: a name of ``SELECTIONS`` if the row's grid is reported as the authors did.
        only: the columns that a row has; empty for all.
        causes: what may separate the row from the printed one.
        quick: False if a quick reproduction leaves the column out.
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

    Attributes:
        name: of the file.
        title: as shown.
        kind: ``table`` if every cell is one setting, ``curves`` if it may be several,
            ``comparison`` if what the server needs is shown as well.
        label: of the paper's table.
        rows: one for each method.
        columns: one for each data set.
        settings: common to all cells.
        measure: the disparity shown; by default that of the notion.
        at_best: whether to add what each approach can reach at best on the population of a column.
        exchanged: whether to show what a run sends.
        claim: what the paper says about the figure; the page compares it with our results.
    """

    name: str
    title: str
    kind: str
    label: str | None
    rows: tuple[TargetLine, ...]
    columns: tuple[TargetLine, ...]
    settings: Mapping[str, Any]
    measure: str | None = None
    at_best: bool = False
    exchanged: bool = False
    claim: str | None = None

    def experiment(self, row: TargetLine, column: TargetLine, quick: bool) -> Experiment:
        """Return the experiment of a cell.

        Args:
            row: the method.
            column: the data.
            quick: one seed, nothing tuned.
        """
        seeds = list(QUICK_SEEDS if quick else SEEDS)
        values = {**self.settings, **column.settings, **row.settings}
        # The clients of the paper train locally.
        if forms_that_read(find_method(values["algorithm"]), "solver") is not None:
            values = {"solver": "local", **values}
        experiment = from_values({"seeds": ",".join(map(str, seeds)) + ",", **values})
        experiment = replace(experiment, tune=False) if quick else experiment
        method = find_method(experiment.algorithm)
        if picks_rate(experiment) and outer_rule(experiment, method) != "solve":
            # A rate that the paper's rows do not tune is the method's usual one.
            return replace(experiment, lr=(method.learning_rate,))
        return experiment


def target_names() -> list[str]:
    """Return the names of all targets, tables first."""
    paths = files("fedfb.paper").joinpath(FOLDER).iterdir()
    stems = [path.name.removesuffix(".toml") for path in paths if path.name.endswith(".toml")]
    return sorted((n for n in stems if n != "published"), key=lambda n: (n[0] != "t", n))


def read_target(name: str) -> Target:
    """Read one table or figure.

    >>> read_target("table2").label
    'tab:dp_dh'
    """
    if name not in target_names():
        raise ConfigError(unknown_name("target", name, [*target_names(), "all"]))
    text = files("fedfb.paper").joinpath(f"{FOLDER}/{name}.toml").read_text(encoding="utf-8")
    values = tomllib.loads(text)
    return Target(
        name=name,
        title=values["title"],
        kind=values["kind"],
        label=values.get("published"),
        rows=tuple(_line(line) for line in values["row"]),
        columns=tuple(_line(line) for line in values["column"]),
        settings=values["settings"],
        measure=values.get("measure"),
        at_best=values.get("at_best", False),
        exchanged=values.get("exchanged", False),
        claim=values.get("claim"),
    )


def _line(values: Mapping[str, Any]) -> TargetLine:
    return TargetLine(
        name=values["name"],
        settings=values.get("settings", {}),
        published=values.get("published", values["name"]),
        released=values.get("released"),
        released_rows=values.get("released_rows", {}),
        selection=values.get("selection"),
        only=tuple(values.get("only", ())),
        quick=values.get("quick", True),
        causes=tuple(_cause(*cause) for cause in values.get("causes", ())),
    )


def _cause(name: str, before: str, after: str, *columns: str) -> Cause:
    return Cause(name, before, after, columns)


TABLES = {"mlp": "tab:dp_mlp", "logistic": "tab:dp_lg"}

OURS_TO_CHOOSE = (
    *("data", "model", "algorithm", "outer", "alpha", "knobs", "lr", "seeds", "tune"),
    *(
        "accuracy_floor",
        "solver",
        "scaling",
        "signal_loss",
        "normalise",
        "decay",
        "timing",
        "reference",
    ),
    *("bits_mode", "rounding", "secure", "precision", "engine", "leave_out_clients"),
)
"""Settings that no figure depends on by itself: which cell is meant, and how a method gets there.

In all others an experiment must agree with the paper. A setting that is not listed counts.
"""


def published(experiment: Experiment) -> Printed | None:
    """Return the paper's figures for an experiment; None if it has none.

    Only the paper's setting counts: its data, groups, clients, split and models, demographic
    parity, the group given to the model, its rounds, epochs and batches, every client in every
    round, no noise, and the target 0. The split is the one of the printed figures: the files as
    published, not drawn anew.
    """
    figures = printed(TABLES.get(experiment.model), experiment.algorithm, experiment.data)
    if figures is None or _spell_out(experiment) != _spell_out(_in_papers_setting(experiment)):
        return None
    return msgspec.convert(figures, Printed)


def _in_papers_setting(experiment: Experiment) -> Experiment:
    """Return the experiment in the paper's setting; the fields of OURS_TO_CHOOSE stay."""
    return Experiment(
        **{name: getattr(experiment, name) for name in OURS_TO_CHOOSE},
        notion="demographic_parity",
        partition="paper",
        groups=2,
        heterogeneity="medium",
        resplit=False,
        sensitive_at_prediction=True,
        hidden=(4,),
        participation=1.0,
        dropout=0.0,
        local_epochs=30,
        batch=128,
        optimiser="adam",
        weight_decay=0.0,
        period=1,
        bits=None,
        privacy_epsilon=None,
    )


def _spell_out(experiment: Experiment) -> Experiment:
    """Fill in the fields that an experiment leaves open, so that equal settings are equal."""
    from fedfb.data.datasets.synthetic import ROWS

    spelt = resolve(experiment)
    spelt = replace(spelt, notion=long_name(spelt.notion))
    if spelt.data == "synthetic":
        clients = spelt.clients or 3
        train, test = ROWS[clients]
        rows, test_rows = spelt.rows or train, spelt.test_rows or test
        spelt = replace(spelt, clients=clients, rows=rows, test_rows=test_rows)
    if spelt.data not in DRAWN and spelt.split_seed is None:
        spelt = replace(spelt, split_seed=spelt.split_of(0))
    if spelt.data in SEVERAL_ATTRIBUTES:
        usual = import_module(f"fedfb.data.datasets.{spelt.data}").ATTRIBUTES[0]
        spelt = replace(spelt, sensitive=tuple(sorted(spelt.sensitive or usual)))
    return spelt


def spread_of(values: Mapping[str, Any]) -> str:
    """Return mean and spread of a statistic that is plain JSON.

    >>> spread_of({"mean": 0.725, "std": 0.012})
    '.725 ± .012'
    """
    return spread(msgspec.convert(values, Statistic))


def printed(label: str | None, row: str, column: str) -> dict[str, Any] | None:
    """Return what a table of the paper has in a cell; None if it has nothing.

    Args:
        label: of the table.
        row: as the printed table names it.
        column: as the printed table names it.

    >>> printed("tab:dp_dh", "fedfb", "high")["disparity"]
    {'mean': 0.013, 'std': 0.008}
    """
    numbers = _tables().get(label or "", {}).get(row, {}).get(column)
    if numbers is None:
        return None
    # One table prints no spreads.
    numbers = numbers if len(numbers) == 4 else (numbers[0], None, numbers[1], None)
    accuracy, accuracy_std, disparity, disparity_std = numbers
    return {
        "table": label,
        "accuracy": {"mean": accuracy, "std": accuracy_std},
        "disparity": {"mean": disparity, "std": disparity_std},
    }


@cache
def _tables() -> dict[str, Any]:
    text = files("fedfb.paper").joinpath(f"{FOLDER}/published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
