"""A run's folder: model, preprocessing, settings, versions, results, one row per round.

Nothing is pickled.
"""

import csv
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from fedfb.core import Prediction
from fedfb.data.encode import Encoder
from fedfb.engine import NumpyEngine, decide, sigmoid
from fedfb.errors import ConfigError, DataError
from fedfb.experiments.outcome import Outcome
from fedfb.experiments.spec import Experiment, from_values, read_toml, to_toml
from fedfb.models import Network
from fedfb.shapes import Array, Float

EXPERIMENT, RESULT, MODELS, ENCODER = (
    "experiment.toml",
    "result.json",
    "models.npz",
    "preprocessing.json",
)
VERSIONS, ROUNDS, CHECKPOINTS = "versions.json", "rounds.csv", "checkpoints"
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
    with _writing_to(folder):
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
        _write(folder / EXPERIMENT, to_toml(experiment))
        checkpoints.mkdir(exist_ok=True)
    try:
        yield checkpoints
    except BaseException:
        if not held and not any(checkpoints.iterdir()):
            checkpoints.rmdir()
            (folder / EXPERIMENT).unlink()
            if made:
                folder.rmdir()
        raise


@contextmanager
def _writing_to(folder: Path) -> Iterator[None]:
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
    first = outcome.fitted[0]
    # Any: beside the arrays savez takes a switch, and a type checker cannot tell the names apart.
    models: dict[str, Any] = {
        f"seed-{f.seed}": params
        for f in outcome.fitted
        if (params := f.algorithm.params(f.trained.state)) is not None
    }
    shape = {
        "inputs": len(outcome.federation.feature_names),
        "hidden": list(outcome.experiment.hidden) if outcome.experiment.model == "mlp" else [],
        "precision": outcome.experiment.precision,
        "settings": [dict(setting) for setting in first.settings],
        "encoder": outcome.federation.encoder.to_dict(),
    }
    with _writing_to(folder):
        _write(folder / RESULT, json.dumps(outcome.report, indent=1, allow_nan=False))
        _write(folder / ENCODER, json.dumps(shape, indent=1))
        _write(folder / VERSIONS, json.dumps(versions(), indent=1))
        aside = folder / (MODELS + ".partial")
        with aside.open("wb") as file:
            np.savez(file, **models)
        aside.replace(folder / MODELS)
        with (folder / ROUNDS).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(round_table(outcome.report))


def round_table(report: dict[str, Any]) -> Iterator[list[Any]]:
    """Yield a header and one row per run and round."""
    knobs = list(report["runs"][0]["settings"])
    columns = ["round", "accuracy", "disparity", "signal", "lambda"]
    yield ["seed", *knobs, *columns]
    for run in report["runs"]:
        for row in run["rounds"]:
            cells = [json.dumps(row[c]) if isinstance(row[c], list) else row[c] for c in columns]
            yield [run["seed"], *run["settings"].values(), *cells]


def versions() -> dict[str, str]:
    """Return what a result depends on beside its settings."""
    packages = {name: version(name) for name in ("fedfb", *DEPENDENCIES)}
    return {**packages, "python": platform.python_version(), "machine": platform.machine()}


def _write(path: Path, content: str) -> None:
    aside = path.with_name(path.name + ".partial")
    with aside.open("w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


@dataclass(frozen=True)
class SavedModel:
    """One trained model with its preprocessing, read back from a run's folder."""

    network: Network
    params: Float[Array, "1 p"]
    encoder: Encoder
    seed: int
    precision: str = "float64"

    def predict(self, x: Float[Array, "n d"]) -> Prediction:
        """Score and decide encoded rows, in the precision of the run."""
        logits = NumpyEngine(self.network, np.dtype(self.precision)).logits(self.params, x)
        return Prediction(sigmoid(logits), decide(logits))


def load_model(folder: str | Path, seed: int | None = None, run: int = 0) -> SavedModel:
    """Read the model of one seed (default: the first) and one setting of a run's folder."""
    folder = Path(folder)
    missing = [name for name in (MODELS, ENCODER) if not (folder / name).exists()]
    if missing:
        raise DataError(
            f"{folder} holds no finished run: {' and '.join(missing)} not there. "
            "Make one with fedfb run ... --out FOLDER."
        )
    try:
        shape = json.loads((folder / ENCODER).read_text(encoding="utf-8"))
        # Opened here: numpy leaves a file that is no archive open.
        with (folder / MODELS).open("rb") as file, np.load(file, allow_pickle=False) as found:
            models = {int(name.removeprefix("seed-")): found[name] for name in found}
        network = Network(shape["inputs"], tuple(shape["hidden"]))
        encoder, precision = Encoder.from_dict(shape["encoder"]), shape["precision"]
    except (OSError, ValueError, KeyError, TypeError, BadZipFile, EOFError) as error:
        raise DataError(
            f"the model in {folder} cannot be read ({error}). Expected {MODELS} and {ENCODER} as "
            "fedfb run --out wrote them: train again."
        ) from None
    if not models:
        raise ConfigError(f"{folder} holds no model: its method trains none that clients share.")
    wanted = next(iter(models)) if seed is None else seed
    if wanted not in models:
        raise ConfigError(f"{folder} has no model of seed {wanted}; it has {list(models)}.")
    params = models[wanted]
    if not 0 <= run < len(params):
        raise ConfigError(
            f"{folder} has {len(params)} settings, counted from 0; {run} is not one of them."
        )
    return SavedModel(network, params[run : run + 1], encoder, wanted, precision)
