"""``fedfb predict``: the decisions of a run, on rows from a file."""

import csv
import io
import json

import numpy as np
import pytest

from cli.asking import OWN, client_file, refused
from fedfb.data import load
from fedfb.experiments.run_folder import load_model
from fedfb.experiments.spec import Experiment


def decisions(said):
    assert said.code == 0, said.err
    rows = list(csv.DictReader(io.StringIO(said.out)))
    return np.array([int(row["decision"]) for row in rows]), [float(row["score"]) for row in rows]


@pytest.fixture
def trained(fedfb, write, tmp_path):
    """A run on one's own rows, whose test rows are a file; its report."""
    write(client_file(80) + "3,F,y\n")
    write(client_file(30, start=3), "test.csv")
    flags = ("--test", "test.csv", "--model", "mlp", "--local-epochs", "5", "--seeds", "3:5")
    fedfb("run", "--data", "rows.csv", *OWN, *flags, "--alpha", ".1,2", "--out", "kept")
    return json.loads((tmp_path / "kept/result.json").read_text())


def test_decisions_on_the_test_rows_are_those_of_the_evaluation(fedfb, trained):
    labels = np.array([line.endswith("y") for line in client_file(30, start=3).splitlines()[1:]])
    for run in trained["runs"]:
        setting = [0.1, 2.0].index(run["settings"]["alpha"])
        flags = ("--seed", run["seed"], "--setting", setting)
        decision, score = decisions(fedfb("predict", "kept", "test.csv", *flags))
        assert np.mean(decision == labels) == run["accuracy"]
        assert set(np.round(score)) <= {0, 1}


def test_synthetic_test_rows_written_to_a_file_are_decided_as_in_the_run(tiny, fedfb, write):
    [run] = tiny("--model", "mlp", "--local-epochs", 20, "--out", "kept", "--json").json["runs"]
    test = load(Experiment(rows=200, test_rows=200).request, 0).test
    encoder = load_model("kept").encoder
    sensitive, features = encoder.groups.columns[0], [column.name for column in encoder.columns]
    raw = test.x[:, : len(features)] * [c.sd for c in encoder.columns]
    raw += [column.mean for column in encoder.columns]
    rows = [
        ",".join([*(repr(float(value)) for value in row), encoder.groups.names[group]])
        for row, group in zip(raw, test.group, strict=True)
    ]
    path = write("\n".join([",".join([*features, sensitive]), *rows]) + "\n", "rows.csv")
    decision, _ = decisions(fedfb("predict", "kept", path))
    assert np.mean(decision == test.y) == pytest.approx(run["accuracy"])


def test_the_first_seed_and_setting_are_the_default(fedfb, trained):
    chosen = fedfb("predict", "kept", "test.csv", "--seed", 3, "--setting", 0)
    assert fedfb("predict", "kept", "test.csv").out == chosen.out


def test_an_unseen_category_and_a_superfluous_column_work(fedfb, write):
    rows = [f"{'abc'[i % 3]},{'FM'[i % 2]},{'yn'[i // 2 % 2]}" for i in range(40)]
    write("\n".join(["town,sex,y", *rows]) + "\n")
    fedfb("run", "--data", "rows.csv", *OWN, "--out", "kept")
    write("sex,town,more\nF,elsewhere,1\nM,a,2\n", "new.csv")
    decision, _ = decisions(fedfb("predict", "kept", "new.csv"))
    assert len(decision) == 2


@pytest.mark.parametrize(
    ("content", "fragments"),
    [
        ("sex\nF\n", ["new.csv: unknown column 'age'"]),
        ("age,sex\nold,F\n", ["new.csv, line 2, column 'age': 'old' is not a finite number"]),
        ("age,sex\n", ["new.csv has a header but no rows"]),
    ],
)
def test_what_is_wrong_with_the_rows_is_told(fedfb, write, trained, content, fragments):
    write(content, "new.csv")
    refused(fedfb("predict", "kept", "new.csv"), *fragments)


def test_what_is_wrong_with_the_folder_is_told(fedfb, write, trained, tmp_path):
    refused(fedfb("predict", "kept", "absent.csv"), "there is no file 'absent.csv'")
    refused(fedfb("predict", "absent", "test.csv"), "absent holds no finished run", "--out")
    refused(fedfb("predict", "test.csv", "test.csv"), "test.csv holds no finished run")
    refused(fedfb("predict", "kept", "test.csv", "--seed", 0), "no model of seed 0; it has [3, 4]")
    refused(fedfb("predict", "kept", "test.csv", "--setting", 2), "2 settings, counted from 0")
    refused(fedfb("predict", "kept", "test.csv", "--setting", -1), "2 settings, counted from 0")
    (tmp_path / "kept/models.npz").write_bytes(b"PK\x03\x04")
    refused(fedfb("predict", "kept", "test.csv"), "models.npz cannot be read: it has changed")
    (tmp_path / "kept/fedfb.sha256").unlink()
    refused(fedfb("predict", "kept", "test.csv"), "models.npz cannot be read: it is not a whole")
    written = json.loads((tmp_path / "kept/preprocessing.json").read_text())
    written["encoder"]["columns"] *= 2
    write(json.dumps(written), "kept/preprocessing.json")
    refused(fedfb("predict", "kept", "test.csv"), "cannot be read")
    write("{", "kept/preprocessing.json")
    refused(fedfb("predict", "kept", "test.csv"), "preprocessing.json cannot be read")


def test_a_model_that_is_not_given_the_group_decides_whoever_comes(fedfb, trained, write):
    """Also a row of a group that nobody trained on: no decision depends on it."""
    write("age,sex\n31,F\n45,X\n", "new.csv")
    write("age\n31\n45\n", "without.csv")
    said = fedfb("predict", "kept", "new.csv")
    assert len(decisions(said)[0]) == 2
    assert said.out == fedfb("predict", "kept", "without.csv").out
    flags = (*OWN, "--test", "test.csv", "--local-epochs", 1, "--sensitive-at-prediction", "yes")
    fedfb("run", "--data", "rows.csv", *flags, "--out", "given")
    unseen = "new.csv, line 3: group 'X' (1 rows) does not occur in training rows"
    refused(fedfb("predict", "given", "new.csv"), unseen)
    refused(fedfb("predict", "given", "without.csv"), "without.csv: unknown column 'sex'")
