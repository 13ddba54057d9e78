"""A method from a user's own file runs, is checked, and is refused in words where it is wrong."""

from pathlib import Path

import pytest

from cli.asking import TINY, client_file, refused
from fedfb.algorithms import METHODS

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plugin.py"
RENAMED = "from fedfb.algorithms.fedavg import METHOD as FEDAVG\n"


@pytest.fixture(autouse=True)
def _registry_as_it_was():
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)


def test_the_docs_quote_the_example_as_it_is():
    text = EXAMPLE.read_text()
    assert f"```python\n{text}```" in (ROOT / "docs" / "extend.md").read_text()


def test_the_example_runs_beside_the_others(fedfb):
    said = fedfb("run", *TINY, "--plugin", EXAMPLE, "--algorithm", "balanced", "--json")
    assert said.json["algorithm"] == "balanced"
    METHODS.pop("balanced")
    names = "fedavg,balanced"
    said = fedfb("compare", *TINY, "--plugin", EXAMPLE, "--algorithms", names, "--json")
    assert [result["algorithm"] for result in said.json["results"]] == names.split(",")
    METHODS.pop("balanced")
    assert "balanced" in fedfb("list", "--plugin", EXAMPLE).out
    METHODS.pop("balanced")
    refused(fedfb("run", *TINY, "--algorithm", "balanced"), "unknown algorithm 'balanced'")


def test_a_saved_model_predicts_with_its_plugin(fedfb, write):
    write(client_file(), "a.csv"), write(client_file(start=1), "b.csv")
    data = ("--data", "*.csv", "--label", "y", "--positive", "y", "--sensitive", "sex")
    method = ("--plugin", EXAMPLE, "--algorithm", "balanced", "--rounds", "1")
    said = fedfb("run", *data, *method, "--out", "kept")
    assert said.code == 0, said.err
    METHODS.pop("balanced")
    said = fedfb("predict", "kept", "a.csv", "--plugin", EXAMPLE)
    assert said.code == 0, said.err
    assert len(said.out.splitlines()) == 41
    METHODS.pop("balanced")
    refused(fedfb("predict", "kept", "a.csv"), "unknown algorithm 'balanced'")


def test_the_example_passes_every_check(fedfb):
    said = fedfb("check", EXAMPLE)
    assert said.code == 0, said.out
    assert all(line.endswith(": passed") for line in said.out.splitlines())
    assert len(said.out.splitlines()) == 48


def test_a_broken_method_is_told_line_by_line(fedfb, write):
    text = EXAMPLE.read_text().replace("average(total, s.params)", "2 * average(total, s.params)")
    said = fedfb("check", write(text, "mine.py"))
    assert said.code == 1
    [line] = [
        line
        for line in said.out.splitlines()
        if "demographic_parity" in line and "equal mod" in line
    ]
    assert "BROKEN: clients that learn nothing change the model" in line


def test_several_files_and_several_methods_of_one(fedfb, write):
    several = [FEDAVG_AS.format(name) for name in ("one", "two")]
    write(RENAMED + f"METHODS = [{', '.join(several)}]\n", "several.py")
    write(RENAMED + f"METHOD = {FEDAVG_AS.format('three')}\n", "single.py")
    assert fedfb("list", "--plugin", "several.py,single.py").code == 0
    assert {"one", "two", "three"} <= set(METHODS)


FEDAVG_AS = "FEDAVG._replace(name='{}')"


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("x = 1\n", ("has no METHOD", "docs/extend.md")),
        ("METHOD = 3\n", ("type int", "Method(...)")),
        ("METHODS = 3\n", ("METHODS", "type int")),
        ("\n\nx = 1 / 0\n", ("line 3", "ZeroDivisionError")),
        ("def f(:\n", ("line 1", "SyntaxError")),
        ("import nothing_of_that_name\n", ("line 1", "nothing_of_that_name")),
        (RENAMED + "METHOD = FEDAVG._replace(fair=True)\n", ("already", "'fedavg'")),
    ],
)
def test_a_wrong_file_is_refused_in_words(fedfb, write, text, fragments):
    path = write(text, "mine.py")
    refused(fedfb("run", *TINY, "--plugin", path), *fragments)
    refused(fedfb("check", path), *fragments)


def test_a_missing_file_is_refused_in_words(fedfb):
    refused(fedfb("list", "--plugin", "nowhere.py"), "nowhere.py", "no plugin")
    refused(fedfb("check", "nowhere"), "nowhere")


def test_a_method_of_the_list_can_be_checked_by_name(fedfb):
    assert fedfb("check", "reweighing").code == 0
