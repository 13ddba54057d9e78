"""A study from its first silo to its report: columns, rounds, test rows, and the model to all.

What answers come to at the end of a phase: a choice, an audit, what is achievable.
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
from fedfb.audit.rows import digest
from fedfb.audit.tables import read_tables
from fedfb.core import Arrays, Task
from fedfb.data.encode import Encoder
from fedfb.data.fit_columns import ROWS, columns_by, groups_by, no_rows, silo_answer
from fedfb.errors import ConfigError, DataError
from fedfb.experiments.evaluate import evaluate_counts
from fedfb.experiments.resolve import picks_rate
from fedfb.experiments.run_folder import CHECKPOINTS, ENCODER, EXPERIMENT, LEDGER, MODELS
from fedfb.experiments.scores import FEWEST_ROWS
from fedfb.experiments.secure import column_question
from fedfb.experiments.spec_file import to_toml
from fedfb.experiments.tune import HELD_OUT, Choice, candidates, pick
from fedfb.files import make_folder, seal, unseal, write_whole
from fedfb.notions import long_name
from fedfb.runtime import Ledger, Saving, Trained
from fedfb.runtime.ledger import NOTHING_DONE, Entry, read_ledger, settle
from fedfb.runtime.local import Memories
from fedfb.runtime.loop import SETUP, Progress, run_rounds
from fedfb.shapes import Array, Int
from fedfb.study.ask import Inquiry, Keys
from fedfb.study.journal import Journal, Log
from fedfb.study.keys import Office
from fedfb.study.mail import Mail, names, pack_values
from fedfb.study.results import (
    ACHIEVED,
    AUDIT,
    Known,
    keep_result,
    make_study_result,
    model_bytes,
    result_files,
    tell,
)
from fedfb.study.study import Study
from fedfb.study.trial import (
    ACHIEVABLE,
    DATA,
    RUN,
    SCORES,
    TEST,
    TUNE,
    Trial,
    make_trial,
    told_of,
    told_state,
)

ONLY_SUMS = (
    "only the sum of the silos' tables is known: no silo's own figures, no client parity, and no "
    "leaving out of silos"
)


def picked(study: Study, trial: Trial, trained: Trained, tables: Arrays) -> Choice:
    """Pick a learning rate on the silos' validation rows, of which only sums are known."""
    confusion, losses = tables["confusion"], tables["losses"]
    rows = round(float(confusion[0].sum()))
    if not rows:
        raise ConfigError(
            f"a learning rate is picked on {HELD_OUT:.0%} of every silo's rows, and none has "
            "enough to spare one. Add rows, or give it (fedfb study init --lr)."
        )
    groups = [str(number) for number in range(confusion.shape[-1])]
    evaluations = evaluate_counts(confusion, None, groups, minimum=1)
    mean_losses = [float(own[0].sum() / rows) for own in losses]
    off = [told.get("off_target", 0.0) for told in tell(trial, trained)]
    notion = long_name(study.experiment.notion)
    found = candidates(trial.settings, [evaluations], [mean_losses], [off], notion)
    return pick(found, rows)


def audited(study: Study, known: Known, kept: Path, log: Log) -> str:
    """Return the audit of the first setting as JSON, as fedfb audit --secure makes it.

    Where nothing can be said of these rows it is empty, and the log has the reason.
    """
    experiment, encoder = study.experiment, known.encoder
    about = About(
        kind="model",
        name=study.name,
        notion=long_name(experiment.notion),
        data=f"the files of {len(study.silos)} silos",
        label=encoder.label,
        positive=encoder.positive,
        rows=TEST_ROWS,
        decided_by=f"{experiment.algorithm}, {experiment.model}, seed {study.seed}",
        baseline=None,
        hashes={name: digest(kept / name) for name in (MODELS, ENCODER, EXPERIMENT)},
    )
    total = read_tables({name: value[0] for name, value in known.tables.items()})
    groups = encoder.groups
    try:
        result = audit_of_sum(total, groups.names, groups.columns, about, study.silos)
    except DataError as error:
        log.write("not audited", f"there is no audit: {error}")
        return ""
    return encode_audit(structs.replace(result, notes=(ONLY_SUMS,)))


def achieved(study: Study, encoder: Encoder, counts: Arrays, log: Log) -> str:
    """Return what fairness can be reached as JSON, as fedfb achievable --data tells it.

    Where a silo withheld its scores it is empty, and the log has the reason.
    """
    # Here: its solvers are slow to import, and only this needs them.
    from fedfb.theory.achievable import achievable
    from fedfb.theory.from_scores import describe_scores, population_of, score_counts

    clients = tuple(study.silos[id] for id in np.ravel(counts["client"]).tolist())
    silent = [name for name, rows in zip(clients, counts["rows"], strict=True) if not rows.any()]
    if silent:
        log.write(
            "not told",
            f"what is achievable cannot be told: {', '.join(silent)} withheld their scores, having "
            f"fewer than {FEWEST_ROWS} rows of some group, and any. Merge groups in the schema.",
        )
        return ""
    scored = score_counts(counts["rows"], clients, encoder.groups.names)
    record = {**achievable(population_of(scored.counts)), **describe_scores(scored, study.seed)}
    return json.dumps(record, indent=1, allow_nan=False)


ANSWERS = "answers"
"""The folder of the journal."""


class Desk(NamedTuple):
    """Where the coordinator sits: the way to the silos, its keys, and the folder it writes to."""

    mail: Mail
    office: Office
    kept: Path


class Stage(NamedTuple):
    """A phase in which something is trained, and who is asked."""

    trial: Trial
    asking: Inquiry


def open_folder(study: Study, kept: Path) -> None:
    """Make the folder in which the coordinator keeps all that it knows, or go on with it."""
    for part in (CHECKPOINTS, ANSWERS):
        make_folder(kept / part)
    unseal(kept)
    write_whole(kept / EXPERIMENT, to_toml(study.experiment))


def run_study(mail: Mail, office: Office, kept: Path) -> None:
    """Sum up columns, pick a rate, train, test, and send every silo the model."""
    study, desk = mail.study, Desk(mail, office, kept)
    encoder, rows = _encoder(desk)
    choice = None
    if picks_rate(study.experiment):
        tuning = _stage(desk, TUNE, encoder)
        tried = _train(desk, tuning)
        choice = picked(study, tuning.trial, tried, _judge(study, tuning, tried))
    stage = last = _stage(desk, RUN, encoder, choice.rates if choice else ())
    if choice:
        rates = ", ".join(f"{setting['lr']:g}" for setting in stage.trial.settings)
        mail.log.write("picked", f"picked the learning rate {rates} on validation rows")
    trained = _train(desk, stage)
    known = Known(encoder, stage.trial, trained, rows, _judge(study, stage, trained), choice)
    texts = result_files(study, known, make_study_result(study, known))
    model = model_bytes(study, told_state(trained))
    keep_result(kept, texts, model)
    texts[AUDIT] = audited(study, known, kept, mail.log)
    if study.achievable:
        last = _stage(desk, ACHIEVABLE, encoder)
        texts[ACHIEVED] = _achieved(desk, last, encoder)
    _send_home(desk, last, known, texts, model)
    settle(kept / LEDGER)
    seal(kept, [LEDGER])


def _encoder(desk: Desk) -> tuple[Encoder, Int[Array, "2 a"]]:
    """Learn from sums over the silos how rows are encoded; return also rows by label and group."""
    study = desk.mail.study
    schema, nobody = study.schema, no_rows(study.schema)
    ledger = _ledger(desk, DATA, study.split)

    def like(asked: Task, told: Arrays) -> Arrays:
        return silo_answer(asked.name, told, nobody, schema)

    asking = Inquiry(
        desk.mail, desk.office, Keys(), DATA, "", ledger, _journals(desk, DATA), like, {}
    )
    ask = asking.ask_of(SETUP)

    def answers(question: str, told: Arrays) -> Arrays:
        shown = silo_answer(question, told, nobody, schema)
        return ask(column_question(question, shown), told)

    rows = answers(ROWS, {})["rows"]
    groups = groups_by(schema, rows)
    found = columns_by(schema, answers)
    columns = tuple(found[column.name] for column in schema.of("feature"))
    shape = (schema.label.name, schema.label.positive, study.experiment.sensitive_at_prediction)
    return Encoder(columns, groups, *shape, schema.derived), rows


def _stage(desk: Desk, phase: str, encoder: Encoder, rates: Sequence[float] = ()) -> Stage:
    """Prepare a phase in which something is trained."""
    study = desk.mail.study
    trial = make_trial(study, encoder, phase, rates)
    ledger, journals = _ledger(desk, phase, study.seed), _journals(desk, phase)

    def like(asked: Task, told: Arrays) -> Arrays:
        key = (study.seed, 0, 0, trial.like.id)
        memory = trial.algorithm.memory(trial.start)
        with np.errstate(all="ignore"):
            upload, _ = trial.tasks[asked.name].run(told, trial.like, memory, key)
        return upload

    told, nothing = told_of(phase, encoder, tuple(rates)), Memories()
    return Stage(
        trial,
        Inquiry(desk.mail, desk.office, Keys(), phase, told, ledger, journals, like, nothing),
    )


def _train(desk: Desk, stage: Stage) -> Trained:
    """Run the rounds of a phase, from its checkpoint where there is one."""
    study, (trial, asking) = desk.mail.study, stage
    path = desk.kept / CHECKPOINTS / f"{asking.phase}.npz"
    return run_rounds(
        trial.algorithm,
        trial.start,
        asking.ask_of,
        asking.memories,
        seed=study.seed,
        rounds=_rounds(study),
        watch=trial.watch if asking.phase == RUN else None,
        saving=Saving(path, study.digest, trial.instructions, always=True),
        on_round=lambda progress: _round_done(desk.mail.log, asking, progress),
    )


def _rounds(study: Study) -> int:
    return study.experiment.rounds or 1


def _judge(study: Study, stage: Stage, trained: Trained) -> Arrays:
    """Ask how the final state of a phase decides the rows that were set aside."""
    ask = stage.asking.ask_of(_rounds(study) + 1, everybody=True)
    return ask(stage.trial.tasks[TEST], told_state(trained))


def _achieved(desk: Desk, stage: Stage, encoder: Encoder) -> str:
    """Train a plain model, and tell from the silos' scores what fairness can be reached."""
    study = desk.mail.study
    trained = _train(desk, stage)
    ask = stage.asking.ask_of(_rounds(study) + 1, everybody=True)
    params = np.asarray(stage.trial.algorithm.params(trained.state))
    counts = ask(stage.trial.tasks[SCORES], {"params": params})
    return achieved(study, encoder, counts, desk.mail.log)


def _ledger(desk: Desk, phase: str, seed: int) -> Ledger:
    """Begin a phase in the ledger, once: what was answered before a restart is not asked again."""
    path = desk.kept / LEDGER
    ledger = Ledger(path, phase, seed, desk.mail.study.silos)
    begun = read_ledger(path) if path.exists() else []
    if not any(account.phase == phase for account in begun):
        ledger.begin(NOTHING_DONE)
    return ledger


def _journals(desk: Desk, phase: str) -> Callable[[int], Journal]:
    return lambda round: Journal(desk.kept / ANSWERS, desk.mail.study.digest, phase, round)


def _round_done(log: Log, asking: Inquiry, progress: Progress) -> None:
    lam = progress.record.lam
    shown = "" if lam is None else f", lambda {np.round(lam, 4).tolist()}"
    log.write(
        "round",
        f"{asking.title}round {progress.round} of {progress.rounds} is done{shown}",
        phase=asking.phase,
        round=progress.round,
        rounds=progress.rounds,
    )


def _send_home(desk: Desk, last: Stage, known: Known, texts: dict[str, str], model: bytes) -> None:
    """Keep the result, and give it to every silo that is there."""
    mail, study = desk.mail, desk.mail.study
    given = {name: text for name, text in texts.items() if text}
    keep_result(desk.kept, given, model)
    content = {"texts": pack_values(given), "model": model}
    there = [id for id in mail.present() if id in last.asking.keys.parties]
    got = mail.exchange("finish", dict.fromkeys(there, content), "the end")
    place = (_rounds(study) + 1, 1, "model")
    parts = {name: np.shape(value) for name, value in told_state(known.trained).items()}
    sizes = {"model": len(model), "report": len(content["texts"])}
    last.asking.ledger.write([Entry(*place, "down", "public", parts, sizes, there)])
    mail.log.write("finished", f"finished; {names(study, got)} have the model", got=sorted(got))
