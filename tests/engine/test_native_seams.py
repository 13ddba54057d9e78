"""A kernel whose declarations are not those of the Python code is refused, with the difference."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedfb.engine.native.library import LOSS_KINDS, Job, Kernel, check_seams
from fedfb.errors import ConfigError

SOURCES = Path(__file__).parents[2] / "src/fedfb/engine/native"
COMPILER = shutil.which(os.environ.get("CC", "cc"))
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


def compile_description(folder: Path, before: str = "", after: str = "") -> Path:
    """Compile the kernel's description of itself, with a change of its declarations."""
    declarations = (SOURCES / "job.h").read_text(encoding="utf-8")
    assert before in declarations
    changed = declarations.replace(before, after, 1)
    (folder / "job.h").write_text(changed, encoding="utf-8")
    shutil.copy(SOURCES / "description.c", folder)
    path = folder / "kernel.so"
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run([COMPILER, *flags, "-o", path, folder / "description.c"], check=True)
    return path


def check(path: Path) -> None:
    check_seams(ctypes.CDLL(str(path)), (Job, Kernel), LOSS_KINDS)


def test_a_kernel_of_the_same_sources_is_taken(tmp_path):
    check(compile_description(tmp_path))


@pytest.mark.parametrize(
    ("before", "after", "difference"),
    [
        (
            "int64_t features, slabs,",
            "int64_t slabs, features,",
            "Job.features is whole at 40 in C and whole at 32 in Python",
        ),
        (
            "void *scratch;",
            "void *scratch, *more;",
            "Job is 296 bytes in C and 288 bytes in Python",
        ),
        (
            "double clip, expected;",
            "int64_t clip; double expected;",
            "Job.clip is whole at 264 in C",
        ),
        (
            "int64_t vector_bytes;",
            "int64_t more, vector_bytes;",
            "Kernel.vector_bytes is whole at 16",
        ),
        ("FEATURE_TILE = 4", "FEATURE_TILE = 8", "FEATURE_TILE is 8 in C and 4 in Python"),
        ("BETA2 0.999", "BETA2 0.9990000001", "BETA2 is 0.9990000001 in C and 0.999 in Python"),
        ("PROB, CE", "CE, PROB", "PROB is 2 in C and 1 in Python"),
    ],
)
def test_a_kernel_of_other_declarations_is_refused(tmp_path, before, after, difference):
    with pytest.raises(ConfigError) as refused:
        check(compile_description(tmp_path, before, after))
    assert difference in str(refused.value)
    assert "pip install --force-reinstall ." in str(refused.value)


def test_a_kernel_that_does_not_describe_itself_is_refused(tmp_path):
    (tmp_path / "older.c").write_text("int older;", encoding="utf-8")
    path = tmp_path / "older.so"
    subprocess.run([COMPILER, "-shared", "-o", path, tmp_path / "older.c"], check=True)
    with pytest.raises(ConfigError, match="does not describe itself"):
        check(path)


def test_nothing_is_trained_with_a_refused_kernel_and_numpy_works_beside_it(tmp_path):
    path = compile_description(tmp_path, "STEEPNESS 10", "STEEPNESS 11")
    environment = {**os.environ, "FEDFB_KERNEL": str(path), "FEDFB_ENGINE": "auto"}
    train = [sys.executable, "-m", "fedfb", "run", "--rows", "40", "--rounds", "1"]

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*train, *more], env=environment, capture_output=True, text=True)

    refused = run()
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert "STEEPNESS is 11 in C and 10 in Python" in refused.stderr
    assert run("--engine", "numpy").returncode == 0
