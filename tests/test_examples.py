"""The worked examples run, and show what they say."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def printed(name: str, *arguments: str, **environment: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    environment = {**os.environ, **environment}
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment
    ).stdout


def numbers(text: str, row: str) -> list[float]:
    line = next(line for line in text.splitlines() if line.startswith(row))
    return [float(number) for number in re.findall(r"[+-]?\d*\.\d+", line)]


@pytest.mark.slow
def test_hospitals_that_are_fair_to_their_own_patients_are_not_fair_together():
    shown = printed("hospitals.py")
    history = {name: numbers(shown, f"  {name}")[0] for name in ("clinic", "county", "university")}
    assert history["clinic"] < -0.1
    assert history["university"] > 0.05  # they disagree on who is disfavoured
    gaps = {name: numbers(shown, name)[1] for name in ("LFT+FedAvg", "LFT+Ensemble", "FedFB ")}
    assert gaps["LFT+FedAvg"] < -0.15
    assert gaps["LFT+Ensemble"] < -0.15
    assert abs(gaps["FedFB "]) < 0.05


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("FEDFB_DATA"), reason="FEDFB_DATA is not set")
def test_the_bank_consortium_trades_little_accuracy_for_a_small_gap():
    shown = printed("bank_consortium.py", "--quick")
    plain, fair = numbers(shown, "fedavg"), numbers(shown, "fedfb-thresholds")
    assert fair[1] < plain[1] / 4
    assert fair[0] > plain[0] - 0.02
    assert "Branches: cellular, telephone, unknown." in shown


def test_without_the_data_the_bank_consortium_says_so():
    assert printed("bank_consortium.py", FEDFB_DATA="").startswith("Skipped: FEDFB_DATA")


@pytest.mark.slow
def test_the_notebook_shows_what_its_program_computes():
    """The cells are run without Jupyter; tables may differ in the last digits."""
    notebook = json.loads((EXAMPLES / "classifier.ipynb").read_text(encoding="utf-8"))
    program = (EXAMPLES / "classifier.py").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    lines = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        source = "".join(cell["source"])
        assert source in program, "python docs/write_notebook.py"
        *body, last = ast.parse(source).body
        exec(compile(ast.Module(body, []), "classifier.ipynb", "exec"), names)
        code = ast.unparse(last)
        [output] = cell["outputs"]
        if output["output_type"] == "stream":
            exec(code, names)
            continue
        shown = "".join(output["data"]["text/plain"])
        for stated, now in zip(*(map(cells_of, (shown, str(eval(code, names))))), strict=True):
            assert stated == pytest.approx(now, abs=0.02)
            lines += 1
    assert lines > 10


def cells_of(table: str) -> list[list[float]]:
    return [[float(n) for n in re.findall(r"\d+\.\d+", line)] for line in table.splitlines()]
