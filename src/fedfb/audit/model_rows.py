"""Let a trained model decide on rows: the subject of an audit, from the folder of a run."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedfb.audit.result import About
from fedfb.audit.rows import (
    AuditedRows,
    Subject,
    deal_rows,
    digest,
    find_clients,
    refuse_absent,
    stack_columns,
)
from fedfb.audit.scores_file import read_decisions
from fedfb.core import Examples
from fedfb.data import RawRows, load
from fedfb.data.check import labels
from fedfb.data.derive import derive
from fedfb.data.encode import encode_cells
from fedfb.data.federation import without_steps
from fedfb.data.groups import groups_in
from fedfb.data.partition import Clients
from fedfb.data.request import BUILT_IN
from fedfb.data.schema_file import dialects_of
from fedfb.errors import ConfigError, DataError
from fedfb.experiments.run_folder import (
    ENCODER,
    EXPERIMENT,
    MODELS,
    SavedModel,
    load_model,
)
from fedfb.experiments.spec import Experiment
from fedfb.notions import labels_of, long_name
from fedfb.shapes import Array, Int
from fedfb.tables.address import SERVER, hide, is_address, read_address
from fedfb.tables.dialect import DETECT, Dialect
from fedfb.tables.read import notes_of
from fedfb.tables.read import read_files as read_tables
from fedfb.tables.sources import find_files, split_patterns
from fedfb.tables.table import Table

TEST_ROWS = "the run's own test rows"
ALL_ROWS = "all rows of the files"
TRAINED_ON = "the files are those that the model was trained on: training rows are among the rows"


class ModelChoice(NamedTuple):
    """What to audit where it differs from the run: rows, columns; and seed, setting and dialect.

    With ``trust_code`` code and servers are used that the folder of the run names.
    """

    data: str | None = None
    label: str | None = None
    positive: str | None = None
    sensitive: tuple[str, ...] = ()
    client: str | None = None
    seed: int | None = None
    setting: int = 0
    dialect: Dialect = DETECT
    trust_code: bool = False

    @property
    def names_columns(self) -> bool:
        """Whether the choice names columns, which may differ from the run's."""
        return any((self.label, self.positive, self.sensitive, self.client))


class _Rows(NamedTuple):
    """Rows as a model reads them, the client of each, and the groups that are compared."""

    examples: Examples
    clients: Clients
    group: Int[Array, " n"]
    groups: tuple[str, ...]
    attributes: tuple[str, ...]
    description: str
    notes: tuple[str, ...] = ()


def model_subject(folder: Path, choice: ModelChoice, baseline: Path | None = None) -> Subject:
    """Return the rows with a model's decisions.

    Args:
        folder: folder of the run that trained the model.
        choice: which rows, and which of the run's models.
        baseline: folder of another run on the same rows, or a file that ``fedfb predict`` wrote.

    """
    model = load_model(folder, choice.seed, choice.setting, choice.trust_code)
    rows = read_model_rows(folder, model, choice)
    score, decision = _decide(model, rows.examples)
    other = None if baseline is None else _decide_otherwise(baseline, choice, rows)
    client_rows = AuditedRows(rows.examples.y, rows.group, decision, score, other)
    experiment = model.experiment
    about = About(
        kind="model",
        name=folder.name,
        notion=long_name(experiment.notion),
        data=hide(choice.data or experiment.own_data),
        label=choice.label or model.encoder.label,
        positive=choice.positive or model.encoder.positive,
        rows="; ".join((rows.description, *rows.notes)),
        decided_by=f"{experiment.algorithm}, {experiment.model}, seed {model.fitted.seed}",
        baseline=None if baseline is None else baseline.name,
        hashes={name: digest(folder / name) for name in (MODELS, ENCODER, EXPERIMENT)},
    )
    return Subject(deal_rows(*rows.clients, client_rows), rows.groups, rows.attributes, about)


def _decide(model: SavedModel, examples: Examples) -> tuple[Array, Array]:
    """Return scores and decisions of a model on rows."""
    score, decision = model.fitted.predict(examples)
    return score[model.run].astype(np.float64), decision[model.run].astype(np.float64)


def _decide_otherwise(folder: Path, choice: ModelChoice, rows: _Rows) -> Array:
    if folder.is_file():
        if rows.description == TEST_ROWS:
            raise ConfigError(
                f"{folder} does not say which of its rows are the run's own test rows. Name the "
                "rows of this file, in its order, with --data."
            )
        return read_decisions(folder, len(rows.examples.y), choice.dialect)
    model = load_model(folder, run=choice.setting, trust_code=choice.trust_code)
    # The groups that are compared are those of the first model, whatever this one was trained with.
    baseline_rows = read_model_rows(folder, model, choice._replace(seed=None))
    if not np.array_equal(rows.examples.y, baseline_rows.examples.y):
        raise DataError(
            f"the baseline in {folder} is not about the same rows ({len(baseline_rows.examples.y)} "
            f"beside {len(rows.examples.y)}): its data, test rows or seed differ. Name rows with "
            "--data."
        )
    return _decide(model, baseline_rows.examples)[1]


def read_model_rows(folder: Path, model: SavedModel, choice: ModelChoice) -> _Rows:
    """Read the rows to audit: the run's own test rows, or all rows of other files.

    Args:
        folder: folder of the run.
        model: model that reads the rows.
        choice: names files and columns that differ from the run's.

    """
    experiment = model.experiment
    is_same = choice.data is None or _is_same(choice.data, experiment.own_data)
    if not is_same:
        return read_other_rows(model, choice, experiment, notes=())
    if not choice.names_columns:
        _refuse_rows_elsewhere(folder, experiment)
        if not choice.trust_code:
            _refuse_servers(folder, experiment, choice)
        return load_test_rows(model, experiment)
    if choice.data is None or experiment.data in BUILT_IN:
        raise ConfigError(
            "the run's own test rows are known by the columns it was trained with. To audit other "
            "columns (--label, --positive, --sensitive, --client-column) name files: --data."
        )
    return read_other_rows(model, choice, experiment, notes=(TRAINED_ON,))


def _refuse_rows_elsewhere(folder: Path, experiment: Experiment) -> None:
    if experiment.data not in BUILT_IN and not (experiment.label or experiment.schema):
        raise ConfigError(
            f"the test rows of {folder} lie with the clients of a study, whose audit came with it "
            "(audit.json, audit.html). Name files of your own to audit on: --data FILE."
        )


def _refuse_servers(folder: Path, experiment: Experiment, choice: ModelChoice) -> None:
    """Refuse to log in to a server because a folder names it, with a password of this user."""
    named = [experiment.test or "", "" if choice.data else experiment.own_data]
    for text in named:
        addresses = [part for part in split_patterns(text) if is_address(part)]
        if any(read_address(part).kind == SERVER for part in addresses):
            raise ConfigError(
                f"{folder} names a database server, {hide(text)!a}, and reading its test rows "
                "would log in there. Name the rows yourself (--data), or trust the folder: "
                "--trust-code."
            )


def _is_same(data: str, trained_on: str) -> bool:
    if data == trained_on:
        return True
    try:
        files, training_files = (
            {path.resolve() for path in find_files(text).paths} for text in (data, trained_on)
        )
    except DataError:  # the training files are elsewhere now
        return False
    return files == training_files


def load_test_rows(model: SavedModel, experiment: Experiment) -> _Rows:
    """Return the rows that the run set aside for its test, with their clients."""
    labels = labels_of(experiment.notion)
    federation = load(experiment.request, experiment.split_of(model.fitted.seed), labels=labels)
    if federation.feature_names != model.encoder.feature_names:  # --features auto chose no steps
        federation = without_steps(federation)
    test = federation.test
    clients, names = test.client, federation.client_names
    # Some test rows may belong to no client.
    if (clients < 0).any():
        clients, names = np.where(clients < 0, len(names), clients), (*names, "of no client")
    groups, columns = federation.group_names, federation.encoder.groups.columns
    return _Rows(test, Clients(clients, names), test.group, groups, columns, TEST_ROWS)


def read_other_rows(
    model: SavedModel, choice: ModelChoice, experiment: Experiment, notes: tuple[str, ...]
) -> _Rows:
    """Read files with label, groups and features. A client is a file, or a value of a column.

    Args:
        model: model that reads the rows.
        choice: names the files, and columns that differ from the run's.
        experiment: settings of the run.
        notes: sentences that belong to the description of the rows.

    """
    by_name = read_tables(choice.data or "", dialects_of(choice.dialect, experiment.schema))
    tables = [file.as_text() for file in by_name.values()]
    label, positive = choice.label or model.encoder.label, choice.positive or model.encoder.positive
    table = stack_columns(tables, (label, *choice.sensitive))
    if choice.label is None and choice.positive is None:
        rules = [rule for rule in model.encoder.derived if rule.target == label]
        table = derive(table, rules)
    y = labels(table, label, positive)
    refuse_absent(table, label, positive)
    usual = experiment.client_column
    usable = usual is not None and all(usual in file.columns for file in tables)
    clients = find_clients([*by_name], tables, choice.client or (usual if usable else None))
    read_notes = (*notes, *notes_of([*by_name.values()]))
    raw = [encode_cells(model.encoder, file, is_judged=True) for file in by_name.values()]
    parts = [_read_groups(part, model, choice, t) for part, t in zip(raw, tables, strict=True)]
    by_model = np.concatenate(parts)
    groups = groups_in(table, choice.sensitive) if choice.sensitive else model.encoder.groups
    group = groups.group_of(table) if choice.sensitive else by_model
    number = {name: place for place, name in enumerate(model.clients)}
    ids = np.array([number.get(name, -1) for name in clients.names])[clients.client]
    examples = Examples(np.concatenate([part.x for part in raw]), y, by_model, ids)
    return _Rows(examples, clients, group, groups.names, groups.columns, ALL_ROWS, read_notes)


def _read_groups(
    part: RawRows, model: SavedModel, choice: ModelChoice, table: Table
) -> Int[Array, " n"]:
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
