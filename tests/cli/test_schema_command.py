"""``fedfb schema``: what columns are is written down, and files are checked against it."""

import tomllib

import numpy as np
import pytest

from cli.asking import refused
from fedfb.experiments.run_folder import load_model

FLAGS = ("--label", "paid", "--positive", "yes", "--sensitive", "sex,age")


@pytest.fixture
def clients(write):
    """Two files with a date, a number that tells the age, and a gap."""
    for name, start in (("north", 0), ("south", 7)):
        rows = [
            f"2024-01-{i % 28 + 1:02},{i * 37 % 61 + 18},{'FM'[i % 2]},{'ab'[i // 3 % 2]},"
            f"{'' if i == 5 else i * 13 % 17 / 4},{'yes' if i * 7 % 5 < 2 else 'no'}"
            for i in range(start, start + 80)
        ]
        write("\n".join(["day,age,sex,job,hours,paid", *rows]) + "\n", f"clients/{name}.csv")


def test_a_schema_is_written_shown_and_never_overwritten(fedfb, clients, tmp_path):
    shown = fedfb("schema", "infer", "clients/*.csv", *FLAGS, "--bins", "age: 40")
    assert (shown.code, "column 'day' looks like a date" in shown.err) == (0, True)
    columns = tomllib.loads(shown.out)["columns"]
    assert {name: column["role"] for name, column in columns.items()} == {
        "day": "ignored",
        "age": "sensitive",
        "sex": "sensitive",
        "job": "feature",
        "hours": "feature",
        "paid": "label",
    }
    assert columns["hours"] == {
        "role": "feature",
        "type": "number",
        "missing": "mean",
        "scale": "standard",
    }
    flags = (*FLAGS, "--bins", "age: 40", "--out", "schema.toml")
    assert fedfb("schema", "infer", "clients/*.csv", *flags).code == 0
    assert (tmp_path / "schema.toml").read_text() == shown.out
    refused(fedfb("schema", "infer", "clients/*.csv", *flags), "schema.toml exists")


def test_a_schema_inferred_and_declared_is_the_run_of_the_flags(fedfb, clients):
    flags = (*FLAGS, "--bins", "age: 40")
    fedfb("schema", "infer", "clients/*.csv", *flags, "--out", "schema.toml")
    one = fedfb(
        "run", "--data", "clients/*.csv", *flags, "--ignore", "day", "--rounds", 1, "--json"
    )
    other = ("run", "--data", "clients/*.csv", "--schema", "schema.toml", "--rounds", 1, "--json")
    assert one.json["runs"] == fedfb(*other).json["runs"]
    assert one.json["notes"] == fedfb(*other).json["notes"]


def test_cells_that_do_not_fit_are_listed_with_exit_code_1(fedfb, clients, write, tmp_path):
    flags = (*FLAGS, "--bins", "age: 40", "--out", "schema.toml")
    fedfb("schema", "infer", "clients/*.csv", *flags)
    said = fedfb("schema", "check", "schema.toml", "clients/*.csv")
    assert (said.code, said.out) == (0, "clients/north.csv: fits\nclients/south.csv: fits\n")
    lines = (tmp_path / "clients/south.csv").read_text().splitlines()
    lines[3] = "2024-01-01,old,X,a,1,yes"
    lines[9:] = [line.replace("a,", "c,") for line in lines[9:]]
    write("\n".join(lines), "clients/south.csv")
    said = fedfb("schema", "check", "schema.toml", "clients/*.csv")
    assert said.code == 1
    assert "clients/south.csv, line 4, column 'age': 'old' is not a number" in said.out
    assert "line 4, column 'sex': 'X' is not among the declared categories" in said.out
    assert "column 'job': 'c' is not among the declared categories: 36 cells in all" in said.out
    assert len(said.out.splitlines()) == 4
    run = fedfb("run", "--data", "clients/*.csv", "--schema", "schema.toml")
    refused(run, "3 problems", "clients/south.csv\n  line 4, column 'age'", "fedfb schema check")


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (("infer", "clients/*.csv"), ["a schema needs --label"]),
        (("infer", "none/*.csv", *FLAGS), ["no file matches 'none/*.csv'"]),
        (("infer", "clients/*.csv", *FLAGS, "--bins", "age"), ["--bins 'age': expected"]),
        (("check", "absent.toml", "clients/*.csv"), ["cannot read absent.toml"]),
        (("check", "clients/north.csv", "clients/*.csv"), ["is not valid TOML"]),
    ],
)
def test_what_is_wrong_is_told(fedfb, clients, arguments, fragments):
    refused(fedfb("schema", *arguments), *fragments)


def test_flags_against_the_schema_are_refused(fedfb, clients):
    fedfb("schema", "infer", "clients/*.csv", *FLAGS, "--bins", "age: 40", "--out", "schema.toml")
    run = ("run", "--data", "clients/*.csv", "--schema", "schema.toml")
    refused(fedfb(*run, "--positive", "no"), "--positive says 'no'", "schema.toml says 'yes'")
    refused(fedfb(*run, "--merge", "sex: F+M=x"), "--merge and --schema both declare")
    refused(fedfb("run", "--schema", "schema.toml"), "schema (--schema) does not apply")


@pytest.mark.slow
def test_every_report_says_whether_sensitive_attributes_are_features(fedfb, clients, tmp_path):
    flags = (*FLAGS, "--bins", "age: 40", "--ignore", "day", "--rounds", 1, "--local-epochs", 1)
    data = ("--data", "clients/*.csv", *flags)
    for given, said in (("yes", "are features"), ("no", "are not features")):
        more = ("--sensitive-at-prediction", given)
        sentence = f"the sensitive attributes {said} of the model"
        printed = fedfb("run", *data, *more, "--out", f"kept-{given}").out
        assert sentence in " ".join(printed.split())
        assert "columns: numbers hours; categories job (2); left out day" in printed
        assert fedfb("report", f"kept-{given}").code == 0
        page = next((tmp_path / f"kept-{given}").glob("*.html")).read_text()
        assert sentence in page
        some = ("--algorithms", "fedavg", "--seeds", 1, "--quick", "--no-store")
        assert sentence in " ".join(fedfb("frontier", *data, *more, *some).out.split())


def test_what_is_learnt_under_masks_is_what_is_learnt_in_clear(fedfb, clients, write, tmp_path):
    """Scales that need quantiles, and categories, come through secure sums all the same."""
    (tmp_path / "clients/west.csv").write_text((tmp_path / "clients/north.csv").read_text())
    flags = (*FLAGS, "--bins", "age: 40", "--out", "schema.toml")
    fedfb("schema", "infer", "clients/*.csv", *flags)
    schema = (tmp_path / "schema.toml").read_text()
    write(schema.replace('scale = "standard"', 'scale = "clip"'), "schema.toml")
    run = ("run", "--data", "clients/*.csv", "--schema", "schema.toml", "--rounds", 1)
    plain = fedfb(*run, "--out", "plain", "--json").json
    masked = fedfb(*run, "--out", "masked", "--secure", "--json").json
    assert any("clipped" in note for note in masked["notes"])
    # Nobody sees the rows of two clients: copies among them are not counted under masks.
    notes = [note for note in plain["notes"] if not note.startswith("Repeated rows")]
    assert [note for note in masked["notes"] if not note.startswith("Repeated rows")] == notes
    one, other = (
        np.hstack([*list(vars(load_model(run).encoder.columns[-1]).values())[1:]]).astype(float)
        for run in ("plain", "masked")
    )
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    ledger = (tmp_path / "masked/ledger.jsonl").read_text()
    assert "clip histograms" in ledger
    assert "category counts" in ledger
