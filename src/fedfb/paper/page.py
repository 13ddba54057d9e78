"""The page of a reproduction: every table and figure of the paper, ours beside the printed."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from json import dumps
from pathlib import Path
from typing import Any

from fedfb.errors import DataError
from fedfb.experiments.compare import better
from fedfb.experiments.run_folder import CELLS
from fedfb.files import interpreting, read_json
from fedfb.paper.markdown import properties, steps_in_words
from fedfb.paper.targets import names, spread_of
from fedfb.report.figures import Point, Series, setting_in_words
from fedfb.report.folder import WRITTEN
from fedfb.report.html import Figure, Fold, Page, Section, Table
from fedfb.report.numbers import number
from fedfb.report.svg import Picture, scatter_picture

Target = Mapping[str, Any]


OURS, ON_THEIR_ROWS = "FedFB, ours", "FedFB, ours, the authors' rows"


def holds_reproduction(folder: Path) -> bool:
    """Return True if ``fedfb reproduce`` wrote into the folder."""
    return (folder / CELLS).is_dir()


def read_targets(folder: Path) -> tuple[Target, ...]:
    """Read what was reproduced; of a target that was done several times, the last."""
    files = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
    with interpreting(folder, WRITTEN):
        found = {one["target"]: one for path in files for one in read_json(path, WRITTEN)}
    if not found:
        raise DataError(
            f"the reproduction in {folder} is not finished: it has cells and no table. Finish it "
            f"first: fedfb reproduce all --out {folder}."
        )
    return tuple(found[name] for name in names() if name in found)


def reproduction_page(targets: Sequence[Target]) -> Page:
    """Return the page of some targets, in their order."""
    explained = [one for target in targets for one in target["explained"]]
    digest = sha256(dumps(list(targets), sort_keys=True).encode()).hexdigest()[:16]
    return Page(
        title="The paper's tables and figures, ours beside the printed",
        kind="Reproduction"
        + (f" of {len(targets)} tables and figures" if len(targets) > 1 else ""),
        headline=reproduction_headline(targets),
        figures=(
            Figure("figures that differ", str(len(explained)), "by more than their noise"),
            *(
                Figure(verdict, str(sum(one["verdict"] == verdict for one in explained)))
                for verdict in ("explained", "explained in part", "unexplained")
            ),
        ),
        sections=tuple(_section(one) for one in targets),
        footer=f"Made by fedfb from what fedfb reproduce left behind. Results {digest}.",
    )


def reproduction_headline(targets: Sequence[Target]) -> str:
    """Say how often FedFB is better than printed."""
    ours, theirs = (_better(targets, row) for row in (OURS, ON_THEIR_ROWS))
    if not ours:
        return "Methods of the paper, run again."
    on_theirs = f", on the authors' own rows in {sum(theirs)} of {len(theirs)}" if theirs else ""
    return (
        f"FedFB as it is here is better than printed on one axis and not worse on the other in "
        f"{sum(ours)} of {len(ours)} cells{on_theirs}."
    )


def _better(targets: Sequence[Target], row: str) -> list[bool]:
    """Return of each printed cell of a row whether ours is better."""
    return [
        better(cell["points"][0], cell["published"])
        for target in targets
        for cell in target["cells"]
        if cell["row"] == row and cell["published"] and cell["points"]
    ]


def _section(target: Target) -> Section:
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
        tables=(_beside(target),) if target["kind"] == "table" else (),
        folds=tuple(_folds(target)),
    )


def _beside(target: Target) -> Table:
    """Return ours beside the printed figures, a row for each method."""
    columns = list(dict.fromkeys(cell["column"] for cell in target["cells"]))
    rows = []
    for row in dict.fromkeys(cell["row"] for cell in target["cells"]):
        own = {cell["column"]: cell for cell in target["cells"] if cell["row"] == row}
        cells = [text for column in columns for text in _pair(own.get(column))]
        rows.append((row, *properties(list(own.values())), *cells))
    heads = [head for column in columns for head in (column, "paper")]
    return Table(
        "Accuracy / disparity, mean ± spread over seeds",
        ("", "private", "fair", *heads),
        tuple(rows),
        " ".join(
            ["A star: better than printed on one axis, not worse on the other.", *_not_run(target)]
        ),
    )


def _pair(cell: Target | None) -> tuple[str, str]:
    if cell is None:
        return "", ""
    paper = cell["published"]
    beside = "-" if paper is None else _both(paper)
    if not cell["points"]:
        return "-", beside
    [point] = cell["points"]
    star = " *" if paper is not None and better(point, paper) else ""
    return _both(point) + star, beside


def _not_run(target: Target) -> list[str]:
    """Say which cells have no figure, and why."""
    return [
        f"{cell['row']}, {cell['column']}: {cell['failed']}."
        for cell in target["cells"]
        if not cell["points"]
    ]


def _both(figures: Target) -> str:
    return f"{spread_of(figures['accuracy'])} / {spread_of(figures['disparity'])}"


def _pictures(target: Target) -> list[Picture]:
    """Draw a picture for each column: a series for each method."""
    pictures = []
    for place, column in enumerate(dict.fromkeys(cell["column"] for cell in target["cells"])):
        own = [cell for cell in target["cells"] if cell["column"] == column]
        series = [
            Series(cell["row"], number_, tuple(_points(cell)))
            for number_, cell in enumerate(own)
            if any(point["disparity"]["mean"] is not None for point in cell["points"])
        ]
        if series:
            constant = next((c["constant"] for c in own if c.get("constant")), None)
            pictures.append(
                scatter_picture(
                    f"{target['target']}-{place}",
                    series,
                    constant,
                    own[0]["notion"],
                    f"Accuracy against disparity on {column}",
                    f"{column}: accuracy against disparity, means over seeds.",
                )
            )
    return pictures


def _points(cell: Target) -> list[Point]:
    return [
        Point(
            point["disparity"]["mean"],
            point["accuracy"]["mean"],
            None,
            None,
            setting_in_words(point["settings"]),
        )
        for point in cell["points"]
        if point["disparity"]["mean"] is not None
    ]


def _folds(target: Target) -> list[Fold]:
    folds = []
    if target["explained"]:
        rows = tuple(
            (
                f"{one['row']}, {one['column']}",
                steps_in_words(one["steps"]),
                number(one["apart"]),
                one["verdict"],
                number(one["left"]),
            )
            for one in target["explained"]
        )
        head = ("", "cause: before -> after", "apart", "verdict", "left")
        folds.append(Fold("What differs, and why", (Table("Differences", head, rows),)))
    if target["kind"] != "table":
        rows = tuple(
            (
                f"{cell['column']}: {cell['row']}",
                setting_in_words(point["settings"]) or "-",
                spread_of(point["accuracy"]),
                spread_of(point["disparity"]),
                _seen(cell),
            )
            for cell in target["cells"]
            for point in cell["points"]
        )
        head = ("", "setting", "accuracy", "disparity", "server needs")
        folds.append(Fold("All points", (Table(target["title"], head, rows),)))
    return folds


def _seen(cell: Target) -> str:
    seen = cell.get("reveals")
    if not seen:
        return "-"
    return "all rows" if seen["pooled"] else "sums" if seen["sums_only"] else "single values"
