"""``fedfb report``: one page from a run, a comparison or a frontier; nothing is overwritten."""

import pytest

from cli.asking import TINY, refused


def test_a_run_has_a_page_in_its_folder(fedfb, tiny, tmp_path):
    tiny("--out", "kept")
    said = fedfb("report", "kept")
    assert (said.code, said.out) == (0, "")
    assert said.err == "The page is in kept/report.html.\n"
    text = (tmp_path / "kept/report.html").read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert "What left the clients in this run" in text  # the ledger is read


def test_a_comparison_keeps_a_run_for_each_method(fedfb, tmp_path):
    said = fedfb("compare", *TINY, "--algorithms", "fedavg,fedfb", "--out", "kept", "--json")
    results = said.json["results"]
    assert fedfb("predict", "kept/fedfb", "absent.csv").code == 2
    assert (tmp_path / "kept/fedfb/models.npz").exists()
    again = fedfb("run", "kept/fedfb/experiment.toml", "--json").json
    assert again == results[1]
    assert fedfb("report", "kept", "--out", "page.html").code == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "2 methods on synthetic" in text
    refused(fedfb("compare", *TINY, "--out", "kept"), "kept is not empty")


def test_a_frontier_has_a_page(fedfb, tmp_path):
    fedfb("frontier", *TINY, "--algorithms", "fedavg,fedfb", "--quick", "--out", "kept")
    assert fedfb("report", "kept").code == 0
    assert "The frontier on synthetic" in (tmp_path / "kept/report.html").read_text()


def test_a_page_is_written_over_only_by_force(fedfb, tiny, write, tmp_path):
    tiny("--out", "kept")
    write("mine", "page.html")
    refused(fedfb("report", "kept", "--out", "page.html"), "page.html exists already", "--force")
    assert (tmp_path / "page.html").read_text() == "mine"
    assert fedfb("report", "kept", "--out", "page.html", "--force").code == 0
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE")


@pytest.mark.parametrize(
    ("folder", "flags", "words"),
    [
        ("absent", (), "no folder absent"),
        ("empty", (), "holds nothing to report on"),
        ("begun", (), "is not finished"),
        ("broken", (), "cannot be read"),
        ("strange", (), "this version of fedfb reads schema"),
        ("partial", (), "cannot read partial/absent/result.json"),
        ("begun", ("--out", "absent/page.html"), "is not finished"),
    ],
)
def test_folders_without_results_are_refused(fedfb, write, tmp_path, folder, flags, words):
    (tmp_path / "empty").mkdir()
    write("seeds = [0]", "begun/experiment.toml")
    write("{", "broken/result.json")
    write("{}", "strange/frontier.json")
    write('{"algorithms": ["absent"]}', "partial/comparison.json")
    refused(fedfb("report", folder, *flags), words)
    assert not list(tmp_path.rglob("*.html"))


def test_places_that_cannot_be_written_are_refused(fedfb, tiny, tmp_path):
    tiny("--out", "kept")
    (tmp_path / "folder").mkdir()
    refused(fedfb("report", "kept", "--out", "folder"), "folder is a folder")
    refused(
        fedfb("report", "kept", "--out", "absent/page.html"), "the folder absent does not exist"
    )


def test_without_its_tools_the_command_says_what_to_install(fedfb, tiny, monkeypatch):
    tiny("--out", "kept")
    monkeypatch.setattr("fedfb.extras.find_spec", lambda name: None)
    refused(fedfb("report", "kept"), "jinja2 and matplotlib", "pip install 'fedfb[report]'")
