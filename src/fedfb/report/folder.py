"""The content of an output folder: one run, a comparison, or a frontier."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedfb.errors import DataError
from fedfb.experiments.codec import from_json
from fedfb.experiments.compare import differences
from fedfb.experiments.result import Difference, Frontier, Result
from fedfb.experiments.run_folder import (
    COMPARISON,
    ENCODER,
    EXPERIMENT,
    FRONTIER,
    LEDGER,
    RESULT,
    VERSIONS,
    read_result,
    read_shape,
)
from fedfb.files import interpreting, read_bytes, read_json
from fedfb.runtime.ledger import Account, read_ledger


class ReportedRun(NamedTuple):
    """A finished run: its result, and what else its folder holds."""

    result: Result
    versions: Mapping[str, str]
    inputs: int | None
    accounts: tuple[Account, ...]


class Found(NamedTuple):
    """What a page can be made of: runs, or a frontier."""

    runs: tuple[ReportedRun, ...]
    differences: tuple[Difference, ...] = ()
    frontier: Frontier | None = None


WRITTEN = "JSON as fedfb wrote it: restore it from a copy, or run it again"
"""How a sentence about results that cannot be read ends."""


def read_folder(folder: Path) -> Found:
    """Read the folder of a run, a comparison (a folder of runs) or a frontier."""
    refuse_no_folder(folder)
    if (folder / FRONTIER).exists():
        content = read_bytes(folder / FRONTIER, WRITTEN)
        return Found((), frontier=from_json(content, Frontier, folder / FRONTIER))
    if (folder / RESULT).exists():
        return Found((_run(folder),))
    if (folder / COMPARISON).exists():
        names = _compared(folder / COMPARISON)
    else:
        names = sorted(path.parent.name for path in folder.glob(f"*/{RESULT}"))
    if not names:
        raise DataError(_nothing(folder))
    runs = tuple(_run(folder / name) for name in names)
    results = [run.result for run in runs]
    _refuse_unlike(folder, "data", [result.data for result in results])
    _refuse_unlike(folder, "notion", [result.notion for result in results])
    return Found(runs, tuple(differences(results)))


def refuse_no_folder(folder: Path) -> None:
    """Raise DataError if there is no such folder."""
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}. Name one that fedfb wrote with --out.")


def _nothing(folder: Path) -> str:
    if (folder / EXPERIMENT).exists():
        return (
            f"the run in {folder} is not finished: it has no {RESULT}. Finish it first: fedfb run "
            f"{folder / EXPERIMENT} --out {folder} --resume."
        )
    return (
        f"{folder} holds nothing to report on: no {RESULT}, {COMPARISON} or {FRONTIER}. Name a "
        "folder that fedfb run, compare, frontier or reproduce wrote with --out."
    )


def _refuse_unlike(folder: Path, what: str, values: Sequence[str]) -> None:
    if len(set(values)) > 1:
        raise DataError(
            f"the runs in {folder} cannot stand side by side: their {what} differ "
            f"({', '.join(sorted(set(values)))}). Name the folder of one of them."
        )


def _run(folder: Path) -> ReportedRun:
    ledger = folder / LEDGER
    return ReportedRun(
        result=read_result(folder, WRITTEN),
        versions=_json(folder / VERSIONS) if (folder / VERSIONS).exists() else {},
        inputs=read_shape(folder, WRITTEN).inputs if (folder / ENCODER).exists() else None,
        accounts=tuple(read_ledger(ledger)) if ledger.exists() else (),
    )


def _compared(path: Path) -> list[str]:
    with interpreting(path, WRITTEN):
        names = [str(name) for name in _json(path)["algorithms"]]
        # A name such as ../other would read a file that does not belong to the folder.
        if any(Path(name).name != name or name in (".", "..") for name in names):
            raise ValueError(f"an algorithm is {names!a}")
        return names


def _json(path: Path) -> Any:
    return read_json(path, WRITTEN)
