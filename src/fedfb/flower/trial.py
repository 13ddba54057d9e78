"""What a study trains, as coordinator and silos build it alike: engine, algorithm and questions."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fedfb.algorithms.tasks import confusion_task
from fedfb.core import Algorithm, Arrays, ClientData, ClientTask, Examples, Key
from fedfb.data.encode import Encoder
from fedfb.data.statistics import Spread
from fedfb.errors import ConfigError
from fedfb.experiments.evaluation import confusion_table
from fedfb.experiments.explain import random_client
from fedfb.experiments.fit import build, make_engine, training_notion
from fedfb.experiments.resolve import Setting, given_grid
from fedfb.flower.study import Study, refuse_single
from fedfb.models.own import is_own
from fedfb.runtime.archive import Trained, as_arrays, from_arrays
from fedfb.shapes import Array, Float

TEST = "test"


class Trial(NamedTuple):
    """The algorithm of a study, its questions by name, and where it starts."""

    algorithm: Algorithm
    tasks: Mapping[str, ClientTask]
    start: Float[Array, "r p"]
    settings: tuple[Setting, ...]
    watch: ClientTask
    like: ClientData
    instructions: str


def make_trial(study: Study, encoder: Encoder, test: Examples | None = None) -> Trial:
    """Build what a study trains. A silo hands in its test rows, to answer how they are decided.

    ``like`` is a client of random rows: from it the coordinator, which has none, tells the shapes
    of an answer.
    """
    experiment = study.experiment
    if is_own(experiment.model):
        raise ConfigError(
            f"--model {experiment.model}: a study trains logistic or mlp. A torch model is a "
            "program, which every silo would run because a study names it."
        )
    groups, inputs = len(encoder.groups.names), len(encoder.feature_names)
    notion = training_notion(experiment, groups, len(study.silos))
    engine = make_engine(experiment, inputs)
    settings = tuple(given_grid(experiment))
    algorithm = build(experiment, engine, notion, settings)
    refuse_single(study, {task.name: task.reduce for task in algorithm.tasks})
    like = random_client(0, groups, inputs)
    like = like._replace(x=like.x.astype(experiment.precision))
    watch = confusion_task(engine)
    shown = Examples(like.x, like.y, like.group, np.zeros(len(like.y), np.int64))
    tested = decisions_task(algorithm, shown if test is None else test)
    tasks = {task.name: task for task in (*algorithm.tasks, watch, tested)}
    start = np.repeat(engine.model.init(study.seed)[None], len(settings), axis=0)
    return Trial(algorithm, tasks, start, settings, watch, like, engine.instructions)


def check_study(study: Study) -> None:
    """Refuse, before anything is written, a method that cannot be run or shows too much."""
    columns = len(study.schema.numeric)
    spread = Spread(np.zeros(columns), np.ones(columns), np.zeros(columns, np.int64))
    make_trial(study, study.schema.encoder(spread, study.experiment.sensitive_at_prediction))


def decisions_task(algorithm: Algorithm, test: Examples) -> ClientTask:
    """Ask how the final state decides a silo's test rows: by label, decision and group."""

    def run(told: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        trained = from_arrays(algorithm, told)
        with np.errstate(all="ignore"):
            predicted = algorithm.predict(trained.state, {data.id: memory}, test)
        tables = [confusion_table(one, test, data.groups) for one in predicted.decision]
        return {"confusion": np.stack(tables)}, memory

    return ClientTask(TEST, "sum", run)


def told_state(trained: Trained) -> Arrays:
    """Return the final state as it is broadcast, without what belongs to single clients."""
    return as_arrays(Trained(trained.state, {}, []))
