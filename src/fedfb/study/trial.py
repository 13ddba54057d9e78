"""What a study trains, as coordinator and silos build it alike: engine, algorithm and questions.

A silo's rows: read and checked by the study's schema, and as the model of a phase reads them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedfb.algorithms import find_method
from fedfb.algorithms.tasks import confusion_task
from fedfb.audit.rows import SiloRows
from fedfb.audit.tables import silo_answer as audit_tables
from fedfb.core import Algorithm, Arrays, ClientData, ClientTask, Examples, Key
from fedfb.data.check import labels, refuse_infinite, refuse_vast
from fedfb.data.columns import MISSING_CATEGORY, CategoryColumn, Column, NumberColumn
from fedfb.data.conform import tables_of
from fedfb.data.derive import derive
from fedfb.data.encode import Encoder
from fedfb.data.federation import hold_out_of
from fedfb.data.groups import Groups
from fedfb.data.read import read_rows
from fedfb.data.schema import Schema
from fedfb.data.table import Table
from fedfb.errors import ConfigError, DisclosureError, DivergenceError
from fedfb.experiments.explain import random_client
from fedfb.experiments.resolve import Setting, given_grid, picks_rate, trial_grid
from fedfb.experiments.scores import scores_task, without_fairness
from fedfb.experiments.secure import WIDEST
from fedfb.experiments.spec import Experiment
from fedfb.experiments.train import LOWER, build, make_engine, training_notion
from fedfb.experiments.tune import HELD_OUT
from fedfb.models.own import is_own
from fedfb.runtime.archive import Trained, as_arrays, from_arrays
from fedfb.shapes import Array, Float
from fedfb.study.mail import pack_values, unpack_values
from fedfb.study.study import Study, refuse_single

DATA, TUNE, RUN, ACHIEVABLE = "data", "tune", "run", "achievable"
"""The phases of a study: columns are summed up, a learning rate is picked, the run itself, and
where the study says so a plain model whose scores tell what fairness can be reached."""

TEST, SCORES = "test", "scores"


class Trial(NamedTuple):
    """The algorithm of a phase, its questions by name, and where it starts."""

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
    judged: Examples | None = None,
) -> Trial:
    """Build what a phase of a study trains; ``rates`` are the learning rates that were picked.

    A silo hands in the rows that a model is judged by, to answer how they are decided. ``like`` is
    a client of random rows: from it the coordinator, which has none, tells the shapes of an answer.
    """
    experiment = without_fairness(study.experiment) if phase == ACHIEVABLE else study.experiment
    if is_own(experiment.model):
        raise ConfigError(
            f"--model {experiment.model}: a study trains logistic or mlp. A torch model is a "
            "program, which every silo would run because a study names it."
        )
    groups, inputs = len(encoder.groups.names), len(encoder.feature_names)
    notion = training_notion(experiment, groups, len(study.silos))
    engine = make_engine(experiment, inputs)
    settings = _settings(experiment, phase, rates)
    algorithm = build(experiment, engine, notion, settings)
    refuse_single(study, {task.name: task.reduce for task in algorithm.tasks})
    like = random_client(0, groups, inputs)
    like = like._replace(x=like.x.astype(experiment.precision))
    watch = confusion_task(engine)
    shown = Examples(like.x, like.y, like.group, np.zeros(len(like.y), np.int64))
    more = [scores_task(engine)] if phase == ACHIEVABLE else []
    more += [watch, judging_task(algorithm, shown if judged is None else judged)]
    tasks = {task.name: task for task in (*algorithm.tasks, *more)}
    start = np.repeat(engine.model.init(study.seed)[None], len(settings), axis=0)
    return Trial(algorithm, tasks, start, settings, watch, like, engine.instructions)


def _settings(experiment: Experiment, phase: str, rates: Sequence[float]) -> tuple[Setting, ...]:
    if phase == TUNE:
        return tuple(trial_grid(experiment))
    given = given_grid(experiment)
    if phase == ACHIEVABLE:
        return tuple(given[:1])
    picked = zip(given, rates, strict=False) if rates else ()
    return tuple({**setting, "lr": rate} for setting, rate in picked) or tuple(given)


def check_study(study: Study) -> None:
    """Refuse, before anything is written, a method that cannot be run or shows too much."""
    make_trial(study, largest_encoder(study.schema, study.experiment.sensitive_at_prediction))


def largest_encoder(schema: Schema, sensitive_at_prediction: bool) -> Encoder:
    """Return an encoder by which every category and every group of a schema occurs."""
    columns: list[Column] = [
        NumberColumn(column.name, 0.0, 1.0, column.missing == "mean")
        if column.kind == "number"
        else CategoryColumn(column.name, tuple(sorted({*column.categories, MISSING_CATEGORY})))
        for column in schema.of("feature")
    ]
    groups, label = Groups(schema.crossed, schema.group_names), schema.label
    shape = (label.name, label.positive, sensitive_at_prediction, schema.derived)
    return Encoder(tuple(columns), groups, *shape)


def judging_task(algorithm: Algorithm, judged: Examples) -> ClientTask:
    """Ask how the final state decides and scores a silo's rows: the tables of an audit, by run."""

    def run(told: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        trained = from_arrays(algorithm, told)
        with np.errstate(all="ignore"):
            score, decision = algorithm.predict(trained.state, {data.id: memory}, judged)
        if not np.isfinite(score).all():
            raise DivergenceError(f"training diverged: the model's scores are not finite. {LOWER}")
        rows = [
            SiloRows(judged.y, judged.group, d.astype(np.float64), s.astype(np.float64))
            for s, d in zip(score, decision, strict=True)
        ]
        # Whether decisions are randomised is a matter of all rows: here they always may be.
        tables = [audit_tables(one, data.groups, randomised=True) for one in rows]
        return {name: np.stack([one[name] for one in tables]) for name in tables[0]}, memory

    floats = ("confusion", "score_sums", "losses")
    return ClientTask(TEST, "sum", run, bounds=dict.fromkeys(floats, WIDEST))


def told_state(trained: Trained) -> Arrays:
    """Return the final state as it is broadcast, without what belongs to single clients."""
    return as_arrays(Trained(trained.state, {}, []))


@dataclass(frozen=True)
class Prepared:
    """A silo's rows as the model of a phase reads them, and what the silo was told of it."""

    told: str
    phase: str
    encoder: Encoder
    data: ClientData
    trial: Trial


def read_table(schema: Schema, path: str | Path) -> Table:
    """Read a silo's file and refuse what does not fit the schema, as fedfb run --schema does."""
    [raw] = tables_of([read_rows(path)], None, schema)
    table = derive(raw, schema.derived)
    labels(table, schema.label.name, schema.label.positive)
    Groups(schema.crossed, schema.group_names).group_of(table)
    return table


def told_of(phase: str, encoder: Encoder, rates: tuple[float, ...] = ()) -> str:
    """Write what silos are told of a phase: how rows are encoded, and rates that were picked."""
    return pack_values({"phase": phase, "encoder": encoder.to_dict(), "rates": list(rates)})


def prepared(study: Study, id: int, train: Table, test: Table, told: str) -> Prepared:
    """Encode a silo's rows with what was learnt of all columns."""
    values = unpack_values(told)
    phase, encoder = values["phase"], Encoder.from_dict(values["encoder"])
    _refuse_other(study, phase, encoder, values)
    x, y, group = encoded(study, encoder, train)
    data = ClientData(id, x, y, group, len(encoder.groups.names))
    x, y, group = encoded(study, encoder, test)
    judged = Examples(x, y, group, np.full(len(y), id, np.int64))
    if phase == TUNE:
        data, judged = hold_out_of(data, HELD_OUT, study.seed)
    trial = make_trial(study, encoder, phase, values["rates"], judged)
    return Prepared(told, phase, encoder, data.read_only(), trial)


def encoded(study: Study, encoder: Encoder, table: Table) -> tuple[Any, Any, Any]:
    """Return features, labels and groups of rows."""
    group = encoder.groups.group_of(table)
    refuse_vast(table, encoder.columns)
    x = encoder.encode(table, group)
    refuse_infinite(x, encoder.feature_names, table)
    y = labels(table, encoder.label, encoder.positive)
    return x.astype(study.experiment.precision), y, group


def _refuse_other(study: Study, phase: str, encoder: Encoder, values: Mapping[str, Any]) -> None:
    """Refuse what does not follow from the study, to which this silo has agreed."""
    experiment = study.experiment
    if phase == ACHIEVABLE and not study.achievable:
        raise DisclosureError(
            "the coordinator asks for the spread of this silo's scores, and the study does not "
            "allow it."
        )
    rates = find_method(experiment.algorithm).learning_rates if picks_rate(experiment) else ()
    most = largest_encoder(study.schema, experiment.sensitive_at_prediction)
    categories = {c.name: set(c.categories) for c in most.columns if isinstance(c, CategoryColumn)}
    same = ("label", "positive", "sensitive_at_prediction", "derived")
    fits = (
        set(values["rates"]) <= set(rates)
        and all(getattr(encoder, name) == getattr(most, name) for name in same)
        and [column.name for column in encoder.columns] == [c.name for c in most.columns]
        and set(encoder.groups.names) <= set(most.groups.names)
        and all(
            set(column.categories) <= categories.get(column.name, set())
            for column in encoder.columns
            if isinstance(column, CategoryColumn)
        )
    )
    if not fits:
        raise ConfigError(
            "the coordinator's way to encode rows is not that of the study's schema. It runs "
            "another version, or another study: compare both."
        )
