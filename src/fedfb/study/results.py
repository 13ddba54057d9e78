"""The result of a study: its report, its files, how to fetch them, and the status as text."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from fedfb.audit.model_rows import TEST_ROWS
from fedfb.audit.record import audit_of_sum
from fedfb.audit.result import About, encode_audit
from fedfb.audit.rows import digest, read_tables
from fedfb.core import Arrays
from fedfb.data.conform import type_notes
from fedfb.data.encode import Encoder
from fedfb.data.federation import ONE_GROUP
from fedfb.data.fit_columns import no_rows
from fedfb.data.groups import compared_rows
from fedfb.data.notes import encoding_notes, sensitive_note, small_group_notes
from fedfb.errors import DataError
from fedfb.experiments.codec import to_json
from fedfb.experiments.evaluate import evaluate_counts, few_in
from fedfb.experiments.measure import Losses, in_short, with_names, with_training
from fedfb.experiments.reporting import make_result
from fedfb.experiments.resolve import resolve
from fedfb.experiments.result import EngineChoice, Result
from fedfb.experiments.rule import FEWEST_SCORES
from fedfb.experiments.run_folder import (
    ENCODER,
    EXPERIMENT,
    LEDGER,
    MODELS,
    RESULT,
    VERSIONS,
    versions,
)
from fedfb.experiments.secure import single_tasks
from fedfb.experiments.seed_result import SeedResult
from fedfb.experiments.seeds import round_rows
from fedfb.experiments.shortfalls import first_sentences
from fedfb.experiments.spec_file import to_toml
from fedfb.experiments.tune import Choice, Choices
from fedfb.files import make_folder, pack_arrays, read_bytes, seal, unseal, write_whole
from fedfb.notions import labels_of, long_name
from fedfb.report.numbers import number
from fedfb.runtime import Trained
from fedfb.runtime.ledger import settle_ledger
from fedfb.shapes import Array, Float, Int
from fedfb.study.study import Study
from fedfb.study.trial import Trial, make_broadcast_state

if TYPE_CHECKING:
    from fedfb.study.program import FinishedStudy

AUDIT, ACHIEVED = "audit.json", "achievable.json"

RESULT_FILES = (EXPERIMENT, RESULT, ENCODER, VERSIONS, MODELS, LEDGER, AUDIT, ACHIEVED)
"""The files of a result. Each side has its own ledger."""

SUMS_ONLY = (
    "of the clients' test rows the server received only sums: no figures of single clients, no "
    "client parity, no area under the curve"
)


class FinishedRun(NamedTuple):
    """What the server knows after a run.

    ``rows`` are the training rows by label and declared group, ``tables`` those of an audit of the
    test rows, by run. ``choice`` says how the learning rate was chosen.
    """

    encoder: Encoder
    trial: Trial
    trained: Trained
    rows: Int[Array, "2 a"]
    tables: Arrays
    choice: Choice | None


def describe_runs(trial: Trial, trained: Trained) -> list[dict[str, Any]]:
    """Return what the method reports about the final state of every run."""
    describe = trial.algorithm.describe
    return [{} for _ in trial.settings] if describe is None else describe(trained.state)


def make_study_result(study: Study, run: FinishedRun) -> Result:
    """Return the result of a run, made of sums over the clients' test rows."""
    experiment, groups = resolve(study.experiment), run.encoder.groups.names
    notion, confusion = long_name(experiment.notion), run.tables["confusion"]
    halves = np.stack([_count_at_one_half(bins) for bins in run.tables["bins"]])
    differs = bool(np.any(halves != confusion))
    few = few_in(_count_training_rows(study, run), np.zeros(0), experiment.minimum_group)
    runs = [
        SeedResult(
            seed=study.seed,
            settings=dict(setting),
            **msgspec.structs.asdict(evaluation),
            at_one_half=in_short(half) if differs else None,
            method=with_names(description, notion, groups, study.names),
            needs_single=tuple(single_tasks(run.trial.algorithm)),
            # Nobody has all rows, and these figures need single rows.
            **Losses()._asdict(),
            copied=None,
            rounds=rounds,
            training=None,
        )
        for setting, evaluation, half, description, rounds in zip(
            run.trial.settings,
            evaluate_counts(confusion, None, groups, few=few),
            evaluate_counts(halves, None, groups, few=few),
            describe_runs(run.trial, run.trained),
            round_rows(run.trained.history, len(confusion), notion, experiment.minimum_group),
            strict=True,
        )
    ]
    runs = with_training(runs, run.trained.history, experiment)
    choices = Choices(by_seed={study.seed: run.choice} if run.choice else {})
    result = make_result(
        experiment, _make_notes(study, run), groups, len(runs), [runs], choices, shared=1.0
    )
    return msgspec.structs.replace(
        result,
        data=study.name,
        study=study.name,
        client_names=tuple(study.names),
        engine=EngineChoice(name="of each client", reason="clients train on their own machines"),
    )


def _count_at_one_half(bins: Float[Array, "2 a b"]) -> Float[Array, "2 2 a"]:
    """Count the decisions that the scores would give with the threshold 1/2."""
    middle = bins.shape[-1] // 2
    parts = [bins[..., :middle].sum(axis=-1), bins[..., middle:].sum(axis=-1)]
    return np.stack(parts, axis=1).astype(np.float64)


def _count_training_rows(study: Study, run: FinishedRun) -> Int[Array, "2 a"]:
    """Return the training rows of all clients by label and group, for the groups that occur."""
    numbers = {name: number for number, name in enumerate(study.schema.group_names)}
    return run.rows[:, [numbers[name] for name in run.encoder.groups.names]]


def _make_notes(study: Study, run: FinishedRun) -> tuple[str, ...]:
    encoder, names = run.encoder, run.encoder.groups.names
    labels = labels_of(study.experiment.notion)
    train_rows = compared_rows(_count_training_rows(study, run), labels)
    test_rows = np.rint(run.tables["confusion"][0].sum(axis=(0, 1))).astype(np.int64)
    minimum = study.experiment.minimum_group
    return (
        *type_notes(study.schema),
        sensitive_note(encoder),
        *((ONE_GROUP,) if len(names) == 1 else ()),
        *small_group_notes(names, train_rows, test_rows, minimum, labels),
        *encoding_notes(encoder.columns, no_rows(study.schema), np.arange(0)),
        SUMS_ONLY,
    )


def result_files(study: Study, run: FinishedRun, result: Result) -> dict[str, str]:
    """Return the texts of a result by file name; fedfb predict reads them together with the model.

    Args:
        study: the study.
        run: what the server knows after the run.
        result: the result, from ``make_study_result``.
    """
    settings = [dict(setting) for setting in run.trial.settings]
    shape = {
        "inputs": len(run.encoder.feature_names),
        "clients": list(study.names),
        "settings": settings,
        "asked": len(settings),
        "diverged": {},
        "encoder": run.encoder.to_dict(),
    }
    return {
        EXPERIMENT: to_toml(study.experiment),
        RESULT: to_json(result),
        ENCODER: json.dumps(shape, indent=1),
        VERSIONS: json.dumps(versions(study.experiment), indent=1),
    }


def model_bytes(study: Study, state: Mapping[str, Array]) -> bytes:
    """Return the final state as the model file of a run folder holds it."""
    return pack_arrays({f"seed-{study.seed}/{k}": np.asarray(v) for k, v in state.items()})


def write_result(folder: Path, texts: Mapping[str, str], model: bytes) -> None:
    """Write a result into a folder.

    Args:
        folder: where to write.
        texts: files by name; names that are not files of a result are ignored.
        model: the content of the model file.
    """
    contents = {name: text.encode() for name, text in texts.items() if name in RESULT_FILES}
    contents[MODELS] = model
    make_folder(folder)
    unseal(folder)
    for name, content in contents.items():
        write_whole(folder / name, content)
    seal(folder, contents)


WriteEvent = Callable[[str, str], None]
"""Writes the name of an event, and a sentence about it, to a log."""


def write_results(study: Study, finished: "FinishedStudy", folder: Path, log: WriteEvent) -> None:
    """Write all that a side makes of a finished study: model, report, audit, what is achievable.

    Every side makes these files itself, from its own run of the program.
    """
    run = finished.run
    texts = result_files(study, run, make_study_result(study, run))
    model = model_bytes(study, make_broadcast_state(run.trained))
    write_result(folder, texts, model)
    texts[AUDIT] = make_audit_text(study, run, folder, log)
    if finished.scores is not None:
        texts[ACHIEVED] = make_achievable_text(study, run.encoder, finished.scores, log)
    write_result(folder, {name: text for name, text in texts.items() if text}, model)
    settle_ledger(folder / LEDGER)
    seal(folder, [LEDGER])


AUDIT_NOTE = (
    "only the sum of the clients' tables is known: no figures of single clients, no client parity, "
    "and no figures without one client"
)


def make_audit_text(study: Study, run: FinishedRun, folder: Path, log: WriteEvent) -> str:
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
        audit = audit_of_sum(total, groups.names, groups.columns, about, study.names)
    except DataError as error:
        log("not audited", f"no audit: {error}")
        return ""
    return encode_audit(msgspec.structs.replace(audit, notes=(AUDIT_NOTE,)))


def make_achievable_text(study: Study, encoder: Encoder, counts: Arrays, log: WriteEvent) -> str:
    """Return what fairness can be reached as JSON, as fedfb achievable --data prints it.

    The text is empty if a client withheld its scores; the log then has the reason.
    """
    # Imported here: its solvers are slow to import, and only this function needs them.
    from fedfb.theory.achievable import achievable
    from fedfb.theory.from_scores import describe_scores, population_of, score_counts

    clients = tuple(study.names[id] for id in np.ravel(counts["client"]).tolist())
    withheld = [name for name, rows in zip(clients, counts["rows"], strict=True) if not rows.any()]
    if withheld:
        log(
            "not told",
            f"what is achievable is unknown: {', '.join(withheld)} withheld their scores. They "
            f"have some rows of a group, but fewer than {FEWEST_SCORES}. Merge groups in the "
            "schema.",
        )
        return ""
    scored = score_counts(counts["rows"], clients, encoder.groups.names)
    record = {**achievable(population_of(scored.counts)), **describe_scores(scored, study.seed)}
    return json.dumps(record, indent=1, allow_nan=False)


def fetch_results(source: Path, target: Path) -> list[str]:
    """Copy a result from one folder to another; return the names of its files."""
    if not (source / RESULT).exists():
        raise DataError(
            f"{source} holds no result yet (no {RESULT}). The study has not finished: see fedfb "
            "study status."
        )
    expected = "a file of the study's result, as fedfb writes it"
    names = [name for name in RESULT_FILES if (source / name).exists()]
    contents = {name: read_bytes(source / name, expected) for name in names}
    for name, content in contents.items():
        write_whole(target / name, content)
    seal(target, contents)
    return names


def format_report(result: Result) -> Iterator[str]:
    """Yield the lines that sum up a finished study: accuracy, disparities and groups."""
    yield from first_sentences([result])
    for run in result.runs:
        settings = ", ".join(f"{name} {value:g}" for name, value in run.settings.items())
        yield f"{result.algorithm} ({result.notion.replace('_', ' ')}), {settings}"
        yield f"  test rows, all clients  {run.rows}"
        yield f"  accuracy                {number(run.accuracy)}"
        for name, value in run.disparity.items():
            interval = run.interval[name]
            if interval is not None:
                ends = f"[{number(interval[0])}, {number(interval[1])}]"
                yield f"  {name.replace('_', ' '):22}  {number(value)}  {ends}"
        for group in run.groups:
            yield (
                f"  group {group.name:16}  {group.n} rows, accuracy {number(group.accuracy)}, "
                f"favourable decisions {number(group.positive_rate)}"
            )


def format_status(
    study: str, clients: Sequence[str], events: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield the lines that show how far a study is: last round, clients, last events.

    Args:
        study: the name of the study.
        clients: the names of its clients.
        events: its log, from ``read_events``.
    """
    start = max((i for i, e in enumerate(events) if e["event"] == "serving"), default=0)
    rounds = [e for e in events if e["event"] == "round" and e["phase"] == "run"]
    ended = [e for e in events[start:] if e["event"] in ("finished", "stopped")]
    done = f"{rounds[-1]['round']} of {rounds[-1]['rounds']} rounds" if rounds else "no round yet"
    yield f"{study}: {done}{', ' + ended[-1]['event'] if ended else ''}"
    for client in clients:
        texts = [e["text"] for e in events[start:] if e.get("client") == client]
        yield f"  {client:12} {texts[-1] if texts else 'not online yet'}"
    yield "last events:"
    for event in events[-5:]:
        yield f"  {event['time'][:19]}  {event['text']}"
