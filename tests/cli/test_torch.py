"""A torch network of a user's own: trained, kept, predicted from, and refused in words."""

import re
import sys
from pathlib import Path

import pytest

from cli.asking import OWN, TINY, client_file, refused

pytest.importorskip("torch", reason="torch is not installed: pip install 'fedfb[torch]'")

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "nets.py"
PAGE = (ROOT / "docs" / "torch.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def nets(write, fedfb, monkeypatch):
    """The example, in the folder where commands are typed, and to be found nowhere else."""
    elsewhere = [path for path in sys.path if Path(path) != EXAMPLE.parent]
    monkeypatch.setattr(sys, "path", elsewhere)
    yield write(EXAMPLE.read_text(), "nets.py")
    sys.modules.pop("nets", None)


@pytest.fixture
def kept(fedfb, write):
    write(client_file(80))
    more = ("--local-epochs", 2, "--lr", 0.01, "--model", "nets:build", "--out", "kept")
    said = fedfb("run", "--data", "rows.csv", *OWN, *more)
    assert said.code == 0, said.err


def test_the_page_quotes_the_example_as_it_is():
    assert f"```python\n{EXAMPLE.read_text()}```" in PAGE


def test_the_code_of_the_page_runs_as_written(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"<!-- run -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == PAGE.count("```python") - 1 == 2
    for block in blocks:
        exec(compile(block, "torch.md", "exec"), names)
    assert names["outcome"].experiment.model == "nets:build"
    assert not names["module"].training


def test_a_run_names_its_model_and_repeats_itself(fedfb):
    said, again = (fedfb("run", *TINY, "--model", "nets:build", "--json").json for _ in range(2))
    assert said["settings"]["model"] == "nets:build"
    assert said == again


TRUSTED = ("predict", "kept", "rows.csv", "--trust-code")


def test_a_saved_model_predicts_where_its_module_is(fedfb, kept, nets, tmp_path):
    said = fedfb(*TRUSTED)
    assert said.code == 0, said.err
    assert len(said.out.splitlines()) == 81
    assert fedfb(*TRUSTED).out == said.out
    sys.modules.pop("nets")
    nets.write_text(nets.read_text().replace("32", "8"))
    refused(fedfb(*TRUSTED), "nets:build has", "train again")
    sys.modules.pop("nets")
    nets.rename(tmp_path / "other_nets.py")
    refused(
        fedfb(*TRUSTED),
        "there is no module nets",
        "PYTHONPATH",
    )


def test_export_writes_what_can_be_written(fedfb, kept, tmp_path):
    for to in ("onnx", "json"):
        said = fedfb("export", "kept", "--to", to, "--trust-code")
        refused(said, "built by nets:build", "--to skops")
        assert not (tmp_path / "kept" / f"model.{to}").exists()
    said = fedfb("export", "kept", "--to", "skops", "--trust-code")
    assert said.code == 0, said.err
    assert "fedfb.models.TorchModel" in said.err


def test_the_server_may_see_sums_only(fedfb):
    settings = ("--clients", 3, "--lr", ".01", "--model", "nets:build", "--json")
    secure, clear = fedfb("run", *TINY, *settings, "--secure").json, fedfb("run", *TINY, *settings)
    assert abs(secure["runs"][0]["accuracy"] - clear.json["runs"][0]["accuracy"]) < 0.05


def test_a_grid_trains_in_one_pass(fedfb):
    flags = ("--alpha", ".1,.5", "--lr", ".005,.01", "--model", "nets:build", "--json")
    assert len(fedfb("run", *TINY, *flags).json["runs"]) == 4


@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_other_engines_are_refused(fedfb, engine):
    said = fedfb("run", *TINY, "--model", "nets:build", "--engine", engine)
    refused(said, f"--engine {engine}", "nets:build is a torch model", "leave --engine out")


def test_a_linear_method_is_refused(fedfb):
    said = fedfb("run", *TINY, "--model", "nets:build", "--algorithm", "fairbatch")
    refused(said, "linear classifier", "--model logistic")


def test_a_study_takes_no_code(fedfb, write):
    write(client_file(80))
    study = ("study", "init", "made", "--like", "rows.csv", "--trial", "--clients", "a,b,c", *OWN)
    refused(fedfb(*study, "--model", "nets:build"), "a study trains logistic or mlp")


def test_without_torch_the_command_says_what_to_install(fedfb, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    refused(fedfb("run", *TINY, "--model", "nets:build"), "pip install 'fedfb[torch]'")


def test_the_help_and_the_list_name_it(fedfb):
    assert "MODULE:FUNCTION" in fedfb("run", "--help").out
    assert "module:function" in fedfb("list").out
