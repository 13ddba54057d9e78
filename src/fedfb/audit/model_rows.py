"""A model of ours, from the folder of its run, as the subject of an audit."""

import glob
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedfb.audit.rows import (
    SiloRows,
    Subject,
    as_text,
    deal,
    digest,
    owner_of,
    refuse_absent,
    under_each_other,
)
from fedfb.audit.scores_file import decisions_in
from fedfb.core import Examples
from fedfb.data import RawRows, encode_file, load
from fedfb.data.check import labels
from fedfb.data.derive import derive
from fedfb.data.groups import groups_in
from fedfb.data.partition import Clients
from fedfb.data.read import paths_of, read_rows
from fedfb.data.request import BUILT_IN
from fedfb.data.table import Table
from fedfb.errors import ConfigError, DataError
from fedfb.experiments.resolve import resolve
from fedfb.experiments.run_folder import (
    ENCODER,
    EXPERIMENT,
    MODELS,
    SavedModel,
    load_model,
    read_experiment,
)
from fedfb.experiments.spec import Experiment
from fedfb.notions import long_name
from fedfb.shapes import Array, Int

TEST_ROWS = "the run's own test rows"
ALL_ROWS = "all rows of the files"
TRAINED_ON = "the files are those that the model was trained on: training rows are among the rows"


class Choice(NamedTuple):
    """Which rows to audit, where not as the run has it; seed and setting of the model."""

    data: str | None = None
    label: str | None = None
    positive: str | None = None
    sensitive: tuple[str, ...] = ()
    silo: str | None = None
    seed: int | None = None
    setting: int = 0

    @property
    def own_columns(self) -> bool:
        """Whether other columns than the run's are asked for."""
        return any((self.label, self.positive, self.sensitive, self.silo))


class Rows(NamedTuple):
    """Rows as a model reads them, the silo of each, and the groups that are compared."""

    examples: Examples
    owner: Clients
    group: Int[Array, " n"]
    groups: tuple[str, ...]
    attributes: tuple[str, ...]
    said: str
    notes: tuple[str, ...] = ()


def model_subject(folder: Path, choice: Choice, baseline: Path | None = None) -> Subject:
    """Let a model decide; a baseline is another run's folder, of a model for the same rows."""
    model = load_model(folder, choice.seed, choice.setting)
    rows = read_model_rows(folder, model, choice)
    score, decision = decide(model, rows.examples)
    other = None if baseline is None else _other_decisions(baseline, choice, rows)
    silo_rows = SiloRows(rows.examples.y, rows.group, decision, score, other)
    experiment = _experiment(folder)
    about = {
        "kind": "model",
        "name": folder.name,
        "notion": long_name(experiment.notion),
        "data": choice.data or experiment.data,
        "label": choice.label or model.encoder.label,
        "positive": choice.positive or model.encoder.positive,
        "rows": "; ".join((rows.said, *rows.notes)),
        "decided_by": f"{experiment.algorithm}, {experiment.model}, seed {model.fitted.seed}",
        "baseline": None if baseline is None else baseline.name,
        "hashes": {name: digest(folder / name) for name in (MODELS, ENCODER, EXPERIMENT)},
    }
    return Subject(deal(*rows.owner, silo_rows), rows.groups, rows.attributes, about)


def _experiment(folder: Path) -> Experiment:
    return resolve(read_experiment(folder))


def decide(model: SavedModel, examples: Examples) -> tuple[Array, Array]:
    """Return scores and decisions of the model's setting."""
    score, decision = model.fitted.predict(examples)
    return score[model.run].astype(np.float64), decision[model.run].astype(np.float64)


def _other_decisions(folder: Path, choice: Choice, rows: Rows) -> Array:
    if folder.is_file():
        if rows.said == TEST_ROWS:
            raise ConfigError(
                f"{folder} cannot tell which of its rows are the run's own test rows. Name the "
                "rows that it is about, in its order, with --data."
            )
        return decisions_in(folder, len(rows.examples.y))
    model = load_model(folder, run=choice.setting)
    # The groups that are compared are those of the first model, whatever this one was trained with.
    theirs = read_model_rows(folder, model, choice._replace(seed=None))
    if not np.array_equal(rows.examples.y, theirs.examples.y):
        raise DataError(
            f"the baseline in {folder} is not about the same rows ({len(theirs.examples.y)} beside "
            f"{len(rows.examples.y)}): its data, test rows or seed differ. Name rows with --data."
        )
    return decide(model, theirs.examples)[1]


def read_model_rows(folder: Path, model: SavedModel, choice: Choice) -> Rows:
    """Read the rows to audit: the run's own test rows, or all rows of other files."""
    experiment = _experiment(folder)
    same = choice.data is None or _is_same(choice.data, experiment.data)
    if not same:
        return read_files(model, choice, experiment, notes=())
    if not choice.own_columns:
        _refuse_rows_elsewhere(folder, experiment)
        return own_test_rows(model, experiment)
    if choice.data is None or experiment.data in BUILT_IN:
        raise ConfigError(
            "the run's own test rows are known by the columns it was trained with. To audit other "
            "columns (--label, --positive, --sensitive, --client-column) name files: --data."
        )
    return read_files(model, choice, experiment, notes=(TRAINED_ON,))


def _refuse_rows_elsewhere(folder: Path, experiment: Experiment) -> None:
    if experiment.data not in BUILT_IN and not (experiment.label or experiment.schema):
        raise ConfigError(
            f"the test rows of {folder} lie with the silos of a study, whose audit came with it "
            "(audit.json, audit.html). Name files of your own to audit on: --data FILE."
        )


def _is_same(data: str, trained_on: str) -> bool:
    if data == trained_on:
        return True
    these, those = (
        {Path(path).resolve() for path in glob.glob(text, recursive=True)}
        for text in (data, trained_on)
    )
    return bool(these) and these == those


def own_test_rows(model: SavedModel, experiment: Experiment) -> Rows:
    """Return the rows that the run set aside, with their silos."""
    federation = load(experiment.request, experiment.split_of(model.fitted.seed))
    test = federation.test
    owner, names = test.client, federation.client_names
    if (owner < 0).any():
        owner, names = np.where(owner < 0, len(names), owner), (*names, "of no silo")
    groups, columns = federation.group_names, federation.encoder.groups.columns
    return Rows(test, Clients(owner, names), test.group, groups, columns, TEST_ROWS)


def read_files(
    model: SavedModel, choice: Choice, experiment: Experiment, notes: tuple[str, ...]
) -> Rows:
    """Read files with label, groups and features; a silo is a file, or a value of a column."""
    paths = paths_of(choice.data or "")
    tables = [as_text(read_rows(path)) for path in paths]
    label, positive = choice.label or model.encoder.label, choice.positive or model.encoder.positive
    table = under_each_other(tables, (label, *choice.sensitive))
    if choice.label is None and choice.positive is None:
        rules = [rule for rule in model.encoder.derived if rule.target == label]
        table = derive(table, rules)
    y = labels(table, label, positive)
    refuse_absent(table, label, positive)
    usual = experiment.client_column
    known = usual is not None and all(usual in one.columns for one in tables)
    owner = owner_of(paths, tables, choice.silo or (usual if known else None))
    raw = [encode_file(model.encoder, path) for path in paths]
    parts = [_group(part, model, choice, t) for part, t in zip(raw, tables, strict=True)]
    by_model = np.concatenate(parts)
    groups = groups_in(table, choice.sensitive) if choice.sensitive else model.encoder.groups
    group = groups.group_of(table) if choice.sensitive else by_model
    number = {name: place for place, name in enumerate(model.clients)}
    ids = np.array([number.get(name, -1) for name in owner.names])[owner.client]
    examples = Examples(np.concatenate([part.x for part in raw]), y, by_model, ids)
    return Rows(examples, owner, group, groups.names, groups.columns, ALL_ROWS, notes)


def _group(part: RawRows, model: SavedModel, choice: Choice, table: Table) -> Int[Array, " n"]:
    """Return the groups that the model was trained with, as far as it or the audit needs them."""
    if part.group is not None:
        return part.group
    if not choice.sensitive:
        raise DataError(
            f"{table.source} has no column "
            f"{' or '.join(map(repr, model.encoder.groups.columns))}, so its groups are not known. "
            "Add it, or name other columns with --sensitive."
        )
    return np.zeros(len(part.x), np.int64)
