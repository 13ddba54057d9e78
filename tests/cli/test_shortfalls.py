"""A promise that a result does not keep is said first, on every surface."""

import json

import pytest

from weak_features import as_csv, weak_table

WEAK = (
    *("--data", "weak.csv", "--label", "y", "--positive", "yes", "--sensitive", "race"),
    *("--client-column", "office", "--sensitive-at-prediction", "no", "--target", ".02"),
    *("--lr", ".01", "--rounds", "5", "--local-epochs", "20"),
)


def words(text):
    return " ".join(text.split())


@pytest.fixture
def weak(fedfb, write):
    write(as_csv(weak_table()), "weak.csv")
    return lambda command, *more: fedfb(command, *WEAK, *more)


def first_of(shortfalls):
    [first, *_] = shortfalls
    return first["kind"], first["sentence"]


def test_a_missed_target_is_the_first_line_and_with_strict_the_exit_code(weak):
    plain, strict = weak("run"), weak("run", "--strict")
    assert plain.code == 0
    assert strict.code == 3
    assert plain.out == strict.out
    assert words(plain.out).startswith("Target missed: training disparity .")
    assert "Weights of Black and Other are at their bound." in words(plain.out)
    assert "Give the group to the model, or use thresholds." in words(plain.out)
    assert words(plain.out).count("Target missed") == 1
    assert "Warning" not in plain.err


def test_json_has_the_shortfall_typed_and_first_among_the_notes(weak):
    said = weak("run", "--json", "--strict")
    assert said.code == 3
    report = json.loads(said.out)
    kind, sentence = first_of(report["shortfalls"])
    assert (kind, report["notes"][0]) == ("target", sentence)
    values = report["shortfalls"][0]["values"]
    assert values["at_bound"] == ["Black", "Other"]
    assert values["target"] == 0.02
    assert values["disparity"] > 0.4


@pytest.mark.slow
def test_a_page_a_card_and_the_folder_begin_with_it(weak, fedfb, tmp_path):
    assert weak("run", "--out", "kept", "--strict").code == 3
    result = json.loads((tmp_path / "kept" / "result.json").read_text())
    _, sentence = first_of(result["shortfalls"])
    assert fedfb("report", "kept").code == 0
    page = (tmp_path / "kept" / "report.html").read_text()
    head = page.partition("</header>")[0]
    assert sentence in head
    assert page.count(sentence) == 1
    assert "fairness costs" not in head
    assert fedfb("audit", "kept", "--out", "audited").code == 0
    card = (tmp_path / "audited" / "model-card.md").read_text()
    fair = words(card.partition("## Fairness")[2].partition("##")[0])
    assert fair.startswith(f"- {sentence}")


def test_a_comparison_begins_with_it_and_names_the_method(weak):
    said = weak("compare", "--algorithms", "fedavg,fedfb", "--no-store", "--strict")
    assert said.code == 3
    assert words(said.out).startswith("fedfb: Target missed: training disparity .")
    assert "fedavg:" not in words(said.out).partition("Test rows")[0]


def test_a_frontier_begins_with_it_and_keeps_it(weak, tmp_path, fedfb):
    flags = ("--algorithms", "fedavg,fedfb", "--seeds", "1", "--no-store", "--out", "kept")
    said = weak("frontier", *flags, "--strict")
    assert said.code == 3
    assert words(said.out).startswith("fedfb: Target missed: training disparity .")
    record = json.loads((tmp_path / "kept" / "frontier.json").read_text())
    [one] = record["shortfalls"]
    assert (one["kind"], record["notes"][0]) == ("target", one["sentence"])
    assert fedfb("report", "kept").code == 0
    head = (tmp_path / "kept" / "report.html").read_text().partition("</header>")[0]
    assert one["sentence"] in head


def test_a_target_that_is_met_is_no_shortfall_and_strict_does_not_mind(weak):
    said = weak("run", "--target", "1", "--strict", "--json")
    assert (said.code, said.json["shortfalls"]) == (0, [])
