"""Reproducing: every target names experiments that exist, and a killed one goes on."""

import json

import pytest

from fedfb.errors import ConfigError, DataError
from fedfb.experiments.compare import Cause, better, differs, explain_difference
from fedfb.experiments.resolve import resolve
from fedfb.experiments.result import Result
from fedfb.experiments.seed_result import SeedResult
from fedfb.experiments.train import training_notion
from fedfb.paper import reproduce as reproduction
from fedfb.paper.markdown import as_markdown, draw_target, renew
from fedfb.paper.released import load_released
from fedfb.paper.reproduce import SELECTIONS, reproduce
from fedfb.paper.targets import Target, TargetLine, read_target, target_names

TINY = Target(
    "tiny",
    "A tiny table",
    "table",
    "tab:dp_mlp",
    (
        TargetLine("FedAvg", {"algorithm": "fedavg"}, "fedavg"),
        TargetLine("CFL", {"algorithm": "cfl"}, "cfl"),
    ),
    (TargetLine("synthetic", {"data": "synthetic"}, "synthetic"),),
    {"rows": 200, "test_rows": 100, "rounds": 2, "local_epochs": 1},
)


@pytest.mark.parametrize("name", target_names())
def test_every_cell_of_every_target_is_an_experiment(name):
    target = read_target(name)
    for row in target.rows:
        for column in target.columns:
            if row.released is None:
                resolve(target.experiment(row, column, quick=False))


@pytest.mark.parametrize("name", [n for n in target_names() if n.startswith("table")])
def test_every_table_has_the_printed_figure_of_its_cells(name):
    target = read_target(name)
    printed = [
        reproduction.printed(target.label, row.published, column.published)
        for row in target.rows
        for column in target.columns
        if row.published != row.name
    ]
    assert printed
    assert all(printed)


@pytest.mark.parametrize("name", target_names())
def test_every_cause_is_shown_by_rows_of_its_target(name):
    target = read_target(name)
    rows = {row.name: row for row in target.rows}
    for row in target.rows:
        for cause in row.causes:
            assert {cause.before, cause.after} <= rows.keys()
            for column in cause.columns:
                assert rows[cause.before].has(column)
                assert rows[cause.after].has(column)


PAPERS_RULE = [
    pytest.param(target, row, id=f"{target.name}: {row.name}")
    for target in map(read_target, target_names())
    for row in target.rows
    if "as printed" in row.name or "by the paper's step" in row.name
]


@pytest.mark.parametrize(("target", "row"), PAPERS_RULE)
def test_a_row_of_the_papers_rule_compares_every_group_with_the_first(target, row):
    for column in target.columns:
        experiment = resolve(target.experiment(row, column, quick=False))
        assert experiment.outer == "paper"
        assert not training_notion(experiment, groups=4, clients=3).symmetric


def test_ours_on_the_released_rows_is_a_cell_of_its_own(tmp_path):
    row = TargetLine("ours", {"algorithm": "fedavg"}, "fedavg")
    on_theirs = row._replace(name="theirs", released_rows={"synthetic": "synthetic"})
    columns = (*TINY.columns, TargetLine("other", {"data": "synthetic"}, "other"))
    target = TINY._replace(rows=(row, on_theirs), columns=columns)
    cells = reproduce(target, tmp_path)["cells"]
    assert [(one["row"], one["column"]) for one in cells] == [
        ("ours", "synthetic"),
        ("ours", "other"),
        ("theirs", "synthetic"),
    ]
    ours, _, theirs = (one["points"][0]["accuracy"]["mean"] for one in cells)
    assert ours != theirs
    assert cells[2]["constant"] == pytest.approx(majority(load_released("synthetic").test.y))


def majority(y):
    return max(y.mean(), 1 - y.mean())


def test_a_target_that_does_not_exist_is_told_with_those_that_do():
    with pytest.raises(ConfigError, match="did you mean 'table1'"):
        read_target("tabel1")


def test_what_is_done_is_not_done_again(tmp_path, monkeypatch):
    whole = reproduce(TINY, tmp_path / "whole", quick=True)
    run, done = reproduction.run, []

    def killed_after_one(experiment, **how):
        if done:
            raise KeyboardInterrupt
        done.append(experiment.algorithm)
        return run(experiment, **how)

    monkeypatch.setattr(reproduction, "run", killed_after_one)
    with pytest.raises(KeyboardInterrupt):
        reproduce(TINY, tmp_path / "killed", quick=True)

    def noting(experiment, **how):
        done.append(experiment.algorithm)
        return run(experiment, **how)

    monkeypatch.setattr(reproduction, "run", noting)
    again = reproduce(TINY, tmp_path / "killed", quick=True)
    assert done == ["fedavg", "cfl"]
    for one, other in zip(whole["cells"], again["cells"], strict=True):
        assert {**one, "cpu_seconds": 0} == {**other, "cpu_seconds": 0}


def test_a_cell_that_was_cut_short_is_made_anew(tmp_path):
    first = reproduce(TINY, tmp_path, quick=True)
    for path in (tmp_path / "cells").iterdir():
        path.write_text(path.read_text()[:40])
    again = reproduce(TINY, tmp_path, quick=True)
    assert [c["points"] for c in again["cells"]] == [c["points"] for c in first["cells"]]


def test_a_cell_that_fails_is_told_and_does_not_stop_the_others(tmp_path):
    wild = TargetLine("wild", {"algorithm": "fedavg", "lr": 1e300, "optimiser": "sgd"}, "wild")
    found = reproduce(TINY._replace(rows=(wild, *TINY.rows)), tmp_path, quick=True)
    assert "diverged" in found["cells"][0]["failed"]
    assert "training diverged" in as_markdown([found])
    assert found["cells"][1]["points"]


def test_the_page_has_ours_beside_the_printed_figure(tmp_path):
    found = reproduce(TINY, tmp_path, quick=True)
    page = as_markdown([json.loads(json.dumps(found))])
    assert ".886 ± .003 / .406 ± .009" in page
    assert "One seed" not in page
    assert "**A quick look: one seed, nothing tuned.**" in page
    draw_target(found, tmp_path)
    assert (tmp_path / "tiny.svg").read_text().count("<path") > 5


def figures(accuracy, disparity, std=None):
    return {
        "accuracy": {"mean": accuracy, "std": std},
        "disparity": {"mean": disparity, "std": std},
    }


def test_better_is_on_both_axes_and_a_difference_is_more_than_noise():
    assert better(figures(0.8, 0.1), figures(0.79, 0.1))
    assert not better(figures(0.8, 0.1), figures(0.8, 0.1))
    assert not better(figures(0.9, 0.11), figures(0.8, 0.1))
    assert not better(figures(0.8004, 0.0996), figures(0.8, 0.1))
    assert better(figures(0.7997, 0.0994), figures(0.8, 0.1))
    assert differs(figures(0.8, 0.1), figures(0.8, 0.12))
    assert not differs(figures(0.8, 0.1, 0.05), figures(0.8, 0.12, 0.05))
    assert not differs(figures(0.8, 0.1), figures(0.804, 0.1))


def test_released_cells_of_several_data_sets_are_kept_apart(tmp_path):
    released = {"method": "fedavg", "low": {"data": "synthetic-low", "lr": 0.01, "rounds": 1}}
    released["plain"] = {"lr": 0.01, "rounds": 1}
    row = TargetLine("FedAvg, released", {}, "fedavg", released)
    columns = (
        TargetLine("low", {}, "low"),
        TargetLine("plain", {}, "plain"),
        TargetLine("other", {}, "other"),
    )
    target = TINY._replace(rows=(row,), columns=columns, settings={"model": "logistic"})
    low, plain, other = reproduce(target, tmp_path)["cells"]
    assert [one["experiment"]["data"] for one in (low, plain)] == ["synthetic-low", "synthetic"]
    assert low["points"] != plain["points"]
    assert (other["points"], other["failed"]) == ([], "its settings are not known")


def test_a_difference_is_explained_by_the_steps_that_lead_from_the_paper_to_ours():
    paper, ours = figures(0.80, 0.03), figures(0.83, 0.003)
    found = {"old": figures(0.80, 0.03), "mended": figures(0.829, 0.005), "far": figures(0.7, 0.2)}
    averaging = Cause("averaging", "old", "mended")
    whole = explain_difference(ours, paper, found, [averaging])
    assert (whole.verdict, len(whole.steps)) == ("explained", 1)
    assert whole.left == pytest.approx(0.002)
    assert (
        explain_difference(ours, paper, found, [Cause("averaging", "old", "never run")]).steps == ()
    )
    assert explain_difference(ours, paper, found, []).verdict == "unexplained"
    # A step that begins elsewhere than the one before it ended leaves that distance unexplained.
    broken = explain_difference(ours, paper, found, [averaging, Cause("rule", "far", "mended")])
    assert broken.verdict == "unexplained"


def result_of(runs):
    nothing = dict.fromkeys(SeedResult.__struct_fields__)
    results = tuple(
        SeedResult(
            **{**nothing, "seed": seed, "settings": {"alpha": alpha}}
            | {"accuracy": accuracy, "disparity": {"dp": disparity}}
        )
        for seed, alpha, accuracy, disparity in runs
    )
    empty = dict.fromkeys(Result.__struct_fields__)
    return Result(**{**empty, "notion": "dp", "runs": results})


def test_the_released_code_reports_its_grid_by_test_figures():
    runs = [(0, 0.1, 0.9, 0.4), (0, 1.0, 0.7, 0.0), (1, 0.1, 0.9, 0.4), (1, 1.0, 0.6, 0.1)]
    grid, least = (
        SELECTIONS[name](result_of(runs)) for name in ("over the grid", "least disparity")
    )
    assert grid["accuracy"]["mean"] == pytest.approx((0.9 + 0.7 + 0.6) / 3)
    assert grid["disparity"]["dp"]["mean"] == pytest.approx(0.5 / 3)
    assert least["settings"] == grid["settings"] == {"alpha": 1.0}
    assert least["accuracy"]["mean"] == pytest.approx(0.65)


def test_a_table_says_of_every_difference_why(tmp_path):
    cause = Cause("selection", "FedAvg", "CFL")
    told = TINY._replace(rows=(TINY.rows[0]._replace(causes=(cause,)), TINY.rows[1]))
    found = reproduce(told, tmp_path, quick=True)
    apart = {
        cell["row"] for cell in found["cells"] if differs(cell["points"][0], cell["published"])
    }
    assert {one["row"] for one in found["explained"]} == apart == {"FedAvg", "CFL"}
    page = as_markdown([found])
    assert "selection: " in page
    assert "unexplained" in page
    assert "| FedAvg | yes | no |" in page
    assert "| CFL | no | yes |" in page


@pytest.mark.parametrize("wanted", ["table1", "all"])
def test_missing_data_are_named_all_at_once_before_anything_is_trained(
    wanted, tmp_path, monkeypatch
):
    monkeypatch.setenv("FEDFB_DATA", str(tmp_path))
    monkeypatch.setattr(reproduction, "_cell", lambda *a: pytest.fail("trained"))
    targets = [read_target(name) for name in (target_names() if wanted == "all" else [wanted])]
    with pytest.raises(DataError, match=r"nothing was trained: .* adult, bank, compas") as refused:
        reproduction.check_data(targets, tmp_path / "out", quick=True)
    said = str(refused.value)
    for file in ("adult.data", "adult.test", "bank-full.csv", "compas-scores-two-years.csv"):
        assert f"there is no {file} in it" in said
    with pytest.raises(DataError, match="nothing was trained"):
        reproduce(targets[0], tmp_path / "out", quick=True)
    assert not (tmp_path / "out").exists()


def test_drawn_data_and_finished_cells_need_no_files(tmp_path, monkeypatch):
    reproduce(TINY, tmp_path)
    monkeypatch.setenv("FEDFB_DATA", str(tmp_path))
    reproduce(TINY, tmp_path)
    reproduction.check_data([read_target("table2")], tmp_path, quick=False)
    adult = TINY._replace(columns=(TargetLine("adult", {"data": "adult"}, "adult"),), settings={})
    done = [reproduction._work(adult, row, adult.columns[0], True, None) for row in adult.rows]
    for work in done:
        path = reproduction._path(work.name, tmp_path / "cells")
        path.write_text("{}")
    reproduction.check_data([adult], tmp_path, quick=True)


def test_one_target_is_renewed_in_a_page_of_several(tmp_path):
    other = TINY._replace(name="table2", title="Another")
    first, second = (reproduce(one, tmp_path, quick=True) for one in (TINY, other))
    page = as_markdown([first, second])
    again = {**first, "cpu_seconds": 1234.0}
    assert renew(page, again) == as_markdown([again, second])
    assert renew(page, second) == page
    with pytest.raises(ConfigError, match="0 sections of figure-cp"):
        renew(page, {**first, "target": "figure-cp"})


def test_a_claim_is_held_against_the_fairest_useful_setting_of_each_method():
    def point(accuracy, disparity):
        return {
            "settings": {"lr": 0.1},
            "accuracy": {"mean": accuracy, "std": 0.0},
            "disparity": {"mean": disparity, "std": 0.0},
        }

    cells = [
        {"row": "A", "column": "d", "points": [point(0.9, 0.2), point(0.895, 0.1)]},
        {"row": "B", "column": "d", "points": [point(0.7, 0.0), point(0.892, 0.15)]},
        {"row": "C", "column": "d", "points": [point(0.5, 0.0)]},
    ]
    found = {
        **{"target": "t", "title": "T", "kind": "curves", "label": None, "quick": False},
        **{"seeds": [0], "cpu_seconds": 0.0, "claim": "A is fair", "cells": cells},
    }
    page = as_markdown([found])
    assert "The paper: A is fair." in page
    assert "| A | **.100 ± .000 at .895** |" in page
    assert "| B | .150 ± .000 at .892 |" in page
    assert "| C | - |" in page
