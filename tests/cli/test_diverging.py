"""A diverged setting stands as such in tables, JSON and pages."""

import json

from cli.asking import TINY

WILD = ("--model", "mlp", "--optimiser", "sgd", "--lr", ".01,1e30", "--algorithm", "fedavg")


def test_run_shows_it_in_its_table_and_page(fedfb, tmp_path):
    said = fedfb("run", *TINY, *WILD, "--out", "kept")
    assert said.code == 0, said.err
    [row] = [line for line in said.out.splitlines() if line.startswith("1e+30")]
    assert "diverged" in row
    lost = json.loads((tmp_path / "kept" / "result.json").read_text())["runs"][1]
    assert lost["diverged"]["client"] == "client 0"
    assert lost["accuracy"] is None
    assert fedfb("report", "kept").code == 0
    page = (tmp_path / "kept" / "report.html").read_text()
    assert "<td" in page.partition(">diverged<")[0][-40:]


def test_compare_shows_it_beside_the_others(fedfb, tmp_path):
    flags = (*TINY, *WILD[:-2], "--algorithms", "fedavg,fedprox", "--no-store")
    said = fedfb("compare", *flags, "--plot", "points.svg")
    assert said.code == 0, said.err
    assert said.out.count("diverged") >= 2
    assert (tmp_path / "points.svg").exists()


def test_a_setting_too_large_for_a_secure_sum_does_not_stop_the_grid(fedfb):
    flags = ("--clients", 3, "--secure", "--algorithm", "fedavg", "--optimiser", "sgd")
    said = fedfb("run", *TINY, *flags, "--lr", ".01,1e12", "--json")
    [kept, lost] = said.json["runs"]
    assert kept["accuracy"] is not None
    assert lost["diverged"]["round"] == 1
    alone = fedfb("run", *TINY, *flags, "--lr", ".01", "--json").json["runs"][0]
    alone.pop("chance")  # of a single setting only
    assert alone == kept


def test_a_single_setting_too_large_for_a_secure_sum_is_refused_as_before(fedfb):
    flags = ("--clients", 3, "--secure", "--algorithm", "fedavg", "--optimiser", "sgd")
    said = fedfb("run", *TINY, *flags, "--lr", "1e12")
    assert said.code == 2
    assert "under --secure" in said.err
