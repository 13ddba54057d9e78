"""What a phase of a study trains, the same on the server and the clients: algorithm and tasks.

For a client also its rows: read and checked by the study's schema, and encoded for the model.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedfb.algorithms.tasks import confusion_task
from fedfb.audit.rows import AuditedRows
from fedfb.audit.rows import make_table_upload as audit_tables
from fedfb.core import Algorithm, Arrays, ClientData, ClientTask, Examples, Key
from fedfb.data.check import labels, refuse_infinite, refuse_vast
from fedfb.data.columns import MISSING_CATEGORY, CategoryColumn, Column, NumberColumn
from fedfb.data.conform import check_file, drop_notes, tables_of
from fedfb.data.derive import derive
from fedfb.data.encode import Encoder
from fedfb.data.groups import Groups
from fedfb.data.partition import split_client
from fedfb.data.schema import Schema
from fedfb.data.statistics import STEP_SHARES
from fedfb.errors import DataError, DivergenceError
from fedfb.experiments.explain import random_client
from fedfb.experiments.resolve import given_grid, resolve, trial_grid
from fedfb.experiments.rule import scores_task, withheld, without_fairness
from fedfb.experiments.secure import WIDEST_SUM
from fedfb.experiments.seed_result import Setting
from fedfb.experiments.spec import Experiment
from fedfb.experiments.train import LOWER, build, make_engine, start_params, training_notion
from fedfb.runtime.archive import Trained, as_arrays, from_arrays
from fedfb.shapes import Array, Float
from fedfb.study.study import Study, refuse_single
from fedfb.tables.address import find_source
from fedfb.tables.dialect import DETECT, Dialect, Dialects
from fedfb.tables.problems import refuse
from fedfb.tables.read import read_rows
from fedfb.tables.table import Table, concat

DATA, TUNE, RUN, ACHIEVABLE = "data", "tune", "run", "achievable"
"""The phases of a study: statistics of columns, choice of a learning rate, the run itself, and, if
the study says so, a plain model whose scores show what fairness can be reached."""

TEST, SCORES = "test", "scores"


class Trial(NamedTuple):
    """The algorithm of a phase, its tasks by name, and its initial parameters.

    ``like`` is a client with random rows: the server has no rows, and learns from it the shapes of
    an upload.
    """

    algorithm: Algorithm
    tasks: Mapping[str, ClientTask]
    start: Float[Array, "r p"]
    settings: tuple[Setting, ...]
    watch: ClientTask
    like: ClientData
    instructions: str


def make_trial(
    study: Study,
    encoder: Encoder,
    phase: str = RUN,
    rates: Sequence[float] = (),
    evaluated: Examples | None = None,
) -> Trial:
    """Build what a phase of a study trains.

    Args:
        study: the study.
        encoder: how rows are encoded.
        phase: the name of the phase.
        rates: the learning rates that were chosen, one for each setting.
        evaluated: the rows on which a client evaluates the final state; None on the server.
    """
    experiment = (
        without_fairness(study.experiment) if phase == ACHIEVABLE else resolve(study.experiment)
    )
    groups, inputs = len(encoder.groups.names), len(encoder.feature_names)
    notion = training_notion(experiment, groups, len(study.clients))
    engine = make_engine(experiment, inputs)
    settings = _list_settings(experiment, phase, rates)
    algorithm = build(experiment, engine, notion, settings)
    refuse_single(study, {task.name: task.reduce for task in algorithm.tasks})
    like = random_client(0, groups, inputs)
    like = like._replace(x=like.x.astype(experiment.precision))
    watch = confusion_task(engine)
    example = Examples(like.x, like.y, like.group, np.zeros(len(like.y), np.int64))
    extra_tasks = [_withhold_few(scores_task(engine))] if phase == ACHIEVABLE else []
    extra_tasks += [
        watch,
        make_evaluation_task(algorithm, example if evaluated is None else evaluated),
    ]
    tasks = {task.name: task for task in (*algorithm.tasks, *extra_tasks)}
    start = start_params(experiment, engine, study.seed, len(settings))
    return Trial(algorithm, tasks, start, settings, watch, like, engine.instructions)


def _withhold_few(task: ClientTask) -> ClientTask:
    """Return a task whose upload is zeros at a client with too few rows of a group."""

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        upload, after = task.run(broadcast, data, memory, key)
        return withheld(upload), after

    return task._replace(run=run)


def _list_settings(
    experiment: Experiment, phase: str, rates: Sequence[float]
) -> tuple[Setting, ...]:
    if phase == TUNE:
        return tuple(trial_grid(experiment))
    grid = given_grid(experiment)
    if phase == ACHIEVABLE:
        return tuple(grid[:1])
    pairs = zip(grid, rates, strict=False) if rates else ()
    return tuple({**setting, "lr": rate} for setting, rate in pairs) or tuple(grid)


def check_study(study: Study) -> None:
    """Refuse a method that cannot be run or reveals too much, before anything is written."""
    make_trial(study, make_largest_encoder(study.schema, study.experiment.sensitive_at_prediction))


def make_largest_encoder(schema: Schema, sensitive_at_prediction: bool) -> Encoder:
    """Return an encoder in which every category and every group of a schema occurs."""
    steps = STEP_SHARES if schema.steps else ()
    columns: list[Column] = [
        NumberColumn(column.name, 0.0, 1.0, column.missing == "mean", steps=steps)
        if column.is_number
        else CategoryColumn(column.name, tuple(sorted({*column.categories, MISSING_CATEGORY})))
        for column in schema.of("feature")
    ]
    groups, label = Groups(schema.crossed, schema.group_names), schema.label
    shape = (label.name, label.positive, sensitive_at_prediction, schema.derived)
    return Encoder(tuple(columns), groups, *shape)


def make_evaluation_task(algorithm: Algorithm, rows: Examples) -> ClientTask:
    """Return the task that evaluates the final state on rows: the tables of an audit, by run."""

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        trained = from_arrays(algorithm, broadcast)
        with np.errstate(all="ignore"):
            score, decision = algorithm.predict(trained.state, {data.id: memory}, rows)
        if not np.isfinite(score).all():
            raise DivergenceError(f"training diverged: the model's scores are not finite. {LOWER}")
        decided = [
            AuditedRows(rows.y, rows.group, d.astype(np.float64), s.astype(np.float64))
            for s, d in zip(score, decision, strict=True)
        ]
        # Only all rows together show whether decisions are randomised: assume that they may be.
        tables = [audit_tables(run_rows, data.groups, randomised=True) for run_rows in decided]
        return {name: np.stack([table[name] for table in tables]) for name in tables[0]}, memory

    floats = ("confusion", "score_sums", "losses")
    return ClientTask(TEST, "sum", run, bounds=dict.fromkeys(floats, WIDEST_SUM))


def make_broadcast_state(trained: Trained) -> Arrays:
    """Return the final state as it is broadcast, without the memories of clients."""
    return as_arrays(Trained(trained.state, {}, []))


class Rows(NamedTuple):
    """The rows of a client, to train and to test on, and its id. ``notes`` are about its file."""

    id: int
    train: Table
    test: Table
    notes: tuple[str, ...] = ()


def join_tables(rows: Rows) -> Table:
    """Return all rows of a client, those to train on first."""
    return concat([rows.train, rows.test])


def open_rows(study: Study, id: int, path: str | Path, dialect: Dialect = DETECT) -> Rows:
    """Read the rows of a client, refuse rows that do not fit the study, and split them 7:3.

    All that depends on rows is checked here, before the client joins: whoever leaves a study later
    tells something about its rows by leaving.

    Args:
        study: the study.
        id: the client.
        path: a CSV or Parquet file, or the address of a database.
        dialect: how a text file is written, where it is not detected.
    """
    table, notes = read_table(study.schema, path, dialect)
    if len(table) < 2:
        raise DataError(f"{path} has {len(table)} rows, and at least 2 are needed. Add rows.")
    if len(table) > study.terms.rows:
        raise DataError(
            f"{path} has {len(table)} rows, and a client of this study has at most "
            f"{study.terms.rows}. Make a new study with a larger number: fedfb study init --rows."
        )
    schema = study.schema
    group = Groups(schema.crossed, schema.group_names).group_of(table)
    refuse_vast(table, make_largest_encoder(schema, False).columns)
    train, test = split_client(group, id, study.split)
    return Rows(id, table.take(train), table.take(test), notes)


def read_table(
    schema: Schema, path: str | Path, dialect: Dialect = DETECT
) -> tuple[Table, tuple[str, ...]]:
    """Read a client's rows, and notes about them; refuse rows that do not fit the schema."""
    source = find_source(path)
    cells = read_rows(source, Dialects(dialect, schema.files).of(source))
    refuse(check_file(cells, schema), [cells])
    [raw] = tables_of([cells], schema)
    table = derive(raw, schema.derived)
    labels(table, schema.label.name, schema.label.positive)
    Groups(schema.crossed, schema.group_names).group_of(table)
    return table, (*cells.notes, *drop_notes([cells], schema))


def encode_rows(study: Study, encoder: Encoder, table: Table) -> tuple[Any, Any, Any]:
    """Return features, labels and groups of rows."""
    group = encoder.groups.group_of(table)
    refuse_vast(table, encoder.columns)
    x = encoder.encode(table, group)
    refuse_infinite(x, encoder.feature_names, table)
    y = labels(table, encoder.label, encoder.positive)
    return x.astype(study.experiment.precision), y, group
