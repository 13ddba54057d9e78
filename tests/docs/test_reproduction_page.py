"""The stored page of the reproduction says what its generator says of the figures on it."""

import re
from pathlib import Path

import pytest

from fedfb.experiments.compare import better
from fedfb.paper.markdown import PAGE_HEAD
from fedfb.paper.targets import printed, read_target, target_names

PAGE = (Path(__file__).parents[2] / "docs/reproduction.md").read_text(encoding="utf-8")
PAIR = re.compile(r"(\*\*)?(-?\.\d+)[^/]*/ (-?\.\d+)")


def sections():
    for text in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        name = re.search(r"^`fedfb reproduce (\S+)`", text, re.MULTILINE)[1]
        yield name, text


def table_of(text):
    """Return the cells of a section's first table: by row, a list of (ours, paper) by column."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    end = next((n for n, line in enumerate(lines) if line.startswith("| differs")), None)
    for line in lines[1:end]:
        name, _, _, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        if len(cells) > 2 and len(cells) % 2 == 0:
            yield name, list(zip(cells[::2], cells[1::2], strict=True))


def figures(match):
    return {"accuracy": {"mean": float(match[2])}, "disparity": {"mean": float(match[3])}}


def test_the_page_opens_as_the_generator_opens_it():
    assert PAGE.startswith(PAGE_HEAD)
    assert sorted(name for name, _ in sections()) == sorted(target_names())


def test_a_figure_is_bold_exactly_if_its_digits_are_better_than_the_printed_ones():
    marks = []
    for target, text in sections():
        for row, cells in table_of(text):
            for ours, paper in cells:
                one, other = PAIR.match(ours), PAIR.match(paper)
                if one and other:
                    marks.append(bool(one[1]))
                    assert bool(one[1]) == better(figures(one), figures(other)), (target, row, ours)
    assert len(marks) > 100
    assert any(marks)


@pytest.mark.parametrize("name", [name for name in target_names() if name.startswith("table")])
def test_the_printed_figures_on_the_page_are_the_papers(name):
    target, rows = read_target(name), dict(table_of(dict(sections())[name]))
    for row in target.rows:
        for column, (_, paper) in zip(target.columns, rows[row.name], strict=True):
            beside = printed(target.label, row.published, column.published)
            if paper and beside:
                match = PAIR.match(paper)
                assert figures(match)["accuracy"]["mean"] == beside["accuracy"]["mean"]
                assert figures(match)["disparity"]["mean"] == beside["disparity"]["mean"]
