"""A reproduction as Markdown: ours beside what the paper printed, and the difference."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedfb.report.numbers import number, spread

Found = Mapping[str, Any]

NOISE = 2.0
"""A difference counts from this many standard errors of the two means on."""

CONSTANT = 0.004
"""A printed accuracy so near to the constant classifier's is it, at disparity 0: splits differ."""

SMALLEST = 0.005
"""Differences below this are not worth a word."""

HEAD = """# The paper's tables and figures, ours beside the printed ones

Written by `fedfb reproduce`. Rows of FedFB:

- **ours**: the default, solved outer problem, learning rate picked on validation rows;
- **as printed**: Algorithm 2 to the letter (cross-entropy, normalised step, each client's own
  signal), tuned on validation rows;
- **released**: the rules, data and random numbers of the authors' code of October 2021, which gave
  the printed digits, at the settings they were printed for (chosen by the authors, by test
  figures); **averages mended**: the same with one cause removed, the first client's missing weight
  in the average.

The other methods are ours, tuned on validation rows over the paper's grids. What is known of the
causes of differences is in [errata.md](errata.md).

"""


def as_markdown(found: Sequence[Found]) -> str:
    """Return all targets as one page."""
    return HEAD + "\n".join(line for one in found for line in _target(one))


def _target(one: Found) -> Iterator[str]:
    seeds = len(one["seeds"])
    yield f"## {one['title']}\n"
    label = f" (`{one['label']}`)" if one["label"] else ""
    quick = " **A quick look: one seed, nothing tuned.**" if one["quick"] else ""
    yield (
        f"`fedfb reproduce {one['target']}`{label}: {seeds} seed{'s' if seeds > 1 else ''}, "
        f"{one['cpu_seconds']:.0f} s of CPU time.{quick}\n"
    )
    yield from KINDS[one["kind"]](one)


def _table(one: Found) -> Iterator[str]:
    columns = list(dict.fromkeys(cell["column"] for cell in one["cells"]))
    yield "| | " + " | ".join(f"{name}: ours | paper" for name in columns) + " |"
    yield "|---" * (2 * len(columns) + 1) + "|"
    for row in dict.fromkeys(cell["row"] for cell in one["cells"]):
        own = {cell["column"]: cell for cell in one["cells"] if cell["row"] == row}
        cells = [text for name in columns for text in _cells(own[name])]
        yield f"| {row} | " + " | ".join(cells) + " |"
    yield (
        "\nAccuracy / disparity, mean ± spread over seeds. **Bold**: better than what is printed, "
        "on both axes. *differs*: by more than two standard errors and .005.\n"
    )
    yield from _constants(one)


def _cells(cell: Found) -> tuple[str, str]:
    beside = cell["published"]
    paper = "-" if beside is None else _both(beside)
    if not cell["points"]:
        return cell["failed"], paper
    [point] = cell["points"]
    ours = _both(point)
    if beside is None:
        return ours, paper
    if better(point, beside):
        return f"**{ours}**", paper
    return (f"{ours} *differs*" if differs(point, beside) else ours), paper


def _both(figures: Found) -> str:
    return f"{spread(figures['accuracy'])} / {spread(figures['disparity'])}"


def better(ours: Found, paper: Found) -> bool:
    """Tell whether ours is at least as good on both axes, and better on one.

    >>> better({"accuracy": {"mean": 0.8}, "disparity": {"mean": 0.1}},
    ...        {"accuracy": {"mean": 0.8}, "disparity": {"mean": 0.2}})
    True
    """
    more = ours["accuracy"]["mean"] - paper["accuracy"]["mean"]
    less = paper["disparity"]["mean"] - ours["disparity"]["mean"]
    return bool(more >= 0 and less >= 0 and (more > 0 or less > 0))


def differs(ours: Found, paper: Found, seeds: int = 5) -> bool:
    """Tell whether two means are further apart than their noise, on either axis."""
    for axis in ("accuracy", "disparity"):
        spreads = [one[axis]["std"] or 0.0 for one in (ours, paper)]
        error = (sum(std**2 for std in spreads) / seeds) ** 0.5
        distance = abs(ours[axis]["mean"] - paper[axis]["mean"])
        if distance > max(NOISE * error, SMALLEST):
            return True
    return False


def _constants(one: Found) -> Iterator[str]:
    """Name the printed figures that a constant classifier has, which treats all alike."""
    for cell in one["cells"]:
        beside, constant = cell["published"], cell.get("constant")
        if beside is None or constant is None or cell["row"] != "FedFB, ours":
            continue
        if (
            abs(beside["accuracy"]["mean"] - constant) < CONSTANT
            and beside["disparity"]["mean"] == 0
        ):
            yield (
                f"The paper's {number(beside['accuracy']['mean'])} / .000 for FedFB on "
                f"{cell['column']} is the constant classifier, which decides all rows alike.\n"
            )


def _curves(one: Found) -> Iterator[str]:
    yield "| data | method | setting | accuracy | disparity |\n|---|---|---|---|---|"
    for cell in one["cells"]:
        if not cell["points"]:
            yield f"| {cell['column']} | {cell['row']} | failed: {cell['failed']} | | |"
        for point in cell["points"]:
            setting = ", ".join(f"{k} {v:g}" for k, v in point["settings"].items())
            values = f"{spread(point['accuracy'])} | {spread(point['disparity'])}"
            yield f"| {cell['column']} | {cell['row']} | {setting} | {values} |"
    yield f"\n![{one['title']}](reproduction/{one['target']}.svg)\n"


def _comparison(one: Found) -> Iterator[str]:
    yield "| data | method | accuracy | disparity | server sees | exchanges a round | bytes |"
    yield "|---|---|---|---|---|---|---|"
    for cell in one["cells"]:
        if not cell["points"]:
            yield f"| {cell['column']} | {cell['row']} | failed: {cell['failed']} | | | | |"
            continue
        [point], reveals = cell["points"], cell["reveals"]
        seen = "all rows" if reveals["pooled"] else "sums" if reveals["sums_only"] else "single"
        yield (
            f"| {cell['column']} | {cell['row']} | {spread(point['accuracy'])} | "
            f"{spread(point['disparity'])} | {seen} | {reveals['exchanges']} | {reveals['bytes']} |"
        )
    yield f"\n![{one['title']}](reproduction/{one['target']}.svg)\n"


KINDS = {"table": _table, "curves": _curves, "comparison": _comparison}
