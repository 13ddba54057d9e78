"""``fedfb study init``: what it needs to know of columns, and what it refuses."""

import pytest

from fedfb.study.study import read_study

ROWS = "age,town,sex,paid\n31,a,F,yes\n52,b,M,no\n40,a,M,yes\n28,b,F,no\n"
CLIENTS = ("--trial", "--clients", "east,north,west")
FLAGS = ("--label", "paid", "--positive", "yes", "--sensitive", "sex")


@pytest.fixture
def schema(fedfb, write, tmp_path):
    write(ROWS, "rows.csv")
    assert fedfb("schema", "infer", "rows.csv", *FLAGS, "--out", "schema.toml").code == 0
    return (tmp_path / "schema.toml").read_text()


def test_a_study_takes_the_schema_of_ones_own_data(fedfb, schema, tmp_path):
    assert fedfb("study", "init", "a", "--schema", "schema.toml", *CLIENTS).code == 0
    assert fedfb("study", "init", "b", "--like", "rows.csv", *FLAGS, *CLIENTS).code == 0
    assert (
        fedfb(
            "study", "init", "c", "--schema", "schema.toml", "--trial", "--silos", CLIENTS[2]
        ).code
        == 0
    )
    declared, read_off = (read_study(tmp_path / name / "study.toml") for name in "ab")
    assert declared.schema == read_off.schema
    assert declared.experiment == read_off.experiment
    assert declared.experiment.lr == ()  # it will be picked
    assert not declared.terms.achievable
    assert declared.trial


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--schema", "schema.toml"), "needs the names of its clients"),
        (CLIENTS, "needs to know the columns of its clients: by --schema FILE"),
        ((*CLIENTS, "--like", "rows.csv", "--label", "paid"), "--positive (its favourable value)"),
        ((*CLIENTS, "--like", "rows.csv", "--schema", "schema.toml", *FLAGS), "needs to know"),
        ((*CLIENTS, "--schema", "schema.toml", "--label", "age"), "--label says 'age' and the"),
        ((*CLIENTS, "--schema", "open.toml"), "which categories column 'town' may hold"),
        ((*CLIENTS, "--schema", "client.toml"), "the client column 'town', and the clients of a"),
        ((*CLIENTS, "--schema", "schema.toml", "--cost", "0.1"), "No such option: --cost"),
    ],
)
def test_what_a_study_cannot_go_by_is_refused(fedfb, write, schema, flags, words, tmp_path):
    write(schema.replace('categories = ["a", "b"]\n', ""), "open.toml")
    as_client = 'role = "client"\ntype = "category"'
    role = schema.split("[columns.town]\n")[1].split("\n\n")[0]
    write(schema.replace(role, as_client), "client.toml")
    said = fedfb("study", "init", "made", *flags)
    assert said.code == 2
    assert words in " ".join(said.err.split())
    assert not (tmp_path / "made").exists()
