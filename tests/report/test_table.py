"""Results leave as frames, CSV, LaTeX and HTML, and come back only from a schema that is read."""

import csv
import io
import json
from dataclasses import replace

import pytest
from msgspec.structs import replace as change

from fedfb.errors import ConfigError, DataError
from fedfb.experiments.codec import from_json, to_builtins, to_json
from fedfb.experiments.compare import compare
from fedfb.experiments.outcome import run
from fedfb.experiments.result import Comparison, Result
from fedfb.experiments.spec import Experiment
from fedfb.report.table import to_csv
from fedfb.report.tables import comparison_rows

TINY = Experiment(rows=200, test_rows=200, rounds=1, local_epochs=1, seeds=(0, 1), lr=(0.01,))


@pytest.fixture(scope="module")
def comparison():
    return compare(TINY, ["fedavg", "fedfb"])


def test_frames_have_a_row_for_each_run_group_and_method(comparison):
    _, result = comparison.results
    runs, groups, methods = result.to_frame(), result.groups_frame(), comparison.to_frame()
    assert runs["accuracy"].tolist() == [of_seed.accuracy for of_seed in result.runs]
    assert groups["tpr"].tolist() == [g.tpr for one in result.runs for g in one.groups]
    assert methods["algorithm"].tolist() == ["fedavg", "fedfb"]
    assert methods["disparity"][1] == result.summary.disparity["demographic_parity"].mean


def test_csv_has_the_numbers_of_the_frame(comparison):
    rows = list(csv.DictReader(io.StringIO(to_csv(comparison_rows(comparison)))))
    assert [float(row["accuracy"]) for row in rows] == comparison.to_frame()["accuracy"].tolist()


def test_latex_has_every_method_and_no_bare_sign(comparison):
    text = comparison.to_latex()
    assert text.count(r"\\") == 3
    assert "FedFB & " in text
    assert "±" not in text
    assert "demographic parity (the aim)" in comparison.results[0].to_latex()


def test_a_notebook_shows_shortfalls_first_and_escapes_names(comparison):
    hostile = "<b>x</b>"
    named = change(comparison.results[0], algorithm=hostile)
    text = change(comparison, results=(named,), notes=("A note & more",))._repr_html_()
    assert text.startswith("<p><strong>A note &amp; more</strong></p><table>")
    assert hostile not in text
    assert "<td>" in comparison.results[1]._repr_html_()


def test_a_picture_is_a_figure_of_matplotlib(comparison):
    assert len(comparison.plot().axes) == len(comparison.results[1].plot().axes) == 1


def test_without_pandas_a_frame_says_how_to_get_it(comparison, monkeypatch):
    monkeypatch.setattr("fedfb.extras.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="to_frame needs pandas: pip install pandas"):
        comparison.to_frame()


def test_json_comes_back_as_the_same_value(comparison):
    assert from_json(to_json(comparison), Comparison, "here") == comparison
    wild = replace(
        TINY,
        algorithm="fedavg",
        lr=(0.01, 1e30),
        model="mlp",
        optimiser="sgd",
        rounds=2,
        local_epochs=2,
    )
    grid = run(wild, warn=False)
    assert grid.summaries[1].diverged
    assert from_json(to_json(grid), Result, "here") == grid


@pytest.mark.parametrize(
    ("change_of", "message"),
    [
        ({"schema": 3}, r"here has schema 3, .* reads schema 2\. Run it again with this version"),
        ({"runs": 3}, r"here is not a result .*runs.*open it with the version that wrote it"),
    ],
)
def test_other_versions_and_misfits_are_refused(comparison, change_of, message):
    values = {**to_builtins(comparison.results[0]), **change_of}
    with pytest.raises(DataError, match=message):
        from_json(json.dumps(values), Result, "here")


def test_a_result_of_schema_1_is_read(comparison):
    values = {**to_builtins(comparison.results[0]), "schema": 1, "study": "triage"}
    names = values.pop("client_names", None) or ["north", "south"]
    result = from_json(json.dumps({**values, "silos": names}), Result, "here")
    assert (result.schema, result.client_names) == (2, tuple(names))
    assert result.runs == comparison.results[0].runs
