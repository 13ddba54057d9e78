"""``fedfb run --out``: a folder is whole, never overwritten, and gives the same result again."""

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest

from cli.asking import TINY, refused
from fedfb.runtime import archive as checkpoint


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_folder_holds_model_preprocessing_settings_versions_and_rounds(tiny, tmp_path):
    report = tiny("--seeds", 2, "--alpha", ".1,.5", "--out", "kept", "--json").json
    kept = tmp_path / "kept"
    files = {path.name for path in kept.iterdir() if path.is_file()}
    assert files == {
        *("experiment.toml", "result.json", "models.npz", "preprocessing.json"),
        *("versions.json", "rounds.csv", "ledger.jsonl", "fedfb.sha256"),
    }
    assert json.loads((kept / "result.json").read_text()) == report
    assert {"fedfb", "numpy", "python"} <= set(json.loads((kept / "versions.json").read_text()))
    with (kept / "rounds.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 2
    assert [row["round"] for row in rows[:2]] == ["1", "2"]
    assert {row["alpha"] for row in rows} == {"0.1", "0.5"}


def test_its_experiment_file_gives_the_same_result_again(tiny, fedfb):
    flags = ("--model", "mlp", "--hidden", "3,2", "--notion", "eod", "--seeds", "5:7")
    first = tiny(*flags, "--alpha", ".3", "--out", "kept", "--json")
    assert fedfb("run", "kept/experiment.toml", "--json").out == first.out


def test_resuming_a_finished_run_returns_the_same(tiny, tmp_path):
    first = tiny("--seeds", 2, "--out", "kept", "--json")
    before = contents(tmp_path / "kept")
    assert tiny("--seeds", 2, "--out", "kept", "--resume", "--json").out == first.out
    after = contents(tmp_path / "kept")
    assert after.keys() == before.keys()
    assert all(after[name] == before[name] for name in after if not name.endswith(".npz"))


def test_more_seeds_can_be_added_on_resuming(tiny):
    tiny("--out", "kept")
    assert tiny("--seeds", 2, "--out", "kept", "--resume", "--json").out == (
        tiny("--seeds", 2, "--json").out
    )


def test_tuning_resumes_too(tiny):
    flags = ("--tune", "--alpha", ".1,2", "--json")
    first = tiny(*flags, "--out", "kept").out
    assert first == tiny(*flags).out == tiny(*flags, "--out", "kept", "--resume").out


def test_a_folder_that_is_not_empty_is_refused_and_left_as_it_is(tiny, write, tmp_path):
    write("mine", "kept/experiment.toml")
    write("mine", "kept/notes/other.txt")
    before = contents(tmp_path)
    refused(tiny("--out", "kept"), "kept is not empty (experiment.toml, notes)", "--resume")
    assert contents(tmp_path) == before


def test_a_folder_without_a_run_cannot_be_resumed(tiny, write, tmp_path):
    write("mine", "kept/notes.txt")
    refused(tiny("--out", "kept", "--resume"), "kept holds no run to resume")
    assert contents(tmp_path / "kept") == {"notes.txt": b"mine"}


def test_the_folder_of_another_experiment_is_not_resumed(tiny, tmp_path):
    tiny("--out", "kept")
    before = contents(tmp_path)
    said = tiny("--notion", "eo", "--alpha", "1", "--out", "kept", "--resume")
    refused(said, "kept was begun with other settings (notion, alpha differ)")
    assert contents(tmp_path) == before


def test_a_checkpoint_of_other_rows_is_not_continued(tiny, tmp_path):
    tiny("--out", "kept")
    path = tmp_path / "kept/checkpoints/run-seed-0.npz"
    checkpoint.save_archive(path, {"state/t": np.array(1)}, "another")
    refused(tiny("--out", "kept", "--resume"), "belongs to another experiment (another, this one")
    path.write_bytes(b"PK")
    refused(tiny("--out", "kept", "--resume"), "cannot be read", "Remove it")


@pytest.mark.parametrize("folder", ["a-file/kept", "a-file", "/proc/fedfb/kept"])
def test_a_folder_that_cannot_be_written_is_told_before_training(tiny, write, folder):
    if folder.startswith("/proc") and not os.path.isdir("/proc"):
        pytest.skip("no /proc here")
    write("", "a-file")
    refused(tiny("--out", folder), f"cannot write to {folder}", "give a place")


@pytest.mark.parametrize(
    "flags",
    [
        ("--notion", "dpp"),
        ("--algorithm", "fedbf"),
        ("--data", "absent.csv"),
        ("--notion", "cp", "--timing", "local"),
        ("--model", "mlp", "--optimiser", "sgd", "--lr", "1e300"),
    ],
)
def test_what_fails_before_its_first_round_leaves_no_folder_behind(fedfb, tmp_path, flags):
    refused(fedfb("run", *TINY, *flags, "--out", "runs/kept"))
    assert not (tmp_path / "runs/kept").exists()
    (tmp_path / "made").mkdir()
    refused(fedfb("run", *TINY, *flags, "--out", "made"))
    assert list((tmp_path / "made").iterdir()) == []
