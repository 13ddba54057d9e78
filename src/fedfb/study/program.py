"""A study as one program over exchanges, which the server and every client run alike.

Phases: statistics of columns, choice of a learning rate, training, evaluation on test rows, and, if
the study says so, what fairness a plain model could reach. The program is deterministic: from the
study and the totals so far follow the next task and its broadcast, on every side. A client
therefore answers its own program, and nothing that a server asks.
"""

from collections.abc import Callable, Sequence
from itertools import count
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from fedfb.core import Arrays, Ask, ClientData, ClientTask, Examples, Task
from fedfb.data.encode import Encoder
from fedfb.data.federation import hold_out_of
from fedfb.data.fit_columns import ROWS, columns_by, groups_by, make_column_upload, no_rows
from fedfb.errors import ConfigError
from fedfb.experiments.evaluate import evaluate_counts
from fedfb.experiments.resolve import picks_rate
from fedfb.experiments.secure import column_question
from fedfb.experiments.tune import HELD_OUT, Choice, candidates, pick
from fedfb.notions import long_name
from fedfb.runtime import Trained
from fedfb.runtime.local import refuse_non_finite
from fedfb.runtime.loop import SETUP, Progress, run_rounds
from fedfb.shapes import Array, Int
from fedfb.study.exchange import Answer, Planned
from fedfb.study.results import FinishedRun, describe_runs
from fedfb.study.study import Study
from fedfb.study.trial import (
    ACHIEVABLE,
    DATA,
    RUN,
    SCORES,
    TEST,
    TUNE,
    Rows,
    Trial,
    encode_rows,
    make_broadcast_state,
    make_trial,
)


@runtime_checkable  # so that annotated shapes can be checked
class Carrier(Protocol):
    """What brings an exchange to its total: the server's part, or a client's."""

    def carry(self, planned: Planned) -> Arrays:
        """Return the total of an exchange, as the algorithm receives it."""


class FinishedStudy(NamedTuple):
    """What every side has after a study: the run, and score counts if the study collects them."""

    run: FinishedRun
    scores: Arrays | None


OnRound = Callable[[str, Progress], None]
"""Is called with the phase after each round."""

AFTER_ROUNDS = 2
"""What follows training has this number after the last round; 1 is for what a method finishes."""


class Program:
    """The study's program on one side.

    Args:
        study: the study.
        carrier: brings exchanges to their totals.
        rows: the rows of a client, with its id; None at the server.
        on_round: see ``OnRound``.
    """

    def __init__(
        self,
        study: Study,
        carrier: Carrier,
        rows: Rows | None = None,
        on_round: OnRound = lambda phase, progress: None,
    ) -> None:
        self._study, self._carrier, self._rows = study, carrier, rows
        self._on_round, self._numbers = on_round, count()

    def run(self) -> FinishedStudy:
        """Run the study to its end."""
        study = self._study
        encoder, rows = self._fit_encoder()
        choice = None
        if picks_rate(study.experiment):
            tuning = self._start(TUNE, encoder)
            trained = self._train(tuning, TUNE)
            tables = self._evaluate(tuning, TUNE, trained)
            choice = choose_rate(study, tuning.trial, trained, tables)
        training = self._start(RUN, encoder, choice.rates if choice else ())
        trained = self._train(training, RUN)
        tables = self._evaluate(training, RUN, trained)
        scores = None
        if study.terms.achievable:
            plain = self._start(ACHIEVABLE, encoder)
            params = np.asarray(plain.trial.algorithm.params(self._train(plain, ACHIEVABLE).state))
            ask = self._make_ask(ACHIEVABLE, self._rounds + AFTER_ROUNDS, plain, everybody=True)
            scores = ask(plain.trial.tasks[SCORES], {"params": params})
        return FinishedStudy(
            FinishedRun(encoder, training.trial, trained, rows, tables, choice), scores
        )

    @property
    def _rounds(self) -> int:
        return self._study.experiment.rounds or 1

    def _exchange(
        self,
        phase: str,
        place: tuple[int, int],
        task: Task,
        broadcast: Arrays,
        like: Arrays,
        drawn: tuple[int, ...],
        answer: Answer | None,
    ) -> Arrays:
        planned = Planned(next(self._numbers), phase, *place, task, broadcast, like, drawn, answer)
        return self._carrier.carry(planned)

    def _fit_encoder(self) -> tuple[Encoder, Int[Array, "2 a"]]:
        """Return how rows are encoded, from sums over the clients; also rows by label and group."""
        study, schema, numbers = self._study, self._study.schema, count()
        empty, everybody = no_rows(schema), study.draw(SETUP, everybody=True)
        rows = self._rows

        def ask(task: str, broadcast: Arrays) -> Arrays:
            def answer(broadcast: Arrays, memory: Arrays | None) -> tuple[Arrays, Arrays]:
                assert rows is not None
                return make_column_upload(task, broadcast, rows.train, schema), {}

            like = make_column_upload(task, broadcast, empty, schema)
            place = (SETUP, next(numbers))
            question = column_question(task, like)
            return self._exchange(
                DATA, place, question, broadcast, like, everybody, answer if rows else None
            )

        counts = ask(ROWS, {})["rows"]
        groups = groups_by(schema, counts)
        by_name = columns_by(schema, ask)
        columns = tuple(by_name[column.name] for column in schema.of("feature"))
        shape = (schema.label.name, schema.label.positive)
        with_group = study.experiment.sensitive_at_prediction
        return Encoder(columns, groups, *shape, with_group, schema.derived), counts

    def _start(self, phase: str, encoder: Encoder, rates: Sequence[float] = ()) -> "_Training":
        """Prepare a phase in which something is trained; of a client also its rows."""
        study, rows = self._study, self._rows
        if rows is None:
            return _Training(make_trial(study, encoder, phase, rates), None)
        x, y, group = encode_rows(study, encoder, rows.train)
        data = ClientData(rows.id, x, y, group, len(encoder.groups.names))
        x, y, group = encode_rows(study, encoder, rows.test)
        evaluated = Examples(x, y, group, np.full(len(y), rows.id, np.int64))
        if phase == TUNE:
            data, evaluated = hold_out_of(data, HELD_OUT, study.seed)
        return _Training(make_trial(study, encoder, phase, rates, evaluated), data.read_only())

    def _make_ask(
        self, phase: str, round: int, training: "_Training", everybody: bool = False
    ) -> Ask:
        """Return the function that exchanges the tasks of one round."""
        study, (trial, data), numbers = self._study, training, count()
        drawn = study.draw(round, everybody)

        def ask(task: ClientTask, broadcast: Arrays) -> Arrays:
            number = next(numbers)
            initial = trial.algorithm.memory(trial.start)
            client_task = trial.tasks[task.name]
            with np.errstate(all="ignore"):
                key = (study.seed, 0, 0, trial.like.id)
                like, _ = client_task.run(broadcast, trial.like, initial, key)

            def answer(broadcast: Arrays, memory: Arrays | None) -> tuple[Arrays, Arrays]:
                assert data is not None
                key = (study.seed, round, number, data.id)
                before = initial if memory is None else memory
                with np.errstate(all="ignore"):
                    upload, after = client_task.run(broadcast, data, before, key)
                refuse_non_finite({data.id: upload}, {data.id: after}, round, len(trial.start))
                return upload, after

            place = (round, number)
            client = None if data is None else answer
            return self._exchange(phase, place, client_task, broadcast, like, drawn, client)

        return ask

    def _train(self, training: "_Training", phase: str) -> Trained:
        """Run the rounds of a phase."""
        return run_rounds(
            training.trial.algorithm,
            training.trial.start,
            lambda number: self._make_ask(phase, number, training, everybody=number > self._rounds),
            {},
            seed=self._study.seed,
            rounds=self._rounds,
            watch=training.trial.watch if phase == RUN else None,
            on_round=lambda progress: self._on_round(phase, progress),
        )

    def _evaluate(self, training: "_Training", phase: str, trained: Trained) -> Arrays:
        """Return the tables of an audit of the final state, on rows that were set aside."""
        ask = self._make_ask(phase, self._rounds + AFTER_ROUNDS, training, everybody=True)
        return ask(training.trial.tasks[TEST], make_broadcast_state(trained))


class _Training(NamedTuple):
    """A phase in which something is trained, and a client's rows in it."""

    trial: Trial
    data: ClientData | None


def choose_rate(study: Study, trial: Trial, trained: Trained, tables: Arrays) -> Choice:
    """Choose a learning rate by sums over the clients' validation rows."""
    confusion, losses = tables["confusion"], tables["losses"]
    rows = round(float(confusion[0].sum()))
    if not rows:
        raise ConfigError(
            f"a learning rate is chosen on {HELD_OUT:.0%} of every client's rows, and no client "
            "has enough rows. Add rows, or give the rate (fedfb study init --lr)."
        )
    groups = [str(number) for number in range(confusion.shape[-1])]
    evaluations = evaluate_counts(confusion, None, groups, minimum=1)
    mean_losses = [float(run_losses[0].sum() / rows) for run_losses in losses]
    distances = [run.get("off_target", 0.0) for run in describe_runs(trial, trained)]
    notion = long_name(study.experiment.notion)
    options = candidates(trial.settings, [evaluations], [mean_losses], [distances], notion)
    return pick(options, rows)
