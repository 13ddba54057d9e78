"""The README's commands and code are run, and its table is what the demo prints."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
SMALL = ["--rounds", "1", "--local-epochs", "1"]


def fedfb(*arguments, cwd=None):
    command = [sys.executable, "-m", "fedfb", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd).stdout


def test_the_two_commands_open_the_readme():
    first = re.search(r"```sh\n(.*?)```", README, re.DOTALL).group(1)
    assert [line.split()[:2] for line in first.splitlines()] == [["make", "#"], ["make", "test"]]


def test_the_python_example_runs(capsys):
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.count("\n") == 3


def silo(rows):
    lines = ["income,job,sex,race,approved"]
    for i in range(rows):
        group = f"{'fm'[i % 2]},{'ab'[i // 2 % 2]}"
        lines.append(f"{i * 37 % 11},{'xyz'[i % 3]},{group},{'yes' if i % 5 < 2 else 'no'}")
    return "\n".join(lines) + "\n"


@pytest.mark.slow
def test_the_commands_for_own_data_work_as_written(tmp_path):
    (tmp_path / "silos").mkdir()
    for name, rows in (("north", 90), ("south", 120), ("west", 80)):
        (tmp_path / "silos" / f"{name}.csv").write_text(silo(rows))
    section = README.split("## Your own data")[1]
    lines = re.search(r"```sh\n(.*?)```", section, re.DOTALL).group(1).splitlines()
    run, report, audit, predict = (shlex.split(line, comments=True)[1:] for line in lines)
    fedfb(*run, *SMALL, cwd=tmp_path)
    fedfb(*report, cwd=tmp_path)
    assert "<main" in (tmp_path / "runs/mine/report.html").read_text(encoding="utf-8")
    fedfb(*audit, cwd=tmp_path)
    assert (tmp_path / "audits/mine/model-card.md").exists()
    decisions = fedfb(*predict, cwd=tmp_path).splitlines()
    assert len(decisions) == 1 + 90


def test_what_a_coin_shows_is_what_the_readme_says():
    said = re.search(
        r"Of ([\d,]+) rows in three equal groups a coin shows (\.\d+) on average, and more than\s+"
        r"(\.\d+) in ([\d.]+)% of all draws",
        README,
    )
    rows, mean, bound, percent = (float(part.replace(",", "")) for part in said.groups())
    sizes = np.array([rows // 3 + 1, rows // 3, rows // 3])
    heads = np.random.default_rng(0).binomial(sizes.astype(int), 0.5, (400_000, 3))
    gaps = np.abs(heads / sizes - heads.sum(axis=1, keepdims=True) / sizes.sum()).max(axis=1)
    # 4 standard deviations of 400,000 draws, and what rounding hides.
    assert gaps.mean() == pytest.approx(mean, abs=0.0005 + 0.0001)
    assert 100 * np.mean(gaps > bound) == pytest.approx(percent, abs=0.05 + 0.155)


@pytest.mark.slow
def test_the_table_is_the_one_that_the_demo_prints(tmp_path):
    """To two digits: the last one may differ between machines."""
    shown = re.search(r"<!-- demo -->\n```\n(.*?)```", README, re.DOTALL).group(1)
    printed = fedfb("demo", cwd=tmp_path)
    assert (tmp_path / "demo" / "accuracy-disparity.png").stat().st_size > 10_000
    for name in ("fedavg", "fedfb", "cfl"):
        one, other = (_numbers(text, name) for text in (shown, printed))
        assert one == pytest.approx(other, abs=0.02)


def _numbers(text, name):
    line = next(line for line in text.splitlines() if line.startswith(name + "  "))
    return [float(number) for number in re.findall(r"\.\d+", line)]
