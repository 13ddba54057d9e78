"""Files with a flipped bit: every command that reads them succeeds or refuses in a sentence.

Every kind of file that a command reads, 500 single flips each. Of files in a folder of results
every flip is refused: none changes a result in silence.
"""

import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cli.asking import OWN, Said
from cli.world import FAST, build, tiny_target
from fedfb.errors import FedFBError

FLIPS = 500


@pytest.fixture(scope="module", autouse=True)
def _world(tmp_path_factory):
    """Work in a folder with one file of every kind; the store is in it."""
    folder = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "80")
        patch.setenv("FEDFB_STORE", str(folder / "store"))
        tiny_target(patch)
        build(folder)
        yield folder


def flip_each(path: Path, attempt: Callable[[], Said], flips: int = FLIPS) -> list[Said]:
    """Flip one bit at a time, drawn with a seed of the path; return how each attempt ended."""
    whole = path.read_bytes()
    rng = np.random.default_rng(zlib.crc32(str(path).encode()))
    bits = rng.choice(8 * len(whole), size=flips, replace=8 * len(whole) < flips)
    ends = []
    for bit in map(int, bits):
        content = bytearray(whole)
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        try:
            said = attempt()
            assert said.code in (0, 2), (bit, said)
            if said.code == 2:
                assert said.out == "", (bit, said)
                assert said.err.startswith(("fedfb: ", "Usage: ")), (bit, said)
                assert "Traceback" not in said.err
            ends.append(said)
        except Exception as error:
            error.add_note(f"bit {bit} of {path}: {bytes(content[bit // 8 - 20 : bit // 8 + 20])}")
            raise
        finally:
            path.write_bytes(whole)
    return ends


def reading(read: Callable[[], object]) -> Said:
    """Call a reading function as a command does."""
    try:
        read()
    except FedFBError as error:
        return Said(2, "", f"fedfb: {error}")
    return Said(0, "", "")


COMMANDS = {
    "experiment": ("experiment.toml", ("run", "experiment.toml")),
    "rows": ("rows.csv", ("schema", "infer", "rows.csv", *OWN[:6])),
    "rows to decide": ("rows.csv", ("predict", "kept", "rows.csv")),
    "parquet": ("rows.parquet", ("schema", "infer", "rows.parquet", *OWN[:6])),
    "schema": ("schema.toml", ("schema", "infer", "rows.csv", *OWN[:6])),
    "scores": (
        "scores.csv",
        ("audit", "--scores", "scores.csv", "--score", "p", "--label", "y", "--positive", "1")
        + ("--sensitive", "sex"),
    ),
    "study": ("study/study.toml", ("status", "study/study.toml")),
    "events": ("study/run/events.jsonl", ("status", "study/study.toml")),
    "plugin": ("plugin.py", ("list", "--plugin", "plugin.py")),
    "checkpoint": (
        "kept/checkpoints/run-seed-0.npz",
        ("run", "--data", "rows.csv", *OWN, *FAST, "--out", "kept", "--resume"),
    ),
    "digests": ("kept/SHA256SUMS", ("predict", "kept", "rows.csv")),
}
