"""``fedfb audit`` as it is typed."""

import json
import re

import pytest

from cli.asking import OWN, TINY, refused

ROWS = ("--label", "y", "--positive", "1", "--sensitive", "sex,race")
SCORED = ("audit", "--scores", "rows.csv", *ROWS, "--score", "score", "--client-column", "client")
HEADER = "y,sex,race,client,score,decision"


def scores(rows=240, shift=0.0):
    lines = [HEADER]
    for i in range(rows):
        sex, race, client = "FM"[i % 2], "BW"[i // 2 % 2], "nsw"[i % 3]
        score = min(max((i * 37 % 101) / 100 + (0.1 + shift if sex == "M" else 0), 0), 1)
        lines.append(
            f"{int(i * 53 % 97 < 50)},{sex},{race},{client},{score:.3f},{int(score > 0.6)}"
        )
    return "\n".join(lines) + "\n"


def with_line(number, cells):
    lines = scores().splitlines()
    lines[number] = cells
    return "\n".join(lines) + "\n"


@pytest.fixture
def run(fedfb):
    """Train on synthetic rows into runs/mine."""
    return lambda *arguments: fedfb("run", *TINY, "--out", "runs/mine", *arguments)


def test_the_audit_of_a_run_is_about_its_test_rows(fedfb, run, tmp_path):
    run()
    said = fedfb("audit", "runs/mine", "--out", "audits/mine")
    assert said.code == 0, said.err
    assert max(map(len, said.out.splitlines())) <= 80
    record = json.loads((tmp_path / "audits/mine/audit.json").read_text())
    result = json.loads((tmp_path / "runs/mine/result.json").read_text())["runs"][0]
    for notion in ("demographic_parity", "equal_opportunity", "equalized_odds", "client_parity"):
        expected = result["disparity"][notion]
        assert record["notions"][notion]["value"] == pytest.approx(expected)
        assert record["notions"][notion]["interval"] == pytest.approx(result["interval"][notion])
    assert record["overall"]["accuracy"]["value"] == pytest.approx(result["accuracy"])
    card = (tmp_path / "audits/mine/model-card.md").read_text()
    for words in ("Not stated", "FedFB", "models.npz", "numpy", "demographic parity", "ledger"):
        assert words in card
    page = (tmp_path / "audits/mine/audit.html").read_text()
    assert "Model card</h2>" in page
    assert '"audit"' in (tmp_path / "audits/mine/ledger.jsonl").read_text()


def test_an_audit_is_never_written_over(fedfb, run, tmp_path):
    run()
    assert fedfb("audit", "runs/mine", "--out", "there").code == 0
    before = (tmp_path / "there/audit.json").read_bytes()
    refused(fedfb("audit", "runs/mine", "--out", "there"), "not empty")
    assert (tmp_path / "there/audit.json").read_bytes() == before


def client_files(write, extra=""):
    for place, name in enumerate(("north", "south", "west")):
        lines = ["age,sex,y" + (",town" if extra else "")]
        for i in range(60):
            j = i + 7 * place
            lines.append(f"{j % 7 + j // 2 % 2 * 3},{'FM'[j % 2]},{'yn'[j // 2 % 2]}" + extra)
        write("\n".join(lines) + "\n", f"clients/{name}.csv")


def test_own_files_are_audited_by_the_columns_of_the_run(fedfb, write):
    client_files(write)
    assert fedfb("run", "--data", "clients/*.csv", *OWN, "--out", "runs/own").code == 0
    same = fedfb("audit", "runs/own", "--data", "clients/*.csv", "--json").json
    assert "test rows" in same["rows"]
    assert sum(group["n"] for group in same["groups"]) == 54
    client_files(lambda content, name: write(content, name.replace("clients", "new")))
    new = fedfb("audit", "runs/own", "--data", "new/*.csv", "--json").json
    assert new["rows"] == "all rows of the files"
    assert new["client_names"] == ["north", "south", "west"]
    assert sum(group["n"] for group in new["groups"]) == 180
    secure = fedfb("audit", "runs/own", "--data", "new/*.csv", "--secure", "--json").json
    assert secure["groups"] == new["groups"]
    assert secure["clients"] is None


def test_a_baseline_is_another_run_on_the_same_rows(fedfb, write):
    client_files(write)
    for name, method in (("one", "fedfb"), ("two", "fedavg")):
        fedfb(
            "run", "--data", "clients/*.csv", *OWN, "--algorithm", method, "--out", f"runs/{name}"
        )
    said = fedfb("audit", "runs/one", "--baseline", "runs/two", "--json").json
    assert said["baseline"] == "two"
    assert said["comparison"]["accuracy"]["interval"][0] <= said["comparison"]["accuracy"]["value"]
    fedfb("run", *TINY, "--out", "runs/other")
    refused(fedfb("audit", "runs/one", "--baseline", "runs/other"), "not about the same rows")


@pytest.mark.slow
def test_a_baseline_may_be_what_predict_has_printed(fedfb, write):
    client_files(write)
    fedfb("run", "--data", "clients/*.csv", *OWN, "--out", "runs/own")
    client_files(lambda content, name: write(content, name.replace("clients", "new")))
    write(fedfb("predict", "runs/own", "new/north.csv").out, "predicted.csv")
    compared = ("audit", "runs/own", "--baseline", "predicted.csv")
    said = fedfb(*compared, "--data", "new/north.csv", "--json").json
    assert said["comparison"]["accuracy"]["value"] == 0
    refused(fedfb(*compared, "--data", "new/*.csv"), "has 60 rows, and 180 are audited")
    refused(fedfb(*compared), "Name the rows")


def test_a_model_cannot_be_the_baseline_of_a_scores_file(fedfb, write, run):
    write(scores())
    run()
    refused(fedfb(*SCORED, "--baseline", "runs/mine"), "needs features")


def test_other_columns_can_be_audited_on_named_files(fedfb, write):
    client_files(write, extra=",x")
    fedfb("run", "--data", "clients/*.csv", *OWN, "--out", "runs/own")
    refused(fedfb("audit", "runs/own", "--sensitive", "age"), "name files")
    files = ("--data", "clients/*.csv")
    said = fedfb("audit", "runs/own", *files, "--sensitive", "age", "--json").json
    assert said["attributes"] == ["age"]
    assert "training rows are among" in said["rows"]
    refused(fedfb("audit", "runs/own", *files, "--sensitive", "town"), "one group")
    refused(fedfb("audit", "runs/own", *files, "--label", "z"), "unknown column 'z'")


def test_a_scores_file_is_audited_by_score_or_decision(fedfb, write):
    write(scores())
    by_score = fedfb(*SCORED, "--threshold", ".6", "--json").json
    assert by_score["decided_by"] == "score of at least 0.6"
    assert by_score["calibration"]
    assert len(by_score["clients"]) == 3
    decided = fedfb("audit", "--scores", "rows.csv", *ROWS, "--decision", "decision", "--json").json
    assert decided["calibration"] is None
    assert decided["client_names"] == ["rows"]
    said = fedfb(*SCORED)
    assert "sex=F, race=B" in said.out
    assert re.search(r"By sex.*By race", said.out, re.DOTALL)


def test_scores_files_of_clients_are_audited_together(fedfb, write):
    write(scores(120), "scores/a.csv")
    write(scores(180), "scores/b.csv")
    said = fedfb("audit", "--scores", "scores/*.csv", *ROWS, "--score", "score", "--json").json
    assert said["client_names"] == ["a", "b"]
    assert said["overall"]["n"] == 300


def test_a_baseline_of_scores_has_the_same_rows(fedfb, write):
    write(scores())
    write(scores(shift=0.2), "other.csv")
    write(scores(200), "fewer.csv")
    said = fedfb(*SCORED, "--baseline", "other.csv", "--json").json
    assert said["comparison"]["notions"]["demographic_parity"]["value"] < 0
    refused(fedfb(*SCORED, "--baseline", "fewer.csv"), "not about the rows", "200 rows")


@pytest.mark.parametrize(
    ("content", "options", "fragments"),
    [
        (with_line(5, "1,F,B,n,1.3,1"), (), ("line 6", "'1.3'", "from 0 to 1")),
        (with_line(5, "1,F,B,n,,1"), (), ("line 6", "''", "from 0 to 1")),
        (with_line(5, "1,F,B,n,high,1"), (), ("line 6", "'high'")),
        (with_line(5, ",F,B,n,.3,1"), (), ("label 'y' is missing in 1 of 240",)),
        (with_line(5, "1,,B,n,.3,1"), (), ("'sex' is missing in 1",)),
        (with_line(5, "1,F,B,,.3,1"), (), ("names the client", "missing in 1")),
        (with_line(5, "1,F,B,n,.3,yes"), ("--decision", "decision"), ("line 6", "'yes'", "0.")),
        (with_line(5, "1,F,B,n,.3,.5"), ("--decision", "decision"), ("line 6", "'.5'")),
        (scores(), ("--positive", "yes"), ("'yes' never occurs", "values are 0, 1")),
        (scores(), ("--sensitive", "sexx"), ("unknown column 'sexx'", "'sex'")),
        (scores(), ("--sensitive", "sex,sex"), ("different columns",)),
        (scores(), ("--threshold", "7"), ("--threshold is 7",)),
        (scores(), ("--minimum", "0"), ("at least 1",)),
        (scores(), ("--mix", "odd"), ("given or drawn",)),
        (scores(), ("--data", "x.csv"), ("--data does not apply",)),
        (HEADER + "\n", (), ("no rows",)),
        ("", (), ("empty",)),
        (scores().replace("M,", "F,"), ("--sensitive", "sex"), ("one group", "nobody to compare")),
    ],
)
def test_what_a_scores_file_lacks_is_told(fedfb, write, content, options, fragments):
    write(content)
    refused(fedfb(*SCORED, *options), *fragments)


def test_what_is_audited_must_be_named(fedfb, run):
    refused(fedfb("audit"), "name what to audit")
    refused(fedfb("audit", "nowhere"), "holds no finished run")
    refused(fedfb("audit", "--scores", "rows.csv"), "--label")
    refused(fedfb("audit", "--scores", "no.csv", *ROWS, "--score", "s"), "no file matches")
    run()
    refused(fedfb("audit", "runs/mine", "--score", "s"), "does not apply to a model")
    refused(fedfb("audit", "runs/mine", "--data", "nothing/*.csv"), "no file matches")


def test_two_clients_cannot_be_masked(fedfb, write):
    write(scores().replace(",w,", ",n,"))
    refused(fedfb(*SCORED, "--secure"), "at least 3 clients")
