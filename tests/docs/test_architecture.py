"""docs/architecture.md: the tree, three short walks through files that exist, the import order."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src/fedfb"
WALKS = re.findall(r"^## (Walk .*)\n\n((?:\d+\. .*\n)+)", PAGE, re.MULTILINE)


def test_the_tree_shows_every_package():
    tree = PAGE[: PAGE.index("one round")]
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert set(re.findall(r"^ {6}(\w+)/", tree, re.MULTILINE)) == packages


def test_there_are_three_walks():
    assert len(WALKS) == 3


@pytest.mark.parametrize("steps", [pytest.param(steps, id=title) for title, steps in WALKS])
def test_every_step_of_a_walk_names_a_file_that_exists(steps):
    lines = steps.splitlines()
    assert 5 < len(lines) <= 15
    for line in lines:
        files = re.findall(r"`([\w/]+\.py)`", line)
        assert files, line
        assert [name for name in files if not (SOURCE / name).is_file()] == []


def test_the_import_order_is_that_of_the_contract():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract, _ = settings["tool"]["importlinter"]["contracts"]
    layers = [
        {name.strip().removeprefix("fedfb.") for name in layer.split("|")}
        for layer in reversed(contract["layers"])
    ]
    [order] = re.findall(r"^ {4}(errors, .*(?:\n {4}.*)*)", PAGE, re.MULTILINE)
    assert [set(re.findall(r"\w+", part)) for part in order.split("->")] == layers
