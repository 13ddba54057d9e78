"""Commands and code of README and quickstart are run; their tables are what fedfb prints."""

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
QUICKSTART = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
SMALL = ["--rounds", "1", "--local-epochs", "1"]


def fedfb(*arguments, cwd=None):
    command = [sys.executable, "-m", "fedfb", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd).stdout


def code_in(text, language):
    """Return the first block of code, with continued lines joined."""
    code = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL).group(1)
    return code.replace("\\\n", "")


def test_the_readme_is_short_and_opens_with_make():
    assert len(README.splitlines()) <= 120
    first = [line.split() for line in code_in(README, "sh").splitlines()]
    assert [line[: line.index("#")] for line in first] == [
        ["make"],
        ["make", "test"],
        ["pip", "install", "."],
    ]


def test_the_classifier_of_the_readme_prints_what_the_readme_says(capsys):
    code = code_in(README, "python")
    rates = [ast.literal_eval(text) for text in re.findall(r"`(\{'f'.*?\})`", README)]
    assert len(rates) == 2
    plain = code.replace("from fedfb import", "from fedfb.estimator import")
    for program, stated in zip(
        (code, plain.replace("FedFBClassifier", "FedAvgClassifier")), rates, strict=True
    ):
        exec(compile(program, "README.md", "exec"), {})
        assert ast.literal_eval(capsys.readouterr().out) == pytest.approx(stated, abs=0.02)


def test_the_python_example_of_the_quickstart_runs(capsys):
    exec(compile(code_in(QUICKSTART, "python"), "quickstart.md", "exec"), {})
    assert capsys.readouterr().out.count("\n") == 3


def rows_of_a_client(rows):
    lines = ["income,job,sex,race,approved"]
    for i in range(rows):
        group = f"{'fm'[i % 2]},{'ab'[i // 2 % 2]}"
        lines.append(f"{i * 37 % 11},{'xyz'[i % 3]},{group},{'yes' if i % 5 < 2 else 'no'}")
    return "\n".join(lines) + "\n"


@pytest.mark.slow
def test_the_commands_for_own_data_work_as_written(tmp_path):
    (tmp_path / "clients").mkdir()
    for name, rows in (("north", 90), ("south", 120), ("west", 80)):
        (tmp_path / "clients" / f"{name}.csv").write_text(rows_of_a_client(rows))
    section = README.split("## Your own data")[1]
    lines = code_in(section, "sh").splitlines()
    run, report, audit, predict = (shlex.split(line, comments=True)[1:] for line in lines)
    fedfb(*run, *SMALL, cwd=tmp_path)
    fedfb(*report, cwd=tmp_path)
    assert "<main" in (tmp_path / "runs/mine/report.html").read_text(encoding="utf-8")
    fedfb(*audit, cwd=tmp_path)
    assert (tmp_path / "audits/mine/model-card.md").exists()
    decisions = fedfb(*predict, cwd=tmp_path).splitlines()
    assert len(decisions) == 1 + 90


def test_what_a_coin_shows_is_what_the_quickstart_says():
    stated = re.search(
        r"Of ([\d,]+) rows in three equal groups a coin shows (\.\d+) on average, and more than\s+"
        r"(\.\d+) in ([\d.]+)% of all draws",
        QUICKSTART,
    )
    rows, mean, bound, percent = (float(part.replace(",", "")) for part in stated.groups())
    sizes = np.array([rows // 3 + 1, rows // 3, rows // 3])
    heads = np.random.default_rng(0).binomial(sizes.astype(int), 0.5, (400_000, 3))
    gaps = np.abs(heads / sizes - heads.sum(axis=1, keepdims=True) / sizes.sum()).max(axis=1)
    # 4 standard deviations of 400,000 draws, and what rounding hides.
    assert gaps.mean() == pytest.approx(mean, abs=0.0005 + 0.0001)
    assert 100 * np.mean(gaps > bound) == pytest.approx(percent, abs=0.05 + 0.155)


@pytest.mark.slow
def test_the_table_of_the_quickstart_is_the_table_of_the_demo(tmp_path):
    printed = fedfb("demo", cwd=tmp_path)
    assert (tmp_path / "demo" / "accuracy-disparity.png").stat().st_size > 10_000
    assert_same_figures(QUICKSTART, "demo", printed, 0.02)


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("FEDFB_DATA"), reason="FEDFB_DATA is not set")
def test_the_table_of_the_readme_is_the_table_of_its_command(tmp_path):
    command = re.search(r"^fedfb (compare --data adult.*)$", README.replace("\\\n", ""), re.M)[1]
    assert_same_figures(README, "adult", fedfb(*command.split(), cwd=tmp_path), 0.006)
    assert (tmp_path / "adult.png").stat().st_size > 10_000


def assert_same_figures(page, name, printed, tolerance):
    """Compare the figures; the last digits may differ between machines."""
    block = re.search(rf"<!-- {name} -->\n```\n(.*?)```", page, re.DOTALL).group(1)
    for method in ("fedavg", "fedfb", "cfl"):
        stated, now = (numbers_of(text, method) for text in (block, printed))
        assert stated == pytest.approx(now, abs=tolerance)


def numbers_of(text, method):
    line = next(line for line in text.splitlines() if line.startswith(method + "  "))
    return [float(number) for number in re.findall(r"\.\d+", line)]
