"""What a study trains, as coordinator and silos build it alike: engine, algorithm and questions."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedfb.algorithms.tasks import confusion_task
from fedfb.audit.rows import SiloRows
from fedfb.audit.tables import silo_answer as audit_tables
from fedfb.core import Algorithm, Arrays, ClientData, ClientTask, Examples, Key
from fedfb.data.columns import MISSING_CATEGORY, CategoryColumn, Column, NumberColumn
from fedfb.data.encode import Encoder
from fedfb.data.groups import Groups
from fedfb.data.schema import Schema
from fedfb.errors import ConfigError, DivergenceError
from fedfb.experiments.explain import random_client
from fedfb.experiments.fit import LOWER, build, make_engine, training_notion
from fedfb.experiments.resolve import Setting, given_grid, trial_grid
from fedfb.experiments.scores import scores_task, without_fairness
from fedfb.experiments.secure import WIDEST
from fedfb.experiments.spec import Experiment
from fedfb.flower.study import Study, refuse_single
from fedfb.models.own import is_own
from fedfb.runtime.archive import Trained, as_arrays, from_arrays
from fedfb.shapes import Array, Float

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
