"""``fedfb compare``: methods side by side, on the same rows and seeds."""

from dataclasses import replace

import pytest

from cli.asking import TINY, refused
from fedfb.paper.targets import published


def test_every_method_has_the_report_of_its_own_run(fedfb):
    said = fedfb("compare", *TINY, "--algorithms", "fedavg,cfl", "--seeds", 2, "--json")
    results = said.json["results"]
    assert [report["algorithm"] for report in results] == ["fedavg", "cfl"]
    for report in results:
        flags = ("--algorithm", report["algorithm"], "--seeds", 2)
        assert fedfb("run", *TINY, *flags, "--json").json == report


def test_differences_are_paired_by_seed(fedfb):
    said = fedfb("compare", *TINY, "--algorithms", "cfl,fedavg", "--seeds", 3, "--json").json
    one, other = (
        [run["accuracy"] for run in report["runs"]] for report in said["results"]
    )  # fmt: skip
    [difference] = said["differences"]
    assert (difference["of"], difference["less"]) == ("cfl", "fedavg")
    mean = sum(a - b for a, b in zip(one, other, strict=True)) / 3
    assert difference["accuracy"]["mean"] == pytest.approx(mean)
    low, high = difference["accuracy"]["interval"]
    assert low <= mean <= high


def test_what_was_tuned_before_over_other_values_is_tuned_anew(fedfb):
    flags = ("compare", *TINY, "--algorithms", "fedavg", "--tune", "--json")
    tried = [
        [one["setting"] for one in fedfb(*flags, *more).json["results"][0]["tuning"]["candidates"]]
        for more in ((), ("--lr", ".005"))
    ]
    assert [len(one) for one in tried] == [3, 1]


@pytest.mark.parametrize("flags", ["", "--alpha .1,.5", "--seeds 3", "--seeds 2 --notion cp"])
def test_the_tables_fit_80_columns_and_show_every_method(fedfb, flags):
    said = fedfb("compare", *TINY, *flags.split())
    assert said.code == 0, said.err
    assert max(map(len, said.out.splitlines())) <= 80
    for word in ("fedavg", "fedfb", "cfl", "group given to the model: no", "constant classifier"):
        assert word in said.out
    assert ("Paired differences" in said.out) == ("alpha" not in flags)


def test_the_papers_figures_stand_beside_its_own_setting_only(fedfb):
    assert "paper" not in fedfb("compare", *TINY, "--sensitive-at-prediction", "yes").out


@pytest.mark.usefixtures("published")
def test_the_papers_figures_are_of_its_own_groups(fedfb):
    flags = ("--data", "compas", "--algorithms", "fedavg", "--sensitive-at-prediction", "yes")
    assert "paper: accuracy" in fedfb("compare", *flags).out
    assert "paper: accuracy" not in fedfb("compare", *flags, "--sensitive", "sex").out


def test_a_picture_is_drawn_where_asked(fedfb, tmp_path):
    said = fedfb("compare", *TINY, "--algorithms", "fedavg,fedfb", "--plot", "points.PNG", "--json")
    assert said.json["results"]
    assert said.err == "The picture is in points.PNG.\n"
    assert (tmp_path / "points.PNG").read_bytes().startswith(b"\x89PNG")


def test_a_picture_cannot_be_a_folder(fedfb, tmp_path):
    (tmp_path / "points.png").mkdir()
    refused(fedfb("compare", *TINY, "--plot", "points.png"), "--plot points.png is a folder")


def test_an_experiment_file_serves_compare_too(fedfb):
    fedfb("run", *TINY, "--out", "kept")
    said = fedfb("compare", "kept/experiment.toml", "--algorithms", "fedfb,fedavg", "--json")
    assert [r["settings"]["rows"] for r in said.json["results"]] == [200, 200]


def test_the_list_names_every_method_notion_data_set_and_model(fedfb):
    from fedfb.algorithms import METHODS

    table, sections = fedfb("list"), fedfb("list", "--json").json
    assert set(sections["algorithms"]) == set(METHODS)
    assert set(sections["notions"]) == {"dp", "eo", "eod", "cp"}
    assert max(map(len, table.out.splitlines())) <= 80
    assert all(name in table.out for entries in sections.values() for name in entries)


def test_the_demo_compares_draws_and_says_what_to_type_next(fedfb, monkeypatch, tmp_path):
    from fedfb.cli import run as comparing
    from fedfb.cli import run as demo

    shown = []
    monkeypatch.setattr(comparing, "compare_and_show", lambda *a, **k: shown.append(a))
    said = fedfb("demo")
    [(experiment, methods, plot, *_)] = shown
    assert (experiment.data, methods) == ("synthetic", ["fedavg", "fedfb", "cfl"])
    assert all(published(replace(experiment, algorithm=name)) for name in methods)
    assert plot.parent == (tmp_path / "demo").relative_to(tmp_path)
    assert "What to type next" in said.err
    assert max(map(len, demo.NEXT.splitlines())) <= 80


def test_the_demo_needs_no_matplotlib(fedfb, monkeypatch):
    from fedfb.cli import run as comparing

    shown = []
    monkeypatch.setattr(comparing, "compare_and_show", lambda *a, **k: shown.append(a))
    monkeypatch.setattr("fedfb.extras.find_spec", lambda name: None)
    assert "pip install 'fedfb[report]'" in fedfb("demo").err
    assert shown[0][2] is None


def test_a_demo_that_may_not_draw_says_so(fedfb, write):
    write("", "a-file")
    refused(fedfb("demo", "--plot", "a-file/points.png"), "cannot write to a-file")


def test_a_comparison_is_written_as_csv_and_latex(fedfb, tmp_path):
    flags = ("compare", *TINY, "--algorithms", "fedavg,fedfb")
    out = fedfb(*flags, "--csv", "-", "--latex", "table.tex").out
    assert out.splitlines()[0].startswith("algorithm,")
    assert [line.split(",")[0] for line in out.splitlines()[1:]] == ["fedavg", "fedfb"]
    assert (tmp_path / "table.tex").read_text().startswith("\\begin{tabular}{lrrr}\n")
    both = fedfb(*flags, "--csv", "-", "--json")
    assert both.code == 2
    assert "all print to stdout" in both.err
    absent = fedfb(*flags, "--latex", "absent/table.tex")
    assert absent.code == 2
    assert "--latex absent/table.tex: give the name of a file" in absent.err
