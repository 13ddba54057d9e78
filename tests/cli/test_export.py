"""``fedfb export``: one file that decides as the run does, and nothing written over."""

import json

import onnxruntime
import pytest

from cli.asking import OWN, client_file, refused
from fedfb.experiments.resolve import resolve
from fedfb.experiments.spec_file import from_values, read_settings


@pytest.fixture
def kept(fedfb, write):
    """A small run on one's own rows, in the folder 'kept'."""
    write(client_file(80))

    def run(*flags):
        said = fedfb("run", "--data", "rows.csv", *OWN, "--local-epochs", 2, *flags, "--out=kept")
        assert said.code == 0, said.err

    return run


@pytest.mark.parametrize("given", ["yes", "no"])
def test_onnx_is_checked_and_written_into_the_folder(fedfb, kept, tmp_path, given):
    kept("--model", "mlp", "--sensitive-at-prediction", given)
    said = fedfb("export", "kept")
    assert (said.code, said.out) == (0, "")
    assert "onnxruntime decides 200 made-up rows as fedfb does" in said.err
    session = onnxruntime.InferenceSession(tmp_path / "kept/model.onnx")
    inputs = [("age", "tensor(double)"), ("sex", "tensor(string)")]
    wanted = inputs if given == "yes" else inputs[:1]
    assert [(i.name, i.type) for i in session.get_inputs()] == wanted
    assert [output.name for output in session.get_outputs()] == ["score", "decision"]


def test_skops_names_the_types_to_trust(fedfb, kept, tmp_path):
    kept()
    said = fedfb("export", "kept", "--to", "skops", "--out", "model.skops")
    assert said.code == 0, said.err
    assert "fedfb.estimator.FedFBClassifier" in said.err
    assert b"pickle" not in (tmp_path / "model.skops").read_bytes()


def test_json_is_plain(fedfb, kept, tmp_path):
    kept("--algorithm", "hardt", "--sensitive-at-prediction", "yes")
    assert fedfb("export", "kept", "--to", "json", "--out", "model.json").code == 0
    model = json.loads((tmp_path / "model.json").read_text())
    assert model["format"] == "fedfb coefficients 1"
    assert [(one["column"], one["kind"]) for one in model["features"]] == [("age", "number")]
    assert [group["name"] for group in model["groups"]] == ["F", "M"]
    for group in model["groups"]:
        assert 0 <= sum(step["share"] for step in group["thresholds"]) <= 1 + 1e-9


def test_nothing_is_written_over_unless_asked(fedfb, kept, write, tmp_path):
    kept()
    path = write("precious", "model.onnx")
    refused(fedfb("export", "kept", "--out", path), "exists already", "--force")
    assert path.read_text() == "precious"
    assert fedfb("export", "kept", "--out", path, "--force").code == 0
    refused(fedfb("export", "kept", "--out", tmp_path), "is a folder")
    refused(
        fedfb("export", "kept", "--out", "absent/model.onnx"), "the folder absent does not exist"
    )


def test_what_cannot_be_handed_over_is_told(fedfb, kept):
    kept("--model", "mlp")
    refused(fedfb("export", "kept", "--to", "json"), "a network with hidden layers of 4")
    refused(fedfb("export", "nowhere"), "nowhere holds no finished run")
    refused(fedfb("export", "kept", "--seed", 9), "no model of seed 9")
    refused(fedfb("export", "kept", "--setting", 5), "setting, counted from 0")
    refused(fedfb("export", "kept", "--client", "rows"), "one model for all clients")
    refused(fedfb("export", "kept", "--client", "who"), "unknown client 'who'")
    assert fedfb("export", "kept", "--to", "pickle").code == 2


def test_a_personal_model_needs_a_name_and_has_no_classifier(fedfb, kept):
    kept("--algorithm", "ditto", "--notion", "cp")
    refused(fedfb("export", "kept"), "every client has a model of its own", "rows")
    assert fedfb("export", "kept", "--client", "rows").code == 0
    refused(
        fedfb("export", "kept", "--client", "rows", "--to", "skops"),
        "ditto has no classifier",
    )


def test_decisions_go_to_a_file_that_is_not_there_yet(fedfb, kept, tmp_path):
    kept()
    printed = fedfb("predict", "kept", "rows.csv").out
    said = fedfb("predict", "kept", "rows.csv", "--out", "decisions.csv")
    assert (said.code, said.out) == (0, "")
    assert (tmp_path / "decisions.csv").read_text() == printed
    refused(fedfb("predict", "kept", "rows.csv", "--out", "decisions.csv"), "exists already")
    assert fedfb("predict", "kept", "rows.csv", "--out", "decisions.csv", "--force").code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [(), ("--algorithm", "fedavg"), ("--alpha", ".1"), ("--tune",), ("--algorithm", "fairfed")],
    ids="-".join,
)
def test_one_experiment_has_one_hash_everywhere(fedfb, kept, tmp_path, flags):
    kept(*flags)
    result = json.loads((tmp_path / "kept/result.json").read_text())
    name = result["experiment_hash"]
    typed = from_values(read_settings(tmp_path / "kept/experiment.toml"))
    assert resolve(typed).hash == name
    for command in (
        *(("report", "kept"), ("audit", "kept", "--out", "audited")),
        *(("export", "kept"), ("export", "kept", "--to", "json")),
    ):
        assert fedfb(*command).code == 0
    session = onnxruntime.InferenceSession(tmp_path / "kept/model.onnx")
    assert session.get_modelmeta().custom_metadata_map["experiment"] == name
    assert json.loads((tmp_path / "kept/model.json").read_text())["about"]["experiment"] == name
    assert f"Experiment {name}." in (tmp_path / "kept/report.html").read_text(encoding="utf-8")
    card = (tmp_path / "audited/model-card.md").read_text(encoding="utf-8")
    assert f"Experiment {name} " in card
    method = dict(zip(flags[::2], flags[1::2], strict=False)).get("--algorithm", "fedfb")
    more = () if "--algorithm" in flags else flags
    same = ("--data", "rows.csv", *OWN, "--local-epochs", 2, "--algorithms", method, *more)
    [compared] = fedfb("compare", *same, "--json").json["results"]
    assert compared["experiment_hash"] == name
