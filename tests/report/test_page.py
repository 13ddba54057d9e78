"""The page as text: headline, tables, escaping, size."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import msgspec
import pytest
from msgspec.structs import replace as change

from fedfb.errors import DataError
from fedfb.experiments.compare import compare_into
from fedfb.experiments.frontier import frontier
from fedfb.experiments.outcome import run, train
from fedfb.experiments.result import Shortfall
from fedfb.experiments.run_folder import save
from fedfb.experiments.spec import Experiment
from fedfb.paper.page import page_of_folder, reproduction_headline
from fedfb.report.folder import Found, ReportedRun, read_folder
from fedfb.report.headline import frontier_headline, run_headline
from fedfb.report.html import render
from fedfb.report.page import make_page
from report.reproduced import reproduced

TINY = Experiment(rows=300, test_rows=300, rounds=3, local_epochs=2, seeds=(0, 1))
HOSTILE = '<script>alert("x")</script>'
MOST_BYTES = 2_000_000


def html_of(report) -> str:
    return render(make_page(Found((ReportedRun(report, {}, None, ()),))))


@pytest.fixture(scope="module")
def outcome():
    return train(TINY)


@pytest.fixture(scope="module")
def result(outcome):
    return outcome.result


def test_the_headline_says_what_fairness_costs(result):
    said = run_headline(change(result, shortfalls=()))
    assert re.fullmatch(
        r"FedFB is \.\d{3} accurate at a disparity of \.\d{3} \(95% interval [01]?\.\d{3} to "
        r"[01]?\.\d{3}\); without fairness \.\d{3} at \.\d{3}: fairness \w+ .*\.",
        said,
    ), said


def test_the_headline_names_no_price_of_a_missed_target(result):
    shortfall = Shortfall(kind="target", sentence="Target missed.", values={})
    headline = run_headline(msgspec.structs.replace(result, shortfalls=(shortfall,)))
    assert "fairness costs" not in headline
    assert re.search(r"without fairness \.\d{3} at \.\d{3}\.$", headline)


@pytest.mark.parametrize(
    "experiment",
    [
        replace(TINY, target=(0.0, 0.2)),
        replace(TINY, algorithm="fedavg", seeds=(3,)),
        replace(TINY, algorithm="lft-ensemble"),
        replace(TINY, notion="cp", algorithm="ditto"),
        replace(TINY, notion="eod", groups=3, model="mlp"),
        replace(TINY, algorithm="hardt", rounds=1, seeds=(0,), sensitive_at_prediction=True),
        replace(TINY, algorithm="zafar", tune=True, local_epochs=30),
    ],
    ids=["grid", "one seed", "no model", "clients", "mlp", "thresholds", "tuned"],
)
def test_every_kind_of_run_has_a_page(experiment):
    text = html_of(run(experiment))
    assert "nan" not in re.sub(r"<[^>]*>", "", text).lower().split()
    assert text.count("<main") == text.count("</main>") == 1
    assert len(text.encode()) < MOST_BYTES


def test_a_page_holds_settings_versions_seeds_hash_and_what_was_exchanged(outcome, tmp_path):
    save(outcome, tmp_path / "run")
    text = render(page_of_folder(tmp_path / "run"))
    for word in (outcome.result.experiment_hash, "numpy", "Seeds: 0, 1.", "measure", "lambda"):
        assert word in text


class Tags(HTMLParser):
    """What a page has: elements with their attributes."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def tags(text: str) -> list[tuple[str, dict[str, str]]]:
    parser = Tags()
    parser.feed(text)
    return parser.found


def test_names_from_users_data_are_escaped_everywhere(result):
    runs = tuple(
        change(
            run,
            groups=tuple(change(group, name=HOSTILE) for group in run.groups),
            clients=tuple(change(client, name=HOSTILE) for client in run.clients),
            method=change(run.method, at_bound=(HOSTILE,)),
        )
        for run in result.runs
    )
    words = {"data": HOSTILE, "notes": (HOSTILE,), "groups": (HOSTILE, "b")}
    settings = {**result.settings, "data": HOSTILE}
    text = html_of(change(result, runs=runs, settings=settings, **words))
    assert "<script>alert" not in text
    assert text.count("&lt;script&gt;alert") > 6
    assert [tag for tag, _ in tags(text)].count("script") == 1


def test_nothing_points_outside(result):
    text = html_of(result)
    for tag, given in tags(text):
        for name in ("src", "href", "xlink:href", "action", "srcset"):
            assert (given.get(name) or "#").startswith(("#", "data:")), (tag, given)
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)


def test_tables_have_captions_scopes_and_pictures_have_words(result):
    found = tags(html_of(result))
    names = [tag for tag, _ in found]
    assert names.count("table") == names.count("caption") > 4
    assert all("scope" in given for tag, given in found if tag == "th")
    plots = [given for tag, given in found if "plot" in (given.get("class") or "")]
    assert all(len(given["aria-label"]) > 20 for given in plots)
    points = [given for _, given in found if given.get("class") == "point"]
    assert all("accuracy" in given["aria-label"] for given in points)
    assert names.count("title") >= len(points)
    assert {"header", "nav", "main", "footer", "h1"} <= set(names)


@pytest.mark.slow
def test_a_comparison_of_many_methods_and_rounds_stays_small(result):
    several = tuple(change(run, rounds=run.rounds * 100) for run in result.runs) * 2
    results = [
        change(
            result,
            algorithm=name,
            settings={**result.settings, "algorithm": name, "knobs": [], "outer": None},
            runs=several,
        )
        for name in ("fedavg", "fedfb", "cfl", "zafar")
    ]
    found = Found(tuple(ReportedRun(of_method, {}, None, ()) for of_method in results))
    # Every method adds as much: sixteen of them, as many as aim at one notion, fit too.
    assert len(render(make_page(found)).encode()) < MOST_BYTES / 4


def test_a_comparison_has_paired_differences(tmp_path):
    compare_into(tmp_path / "all", replace(TINY, rounds=1), ["fedavg", "zafar"])
    text = render(page_of_folder(tmp_path / "all"))
    for word in ("Paired differences", "FedAvg", "zafar"):
        assert word in text


def test_a_frontier_has_its_pareto_set_limit_and_constant_classifier():
    given = replace(TINY, seeds=(0,), sensitive_at_prediction=True)
    record = frontier(given, ["fedavg", "fedfb", "hardt"], quick=True)
    text = render(make_page(Found((), frontier=record)))
    for word in ("Pareto set", "Hardt (limit)", "a constant classifier", "The frontier on"):
        assert word in text
    assert "Of 2 approaches" in frontier_headline(record)


def test_runs_that_cannot_stand_side_by_side_are_refused(tmp_path):
    for name, notion in (("a", "dp"), ("b", "eo")):
        save(train(replace(TINY, notion=notion, seeds=(0,), rounds=1)), tmp_path / name)
    with pytest.raises(DataError, match="notion differ"):
        read_folder(tmp_path)


@pytest.mark.parametrize("content", ["", "[", "{}", "[]", '{"runs": []}', "\xff"])
def test_results_that_are_none_are_refused(tmp_path, content):
    (tmp_path / "result.json").write_text(content, encoding="latin-1")
    with pytest.raises(DataError, match=r"this version of fedfb|cannot be read as JSON"):
        page_of_folder(tmp_path)


@pytest.mark.parametrize("content", ["{}", '{"runs": []}', '{"data": 1, "notion": 1, "runs": 1}'])
def test_results_that_are_none_are_refused_in_a_comparison_too(tmp_path, content):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(content)
    with pytest.raises(DataError, match=r"this version of fedfb|cannot be read as JSON"):
        read_folder(tmp_path)


@pytest.mark.slow
def test_a_reproduction_has_a_page(tmp_path):
    reproduced(tmp_path)
    text = render(page_of_folder(tmp_path))
    assert ".725 ± .012 / .051 ± .018" in text
    assert "What differs, and why" in text
    assert text.count("<svg") >= 2
    assert "target 0.2" in text
    assert len(text.encode()) < MOST_BYTES


def test_an_unfinished_reproduction_is_told_how_to_go_on(tmp_path):
    (tmp_path / "cells").mkdir()
    with pytest.raises(DataError, match=r"not finished: .* fedfb reproduce all --out"):
        page_of_folder(tmp_path)


def cell(row, accuracy, disparity):
    printed = {"accuracy": {"mean": 0.8}, "disparity": {"mean": 0.1}}
    point = {"accuracy": {"mean": accuracy}, "disparity": {"mean": disparity}}
    return {"row": row, "published": printed, "points": [point]}


def test_the_headline_of_a_reproduction_counts_cells_as_good_as_printed():
    ours = [cell("FedFB, ours", 0.8, 0.05), cell("FedFB, ours", 0.79, 0.0)]
    theirs = [cell("FedFB, ours, the authors' rows", 0.9, 0.1), cell("CFL", 0.9, 0.0)]
    assert "in 1 of 2 cells." in reproduction_headline([{"cells": ours}])
    both = reproduction_headline([{"cells": [*ours, *theirs]}])
    assert "in 1 of 2 cells, on the authors' own rows in 1 of 1." in both
    assert reproduction_headline([{"cells": theirs}]) == "Methods of the paper, run again."
