"""The server's side of a study, from its first client to its report.

The phases: statistics of columns, choice of a learning rate, training, evaluation on test rows, and
the result to all clients.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec import structs

from fedfb.audit.model_rows import TEST_ROWS
from fedfb.audit.record import audit_of_sum
from fedfb.audit.result import About, encode_audit
from fedfb.audit.rows import digest, read_tables
from fedfb.core import Arrays, Task
from fedfb.data.encode import Encoder
from fedfb.data.fit_columns import ROWS, columns_by, groups_by, make_column_upload, no_rows
from fedfb.errors import ConfigError, DataError
from fedfb.experiments.evaluate import evaluate_counts
from fedfb.experiments.resolve import picks_rate
from fedfb.experiments.rule import FEWEST_SCORES
from fedfb.experiments.run_folder import CHECKPOINTS, ENCODER, EXPERIMENT, LEDGER, MODELS
from fedfb.experiments.secure import column_question
from fedfb.experiments.spec_file import to_toml
from fedfb.experiments.tune import HELD_OUT, Choice, candidates, pick
from fedfb.files import make_folder, seal, unseal, write_whole
from fedfb.notions import long_name
from fedfb.runtime import Ledger, Saving, Trained
from fedfb.runtime.ledger import NOTHING_DONE, Entry, read_ledger, settle_ledger
from fedfb.runtime.local import Memories
from fedfb.runtime.loop import SETUP, Progress, run_rounds
from fedfb.shapes import Array, Int
from fedfb.study.exchange import PeriodKeys, Phase
from fedfb.study.journal import Journal, Log, join_names, pack_values
from fedfb.study.keys import ServerSecrets
from fedfb.study.results import (
    ACHIEVED,
    AUDIT,
    FinishedRun,
    describe_runs,
    make_study_result,
    model_bytes,
    result_files,
    write_result,
)
from fedfb.study.study import Study
from fedfb.study.transport import Transport
from fedfb.study.trial import (
    ACHIEVABLE,
    DATA,
    RUN,
    SCORES,
    TEST,
    TUNE,
    Trial,
    describe_phase,
    make_broadcast_state,
    make_trial,
)

AUDIT_NOTE = (
    "only the sum of the clients' tables is known: no figures of single clients, no client parity, "
    "and no figures without one client"
)


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


def make_audit_text(study: Study, run: FinishedRun, folder: Path, log: Log) -> str:
    """Return the audit of the first setting as JSON, as fedfb audit --secure makes it.

    The text is empty if these rows allow no audit; the log then has the reason.
    """
    experiment, encoder = study.experiment, run.encoder
    about = About(
        kind="model",
        name=study.name,
        notion=long_name(experiment.notion),
        data=f"the files of {len(study.clients)} clients",
        label=encoder.label,
        positive=encoder.positive,
        rows=TEST_ROWS,
        decided_by=f"{experiment.algorithm}, {experiment.model}, seed {study.seed}",
        baseline=None,
        hashes={name: digest(folder / name) for name in (MODELS, ENCODER, EXPERIMENT)},
    )
    total = read_tables({name: value[0] for name, value in run.tables.items()})
    groups = encoder.groups
    try:
        audit = audit_of_sum(total, groups.names, groups.columns, about, study.clients)
    except DataError as error:
        log.write("not audited", f"no audit: {error}")
        return ""
    return encode_audit(structs.replace(audit, notes=(AUDIT_NOTE,)))


def make_achievable_text(study: Study, encoder: Encoder, counts: Arrays, log: Log) -> str:
    """Return what fairness can be reached as JSON, as fedfb achievable --data prints it.

    The text is empty if a client withheld its scores; the log then has the reason.
    """
    # Imported here: its solvers are slow to import, and only this function needs them.
    from fedfb.theory.achievable import achievable
    from fedfb.theory.from_scores import describe_scores, population_of, score_counts

    clients = tuple(study.clients[id] for id in np.ravel(counts["client"]).tolist())
    withheld = [name for name, rows in zip(clients, counts["rows"], strict=True) if not rows.any()]
    if withheld:
        log.write(
            "not told",
            f"what is achievable is unknown: {', '.join(withheld)} withheld their scores. They "
            f"have some rows of a group, but fewer than {FEWEST_SCORES}. Merge groups in the "
            "schema.",
        )
        return ""
    scored = score_counts(counts["rows"], clients, encoder.groups.names)
    record = {**achievable(population_of(scored.counts)), **describe_scores(scored, study.seed)}
    return json.dumps(record, indent=1, allow_nan=False)


JOURNAL = "answers"
"""The folder of the journal."""


class ServerContext(NamedTuple):
    """What every phase needs: the transport, the server's keys, and the folder of the run."""

    transport: Transport
    secrets: ServerSecrets
    folder: Path


class TrainingPhase(NamedTuple):
    """A phase in which something is trained, and its exchanges."""

    trial: Trial
    phase: Phase


def open_folder(study: Study, folder: Path) -> None:
    """Make the folder of the run, or continue with an existing one."""
    for part in (CHECKPOINTS, JOURNAL):
        make_folder(folder / part)
    unseal(folder)
    write_whole(folder / EXPERIMENT, to_toml(study.experiment))


def run_study(transport: Transport, secrets: ServerSecrets, folder: Path) -> None:
    """Run a study to its end: columns, learning rate, training, test rows, result to all clients.

    Args:
        transport: carries messages to the clients.
        secrets: the server's keys.
        folder: the folder of the run, from ``open_folder``; an interrupted run continues from it.
    """
    study, context = transport.study, ServerContext(transport, secrets, folder)
    encoder, rows = _fit_encoder(context)
    choice = None
    if picks_rate(study.experiment):
        tuning = _start_phase(context, TUNE, encoder)
        trained = _train(context, tuning)
        choice = choose_rate(study, tuning.trial, trained, _evaluate(study, tuning, trained))
    training = last = _start_phase(context, RUN, encoder, choice.rates if choice else ())
    if choice:
        rates = ", ".join(f"{setting['lr']:g}" for setting in training.trial.settings)
        transport.log.write("picked", f"chose the learning rate {rates} on validation rows")
    trained = _train(context, training)
    tables = _evaluate(study, training, trained)
    run = FinishedRun(encoder, training.trial, trained, rows, tables, choice)
    texts = result_files(study, run, make_study_result(study, run))
    model = model_bytes(study, make_broadcast_state(trained))
    write_result(folder, texts, model)
    texts[AUDIT] = make_audit_text(study, run, folder, transport.log)
    if study.achievable:
        last = _start_phase(context, ACHIEVABLE, encoder)
        texts[ACHIEVED] = _train_achievable(context, last, encoder)
    _send_result(context, last, run, texts, model)
    settle_ledger(folder / LEDGER)
    seal(folder, [LEDGER])


def _fit_encoder(context: ServerContext) -> tuple[Encoder, Int[Array, "2 a"]]:
    """Return how rows are encoded, from sums over the clients; also rows by label and group."""
    study = context.transport.study
    schema, empty = study.schema, no_rows(study.schema)
    ledger = _begin_ledger(context, DATA, study.split)

    def like(task: Task, broadcast: Arrays) -> Arrays:
        return make_column_upload(task.name, broadcast, empty, schema)

    open_journal = _make_open_journal(context, DATA)
    phase = Phase(
        context.transport, context.secrets, PeriodKeys(), DATA, "", ledger, open_journal, like, {}
    )
    ask = phase.make_ask(SETUP)

    def exchange(task: str, broadcast: Arrays) -> Arrays:
        upload = make_column_upload(task, broadcast, empty, schema)
        return ask(column_question(task, upload), broadcast)

    rows = exchange(ROWS, {})["rows"]
    groups = groups_by(schema, rows)
    by_name = columns_by(schema, exchange)
    columns = tuple(by_name[column.name] for column in schema.of("feature"))
    shape = (schema.label.name, schema.label.positive, study.experiment.sensitive_at_prediction)
    return Encoder(columns, groups, *shape, schema.derived), rows


def _start_phase(
    context: ServerContext, phase: str, encoder: Encoder, rates: Sequence[float] = ()
) -> TrainingPhase:
    """Prepare a phase in which something is trained."""
    study = context.transport.study
    trial = make_trial(study, encoder, phase, rates)
    ledger = _begin_ledger(context, phase, study.seed)

    def like(task: Task, broadcast: Arrays) -> Arrays:
        key = (study.seed, 0, 0, trial.like.id)
        memory = trial.algorithm.memory(trial.start)
        with np.errstate(all="ignore"):
            upload, _ = trial.tasks[task.name].run(broadcast, trial.like, memory, key)
        return upload

    exchanges = Phase(
        context.transport,
        context.secrets,
        PeriodKeys(),
        phase,
        describe_phase(phase, encoder, tuple(rates)),
        ledger,
        _make_open_journal(context, phase),
        like,
        Memories(),
    )
    return TrainingPhase(trial, exchanges)


def _train(context: ServerContext, training: TrainingPhase) -> Trained:
    """Run the rounds of a phase, from its checkpoint if it has one."""
    study, (trial, phase) = context.transport.study, training
    path = context.folder / CHECKPOINTS / f"{phase.name}.npz"
    rounds = _count_rounds(study)
    return run_rounds(
        trial.algorithm,
        trial.start,
        lambda number: phase.make_ask(number, everybody=number > rounds),
        phase.memories,
        seed=study.seed,
        rounds=rounds,
        watch=trial.watch if phase.name == RUN else None,
        saving=Saving(path, study.digest, trial.instructions, always=True),
        on_round=lambda progress: _log_round(context.transport.log, phase, progress),
    )


AFTER_ROUNDS = 2
"""What follows training has this number after the last round; 1 is for what a method finishes."""


def _count_rounds(study: Study) -> int:
    return study.experiment.rounds or 1


def _evaluate(study: Study, training: TrainingPhase, trained: Trained) -> Arrays:
    """Return the tables of an audit of the final state, on rows that were set aside."""
    ask = training.phase.make_ask(_count_rounds(study) + AFTER_ROUNDS, everybody=True)
    return ask(training.trial.tasks[TEST], make_broadcast_state(trained))


def _train_achievable(context: ServerContext, training: TrainingPhase, encoder: Encoder) -> str:
    """Train a plain model; return what fairness its scores allow, as JSON."""
    study = context.transport.study
    trained = _train(context, training)
    ask = training.phase.make_ask(_count_rounds(study) + AFTER_ROUNDS, everybody=True)
    params = np.asarray(training.trial.algorithm.params(trained.state))
    counts = ask(training.trial.tasks[SCORES], {"params": params})
    return make_achievable_text(study, encoder, counts, context.transport.log)


def _begin_ledger(context: ServerContext, phase: str, seed: int) -> Ledger:
    """Begin a phase in the ledger, unless it was begun before a restart."""
    path = context.folder / LEDGER
    ledger = Ledger(path, phase, seed, context.transport.study.clients)
    accounts = read_ledger(path) if path.exists() else []
    if not any(account.phase == phase for account in accounts):
        ledger.begin(NOTHING_DONE)
    return ledger


def _make_open_journal(context: ServerContext, phase: str) -> Callable[[int], Journal]:
    return lambda round: Journal(
        context.folder / JOURNAL, context.transport.study.digest, phase, round
    )


def _log_round(log: Log, phase: Phase, progress: Progress) -> None:
    lam = progress.record.lam
    weights = "" if lam is None else f", lambda {np.round(lam, 4).tolist()}"
    log.write(
        "round",
        f"{phase.title}round {progress.round} of {progress.rounds} is done{weights}",
        phase=phase.name,
        round=progress.round,
        rounds=progress.rounds,
    )


def _send_result(
    context: ServerContext,
    last: TrainingPhase,
    run: FinishedRun,
    texts: dict[str, str],
    model: bytes,
) -> None:
    """Write the result, and send it to every client that is online."""
    transport, study = context.transport, context.transport.study
    files = {name: text for name, text in texts.items() if text}
    write_result(context.folder, files, model)
    content = {"texts": pack_values(files), "model": model}
    present = [id for id in transport.list_present() if id in last.phase.keys.clients]
    replies = transport.exchange("finish", dict.fromkeys(present, content), "the end")
    place = (_count_rounds(study) + AFTER_ROUNDS, 1, "model")
    parts = {name: np.shape(value) for name, value in make_broadcast_state(run.trained).items()}
    sizes = {"model": len(model), "report": len(content["texts"])}
    last.phase.ledger.write([Entry(*place, "down", "public", parts, sizes, present)])
    names = join_names(study, replies)
    transport.log.write("finished", f"finished; {names} have the model", got=sorted(replies))
