import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.asking import TINY, Said
from fedfb.cli import main


@pytest.fixture
def fedfb(tmp_path, monkeypatch, capsys) -> Callable[..., Said]:
    """Run a command in a folder of its own, as typed into a terminal of 80 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["fedfb", *map(str, arguments)])
        with pytest.raises(SystemExit) as ending:
            main()
        out, err = capsys.readouterr()
        return Said(int(ending.value.code or 0), out, err)

    return run


@pytest.fixture
def tiny(fedfb) -> Callable[..., Said]:
    """``fedfb run`` on 200 synthetic rows for two rounds."""
    return lambda *arguments: fedfb("run", *TINY, *arguments)


@pytest.fixture
def write(tmp_path) -> Callable[..., Path]:
    """Write a file of text or bytes into the command's folder and return its path."""

    def write_file(content: str | bytes, name: str = "rows.csv") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


@pytest.fixture
def published() -> None:
    """Skip a test of the published files where they are not at hand."""
    if not os.environ.get("FEDFB_DATA"):
        pytest.skip("FEDFB_DATA does not name a folder with the published files")
