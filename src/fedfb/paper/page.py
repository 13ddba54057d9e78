"""The HTML page of a reproduction: every table and figure, our numbers beside the printed ones."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from json import dumps
from pathlib import Path
from typing import Any

from fedfb.errors import DataError
from fedfb.experiments.compare import better
from fedfb.experiments.run_folder import CELLS
from fedfb.files import interpreting, read_json
from fedfb.paper.markdown import explained_rows, figures_in_words, figures_table
from fedfb.paper.targets import spread_of, target_names
from fedfb.report.figures import PlottedPoint, Series
from fedfb.report.folder import WRITTEN, read_folder
from fedfb.report.html import Figure, Fold, Page, Picture, Section, scatter_picture
from fedfb.report.numbers import setting_in_words
from fedfb.report.page import make_page
from fedfb.report.table import Table

_Target = Mapping[str, Any]


OURS, ON_THEIR_ROWS = "FedFB, ours", "FedFB, ours, the authors' rows"


def page_of_folder(folder: Path) -> Page:
    """Return the page of what run, compare, frontier or reproduce wrote into a folder."""
    if (folder / CELLS).is_dir():
        return reproduction_page(read_targets(folder))
    return make_page(read_folder(folder))


def read_targets(folder: Path) -> tuple[_Target, ...]:
    """Read the results of a reproduction; of a target that was run several times, the last."""
    files = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
    with interpreting(folder, WRITTEN):
        targets = {
            target["target"]: target for path in files for target in read_json(path, WRITTEN)
        }
    if not targets:
        raise DataError(
            f"the reproduction in {folder} is not finished: it has cells and no table. Finish it "
            f"first: fedfb reproduce all --out {folder}."
        )
    return tuple(targets[name] for name in target_names() if name in targets)


def reproduction_page(targets: Sequence[_Target]) -> Page:
    """Return the page of some targets, in their order."""
    explained = [entry for target in targets for entry in target["explained"]]
    digest = sha256(dumps(list(targets), sort_keys=True).encode()).hexdigest()[:16]
    return Page(
        title="The paper's tables and figures, ours beside the printed",
        kind="Reproduction"
        + (f" of {len(targets)} tables and figures" if len(targets) > 1 else ""),
        headline=reproduction_headline(targets),
        figures=(
            Figure("figures that differ", str(len(explained)), "by more than their noise"),
            *(
                Figure(verdict, str(sum(entry["verdict"] == verdict for entry in explained)))
                for verdict in ("explained", "explained in part", "unexplained")
            ),
        ),
        sections=tuple(_section(entry) for entry in targets),
        footer=f"Made by fedfb from what fedfb reproduce left behind. Results {digest}.",
    )


def reproduction_headline(targets: Sequence[_Target]) -> str:
    """Return the sentence that says how often FedFB is better than printed."""
    ours, theirs = (_better(targets, row) for row in (OURS, ON_THEIR_ROWS))
    if not ours:
        return "Methods of the paper, run again."
    on_theirs = f", on the authors' own rows in {sum(theirs)} of {len(theirs)}" if theirs else ""
    return (
        f"FedFB as it is here is better than printed on one axis and not worse on the other in "
        f"{sum(ours)} of {len(ours)} cells{on_theirs}."
    )


def _better(targets: Sequence[_Target], row: str) -> list[bool]:
    """Return for each printed cell of a row whether our figures are better."""
    return [
        better(cell["points"][0], cell["published"])
        for target in targets
        for cell in target["cells"]
        if cell["row"] == row and cell["published"] and cell["points"]
    ]


def _section(target: _Target) -> Section:
    seeds = len(target["seeds"])
    label = f" The paper's table {target['label']}." if target["label"] else ""
    quick = " A quick look: nothing was tuned." if target["quick"] else ""
    return Section(
        name=target["target"],
        title=target["title"],
        sentences=(
            f"{seeds} seed{'s' if seeds > 1 else ''}, {target['cpu_seconds']:.0f} s of CPU time."
            f"{label}{quick}",
        ),
        pictures=() if target["kind"] == "table" else tuple(_pictures(target)),
        tables=(figures_table(target, _pair, "", _notes(target)),)
        if target["kind"] == "table"
        else (),
        folds=tuple(_folds(target)),
    )


def _pair(cell: _Target | None) -> tuple[str, str]:
    if cell is None:
        return "", ""
    paper = cell["published"]
    paper_text = "-" if paper is None else figures_in_words(paper)
    if not cell["points"]:
        return "-", paper_text
    [point] = cell["points"]
    star = " *" if paper is not None and better(point, paper) else ""
    return figures_in_words(point) + star, paper_text


def _notes(target: _Target) -> str:
    """Say what a star means, and which cells have no figure, and why."""
    failed = (
        f"{cell['row']}, {cell['column']}: {cell['failed']}."
        for cell in target["cells"]
        if not cell["points"]
    )
    star = "A star: better than printed on one axis, not worse on the other."
    return " ".join([star, *failed])


def _pictures(target: _Target) -> list[Picture]:
    """Draw a picture for each column: a series for each method."""
    pictures = []
    for place, column in enumerate(dict.fromkeys(cell["column"] for cell in target["cells"])):
        cells = [cell for cell in target["cells"] if cell["column"] == column]
        series = [
            Series(cell["row"], number_, tuple(_points(cell)))
            for number_, cell in enumerate(cells)
            if any(point["disparity"]["mean"] is not None for point in cell["points"])
        ]
        if series:
            constant = next((c["constant"] for c in cells if c.get("constant")), None)
            pictures.append(
                scatter_picture(
                    f"{target['target']}-{place}",
                    series,
                    constant,
                    cells[0]["notion"],
                    f"Accuracy against disparity on {column}",
                    f"{column}: accuracy against disparity, means over seeds.",
                )
            )
    return pictures


def _points(cell: _Target) -> list[PlottedPoint]:
    return [
        PlottedPoint(
            point["disparity"]["mean"],
            point["accuracy"]["mean"],
            None,
            None,
            setting_in_words(point["settings"]),
        )
        for point in cell["points"]
        if point["disparity"]["mean"] is not None
    ]


def _folds(target: _Target) -> list[Fold]:
    folds = []
    if target["explained"]:
        rows = tuple(explained_rows(target))
        head = ("", "cause: before -> after", "apart", "verdict", "left")
        folds.append(Fold("What differs, and why", (Table("Differences", head, rows),)))
    if target["kind"] != "table":
        rows = tuple(
            (
                f"{cell['column']}: {cell['row']}",
                setting_in_words(point["settings"]) or "-",
                spread_of(point["accuracy"]),
                spread_of(point["disparity"]),
                _server_needs(cell),
            )
            for cell in target["cells"]
            for point in cell["points"]
        )
        head = ("", "setting", "accuracy", "disparity", "server needs")
        folds.append(Fold("All points", (Table(target["title"], head, rows),)))
    return folds


def _server_needs(cell: _Target) -> str:
    reveals = cell.get("reveals")
    if not reveals:
        return "-"
    return "all rows" if reveals["pooled"] else "sums" if reveals["sums_only"] else "single values"
