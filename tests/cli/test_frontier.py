"""``fedfb frontier``: tables, CSV, JSON, pictures, folders, and the store behind it."""

import csv
import io
import json

import pytest

from cli.asking import TINY, refused

GIVEN = ("--sensitive-at-prediction", "yes")
FEW = (*TINY, "--algorithms", "fedavg,fedfb,hardt", "--quick", *GIVEN)


@pytest.mark.slow
def test_the_tables_fit_80_columns_and_show_approaches_limit_and_pareto_set(fedfb):
    said = fedfb("frontier", *TINY, "--quick", "--notion", "eo", *GIVEN)
    assert said.code == 0, said.err
    assert max(map(len, said.out.splitlines())) <= 80
    for word in ("fedavg", "fedfb", "cfl (p)", "hardt (limit)", "Pareto set", "left out: fedprox"):
        assert word in said.out
    assert "A constant classifier is" in said.out


def test_json_and_csv_tell_the_same_points(fedfb, tmp_path):
    record = fedfb("frontier", *FEW, "--seeds", 2, "--csv", "points.csv", "--json").json
    with (tmp_path / "points.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["algorithm"] for row in rows] == [one["algorithm"] for one in record["points"]]
    for row, one in zip(rows, record["points"], strict=True):
        assert float(row["accuracy"]) == one["accuracy"]["mean"]
        assert bool(int(row["pareto"])) == one["pareto"]
    assert record["seeds"] == [0, 1]


def test_csv_goes_to_stdout_on_demand(fedfb):
    rows = list(csv.reader(io.StringIO(fedfb("frontier", *FEW, "--csv", "-").out)))
    assert rows[0][:3] == ["algorithm", "setting", "accuracy"]
    assert len({len(row) for row in rows}) == 1


def test_the_folder_has_everything_and_is_not_overwritten(fedfb, tmp_path):
    said = fedfb("frontier", *FEW, "--out", "kept", "--plot", "points.png")
    assert said.code == 0, said.err
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {
        *("frontier.json", "frontier.csv", "frontier.svg", "fedfb.sha256"),
    }
    assert (tmp_path / "points.png").read_bytes().startswith(b"\x89PNG")
    before = (tmp_path / "kept" / "frontier.json").read_bytes()
    refused(fedfb("frontier", *FEW, "--out", "kept"), "kept is not empty")
    assert (tmp_path / "kept" / "frontier.json").read_bytes() == before
    assert json.loads(before)["versions"]["fedfb"]


def test_a_warm_store_gives_the_same_without_training(fedfb, monkeypatch, tmp_path):
    monkeypatch.setenv("FEDFB_STORE", str(tmp_path / "store"))
    cold = fedfb("frontier", *FEW, "--json").out
    assert list((tmp_path / "store").rglob("*.json.gz"))
    from fedfb.experiments import cache as recorded

    monkeypatch.setattr(recorded, "train", None)
    assert fedfb("frontier", *FEW, "--json").out == cold


def test_a_comparison_is_not_trained_twice_either(fedfb, monkeypatch, tmp_path):
    """And a frontier reads what a comparison of the same settings has left."""
    monkeypatch.setenv("FEDFB_STORE", str(tmp_path / "store"))
    cold = fedfb("compare", *TINY, "--algorithms", "fedavg,reweighing", "--json").out
    from fedfb.experiments import cache as recorded

    monkeypatch.setattr(recorded, "train", None)
    assert fedfb("compare", *TINY, "--algorithms", "fedavg,reweighing", "--json").out == cold
    flags = ("--algorithms", "fedavg,reweighing", "--seeds", 1, "--json")
    assert len(fedfb("frontier", *TINY, *flags).json["points"]) == 2


def test_without_the_store_nothing_is_kept(fedfb, monkeypatch, tmp_path):
    monkeypatch.setenv("FEDFB_STORE", str(tmp_path / "store"))
    assert fedfb("frontier", *FEW, "--no-store").code == 0
    assert fedfb("compare", *TINY, "--no-store").code == 0
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--algorithms", "fedbf"), "did you mean"),
        (("--algorithms", ""), "--algorithms"),
        (("--notion", "dpp"), "unknown notion"),
        (("--data", "absent.csv"), "absent.csv"),
        (("--seeds", "0"), "names no seed"),
        (("--plot", "a.txt"), "--plot"),
        (("--csv", "absent/points.csv"), "--csv"),
        (("--json", "--csv", "-"), "stdout"),
        (("--algorithms", "q-ffl"), "no method could be trained"),
    ],
)
def test_bad_input_is_refused_and_leaves_no_folder(fedfb, tmp_path, flags, words):
    refused(fedfb("frontier", *TINY, *flags, "--out", "kept"), words)
    assert not (tmp_path / "kept").exists()
