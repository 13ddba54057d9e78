"""A study's result as files: the model, how rows are encoded, the report; and how to fetch them."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedfb.data.encode import Encoder
from fedfb.errors import ConfigError, DataError
from fedfb.experiments.evaluation import group_record
from fedfb.experiments.rounds import round_rows
from fedfb.experiments.spec import to_toml
from fedfb.experiments.store import (
    ENCODER,
    EXPERIMENT,
    LEDGER,
    MODELS,
    RESULT,
    write_whole,
    writing_to,
)
from fedfb.flower.study import Study
from fedfb.flower.wire import pack_arrays
from fedfb.notions import long_name
from fedfb.notions.disparity import disparities
from fedfb.runtime.archive import RoundRecord
from fedfb.shapes import Array, Float

FETCHED = (EXPERIMENT, RESULT, ENCODER, MODELS, LEDGER)
"""The files of a result, of which the ledger lies with the coordinator alone."""


def make_report(
    study: Study,
    settings: Sequence[Mapping[str, float]],
    confusion: Float[Array, "r 2 2 a"],
    history: Sequence[RoundRecord],
) -> dict[str, Any]:
    """Describe every run by its decisions on the silos' test rows, of which only sums are known."""
    notion = long_name(study.experiment.notion)
    runs = []
    for number, (setting, table) in enumerate(zip(settings, confusion, strict=True)):
        estimates = disparities(table, None)
        everyone = group_record("all", table.sum(axis=2))
        runs.append(
            {
                "settings": dict(setting),
                "accuracy": everyone["accuracy"],
                "test_rows": everyone["n"],
                "disparity": {name: estimate.value for name, estimate in estimates.items()},
                "groups": [
                    group_record(name, table[:, :, group])
                    for group, name in enumerate(study.schema.groups)
                ],
                "rounds": round_rows(history, number, notion),
            }
        )
    return {
        "study": study.name,
        "algorithm": study.experiment.algorithm,
        "notion": notion,
        "silos": list(study.silos),
        "runs": runs,
    }


def result_files(
    study: Study,
    encoder: Encoder,
    settings: Sequence[Mapping[str, float]],
    report: Mapping[str, Any],
) -> dict[str, str]:
    """Return the texts of a result by name; together with the model, fedfb predict reads them."""
    shape = {
        "inputs": len(encoder.feature_names),
        "clients": list(study.silos),
        "settings": [dict(setting) for setting in settings],
        "asked": len(settings),
        "encoder": encoder.to_dict(),
    }
    return {
        EXPERIMENT: to_toml(study.experiment),
        RESULT: json.dumps(report, indent=1, allow_nan=False),
        ENCODER: json.dumps(shape, indent=1),
    }


def model_bytes(study: Study, state: Mapping[str, Array]) -> bytes:
    """Return the final state as the model file of a run's folder holds it."""
    return pack_arrays({f"seed-{study.seed}/{k}": np.asarray(v) for k, v in state.items()})


def keep_result(folder: Path, texts: Mapping[str, str], model: bytes) -> None:
    """Write a result into a folder."""
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            if name in FETCHED:
                write_whole(folder / name, text)
        write_whole(folder / MODELS, model)


def fetch(source: Path, target: Path) -> list[str]:
    """Copy a result to a new folder; return the names of its files."""
    if not (source / RESULT).exists():
        raise DataError(
            f"{source} holds no result yet (no {RESULT}). The study is still to be run, or to be "
            "finished: see fedfb status."
        )
    if target.exists() and any(target.iterdir()):
        raise ConfigError(f"the folder {target} is not empty. Give a new one.")
    with writing_to(target):
        target.mkdir(parents=True, exist_ok=True)
        found = [name for name in FETCHED if (source / name).exists()]
        for name in found:
            shutil.copyfile(source / name, target / name)
    return found
