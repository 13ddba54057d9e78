"""Pictures can be drawn of any report, and tables print names as they are."""

from dataclasses import replace

import pytest
from msgspec import convert
from msgspec.structs import replace as change

from fedfb.errors import ConfigError, WriteError
from fedfb.experiments.compare import compare
from fedfb.experiments.result import Printed
from fedfb.experiments.seed_result import Statistic
from fedfb.experiments.spec import Experiment
from fedfb.paper.targets import printed
from fedfb.report.figures import FORMATS, check_figure_path, draw_comparison
from fedfb.report.numbers import number
from fedfb.report.text import print_comparison, print_run

TINY = Experiment(rows=200, test_rows=200, rounds=1, local_epochs=1)


def reports(methods=("fedavg", "fedfb"), **changes):
    return compare(replace(TINY, **changes), methods)


@pytest.mark.parametrize(
    "changes", [{}, {"seeds": (0, 1)}, {"alpha": (0.1, 0.5), "seeds": (0, 1)}, {"notion": "cp"}]
)
def test_a_picture_is_drawn_for_seeds_and_grids(tmp_path, changes):
    path = tmp_path / "points.png"
    draw_comparison(reports(**changes), {}, path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_picture_shows_the_papers_figure_and_can_be_svg(tmp_path):
    path = tmp_path / "points.svg"
    paper = convert(printed("tab:dp_mlp", "fedfb", "synthetic"), Printed)
    draw_comparison(reports(), {"fedfb": paper}, path)
    assert "<svg" in path.read_text()


def test_a_picture_without_any_estimable_disparity_is_drawn(tmp_path):
    nothing = {"demographic_parity": None}
    no_mean = {"demographic_parity": Statistic(mean=None, std=None)}
    found = reports(seeds=(0, 1))
    results = tuple(
        change(
            result,
            runs=tuple(change(run, disparity=nothing) for run in result.runs),
            summaries=tuple(change(summary, disparity=no_mean) for summary in result.summaries),
        )
        for result in found.results
    )
    found = change(found, results=results, differences=())
    draw_comparison(found, {}, tmp_path / "points.png")
    print_comparison(found, {})


@pytest.mark.parametrize("ending", FORMATS)
def test_the_same_picture_has_the_same_bytes(tmp_path, ending):
    paths = [tmp_path / f"{name}{ending}" for name in ("one", "again")]
    for path in paths:
        draw_comparison(reports(), {}, path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_picture_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(WriteError, match="cannot write to"):
        draw_comparison(reports(), {}, tmp_path / "absent" / "points.png")


def test_a_picture_needs_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setattr("fedfb.extras.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'fedfb\[report\]'"):
        check_figure_path(tmp_path / "points.png")


def test_the_papers_figures_and_a_grid_fit_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    found = reports(("fedavg", "fedfb", "cfl"), alpha=(0.001, 0.05), seeds=(0, 1))
    names = ("fedavg", "fedfb", "cfl")
    paper = {n: convert(printed("tab:dp_lg", n, "synthetic"), Printed) for n in names}
    print_comparison(found, paper)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(".756 ± .001" in line for line in lines) == 1
    assert not any("…" in line for line in lines)


def test_numbers_of_no_size_have_no_sign():
    assert number(-0.0) == number(-1e-9) == ".000"
    assert number(-0.0006) == "-.001"


def test_more_than_twenty_clients_are_printed_as_quantiles(capsys):
    [result] = reports(("fedavg",)).results
    [run] = result.runs
    accuracies = [None, *(number / 100 for number in range(1, 101))]  # one without test rows
    clients = tuple(
        change(run.clients[0], name=f"c{number}", accuracy=accuracy)
        for number, accuracy in enumerate(accuracies)
    )
    print_run(change(result, runs=(change(run, clients=clients),)))
    out = capsys.readouterr().out
    assert "101 clients" in out
    assert "c17" not in out
    line = next(line for line in out.splitlines() if line.startswith("median"))
    assert line.split()[2] == ".505"
