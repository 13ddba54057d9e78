"""The commands and the output of docs/audit.md and docs/notions.md."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
AUDIT, NOTIONS = (
    (DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("audit", "notions")
)
SMALL = ["--rounds", "1", "--local-epochs", "1"]


def fedfb(line, cwd, *more):
    command = [sys.executable, "-m", "fedfb", *shlex.split(line)[1:], *more]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd).stdout


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("audit")


@pytest.mark.slow
def test_the_first_commands_print_what_is_shown(folder):
    for line in blocks(AUDIT, "sh")[0].splitlines():
        printed = fedfb(line, folder)
    shown = re.search(r"<!-- audit -->\n```\n(.*?)```", AUDIT, re.DOTALL).group(1)
    lines = [[one.split() for one in text.splitlines() if one.strip()] for text in (shown, printed)]
    tables = [_tables(part) for part in lines]
    assert tables[0].keys() == tables[1].keys()
    assert len(tables[0]) > 15
    for name, numbers in tables[0].items():
        # To two digits: the last one may differ between machines.
        assert numbers == pytest.approx(tables[1][name], abs=0.02), name
    assert {path.name for path in (folder / "audits/mine").iterdir()} == {
        *("audit.html", "audit.json", "model-card.md", "ledger.jsonl", "fedfb.sha256"),
    }
    code = blocks(AUDIT, "python")[0]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder
    )
    assert done.stdout.startswith("(0")


def _tables(lines):
    """The rows of numbers, by name and how many there were of that name before."""
    found = {}
    for words in lines:
        numbers = [w for w in words if re.fullmatch(r"[+-]?\d*\.\d+", w)]
        name = " ".join(w for w in words if not re.search(r"\d", w)) or words[0]
        if len(numbers) > 1 and words[0] not in ("Group", "parity", "Four-fifths", "20"):
            key = (words[0], name, len([k for k in found if k[0] == words[0]]))
            found[key] = [float(number) for number in numbers]
    return found


def row(i):
    return f"{i * 37 % 11},{'FM'[i % 2]},{'BW'[i // 2 % 2]},{'abc'[i % 3]},"


@pytest.mark.slow
def test_the_other_commands_work_as_written(folder):
    (folder / "new").mkdir()
    for name in ("north", "south", "west"):
        rows = [f"{row(i)}{'yes' if i % 5 < 2 else 'no'}" for i in range(90)]
        text = "\n".join(["income,sex,race,bank,approved", *rows]) + "\n"
        (folder / "new" / f"{name}.csv").write_text(text)
        (folder / f"{name}.csv").write_text(text)
    rows = [f"{row(i)}{'yes' if i % 5 < 2 else 'no'},{i % 97 / 97},{i % 2}" for i in range(240)]
    (folder / "scores.csv").write_text(
        "\n".join(["income,sex,race,bank,approved,p,d", *rows]) + "\n"
    )
    own = "--label approved --positive yes --sensitive sex,race"
    fedfb(f"fedfb run --data '*h.csv' {own} --out runs/own", folder, *SMALL)
    for line in blocks(AUDIT, "sh")[1].splitlines():
        assert "Four-fifths" in fedfb(line, folder)


@pytest.mark.slow
def test_the_commands_for_choosing_a_notion_work_as_written(folder):
    for line in blocks(NOTIONS, "sh")[0].splitlines():
        printed = fedfb(line, folder, *(SMALL if " run " in line else ()))
    assert "Less the baseline eo" in printed
