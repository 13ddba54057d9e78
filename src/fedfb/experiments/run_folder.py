"""The folder of a run: model, preprocessing, settings, versions, results, rounds and ledger.

Nothing is pickled. A folder is claimed before training, and results are never overwritten.
"""

import csv
import io
import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from fedfb.algorithms.fedfb.calibration import apply_maps
from fedfb.core import Arrays, Examples, Prediction
from fedfb.data.encode import Encoder, RawRows
from fedfb.errors import ConfigError, DataError, WriteError, unknown_name
from fedfb.experiments.codec import from_json, to_json
from fedfb.experiments.outcome import Outcome
from fedfb.experiments.resolve import resolve
from fedfb.experiments.result import Result
from fedfb.experiments.spec import Experiment, Resolved
from fedfb.experiments.spec_file import from_values, read_settings, to_toml
from fedfb.experiments.train import QUIET, Fitted, build, make_engine, training_notion
from fedfb.files import (
    CHANGED,
    interpreting,
    make_folder,
    pack_arrays,
    read_arrays,
    read_bytes,
    read_json,
    seal,
    unseal,
    write_whole,
    writing,
)
from fedfb.models import is_own
from fedfb.runtime import as_arrays, from_arrays
from fedfb.runtime.ledger import settle_ledger
from fedfb.shapes import Array, Float

EXPERIMENT, RESULT, MODELS, ENCODER = (
    "experiment.toml",
    "result.json",
    "models.npz",
    "preprocessing.json",
)
VERSIONS, ROUNDS, CHECKPOINTS = "versions.json", "rounds.csv", "checkpoints"
LEDGER = "ledger.jsonl"
_WRITTEN = f"{MODELS} and {ENCODER} as fedfb run --out wrote them: restore them, or train again"
"""How a sentence about a model that cannot be read ends."""

DEPENDENCIES = ("numpy", "scipy", "scikit-learn")


@contextmanager
def claim(folder: Path, experiment: Experiment, resume: bool = False) -> Iterator[Path]:
    """Claim an output folder before any training, and yield its folder of checkpoints.

    If the block fails before its first round, the claim is given up.

    Args:
        folder: is refused if it holds anything, so that nothing is overwritten.
        experiment: is written into the folder.
        resume: continue in a folder that was begun with the same settings.
    """
    checkpoints = folder / CHECKPOINTS
    made = not folder.exists()
    held = held_in(folder)
    if held and not resume:
        more = ", ..." if len(held) > 3 else ""
        raise ConfigError(
            f"the output folder {folder} is not empty ({', '.join(held[:3])}{more}). "
            "Give a new folder, or go on with the run in it: --resume."
        )
    if held:
        _refuse_other(folder, experiment)
    try:
        make_folder(checkpoints)
        unseal(folder)
        write_whole(folder / EXPERIMENT, to_toml(experiment))
        yield checkpoints
    except BaseException as error:
        if checkpoints.is_dir() and any(checkpoints.iterdir()):
            if isinstance(error, WriteError):
                raise WriteError(
                    f"{error} What is done is kept: fedfb run --out {folder} --resume goes on."
                ) from error
        elif not held and folder.is_dir():
            if checkpoints.is_dir():
                checkpoints.rmdir()
            (folder / EXPERIMENT).unlink(missing_ok=True)
            (folder / LEDGER).unlink(missing_ok=True)
            if made:
                folder.rmdir()
        raise


def held_in(folder: Path) -> list[str]:
    """Return the names of the files in a folder; empty if the folder does not exist."""
    with writing(folder):
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def _refuse_other(folder: Path, experiment: Experiment) -> None:
    path = folder / EXPERIMENT
    if not path.exists():
        raise ConfigError(
            f"{folder} holds no run to resume (no {EXPERIMENT}). Give another folder."
        )
    begun = read_experiment(folder)
    differing = [k for k, v in asdict(begun).items() if k != "seeds" and v != asdict(experiment)[k]]
    if differing:
        raise ConfigError(
            f"{folder} was begun with other settings ({', '.join(differing)} differ). "
            "Resume with the same ones, or give another folder."
        )


def save(outcome: Outcome, folder: Path) -> None:
    """Write everything a run came to into its folder."""
    models = {
        f"seed-{fitted.seed}/{path}": value
        for fitted in outcome.fitted
        for path, value in as_arrays(fitted.trained._replace(history=[])).items()
    }
    shape = {
        "inputs": len(outcome.federation.feature_names),
        "clients": list(outcome.federation.client_names),
        "settings": [dict(run.settings) for run in outcome.by_seed[0]],
        "diverged": {
            str(runs[0].seed): places
            for runs in outcome.by_seed
            if (places := [place for place, run in enumerate(runs) if run.diverged])
        },
        "asked": len(outcome.result.summaries),  # the model without fairness comes after these
        "encoder": outcome.federation.encoder.to_dict(),
    }
    rounds = io.StringIO(newline="")
    csv.writer(rounds).writerows(round_table(outcome.result))
    contents: dict[str, str | bytes] = {
        ENCODER: json.dumps(shape, indent=1),
        VERSIONS: json.dumps(versions(outcome.experiment), indent=1),
        MODELS: pack_arrays(models),
        ROUNDS: rounds.getvalue(),
        # Last: who has the result has all of the run.
        RESULT: to_json(outcome.result),
    }
    make_folder(folder)
    unseal(folder)
    if not (folder / EXPERIMENT).exists():
        write_whole(folder / EXPERIMENT, to_toml(outcome.experiment))
    if (folder / LEDGER).exists():
        settle_ledger(folder / LEDGER)
    for name, content in contents.items():
        write_whole(folder / name, content)
    seal(folder, [name for name in (EXPERIMENT, *contents, LEDGER) if (folder / name).exists()])


def round_table(result: Result) -> Iterator[list[Any]]:
    """Yield a header and one row per run and round."""
    knobs = list(result.runs[0].settings)
    yield ["seed", *knobs, "round", "accuracy", "disparity", "signal", "lambda"]
    for run in result.runs:
        for row in run.rounds:
            vectors = [json.dumps(v) if isinstance(v, list) else v for v in (row.signal, row.lam)]
            figures = [row.round, row.accuracy, row.disparity, *vectors]
            yield [run.seed, *run.settings.values(), *figures]


def read_result(folder: Path, expected: str) -> Result:
    """Read the result of a run's folder; ``expected`` says what the file should be.

    Args:
        folder: the folder of a run.
        expected: what the file should be, for the message of an error.
    """
    return from_json(read_bytes(folder / RESULT, expected), Result, folder / RESULT)


def versions(experiment: Experiment) -> dict[str, str]:
    """Return what a result depends on beside its settings."""
    from importlib.metadata import version  # here: a run without a folder does not need it

    packages = {name: version(name) for name in ("fedfb", *DEPENDENCIES)}
    return {
        **packages,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "instructions": make_engine(experiment, inputs=1).instructions,
    }


def read_experiment(folder: Path) -> Experiment:
    """Read the experiment of a run's folder."""
    return from_values(read_settings(folder / EXPERIMENT, sealed=True))


@dataclass(frozen=True)
class SavedModel:
    """One trained model with its preprocessing, read back from a run's folder.

    ``run`` is the setting of a grid, ``clients`` are the names behind the ids of its clients.
    """

    experiment: Resolved
    fitted: Fitted
    run: int
    encoder: Encoder
    clients: tuple[str, ...]

    @property
    def is_personal(self) -> bool:
        """Whether every client has a model of its own."""
        return any("personal" in memory for memory in self.fitted.trained.memories.values())

    def predict(self, rows: RawRows, client: str | None = None) -> Prediction:
        """Score and decide rows.

        Args:
            rows: rows as read, before encoding.
            client: name of the client whose model decides, where each client has a model.
        """
        if client is not None and client not in self.clients:
            raise ConfigError(unknown_name("client", client, self.clients))
        if client is not None and not self.is_personal:
            raise ConfigError(
                f"--client {client}: there is one model for all clients here. Leave --client out."
            )
        number = -1 if client is None else self.clients.index(client)
        count = len(rows.x)
        group = np.zeros(count, np.int64) if rows.group is None else rows.group
        nothing = np.zeros(count, np.int64)
        examples = Examples(rows.x, nothing, group, np.full(count, number))
        score, decision = self.fitted.predict(examples)
        only = slice(self.run, self.run + 1)
        return Prediction(score[only], decision[only])

    def calibrate(self, prediction: Prediction, rows: RawRows) -> Float[Array, " n"]:
        """Return the probability that each score stands for in the group of its row.

        Args:
            prediction: what :meth:`predict` returned for the rows.
            rows: the rows, with their groups.
        """
        score, maps = prediction.score[0], self.fitted.trained.state.calibration[self.run]
        everybody = np.full(len(score), -1)
        return apply_maps(maps, everybody if rows.group is None else rows.group, score)

    def refuse_uncalibrated(self) -> None:
        """Refuse to calibrate the scores of a method that asked for no histogram of them."""
        if "calibration" not in self.fitted.trained.state._fields:
            raise ConfigError(
                f"the scores of this run ({self.experiment.algorithm}) were not calibrated: that "
                "needs the histogram of scores, which fedfb and cfl (with --cut common, the "
                "default), fedfb-thresholds and hardt ask for. Train again, or leave out "
                "--calibrated."
            )


class Shape(msgspec.Struct, frozen=True):
    """What ``preprocessing.json`` says of a model: its inputs, clients, settings and encoder.

    ``asked`` is the number of settings that were asked for, ``diverged`` the places of those
    without a model, by seed.
    """

    inputs: Annotated[int, Meta(ge=1, le=10_000_000)]
    clients: tuple[str, ...]
    settings: tuple[dict[str, float], ...]
    asked: Annotated[int, Meta(ge=1)]
    encoder: dict[str, Any]
    diverged: dict[str, tuple[int, ...]] = {}


def read_shape(folder: Path, expected: str) -> Shape:
    """Read what a run's folder says of its models; ``expected`` ends the message of an error."""
    path = folder / ENCODER
    values = read_json(path, expected)
    try:
        return msgspec.convert(values, Shape)
    except (msgspec.ValidationError, *CHANGED) as error:
        raise DataError(f"{path} cannot be read: {error}. Expected {expected}.") from None


def load_model(
    folder: str | Path, seed: int | None = None, run: int = 0, trust_code: bool = False
) -> SavedModel:
    """Read a trained model from the folder of a run.

    Args:
        folder: the folder of a finished run.
        seed: one of the seeds of the run (default: the first).
        run: the place of the setting, counted from 0.
        trust_code: run the function that a torch model names. It is code: whoever made the folder
            chose which code.
    """
    folder = Path(folder)
    missing = [name for name in (MODELS, ENCODER, EXPERIMENT) if not (folder / name).exists()]
    if missing:
        raise DataError(
            f"{folder} holds no finished run: {' and '.join(missing)} not there. "
            "Make one with fedfb run ... --out FOLDER."
        )
    written = read_experiment(folder)
    if is_own(written.model) and not trust_code:
        raise ConfigError(
            f"{folder} names code: its model is the function {written.model!a}, which would be "
            "imported and run with your rights. If the run is your own, or you trust who made it: "
            "--trust-code (in Python trust_code=True)."
        )
    experiment = resolve(written)
    shape = read_shape(folder, _WRITTEN)
    arrays = read_arrays(folder / MODELS, _WRITTEN)
    with interpreting(f"the model in {folder}", _WRITTEN):
        models = _models(arrays)
        encoder, clients = Encoder.from_dict(shape.encoder), shape.clients
        first, *_ = models
        wanted = first if seed is None else seed
        notion = training_notion(experiment, len(encoder.groups.names), len(clients))
        # A model decides with any engine, also where the one that trained it is not there.
        engine = make_engine(replace(experiment, engine="auto"), len(encoder.feature_names))
        if shape.inputs != len(encoder.feature_names):
            raise ValueError(f"it has {shape.inputs} inputs, not those of its encoder")
        diverged = shape.diverged.get(str(wanted), ())
        places = [p for p in range(len(shape.settings)) if p not in diverged]
        settings = tuple(shape.settings[place] for place in places)
        algorithm = build(experiment, engine, notion, settings, QUIET)
        trained = {
            number: from_arrays(algorithm, arrays_of_seed)
            for number, arrays_of_seed in models.items()
        }
        count = shape.asked
    if wanted not in trained:
        raise ConfigError(f"{folder} has no model of seed {wanted}; it has {list(models)}.")
    if not 0 <= run < count:
        many = "setting" if count == 1 else "settings"
        raise ConfigError(f"{folder} has {count} {many}, counted from 0; {run} is not one of them.")
    if run in diverged:
        raise ConfigError(
            f"setting {run} of {folder} diverged with seed {wanted} and has no model. Settings "
            f"that have one: {', '.join(str(place) for place in places if place < count)}."
        )
    fitted = Fitted(wanted, settings, algorithm, trained[wanted])
    with interpreting(f"the model in {folder}", _WRITTEN):
        # Columns and parameters that do not belong together show when a row is scored.
        _, *_ = encoder.feature_names
        # One row of zeros: label 0, group 0, and -1 for a row of no client.
        zero = np.zeros(1, np.int64)
        fitted.predict(Examples(np.zeros((1, len(encoder.feature_names))), zero, zero, zero - 1))
    return SavedModel(experiment, fitted, places.index(run), encoder, clients)


def _models(arrays: Arrays) -> dict[int, Arrays]:
    """Return the arrays of every seed."""
    models: dict[int, Arrays] = {}
    for name, value in arrays.items():
        seed, _, rest = name.removeprefix("seed-").partition("/")
        models.setdefault(int(seed), {})[rest] = value
    return models


FRONTIER, COMPARISON, CELLS = "frontier.json", "comparison.json", "cells"


@contextmanager
def claim_empty(folder: Path, undo: bool = False, mode: int = 0o777) -> Iterator[Path]:
    """Claim a new or empty folder; if what follows leaves it empty, it is given up.

    Args:
        folder: the folder; one that holds anything is refused.
        undo: empty the folder again if what follows fails: where that is soon done once more.
        mode: who may enter a folder that is made.

    """
    made = not folder.exists()
    held = held_in(folder)
    if held:
        more = ", ..." if len(held) > 3 else ""
        raise ConfigError(
            f"the output folder {folder} is not empty ({', '.join(held[:3])}{more}). "
            "Give a new folder."
        )
    make_folder(folder, mode)
    try:
        yield folder
    except BaseException:
        for path in folder.iterdir() if undo else ():
            rmtree(path) if path.is_dir() else path.unlink()
        raise
    finally:
        if made and not any(folder.iterdir()):
            folder.rmdir()
