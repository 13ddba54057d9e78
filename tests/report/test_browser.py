"""A real browser opens the page: nothing complains, nothing is asked for, points can be read."""

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as change

from fedfb.experiments.codec import to_builtins
from fedfb.experiments.compare import compare_into
from fedfb.experiments.frontier import frontier
from fedfb.experiments.outcome import train
from fedfb.experiments.run_folder import FRONTIER, save
from fedfb.experiments.spec import Experiment
from fedfb.files import write_json
from fedfb.paper.page import page_of_folder
from fedfb.report.html import render
from report.browser import CHROMIUM, MISSING, Tab, browser
from report.reproduced import reproduced

pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason=MISSING), pytest.mark.slow]

TINY = Experiment(rows=300, test_rows=300, rounds=3, local_epochs=2, seeds=(0, 1))
KINDS = {"run": 10, "comparison": 10, "frontier": 10, "reproduction": 3}
"""Each kind of page, and how many rows its tables have at least."""

SCATTER = "document.querySelector('.plot.wide')"


def page(folder: Path) -> Path:
    path = folder / "report.html"
    path.write_text(render(page_of_folder(folder)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    """A page of each kind."""
    folder = tmp_path_factory.mktemp("runs")
    save(train(TINY), folder / "run")
    compare_into(folder / "comparison", TINY, ["fedavg", "fedfb"])
    (folder / "frontier").mkdir()
    found = frontier(TINY, ["fedavg", "fedfb"], quick=True)
    write_json(folder / "frontier" / FRONTIER, to_builtins(found))
    reproduced(folder / "reproduction")
    return {kind: page(folder / kind) for kind in KINDS}


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def centre(tab: Tab, place: int) -> list[float]:
    point = f"{SCATTER}.querySelectorAll('.point use')[{place}]"
    box = f"(() => {{ const b = {point}.getBoundingClientRect();"
    return tab.evaluate(f"{box} return [b.x + b.width / 2, b.y + b.height / 2]; }})()")


def tip(tab: Tab) -> str | None:
    found = f"{SCATTER}.querySelector('.tip')"
    return tab.evaluate(f"{found}.hidden ? null : {found}.textContent")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", KINDS)
def test_the_page_asks_nobody_complains_of_nothing_and_fits(tab, pages, kind, width):
    tab.open(pages[kind], width, dark=width == 390)
    assert tab.complaints() == []
    assert tab.requests() == [pages[kind].as_uri()]
    assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert tab.evaluate("document.querySelectorAll('table tbody tr').length") >= KINDS[kind]
    shown = "[...document.querySelectorAll('.plot')].filter((p) => p.getClientRects().length)"
    assert tab.evaluate(f"{shown}[0].classList.contains('{'wide' if width > 640 else 'narrow'}')")
    assert tab.evaluate(f"{shown}[0].querySelector('svg').getBoundingClientRect().height") > 200
    assert tab.evaluate(f"{shown}[0].querySelectorAll('.point').length") >= 2


def test_hovering_a_point_shows_its_setting_and_numbers(tab, pages):
    tab.open(pages["frontier"])
    assert tip(tab) is None
    tab.evaluate(f"{SCATTER}.scrollIntoView({{behavior: 'instant'}})")
    x, y = centre(tab, 2)
    tab.move_to(x + 3, y + 3)
    said = tip(tab)
    assert said.startswith("FedFB, target ")
    assert "accuracy ." in said
    assert "disparity ." in said
    tab.move_to(5, 5)
    assert tip(tab) is None


def test_points_are_reached_by_keyboard_one_stop_for_all(tab, pages):
    tab.open(pages["frontier"])
    assert tab.evaluate(f"{SCATTER}.querySelectorAll('[tabindex=\"0\"]').length") == 1
    tab.evaluate(f"{SCATTER}.querySelector('[tabindex=\"0\"]').focus()")
    first = tip(tab)
    assert first.startswith("FedAvg")
    tab.press("ArrowRight")
    assert tip(tab).startswith("FedFB")
    tab.press("Escape")
    assert tip(tab) is None


def test_the_skip_link_comes_first(tab, pages):
    tab.open(pages["run"])
    tab.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip"


def test_colours_follow_the_reader(tab, pages):
    def background(dark: bool) -> str:
        tab.open(pages["run"], dark=dark)
        return tab.evaluate("getComputedStyle(document.body).backgroundColor")

    assert background(dark=False) == "rgb(255, 255, 255)"
    assert background(dark=True) == "rgb(20, 23, 28)"


def test_no_identifier_stands_twice(tab, pages):
    for path in pages.values():
        tab.open(path)
        ids = "[...document.querySelectorAll('[id]')].map((e) => e.id)"
        twice = f"{ids}.filter((id, at, all) => all.indexOf(id) !== at)"
        assert tab.evaluate(twice) == []


def test_a_script_in_a_name_is_not_run(tab, tmp_path):
    """Neither as a group's name, nor as a client's, nor as the data's."""
    hostile = "<script>document.title = 'taken'</script><img src=http://a.b/c>"
    outcome = train(replace(TINY, seeds=(0,)))
    [run] = outcome.result.runs
    groups = (change(run.groups[0], name=hostile), *run.groups[1:])
    clients = (change(run.clients[0], name=hostile), *run.clients[1:])
    runs = (change(run, groups=groups, clients=clients),)
    result = change(outcome.result, data=hostile, notes=(hostile,), runs=runs)
    save(replace(outcome, result=result), tmp_path / "run")
    tab.open(page(tmp_path / "run"))
    assert "taken" not in (tab.evaluate("document.title").partition("<script>")[0])
    assert tab.evaluate("document.scripts.length") == 1
    assert tab.evaluate("document.images.length") == 0
    assert tab.complaints() == []
    assert len(tab.requests()) == 1
    assert hostile in tab.evaluate("document.querySelector('main').textContent")
