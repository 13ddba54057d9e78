"""A study from its first silo to its report: columns, rounds, test rows, and the model to all."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, RecordDict
from flwr.serverapp import Grid, ServerApp

from fedfb.core import Arrays, ClientTask
from fedfb.data.statistics import Spread, answer, spread_by
from fedfb.errors import FedFBError
from fedfb.experiments.spec import to_toml
from fedfb.experiments.store import CHECKPOINTS, EXPERIMENT, LEDGER, RESULT, write_whole, writing_to
from fedfb.flower.asking import Inquiry, Keys
from fedfb.flower.bundle import SECRETS, Office
from fedfb.flower.events import EVENTS, Log
from fedfb.flower.journal import Journal
from fedfb.flower.link import Link, superlink
from fedfb.flower.places import RUN
from fedfb.flower.post import Post
from fedfb.flower.results import keep_result, make_report, model_bytes, result_files
from fedfb.flower.silo import column_task
from fedfb.flower.study import Study
from fedfb.flower.trial import TEST, Trial, make_trial, told_state
from fedfb.flower.wire import pack_values
from fedfb.runtime import Ledger, Saving, Trained
from fedfb.runtime.ledger import NOTHING_DONE, read_ledger, settle
from fedfb.runtime.local import Memories
from fedfb.runtime.loop import SETUP, Progress, conduct


def serve(
    study: Study, office: Office, folder: Path, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Run a study to its end, from where an earlier run of it stopped; return the report."""
    kept = folder / RUN
    with writing_to(kept):
        (kept / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        (kept / "answers").mkdir(exist_ok=True)
        write_whole(kept / EXPERIMENT, to_toml(study.experiment))
        log = Log(kept / EVENTS, tell)
        with superlink(study, office, folder / SECRETS) as link:
            log.write("serving", f"{study.name} is served on {study.address}")
            app = make_server_app(study, office, kept, link, log)
            try:
                app(link.grid, Context(link.grid.run.run_id, 0, {}, RecordDict(), {}))
            except FedFBError as error:
                log.write("stopped", f"stopped: {error}")
                raise
    found: dict[str, Any] = json.loads((kept / RESULT).read_text(encoding="utf-8"))
    return found


def make_server_app(study: Study, office: Office, kept: Path, link: Link, log: Log) -> ServerApp:
    """Return the ServerApp of a study."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        run_study(Post(study, link, log), office, kept)

    return app


def run_study(post: Post, office: Office, kept: Path) -> None:
    """Sum up columns, train, test, and send every silo the model."""
    study, keys = post.study, Keys()
    spread = _columns(post, office, kept)
    encoder = study.schema.encoder(spread, study.experiment.sensitive_at_prediction)
    trial = make_trial(study, encoder)
    memories: Memories = {}
    ledger = _ledger(study, kept, "run", study.seed)

    def like(task: ClientTask, told: Arrays) -> Arrays:
        key = (study.seed, 0, 0, trial.like.id)
        with np.errstate(all="ignore"):
            upload, _ = task.run(told, trial.like, trial.algorithm.memory(trial.start), key)
        return upload

    told = pack_values({name: value.tolist() for name, value in spread._asdict().items()})
    journals = _journals(study, kept, "run")
    asking = Inquiry(post, office, keys, "run", told, ledger, journals, like, memories)
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
        on_round=lambda progress: _round_done(post.log, progress),
    )
    confusion = asking.ask_of(rounds + 1)(trial.tasks[TEST], told_state(trained))["confusion"]
    report = make_report(study, trial.settings, confusion, trained.history)
    settle(kept / LEDGER)
    _send_home(post, keys, kept, trial, encoder, trained, report)


def _columns(post: Post, office: Office, kept: Path) -> Spread:
    """Learn the spread of the numeric columns from sums over the silos."""
    study = post.study
    columns = study.schema.numeric
    nothing = Spread(*(np.zeros(0) for _ in Spread._fields))
    split = study.experiment.split_seed or 0
    ledger = _ledger(study, kept, "data", split)
    if not columns:
        return nothing

    def like(task: ClientTask, told: Arrays) -> Arrays:
        return answer(task.name, told, np.zeros((2, len(columns))))

    asking = Inquiry(
        post, office, Keys(), "data", "", ledger, _journals(study, kept, "data"), like, {}
    )
    ask = asking.ask_of(SETUP)

    def answers(question: str, told: Arrays) -> Arrays:
        shown = answer(question, told, np.zeros((2, len(columns))))
        return ask(column_task(question, shown), told)

    return spread_by(columns, answers)


def _ledger(study: Study, kept: Path, phase: str, seed: int) -> Ledger:
    """Begin a phase in the ledger, once: what was answered before a restart is not asked again."""
    ledger = Ledger(kept / LEDGER, phase, seed, study.silos)
    begun = read_ledger(kept / LEDGER) if (kept / LEDGER).exists() else []
    if not any(account.phase == phase for account in begun):
        ledger.begin(NOTHING_DONE)
    return ledger


def _journals(study: Study, kept: Path, phase: str) -> Callable[[int], Journal]:
    return lambda round: Journal(kept / "answers", study.digest, phase, round)


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
    post: Post, keys: Keys, kept: Path, trial: Trial, encoder: Any, trained: Trained, report: Any
) -> None:
    """Keep the result, and give it to every silo that is there."""
    study = post.study
    texts = result_files(study, encoder, trial.settings, report)
    model = model_bytes(study, told_state(trained))
    keep_result(kept, texts, model)
    content = {"texts": pack_values(texts), "model": model}
    there = [id for id in post.present() if id in keys.parties]
    got = post.exchange("finish", dict.fromkeys(there, content), "the end")
    post.log.write("finished", f"finished; {post.names(got)} have the model", got=sorted(got))
