"""The script of `make metrics` counts right: on a tiny package made here, and on one traced run."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks/metrics.py"


@pytest.fixture(scope="module")
def metrics():
    spec = importlib.util.spec_from_file_location("metrics", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FILES = {
    "house/__init__.py": "",
    "house/base.py": "SIZE = 1\n\ndef add(left, right):\n    return left + right\n",
    "house/report/__init__.py": "from house.report.text import show\n",
    "house/report/text.py": '''\
from .. import base

SIZE = 2  # not that of base

def show(result, width):
    """Show a result.

    Args:
        result: of a run.
    """
    found = result["accuracy"]["mean"]
    return [one for one in found] + [base.SIZE] * width

def _hide(result, width):
    """Hide a result."""
''',
    "house/data.py": 'import house.base\n\n\ndef read(row, column):\n    """."""\n    row["x"]\n',
}


def test_a_tiny_package_is_counted_right(metrics, tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    modules = metrics.read_modules(tmp_path)
    assert metrics.single_importers(modules) == ["house.report.text"]  # two modules import base
    assert metrics.shared_names(modules) == ["SIZE"]
    table = {row.name.strip(): row.value for row in metrics.measure(tmp_path)}
    assert table["Python files"] == "5"
    assert table["string subscripts in report, experiments"] == "2"
    assert table["bindings with vague names"] == "16.7% (2 of 12)"
    assert table["docstrings with Args:"] == "33.3% (1 of 3)"
    assert table["of public ones, 2+ parameters"] == "50.0% (1 of 2)"
    assert table["lines with a comment"] == f"{1 / 26:.1%}"


@pytest.mark.slow
def test_a_run_is_traced_by_its_files_and_depth(metrics):
    trace = metrics.trace_run()
    files = {Path(name).name for name in trace.files}
    assert {"run.py", "read.py", "loop.py", "text.py"} <= files
    assert "torch_engine.py" not in files
    # A seed is trained on a thread, whose calls begin with the task.
    assert trace.deepest[-1] in ("cli/app.py main", "experiments/outcome.py <lambda>")
    assert len(trace.deepest) > 5
