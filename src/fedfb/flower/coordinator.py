"""A study from its first silo to its report: columns, rounds, test rows, and the model to all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedfb.core import Arrays, Asked
from fedfb.data.encode import Encoder
from fedfb.data.statistics import Spread, answer, spread_by
from fedfb.experiments.secure import column_question
from fedfb.experiments.spec import to_toml
from fedfb.experiments.store import CHECKPOINTS, EXPERIMENT, LEDGER, write_whole
from fedfb.flower.asking import Inquiry, Keys
from fedfb.flower.bundle import Office
from fedfb.flower.events import Log
from fedfb.flower.journal import Journal
from fedfb.flower.mail import Mail, names
from fedfb.flower.results import keep_result, make_report, model_bytes, result_files
from fedfb.flower.study import Study
from fedfb.flower.trial import TEST, Trial, make_trial, told_state
from fedfb.flower.wire import pack_values
from fedfb.runtime import Ledger, Saving, Trained
from fedfb.runtime.ledger import NOTHING_DONE, Entry, read_ledger, settle
from fedfb.runtime.local import Memories
from fedfb.runtime.loop import SETUP, Progress, conduct

ANSWERS = "answers"
"""The folder of the journal."""


def open_folder(study: Study, kept: Path) -> None:
    """Make the folder in which the coordinator keeps all that it knows, or go on with it."""
    for part in (CHECKPOINTS, ANSWERS):
        (kept / part).mkdir(parents=True, exist_ok=True)
    write_whole(kept / EXPERIMENT, to_toml(study.experiment))


def run_study(mail: Mail, office: Office, kept: Path) -> None:
    """Sum up columns, train, test, and send every silo the model."""
    study, keys = mail.study, Keys()
    spread = _columns(mail, office, kept)
    encoder = study.schema.encoder(spread, study.experiment.sensitive_at_prediction)
    trial = make_trial(study, encoder)
    memories: Memories = {}
    ledger = _ledger(study, kept, "run", study.seed)

    def like(asked: Asked, told: Arrays) -> Arrays:
        key = (study.seed, 0, 0, trial.like.id)
        with np.errstate(all="ignore"):
            upload, _ = trial.tasks[asked.name].run(
                told, trial.like, trial.algorithm.memory(trial.start), key
            )
        return upload

    told = pack_values({name: value.tolist() for name, value in spread._asdict().items()})
    journals = _journals(study, kept, "run")
    asking = Inquiry(mail, office, keys, "run", told, ledger, journals, like, memories)
    rounds = study.experiment.rounds or 1
    trained = conduct(
        trial.algorithm,
        trial.start,
        asking.ask_of,
        memories,
        seed=study.seed,
        rounds=rounds,
        watch=trial.watch,
        saving=Saving(
            kept / CHECKPOINTS / "run.npz", study.digest, trial.instructions, always=True
        ),
        on_round=lambda progress: _round_done(mail.log, progress),
    )
    ask = asking.ask_of(rounds + 1, everybody=True)
    confusion = ask(trial.tasks[TEST], told_state(trained))["confusion"]
    report = make_report(study, trial.settings, confusion, trained.history)
    _send_home(mail, keys, kept, trial, encoder, trained, report, ledger)
    settle(kept / LEDGER)


def _columns(mail: Mail, office: Office, kept: Path) -> Spread:
    """Learn the spread of the numeric columns from sums over the silos."""
    study = mail.study
    columns = study.schema.numeric
    nothing = Spread(*(np.zeros(0) for _ in Spread._fields))
    split = study.experiment.split_seed or 0
    ledger = _ledger(study, kept, "data", split)
    if not columns:
        return nothing

    def like(asked: Asked, told: Arrays) -> Arrays:
        return answer(asked.name, told, np.zeros((2, len(columns))))

    asking = Inquiry(
        mail, office, Keys(), "data", "", ledger, _journals(study, kept, "data"), like, {}
    )
    ask = asking.ask_of(SETUP)

    def answers(question: str, told: Arrays) -> Arrays:
        shown = answer(question, told, np.zeros((2, len(columns))))
        return ask(column_question(question, shown), told)

    return spread_by(columns, answers)


def _ledger(study: Study, kept: Path, phase: str, seed: int) -> Ledger:
    """Begin a phase in the ledger, once: what was answered before a restart is not asked again."""
    ledger = Ledger(kept / LEDGER, phase, seed, study.silos)
    begun = read_ledger(kept / LEDGER) if (kept / LEDGER).exists() else []
    if not any(account.phase == phase for account in begun):
        ledger.begin(NOTHING_DONE)
    return ledger


def _journals(study: Study, kept: Path, phase: str) -> Callable[[int], Journal]:
    return lambda round: Journal(kept / ANSWERS, study.digest, phase, round)


def _round_done(log: Log, progress: Progress) -> None:
    lam = progress.record.lam
    shown = "" if lam is None else f", lambda {np.round(lam, 4).tolist()}"
    log.write(
        "round",
        f"round {progress.round} of {progress.rounds} is done{shown}",
        round=progress.round,
        rounds=progress.rounds,
    )


def _send_home(
    mail: Mail,
    keys: Keys,
    kept: Path,
    trial: Trial,
    encoder: Encoder,
    trained: Trained,
    report: dict[str, Any],
    ledger: Ledger,
) -> None:
    """Keep the result, and give it to every silo that is there."""
    study = mail.study
    texts, state = result_files(study, encoder, trial.settings, report), told_state(trained)
    model = model_bytes(study, state)
    keep_result(kept, texts, model)
    content = {"texts": pack_values(texts), "model": model}
    there = [id for id in mail.present() if id in keys.parties]
    got = mail.exchange("finish", dict.fromkeys(there, content), "the end")
    place = (len(trained.history) + 1, 1, "model")
    parts = {name: np.shape(value) for name, value in state.items()}
    sizes = {"model": len(model), "report": len(content["texts"])}
    ledger.write([Entry(*place, "down", "public", parts, sizes, there)])
    mail.log.write("finished", f"finished; {names(study, got)} have the model", got=sorted(got))
