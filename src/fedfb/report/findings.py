"""What a method found, in sentences: what fairness cost, which round, what stood in the way."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedfb.report.numbers import mean, number

Report = Mapping[str, Any]


def findings(report: Report) -> Iterator[str]:
    """Yield a sentence on everything that a reader would ask next, what fairness cost first."""
    if "cost" in report["summary"]:
        yield _cost(report["summary"], report["notion"])
    yield from closer_findings(report)


def closer_findings(report: Report) -> Iterator[str]:
    """Yield what thresholds did, how near the target came, and what stood in the way."""
    notion, summary = report["notion"], report["summary"]
    runs = report["runs"]
    halves = [run["at_one_half"] for run in runs if run["at_one_half"] is not None]
    if halves:
        yield _thresholds(summary, halves, notion)
    told = [run["told"] for run in runs if run["told"]]
    yield from _search(told)


def _cost(summary: Report, notion: str) -> str:
    free = summary["free"]
    return (
        f"Fairness costs {100 * summary['cost']['mean']:.1f} points of accuracy: trained alike but "
        f"without it, the model is {number(free['accuracy']['mean'])} accurate at a disparity of "
        f"{number(free['disparity'][notion]['mean'])}."
    )


def _thresholds(summary: Report, halves: Sequence[Report], notion: str) -> str:
    accuracy = number(mean([half["accuracy"] for half in halves]))
    disparity = number(mean([half["disparity"][notion] for half in halves]))
    return (
        f"What the thresholds did: cut at 1/2 these scores would be {accuracy} accurate at "
        f"{disparity}; with a threshold for each group they are "
        f"{number(summary['accuracy']['mean'])} at {number(summary['disparity'][notion]['mean'])}."
    )


def _search(told: Sequence[Report]) -> Iterator[str]:
    rounds = [str(one["chosen_round"]) for one in told if "chosen_round" in one]
    if rounds:
        which = "round" if len(rounds) == 1 else "rounds"
        yield f"Chosen: {which} {', '.join(rounds)}, nearest to the target on training rows."
    for key, says in SAYINGS.items():
        names = sorted({str(name) for one in told for name in one.get(key, ())})
        if names:
            yield f"{says}: {', '.join(names)}."


SAYINGS = {
    "left_out": "Too few rows for a threshold of their own (cut at 1/2)",
}
