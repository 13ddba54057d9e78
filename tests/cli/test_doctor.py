"""``fedfb doctor``: exit codes, output, and a schema that a run then trains with."""

import json
from pathlib import Path

import pytest

from cli.asking import client_file, refused
from messy import write_banks

FLAGS = ("--label", "approved", "--positive", "ja", "--sensitive", "sex")
OWN = ("--label", "y", "--positive", "y", "--sensitive", "sex")


@pytest.mark.slow
def test_messy_files_are_diagnosed_fixed_and_trained(fedfb, tmp_path):
    write_banks(tmp_path / "banks")
    paths = [f"banks/{path.name}" for path in sorted((tmp_path / "banks").iterdir())]
    said = fedfb("doctor", *paths, *FLAGS)
    assert said.code == 1
    assert max(map(len, said.out.splitlines())) <= 80
    stops, _, others = said.out.partition("WORTH A LOOK")
    assert "income: name in other letters" in stops.partition("STOPS A RUN")[2]
    assert "sex: small group" in others
    assert '-> [files."bank_c.csv"] columns = { "Income" = "income" }' in others
    assert "D line 6" in said.out

    again = fedfb("doctor", "banks", *FLAGS, "--fix", "schema.toml")
    assert (again.code, again.out) == (1, said.out)
    assert "LEFT TO YOU" not in again.err
    keeping = ("--out", "kept", "--json")
    run = fedfb("run", "--data", "banks", "--schema", "schema.toml", "--rounds", 1, *keeping)
    assert [client["name"][-1] for client in run.json["runs"][0]["clients"]] == [*"abcde"]
    assert fedfb("schema", "check", "schema.toml", "banks").code == 0
    settled = fedfb("doctor", "banks", "--schema", "schema.toml")
    assert settled.code == 0
    assert "STOPS A RUN" not in settled.out

    # What the schema says of a file, such as another name of a column, holds for later rows too.
    said = fedfb("predict", "kept", "banks/bank_c.csv")
    assert said.code == 0
    assert len(said.out.splitlines()) == 121
    audited = fedfb("audit", "kept", "--data", "banks/bank_[bc].csv", "--json")
    assert audited.json["rows"].startswith("all rows of the files")

    before = Path("schema.toml").read_text()
    refused(fedfb("doctor", "banks", *FLAGS, "--fix", "schema.toml"), "schema.toml exists")
    assert Path("schema.toml").read_text() == before


def test_a_run_names_all_problems_and_the_command_that_settles_them(fedfb, tmp_path):
    write_banks(tmp_path / "banks")
    said = fedfb("run", "--data", "banks", *FLAGS)
    refused(said, "8 problems of the files", "bank_d.csv has no column 'job'", "fedfb doctor")
    compared = fedfb("compare", "--data", "banks", *FLAGS, "--no-store")
    assert compared.err == said.err


def test_clean_files_take_one_line_and_exit_code_0(fedfb, write):
    lines = [f"{i % 7}.5,{'FM'[i % 2]},{'yn'[i // 2 % 2]}" for i in range(40)]
    for name in ("north", "south"):
        rows = [f"{name == 'north':d}{line}" for line in lines]
        write("\n".join(["age,sex,y", *rows]) + "\n", f"clients/{name}.csv")
    said = fedfb("doctor", "clients/*.csv", *OWN)
    assert (said.code, said.err) == (0, "")
    assert said.out == "2 files, 80 rows: no problems.\n"


def write_two_names(write):
    """Two files whose identifier has a name in other letters; a schema must say both."""
    for number, name in enumerate(("id", "ID")):
        rows = [f"{5000 + 37 * i % 1000},{i % 7}.5,{'FM'[i % 2]},{'yn'[i // 2 % 2]}"
                for i in range(60 * number, 60 * number + 60)]  # fmt: skip
        write("\n".join([f"{name},age,sex,y", *rows]) + "\n", f"two/{'ab'[number]}.csv")


def test_a_column_that_is_left_out_may_have_two_names(fedfb, write):
    write_two_names(write)
    fedfb("doctor", "two", *OWN, "--fix", "settled.toml")
    said = fedfb("schema", "infer", "two", *OWN, "--out", "inferred.toml")
    assert (
        "two/b.csv has a column 'ID', which is 'id' in two/a.csv: the schema says so." in said.err
    )
    for name in ("settled.toml", "inferred.toml"):
        text = Path(name).read_text()
        assert 'columns = { ID = "id" }' in text
        assert "LEFT OUT: Has a column" not in text + said.err
        assert fedfb("run", "--data", "two", "--schema", name, "--rounds", 1).code == 0


def test_json_goes_to_stdout_alone(fedfb, tmp_path):
    write_banks(tmp_path / "banks")
    said = fedfb("doctor", "banks", *FLAGS, "--json")
    assert (said.code, said.err) == (1, "")
    assert json.loads(said.out)["stops"] is True


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (("none/*.csv",), ["no file matches 'none/*.csv'"]),
        (("rows.csv", "--label", "z"), ["unknown column 'z'"]),
        (("rows.csv", "--fix", "s.toml"), ["--label, --positive, --sensitive"]),
        (("rows.csv", *OWN, "--fix", "no/s.toml"), ["--fix no/s.toml", "a folder that exists"]),
        (("rows.csv", "--schema", "absent.toml"), ["cannot read absent.toml"]),
        (("rows.csv", "--bins", "age"), ["--bins 'age': expected"]),
    ],
)
def test_wrong_calls_end_with_exit_code_2(fedfb, write, arguments, fragments):
    write(client_file())
    refused(fedfb("doctor", *arguments), *fragments)
