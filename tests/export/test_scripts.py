"""The scripts of docs/hand-over.md score rows where there is nothing but what they need."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedfb.data import encode_file
from fedfb.experiments.run_folder import load_model

DOC = (Path(__file__).parents[2] / "docs" / "hand-over.md").read_text(encoding="utf-8")
FLAGS = ("--label", "repaid", "--positive", "yes", "--sensitive", "sex", "--rounds", 2)


def block(name: str) -> str:
    return re.search(rf"<!-- {re.escape(name)} -->\n```python\n(.*?)```", DOC, re.DOTALL).group(1)


@pytest.fixture
def with_only(tmp_path):
    """Run a script in an isolated Python that finds no packages but those named."""

    def run(code: str, packages: tuple[str, ...], *arguments: object) -> str:
        links, script = tmp_path / "packages", tmp_path / "script.py"
        links.mkdir(exist_ok=True)
        for name in packages:
            folder = Path(find_spec(name).submodule_search_locations[0])
            for place in (folder, folder.with_name(f"{name}.libs")):
                if place.exists() and not (links / place.name).exists():
                    (links / place.name).symlink_to(place)
        script.write_text(code, encoding="utf-8")
        start = (
            "import importlib.util, runpy, sys; sys.path.append(sys.argv.pop(1)); "
            "assert not any(map(importlib.util.find_spec, ('fedfb', 'sklearn', 'pandas'))); "
            "sys.argv.pop(0); runpy.run_path(sys.argv[0])"
        )
        command = [sys.executable, "-I", "-S", "-c", start, links, script, *arguments]
        return subprocess.run(
            list(map(str, command)), capture_output=True, text=True, check=True
        ).stdout

    return run


@pytest.fixture
def handed_over(fedfb_command, tmp_path, loans, new_loans):
    """Train on loans, export, and return the file with rows to score and our own figures."""

    def export(to: str, *flags: object) -> tuple[Path, Path, np.ndarray]:
        loans.drop(columns="branch").to_csv(tmp_path / "rows.csv", index=False)
        new_loans.drop(columns="branch").to_csv(tmp_path / "new.csv", index=False)
        said = fedfb_command("run", "--data", "rows.csv", *FLAGS, *flags, "--out", "kept")
        assert said.code == 0, said.err
        said = fedfb_command("export", "kept", "--to", to, "--out", f"model.{to}")
        assert said.code == 0, said.err
        saved = load_model(tmp_path / "kept")
        ours = saved.predict(encode_file(saved.encoder, tmp_path / "new.csv"))
        return tmp_path / f"model.{to}", tmp_path / "new.csv", np.array(ours)[:, 0]

    return export


def figures(printed: str) -> np.ndarray:
    return np.array([line.split(",") for line in printed.splitlines()], float).T


GIVEN = ("--sensitive-at-prediction", "yes")
THRESHOLDS = ("--algorithm", "fedfb-thresholds", "--variant", "mixed", "--notion", "eod", *GIVEN)


@pytest.mark.parametrize(
    "flags",
    [("--model", "mlp"), ("--model", "mlp", *GIVEN), THRESHOLDS, ("--features", "binned")],
    ids=["mlp", "group given", "thresholds", "binned"],
)
def test_numpy_and_onnxruntime_are_enough(handed_over, with_only, flags):
    model, rows, ours = handed_over("onnx", *flags)
    found = figures(with_only(block("score.py"), ("numpy", "onnxruntime"), model, rows))
    np.testing.assert_allclose(found, ours, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "flags",
    [(), GIVEN, THRESHOLDS, ("--features", "binned", "--target", ".2")],
    ids=["plain", "group given", "thresholds", "binned"],
)
def test_numpy_alone_reads_the_coefficients(handed_over, with_only, flags):
    model, rows, ours = handed_over("json", *flags)
    found = figures(with_only(block("coefficients.py"), ("numpy",), model, rows))
    np.testing.assert_allclose(found, ours, rtol=0, atol=2e-6)


def test_the_classifier_of_a_skops_file_decides_as_the_run(handed_over, monkeypatch, tmp_path):
    _, rows, (score, decision) = handed_over("skops", *THRESHOLDS)
    monkeypatch.chdir(tmp_path)
    names = {"rows": pd.read_csv(rows)}
    exec(compile(block("skops"), "hand-over.md", "exec"), names)
    np.testing.assert_array_equal(names["chance"], decision)
    model, groups = names["model"], names["rows"][["sex"]]
    proba = model.predict_proba(names["rows"][model.feature_names_in_], sensitive_features=groups)
    np.testing.assert_array_equal(proba[:, 1], score)


@pytest.mark.slow
def test_every_form_decides_by_the_cut_with_steps(fedfb_command, tmp_path, loans, new_loans):
    """A run, its exports and the reader of a skops file agree where the cut is not 1/2."""
    from skops import io

    loans.drop(columns="branch").to_csv(tmp_path / "rows.csv", index=False)
    new_loans.drop(columns="branch").to_csv(tmp_path / "new.csv", index=False)
    run = ("run", "--data", "rows.csv", *FLAGS[:6], "--features", "binned", "--target", ".3")
    seeds = ("--rounds", 1, "--seeds", "0:12", "--split-seed", 0, "--solver", "local")
    told = fedfb_command(*run, *seeds, "--local-epochs", 3, "--out", "kept", "--json").json
    moved = [one["seed"] for one in told["runs"] if one["told"]["cut"] != 0.5]
    saved = load_model(tmp_path / "kept", seed=moved[0])
    rows = pd.read_csv(tmp_path / "new.csv")
    score, decision = np.array(saved.predict(encode_file(saved.encoder, tmp_path / "new.csv")))[
        :, 0
    ]
    assert np.any(decision != (score >= 0.5))
    for form in ("onnx", "skops", "json"):
        said = fedfb_command(
            "export", "kept", "--to", form, "--seed", moved[0], "--out", f"m.{form}"
        )
        assert said.code == 0, said.err
    named = io.get_untrusted_types(file=tmp_path / "m.skops")
    model = io.load(tmp_path / "m.skops", trusted=named)
    np.testing.assert_array_equal(model.decide(rows[model.feature_names_in_]), decision)


def test_the_script_is_ten_lines():
    assert len([line for line in block("score.py").splitlines() if line]) == 10
