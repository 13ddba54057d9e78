"""``fedfb predict``: the decisions of a run, on rows from a file."""

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Thread

import numpy as np
import pyarrow.csv
import pyarrow.feather
import pytest
from pyarrow import parquet

from cli.asking import OWN, client_file, refused
from fedfb.data import load
from fedfb.experiments.run_folder import load_model
from fedfb.experiments.spec import Experiment
from fedfb.export.handover import take_over
from fedfb.tables import stream
from fedfb.tables.table import Table


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


def grouped_file(rows, seed=0):
    """Rows of two groups whose scores mean different things, as FedFB's weights make them."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, rows)
    x = rng.normal(size=rows) + 1.5 * group
    y = rng.random(rows) < 1 / (1 + np.exp(-2 * x))
    cells = zip(x.tolist(), group.tolist(), y.tolist(), strict=True)
    return "x,sex,y\n" + "".join(f"{a:.4f},{'FM'[g]},{'ny'[b]}\n" for a, g, b in cells)


def test_calibrated_is_a_column_by_group_that_moves_no_decision(fedfb, write):
    write(grouped_file(2000))
    write(grouped_file(4000, seed=1), "test.csv")
    given = ("--sensitive-at-prediction", "yes")
    flags = ("--data", "rows.csv", *OWN, *given, "--test", "test.csv", "--rounds", 10)
    [run] = fedfb("run", *flags, "--out", "kept", "--json").json["runs"]
    plain = fedfb("predict", "kept", "test.csv")
    said = fedfb("predict", "kept", "test.csv", "--calibrated", "--keep", "sex,y")
    rows = list(csv.DictReader(io.StringIO(said.out)))
    assert decisions(said)[0].tolist() == decisions(plain)[0].tolist()
    assert plain.out.splitlines()[0] == "score,decision"
    assert said.out.splitlines()[0] == "sex,y,score,decision,calibrated"
    assert [one["name"] for one in run["calibration"]] == ["all", "F", "M"]
    before, after = (max(one[side] for one in run["calibration"]) for side in ("before", "after"))
    assert after < before / 2
    for sex in "FM":
        of_sex = [row for row in rows if row["sex"] == sex]
        shares = np.mean([row["y"] == "y" for row in of_sex])
        assert np.mean([float(row["calibrated"]) for row in of_sex]) == pytest.approx(
            shares, abs=0.04
        )


def test_calibrated_needs_the_group_columns_and_a_run_with_a_histogram(fedfb, write):
    write(grouped_file(200))
    write("x\n1\n2\n", "no-group.csv")
    write("x,sex\n1,F\n2,elsewhere\n", "new-group.csv")
    fedfb("run", "--data", "rows.csv", *OWN, "--out", "kept")
    refused(fedfb("predict", "kept", "no-group.csv", "--calibrated"), "'sex'")
    assert fedfb("predict", "kept", "no-group.csv").code == 0
    said = fedfb("predict", "kept", "new-group.csv", "--calibrated")
    assert all(0 < float(line.split(",")[2]) < 1 for line in said.out.splitlines()[1:])
    fedfb("run", "--data", "rows.csv", *OWN, "--cut", "half", "--out", "half")
    refused(fedfb("predict", "half", "new-group.csv", "--calibrated"), "were not calibrated")


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
    said = fedfb("predict", "given", "new.csv")
    assert len(decisions(said)[0]) == 2
    assert "1 row has a group that training did not have (X): decided without group" in said.err
    refused(fedfb("predict", "given", "without.csv"), "without.csv: unknown column 'sex'")


THRESHOLDS = (
    "--algorithm",
    "fedfb-thresholds",
    "--notion",
    "dp",
    "--sensitive-at-prediction",
    "yes",
)


@pytest.mark.slow
def test_unknown_groups_are_decided_at_one_half_without_group_columns(fedfb, write, tmp_path):
    write(client_file(200))
    said = fedfb(
        "run", "--data", "rows.csv", *OWN, *THRESHOLDS, "--local-epochs", 3, "--out", "cut"
    )
    assert said.code == 0, said.err
    write("age,sex\n0,X\n6,\n9,X\n3,F\n", "new.csv")
    said = fedfb("predict", "cut", "new.csv")
    decision, score = decisions(said)
    assert "3 rows have a group that training did not have (X, missing)" in said.err
    np.testing.assert_array_equal(decision[:3], np.array(score[:3]) >= 0.5)
    model = load_model("cut")
    table = Table({"age": np.array([0.0, 6.0, 9.0]), "sex": np.array(["X", "", "X"], object)})
    x = model.encoder.encode(table, np.array([-1, -1, -1]))
    assert not x[:, -2:].any()
    hand = take_over(Path("cut"))
    np.testing.assert_array_equal(hand.decide(table).decision[0], decision[:3])


def test_columns_are_copied_as_they_are_written(fedfb, trained, write):
    write('id,age,note,sex\n007,1, NA ,F\n1e3,5,"a, ""b""",M\n')
    said = fedfb("predict", "kept", "rows.csv", "--keep", "id,note,age")
    rows = list(csv.reader(io.StringIO(said.out)))
    assert [row[:3] for row in rows] == [
        ["id", "note", "age"],
        ["007", " NA ", "1"],
        ["1e3", 'a, "b"', "5"],
    ]
    bare = fedfb("predict", "kept", "rows.csv")
    assert [row[3:] for row in rows] == list(csv.reader(io.StringIO(bare.out)))
    refused(fedfb("predict", "kept", "rows.csv", "--keep", "idd"), "unknown column 'idd'")
    write("score,age\n1,2\n", "scored.csv")
    refused(fedfb("predict", "kept", "scored.csv", "--keep", "score"), "has a column 'score'")


def test_the_same_rows_are_decided_alike_from_every_form(fedfb, trained, write, tmp_path):
    rows = "".join(f"{i},{i % 9},{'FM'[i % 2]}\n" for i in range(300))
    path = write("id,age,sex\n" + rows, "new.csv")
    frame = pyarrow.csv.read_csv(path)
    parquet.write_table(frame, tmp_path / "new.parquet", row_group_size=70)
    pyarrow.feather.write_feather(frame, str(tmp_path / "new.arrow"))
    (tmp_path / "new.csv.gz").write_bytes(gzip.compress((tmp_path / "new.csv").read_bytes()))
    with pyarrow.CompressedOutputStream(tmp_path / "new.csv.zst", "zstd") as file:
        file.write((tmp_path / "new.csv").read_bytes())
    expected = fedfb("predict", "kept", "new.csv", "--keep", "id").out
    assert len(expected.splitlines()) == 301
    for suffix in ("csv.gz", "csv.zst", "parquet", "arrow"):
        assert fedfb("predict", "kept", f"new.{suffix}", "--keep", "id").out == expected
    os.mkfifo("pipe")
    for suffix in ("csv", "csv.gz"):
        content = Path(f"new.{suffix}").read_bytes()
        writer = Thread(target=Path("pipe").write_bytes, args=(content,))
        writer.start()
        assert fedfb("predict", "kept", "pipe", "--keep", "id").out == expected
        writer.join()
    said = fedfb("predict", "kept", "new.parquet", "--keep", "id", "--out", "d.parquet")
    assert said.code == 0, said.err
    written = parquet.read_table("d.parquet")
    assert written.column_names == ["id", "score", "decision"]
    assert str(written.schema.field("id").type) == "int64"
    fedfb("predict", "kept", "new.csv", "--keep", "id", "--out", "d.csv")
    assert Path("d.csv").read_text() == expected
    np.testing.assert_allclose(written["score"], pyarrow.csv.read_csv("d.csv")["score"], atol=1e-6)


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of 64 bytes, so that every row lies in another one."""
    monkeypatch.setattr(stream, "_BYTES", 64)
    monkeypatch.setattr(stream, "_ROWS", 3)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_parts_give_the_decisions_and_lines_of_the_whole(fedfb, trained, write, small_parts, end):
    rows = [f'{i % 9},"{"FM"[i % 2]}","a{end}""b"" {i}"' for i in range(60)]
    Path("new.csv").write_bytes(end.join(["age,sex,note", *rows, "", *rows, ""]).encode())
    said = fedfb("predict", "kept", "new.csv", "--keep", "note")
    copied = [row[0] for row in csv.reader(io.StringIO(said.out, newline=""))]
    assert copied == ["note", *2 * [f'a{end}"b" {i}' for i in range(60)]]
    bad = end.join(["age,sex,note", *rows, "old,F,c"])
    Path("bad.csv").write_bytes(bad.encode())
    Path("kept.csv").write_text("as before")
    flags = ("--out", "kept.csv", "--force")
    said = fedfb("predict", "kept", "bad.csv", *flags)
    assert said.code == 2
    assert "bad.csv, line 122, column 'age': 'old' is not a finite number" in said.err
    assert Path("kept.csv").read_text() == "as before"
    assert not list(Path().glob("*.partial"))
    for wrong, line in (("1,F\n", 122), ('1,F,"no end\n', 122), ("1,F,\0\n", 122)):
        Path("bad.csv").write_bytes((bad[: -len("old,F,c")] + wrong).encode())
        said = fedfb("predict", "kept", "bad.csv", "--out", "new.out")
        assert said.code == 2
        assert f"bad.csv, line {line}" in said.err
        assert not Path("new.out").exists()


@pytest.mark.slow
def test_a_dialect_of_new_rows_is_detected_once_and_declared_by_flags(
    fedfb, trained, write, small_parts
):
    rows = [(i % 9 + i / 1000, "FM"[i % 2], "Zoë" if i > 40 else "Zoe") for i in range(60)]
    plain = "".join(f"{age:.3f},{sex},{name}\n" for age, sex, name in rows)
    expected = fedfb("predict", "kept", write("age,sex,name\n" + plain)).out
    comma = [f"{age:.3f}".replace(".", ",") + f";{sex};{name}\n" for age, sex, name in rows]
    first = "age;sex;name\n1,5;F;Zoe\n"
    content = first + "".join(comma)
    whole = fedfb("predict", "kept", write("age,sex,name\n1.5,F,Zoe\n" + plain)).out
    assert whole.splitlines()[2:] == expected.splitlines()[1:]
    for encoding in ("utf-8", "utf-8-sig", "cp1252", "utf-16"):
        Path("new.csv").write_bytes(content.encode(encoding))
        said = fedfb("predict", "kept", "new.csv")
        assert said.out == whole, said.err
        assert said.err.count("decimal comma, detected in column age") == 1
        assert ("line 44: not UTF-8, read as cp1252" in said.err) == (encoding == "cp1252")
    Path("new.csv").write_bytes(content.encode("mac-roman"))
    refused(fedfb("predict", "kept", "new.csv", "--out", "d.csv"), "line 44: not UTF-8")
    flags = ("--encoding", "mac-roman", "--decimal", ",", "--separator", ";")
    said = fedfb("predict", "kept", "new.csv", *flags)
    assert (said.out, "detected" in said.err) == (whole, False)
    write("age;sex;name\n1,500;F;Zoe\n", "new.csv")
    refused(fedfb("predict", "kept", "new.csv"), "'1,500' is 1500 or 1.500")
    decided = fedfb("predict", "kept", "new.csv", "--decimal", ",").out
    assert decided.splitlines() == whole.splitlines()[:2]


def test_parts_of_a_file_do_not_contradict_each_other(fedfb, trained, write, small_parts):
    rows = "".join("1.234,F\n" for _ in range(30))
    path = write("age,sex\n" + rows + '"1.234,5",F\n', "new.csv")
    said = fedfb("predict", "kept", path, "--out", "decisions.csv")
    refused(said, "line 32, column 'age'", "decimal mark is a comma, and it was a point")
    assert fedfb("predict", "kept", path, "--decimal", ",").code == 0


def test_a_group_beyond_the_merged_ones_counts_as_the_rest(fedfb, write):
    write(client_file(200) + "".join(f"{i % 9},{'XY'[i % 2]},n\n" for i in range(8)))
    flags = (*OWN, "--sensitive-at-prediction", "yes", "--rest", "other", "--minimum-group", 20)
    said = fedfb("run", "--data", "rows.csv", *flags, "--local-epochs", 1, "--out", "merged")
    assert said.code == 0, said.err
    write("age,sex\n1,Z\n1,X\n", "new.csv")
    said = fedfb("predict", "merged", "new.csv")
    _, score = decisions(said)
    assert score[0] == score[1]
    assert "1 row has a group that training did not have (Z): it counts as 'other'" in said.err


PEAK = """
import resource, sys
from fedfb.cli.app import main
sys.argv = ["fedfb", "predict", "kept", "-", "--out", sys.argv[1]]
try:
    main()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
def test_a_million_rows_from_a_pipe_need_little_memory(trained, tmp_path):
    peaks = {}
    for rows in (100, 1_000_000):
        lines = (f"{i % 9},{'FM'[i % 2]},{'x' * 60}\n" for i in range(rows))
        process = subprocess.Popen(
            [sys.executable, "-c", PEAK, f"{rows}.csv"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        process.stdin.write("age,sex,more\n")
        process.stdin.writelines(lines)
        process.stdin.close()
        peaks[rows] = int(process.stdout.read().splitlines()[-1])
        process.stdout.close()
        assert process.wait() == 0
        assert len(Path(f"{rows}.csv").read_text().splitlines()) == rows + 1
    assert peaks[1_000_000] - peaks[100] < 100
