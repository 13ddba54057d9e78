"""docs/deploy.md is followed word for word."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flower.by_hand import federation

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_walk_through_works_as_written(tmp_path):
    script = re.search(r"```sh\n(.*?)```", PAGE, re.DOTALL).group(1)
    script = script.replace("9443", str(federation.free_port()))  # others may listen there
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    said = subprocess.run(
        ["bash", "-euc", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert said.returncode == 0, said.stderr
    assert "3 of 3 rounds, finished" in said.stdout
    assert "the server saw sums only" in said.stdout
    assert (tmp_path / "decisions.csv").read_text().count("\n") == 401
    assert (tmp_path / "north-has" / "models.npz").exists()


def test_the_page_names_the_messages_and_commands_that_there_are():
    from fedfb.flower.silo import HANDLERS

    assert f"({', '.join(HANDLERS)})" in " ".join(PAGE.split())
