"""A run's folder: model, preprocessing, settings, versions, results, rounds, and the ledger.

Nothing is pickled.
"""

import csv
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from fedfb.core import Arrays, Examples, Prediction
from fedfb.data.encode import Encoder, RawRows
from fedfb.errors import ConfigError, DataError, unknown_name
from fedfb.experiments.fit import QUIET, Fitted, build, make_engine, training_notion
from fedfb.experiments.outcome import Outcome
from fedfb.experiments.resolve import resolve
from fedfb.experiments.spec import Experiment
from fedfb.experiments.spec_file import from_values, read_toml, to_toml
from fedfb.runtime import as_arrays, from_arrays
from fedfb.runtime.ledger import settle

EXPERIMENT, RESULT, MODELS, ENCODER = (
    "experiment.toml",
    "result.json",
    "models.npz",
    "preprocessing.json",
)
VERSIONS, ROUNDS, CHECKPOINTS = "versions.json", "rounds.csv", "checkpoints"
LEDGER = "ledger.jsonl"
DEPENDENCIES = ("numpy", "scipy", "scikit-learn")


@contextmanager
def claim(folder: Path, experiment: Experiment, resume: bool = False) -> Iterator[Path]:
    """Claim an output folder before any training, and yield its folder of checkpoints.

    A folder that holds anything is refused, so that nothing is overwritten; ``resume`` goes on in a
    folder that was begun with the same settings. If what follows fails before its first round, the
    claim is given up.
    """
    checkpoints = folder / CHECKPOINTS
    made = not folder.exists()
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        held = sorted(path.name for path in folder.iterdir())
        if held and not resume:
            more = ", ..." if len(held) > 3 else ""
            raise ConfigError(
                f"the output folder {folder} is not empty ({', '.join(held[:3])}{more}). "
                "Give a new folder, or go on with the run in it: --resume."
            )
        if held:
            _refuse_other(folder, experiment)
        write_whole(folder / EXPERIMENT, to_toml(experiment))
        checkpoints.mkdir(exist_ok=True)
    try:
        yield checkpoints
    except BaseException:
        if not held and not any(checkpoints.iterdir()):
            checkpoints.rmdir()
            (folder / EXPERIMENT).unlink()
            (folder / LEDGER).unlink(missing_ok=True)
            if made:
                folder.rmdir()
        raise


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turn a failure to write into a message that names the output folder."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"cannot write to the output folder {folder}: {error.strerror}. "
            "Give one you may write to."
        ) from None


def _refuse_other(folder: Path, experiment: Experiment) -> None:
    path = folder / EXPERIMENT
    if not path.exists():
        raise ConfigError(
            f"{folder} holds no run to resume (no {EXPERIMENT}). Give another folder."
        )
    begun = from_values(read_toml(path))
    differing = [k for k, v in asdict(begun).items() if k != "seeds" and v != asdict(experiment)[k]]
    if differing:
        raise ConfigError(
            f"{folder} was begun with other settings ({', '.join(differing)} differ). "
            "Resume with the same ones, or give another folder."
        )


def save(outcome: Outcome, folder: Path) -> None:
    """Write everything a run came to into its folder."""
    # Any: beside the arrays savez takes a switch, and a type checker cannot tell the names apart.
    models: dict[str, Any] = {
        f"seed-{fitted.seed}/{path}": value
        for fitted in outcome.fitted
        for path, value in as_arrays(fitted.trained._replace(history=[])).items()
    }
    shape = {
        "inputs": len(outcome.federation.feature_names),
        "clients": list(outcome.federation.client_names),
        "settings": [dict(record["settings"]) for record in outcome.records[0]],
        "diverged": {
            str(records[0]["seed"]): places
            for records in outcome.records
            if (places := [p for p, record in enumerate(records) if record.get("diverged")])
        },
        "asked": len(outcome.report["summaries"]),  # the model without fairness comes after these
        "encoder": outcome.federation.encoder.to_dict(),
    }
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / EXPERIMENT).exists():
            write_whole(folder / EXPERIMENT, to_toml(outcome.experiment))
        write_whole(folder / RESULT, json.dumps(outcome.report, indent=1, allow_nan=False))
        write_whole(folder / ENCODER, json.dumps(shape, indent=1))
        write_whole(folder / VERSIONS, json.dumps(versions(outcome.experiment), indent=1))
        aside = folder / (MODELS + ".partial")
        with aside.open("wb") as file:
            np.savez(file, **models)
        aside.replace(folder / MODELS)
        with (folder / ROUNDS).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(round_table(outcome.report))
        if (folder / LEDGER).exists():
            settle(folder / LEDGER)


def round_table(report: dict[str, Any]) -> Iterator[list[Any]]:
    """Yield a header and one row per run and round."""
    knobs = list(report["runs"][0]["settings"])
    columns = ["round", "accuracy", "disparity", "signal", "lambda"]
    yield ["seed", *knobs, *columns]
    for run in report["runs"]:
        for row in run["rounds"]:
            cells = [json.dumps(row[c]) if isinstance(row[c], list) else row[c] for c in columns]
            yield [run["seed"], *run["settings"].values(), *cells]


def versions(experiment: Experiment) -> dict[str, str]:
    """Return what a result depends on beside its settings."""
    packages = {name: version(name) for name in ("fedfb", *DEPENDENCIES)}
    return {
        **packages,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "instructions": make_engine(experiment, inputs=1).instructions,
    }


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file aside and move it into place: it is whole, or as it was."""
    aside = path.with_name(path.name + ".partial")
    with aside.open("wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


@dataclass(frozen=True)
class SavedModel:
    """One trained model with its preprocessing, read back from a run's folder.

    ``run`` is the setting of a grid, ``clients`` are the names behind the ids of its clients.
    """

    fitted: Fitted
    run: int
    encoder: Encoder
    clients: tuple[str, ...]

    def predict(self, rows: RawRows, client: str | None = None) -> Prediction:
        """Score and decide rows, as those of a client where a method has models of their own."""
        if client is not None and client not in self.clients:
            raise ConfigError(unknown_name("client", client, self.clients))
        number = -1 if client is None else self.clients.index(client)
        count = len(rows.x)
        group = np.zeros(count, np.int64) if rows.group is None else rows.group
        nothing = np.zeros(count, np.int64)
        examples = Examples(rows.x, nothing, group, np.full(count, number))
        score, decision = self.fitted.predict(examples)
        only = slice(self.run, self.run + 1)
        return Prediction(score[only], decision[only])


def load_model(folder: str | Path, seed: int | None = None, run: int = 0) -> SavedModel:
    """Read the model of one seed (default: the first) and one setting of a run's folder."""
    folder = Path(folder)
    missing = [name for name in (MODELS, ENCODER, EXPERIMENT) if not (folder / name).exists()]
    if missing:
        raise DataError(
            f"{folder} holds no finished run: {' and '.join(missing)} not there. "
            "Make one with fedfb run ... --out FOLDER."
        )
    experiment = resolve(from_values(read_toml(folder / EXPERIMENT)))
    try:
        shape = json.loads((folder / ENCODER).read_text(encoding="utf-8"))
        models = _models(folder / MODELS)
        encoder, clients = Encoder.from_dict(shape["encoder"]), tuple(shape["clients"])
        wanted = next(iter(models)) if seed is None else seed
        notion = training_notion(experiment, len(encoder.groups.names), len(clients))
        # A model decides with any engine, also where the one that trained it is not there.
        engine = make_engine(replace(experiment, engine="auto"), shape["inputs"])
        diverged = shape.get("diverged", {}).get(str(wanted), [])
        places = [p for p in range(len(shape["settings"])) if p not in diverged]
        settings = tuple(shape["settings"][place] for place in places)
        algorithm = build(experiment, engine, notion, settings, QUIET)
        trained = {number: from_arrays(algorithm, found) for number, found in models.items()}
    except (OSError, ValueError, KeyError, TypeError, BadZipFile, EOFError, StopIteration) as error:
        raise DataError(
            f"the model in {folder} cannot be read ({error}). Expected {MODELS} and {ENCODER} as "
            "fedfb run --out wrote them: train again."
        ) from None
    if wanted not in trained:
        raise ConfigError(f"{folder} has no model of seed {wanted}; it has {list(models)}.")
    asked = shape["asked"]
    if not 0 <= run < asked:
        many = "setting" if asked == 1 else "settings"
        raise ConfigError(f"{folder} has {asked} {many}, counted from 0; {run} is not one of them.")
    if run in diverged:
        raise ConfigError(
            f"setting {run} of {folder} diverged with seed {wanted} and has no model. Settings "
            f"that have one: {', '.join(str(place) for place in places if place < asked)}."
        )
    fitted = Fitted(wanted, settings, algorithm, trained[wanted])
    return SavedModel(fitted, places.index(run), encoder, clients)


def _models(path: Path) -> dict[int, Arrays]:
    """Read the arrays of every seed."""
    models: dict[int, Arrays] = {}
    # Opened here: numpy leaves a file that is no archive open.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
        for name in found:
            seed, _, rest = name.removeprefix("seed-").partition("/")
            models.setdefault(int(seed), {})[rest] = found[name]
    return models
