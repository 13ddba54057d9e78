"""A study's result as files: the model, how rows are encoded, the report; and how to fetch them.

A study's report, and how far a study is, as lines of text.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from fedfb.core import Arrays
from fedfb.data.conform import type_notes
from fedfb.data.encode import Encoder
from fedfb.data.federation import ONE_GROUP
from fedfb.data.fit_columns import no_rows
from fedfb.data.notes import encoding_notes, sensitive_note, small_group_notes
from fedfb.errors import DataError
from fedfb.experiments.evaluate import evaluate_counts, few_in
from fedfb.experiments.reporting import Losses, in_short, make_result, with_names, with_training
from fedfb.experiments.result import EngineChoice, Result, SeedResult, to_json
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
from fedfb.experiments.seeds import round_rows
from fedfb.experiments.shortfalls import first_sentences
from fedfb.experiments.spec_file import to_toml
from fedfb.experiments.tune import Choice, Choices
from fedfb.files import make_folder, read_bytes, seal, unseal, write_whole
from fedfb.notions import long_name
from fedfb.report.numbers import number
from fedfb.runtime import Trained
from fedfb.shapes import Array, Float, Int
from fedfb.study.mail import pack_arrays
from fedfb.study.study import Study
from fedfb.study.trial import Trial

AUDIT, ACHIEVED = "audit.json", "achievable.json"

FETCHED = (EXPERIMENT, RESULT, ENCODER, VERSIONS, MODELS, LEDGER, AUDIT, ACHIEVED)
"""The files of a result, of which the ledger lies with the coordinator alone."""

SUMS_ONLY = (
    "of the silos' test rows the server received only sums: no silo's own figures, no client "
    "parity, no area under the curve"
)


class Known(NamedTuple):
    """What a finished run has told the coordinator.

    ``rows`` are the training rows by label and declared group, ``tables`` those of an audit of the
    test rows, by run, and ``choice`` says how the learning rate was picked.
    """

    encoder: Encoder
    trial: Trial
    trained: Trained
    rows: Int[Array, "2 a"]
    tables: Arrays
    choice: Choice | None


def tell(trial: Trial, trained: Trained) -> list[dict[str, Any]]:
    """Return what the method has to say of every run's end."""
    told = trial.algorithm.describe
    return [{} for _ in trial.settings] if told is None else told(trained.state)


def make_study_result(study: Study, known: Known) -> Result:
    """Return the result of a run, made of sums over the silos' test rows."""
    experiment, groups = study.experiment, known.encoder.groups.names
    notion, confusion = long_name(experiment.notion), known.tables["confusion"]
    halves = np.stack([_at_one_half(bins) for bins in known.tables["bins"]])
    otherwise = bool(np.any(halves != confusion))
    few = few_in(_trained(study, known), np.zeros(0), experiment.minimum_group)
    runs = [
        SeedResult(
            seed=study.seed,
            settings=dict(setting),
            **msgspec.structs.asdict(evaluation),
            at_one_half=in_short(half) if otherwise else None,
            method=with_names(account, notion, groups, study.silos),
            needs_single=tuple(single_tasks(known.trial.algorithm)),
            # Nobody has the rows of all: these figures need single rows.
            **Losses()._asdict(),
            copied=None,
            rounds=rounds,
            training=None,
        )
        for setting, evaluation, half, account, rounds in zip(
            known.trial.settings,
            evaluate_counts(confusion, None, groups, few=few),
            evaluate_counts(halves, None, groups, few=few),
            tell(known.trial, known.trained),
            round_rows(known.trained.history, len(confusion), notion, experiment.minimum_group),
            strict=True,
        )
    ]
    runs = with_training(runs, known.trained.history, experiment)
    choices = Choices(by_seed={study.seed: known.choice} if known.choice else {})
    result = make_result(
        experiment, _notes(study, known), groups, len(runs), [runs], choices, shared=1.0
    )
    engine = EngineChoice(name="of each client", reason="clients train on their own machines")
    names = {"data": study.name, "study": study.name, "silos": tuple(study.silos)}
    return msgspec.structs.replace(result, engine=engine, **names)


def _at_one_half(bins: Float[Array, "2 a b"]) -> Float[Array, "2 2 a"]:
    """Count what scores of at least 1/2 alone would have decided."""
    middle = bins.shape[-1] // 2
    parts = [bins[..., :middle].sum(axis=-1), bins[..., middle:].sum(axis=-1)]
    return np.stack(parts, axis=1).astype(np.float64)


def _trained(study: Study, known: Known) -> Int[Array, "2 a"]:
    """Return the training rows of all silos by label and group, for the groups that occur."""
    of = {name: number for number, name in enumerate(study.schema.group_names)}
    return known.rows[:, [of[name] for name in known.encoder.groups.names]]


def _notes(study: Study, known: Known) -> tuple[str, ...]:
    encoder, names = known.encoder, known.encoder.groups.names
    trained = _trained(study, known).sum(axis=0)
    tested = np.rint(known.tables["confusion"][0].sum(axis=(0, 1))).astype(np.int64)
    minimum = study.experiment.minimum_group
    return (
        *type_notes(study.schema),
        sensitive_note(encoder),
        *((ONE_GROUP,) if len(names) == 1 else ()),
        *small_group_notes(names, trained, tested, minimum),
        *encoding_notes(encoder.columns, no_rows(study.schema)),
        SUMS_ONLY,
    )


def result_files(study: Study, known: Known, result: Result) -> dict[str, str]:
    """Return the texts of a result by name; together with the model, fedfb predict reads them."""
    settings = [dict(setting) for setting in known.trial.settings]
    shape = {
        "inputs": len(known.encoder.feature_names),
        "clients": list(study.silos),
        "settings": settings,
        "asked": len(settings),
        "diverged": {},
        "encoder": known.encoder.to_dict(),
    }
    return {
        EXPERIMENT: to_toml(study.experiment),
        RESULT: to_json(result),
        ENCODER: json.dumps(shape, indent=1),
        VERSIONS: json.dumps(versions(study.experiment), indent=1),
    }


def model_bytes(study: Study, state: Mapping[str, Array]) -> bytes:
    """Return the final state as the model file of a run's folder holds it."""
    return pack_arrays({f"seed-{study.seed}/{k}": np.asarray(v) for k, v in state.items()})


def keep_result(folder: Path, texts: Mapping[str, str], model: bytes) -> None:
    """Write a result into a folder."""
    contents = {name: text.encode() for name, text in texts.items() if name in FETCHED}
    contents[MODELS] = model
    make_folder(folder)
    unseal(folder)
    for name, content in contents.items():
        write_whole(folder / name, content)
    seal(folder, contents)


def fetch(source: Path, target: Path) -> list[str]:
    """Copy a result to a folder; return the names of its files."""
    if not (source / RESULT).exists():
        raise DataError(
            f"{source} holds no result yet (no {RESULT}). The study is still to be run, or to be "
            "finished: see fedfb status."
        )
    expected = "a file of the study's result, as fedfb serve writes it"
    names = [name for name in FETCHED if (source / name).exists()]
    contents = {name: read_bytes(source / name, expected) for name in names}
    for name, content in contents.items():
        write_whole(target / name, content)
    seal(target, contents)
    return names


def report_lines(result: Result) -> Iterator[str]:
    """Tell what a finished study came to: accuracy, disparities and groups of every run."""
    yield from first_sentences([result])
    for run in result.runs:
        settings = ", ".join(f"{name} {value:g}" for name, value in run.settings.items())
        yield f"{result.algorithm} ({result.notion.replace('_', ' ')}), {settings}"
        yield f"  test rows of all silos  {run.rows}"
        yield f"  accuracy                {number(run.accuracy)}"
        for name, value in run.disparity.items():
            interval = run.interval[name]
            if interval is not None:
                ends = f"[{number(interval[0])}, {number(interval[1])}]"
                yield f"  {name.replace('_', ' '):22}  {number(value)}  {ends}"
        for group in run.groups:
            yield (
                f"  group {group.name:16}  {group.n} rows, accuracy "
                f"{number(group.accuracy)}, decided positively {number(group.positive_rate)}"
            )


def status_lines(
    study: str, silos: Sequence[str], events: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Tell the last round, what is known of every silo, and the last events."""
    served = max((i for i, e in enumerate(events) if e["event"] == "serving"), default=0)
    rounds = [e for e in events if e["event"] == "round" and e["phase"] == "run"]
    ended = [e for e in events[served:] if e["event"] in ("finished", "stopped")]
    done = f"{rounds[-1]['round']} of {rounds[-1]['rounds']} rounds" if rounds else "no round yet"
    yield f"{study}: {done}{', ' + ended[-1]['event'] if ended else ''}"
    for silo in silos:
        own = [e for e in events[served:] if e.get("silo") == silo]
        yield f"  {silo:12} {own[-1]['text'] if own else 'not seen yet'}"
    yield "last events:"
    for event in events[-5:]:
        yield f"  {event['time'][:19]}  {event['text']}"
