"""The kernel is built where there is a compiler; elsewhere numpy takes over, and says so once."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedfb.engine import NativeEngine, NumpyEngine, base, choose_engine
from fedfb.engine.native import library
from fedfb.errors import ConfigError
from fedfb.models import Network

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src/fedfb/engine/native"
COMPILER = shutil.which(os.environ.get("CC", "cc"))
needs_a_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")

SAY_WHICH = """
from fedfb.engine import choose_engine
from fedfb.models import Network
for _ in range(2):
    print(choose_engine("auto", Network(2), "float32").instructions)
"""


def run(command, **environment):
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=600
    )


def install(folder: Path, compiler: str) -> Path:
    """Install from a copy of the sources, without the network, and return where it went."""
    copy, target = folder / "copy", folder / "installed"
    leave_out = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info", "build")
    shutil.copytree(ROOT / "src", copy / "src", ignore=leave_out)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    done = run(
        [*pip, "--no-build-isolation", "--target", str(target), str(copy)],
        CC=compiler,
        PIP_DISABLE_PIP_VERSION_CHECK="1",
    )
    assert done.returncode == 0, done.stderr
    return target


def test_auto_is_the_native_engine_and_both_can_be_asked_for(monkeypatch):
    monkeypatch.delenv("FEDFB_ENGINE", raising=False)
    assert isinstance(choose_engine("auto", Network(2), "float32"), NativeEngine)
    assert isinstance(choose_engine("native", Network(2), "float32"), NativeEngine)
    assert isinstance(choose_engine("numpy", Network(2), "float32"), NumpyEngine)


def test_the_environment_says_what_auto_means(monkeypatch):
    monkeypatch.setenv("FEDFB_ENGINE", "numpy")
    assert isinstance(choose_engine("auto", Network(2), "float32"), NumpyEngine)
    assert isinstance(choose_engine("native", Network(2), "float32"), NativeEngine)
    monkeypatch.setenv("FEDFB_ENGINE", "nmpy")
    with pytest.raises(ConfigError, match="did you mean 'numpy'"):
        choose_engine("auto", Network(2), "float32")


def test_without_a_kernel_numpy_takes_over_and_says_so_once(monkeypatch, capsys):
    monkeypatch.delenv("FEDFB_ENGINE", raising=False)
    monkeypatch.setattr(library, "is_built", lambda: False)
    base._tell_of_the_fallback.cache_clear()
    for _ in range(3):
        assert isinstance(choose_engine("auto", Network(2), "float32"), NumpyEngine)
    assert capsys.readouterr().err.count("\n") == 1
    assert "not compiled" in base.explain_engine("auto").reason
    base._tell_of_the_fallback.cache_clear()


@pytest.mark.slow
def test_an_installation_without_a_compiler_succeeds_and_uses_numpy(tmp_path):
    target = install(tmp_path, compiler="false")
    done = run([sys.executable, "-c", SAY_WHICH], PYTHONPATH=str(target), FEDFB_ENGINE="auto")
    assert done.stdout.split() == ["numpy", "numpy"], done.stderr
    assert done.stderr.count("\n") == 1
    asked = run(
        [sys.executable, "-m", "fedfb", "run", "--rows", "40", "--engine", "native"],
        PYTHONPATH=str(target),
    )
    assert asked.returncode == 2
    assert "--engine numpy" in asked.stderr


@pytest.mark.slow
@needs_a_compiler
def test_an_installation_with_a_compiler_is_native_and_silent(tmp_path):
    target = install(tmp_path, compiler=COMPILER)
    done = run([sys.executable, "-c", SAY_WHICH], PYTHONPATH=str(target), FEDFB_ENGINE="auto")
    assert "numpy" not in done.stdout
    assert done.stderr == ""


def sanitized(folder: Path) -> Path:
    """Compile the kernel so that it stops at the first wrong address or undefined operation."""
    built = folder / "kernel.so"
    flags = ["-g", "-O1", "-std=gnu11", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"]
    flags += ["-Wno-psabi", "-fPIC", "-shared", "-fno-sanitize-recover=all"]
    sources = sorted(str(path) for path in SOURCES.glob("*.c"))
    done = run([COMPILER, *flags, "-fsanitize=address,undefined", "-o", built, *sources, "-lm"])
    if done.returncode and "asan" in done.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert done.returncode == 0, done.stderr
    return built


@pytest.mark.slow
@needs_a_compiler
def test_the_engine_tests_are_clean_under_sanitizers(tmp_path):
    found = [run([COMPILER, f"-print-file-name={name}.so"]) for name in ("libasan", "libubsan")]
    paths = [one.stdout.strip() for one in found]
    if not all(Path(path).is_absolute() for path in paths):
        pytest.skip("the compiler has no sanitizers")
    tests = [str(Path(__file__).with_name(f"test_native_{of}.py")) for of in ("agreement", "bits")]
    alone = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = run(
        [*alone, *tests],
        LD_PRELOAD=" ".join(paths),
        ASAN_OPTIONS="detect_leaks=0",  # Python itself leaves memory to the end of the process
        UBSAN_OPTIONS="print_stacktrace=1",
        FEDFB_KERNEL=str(sanitized(tmp_path)),
        HYPOTHESIS_PROFILE="fast",
        FEDFB_CHECK_SHAPES="",
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
