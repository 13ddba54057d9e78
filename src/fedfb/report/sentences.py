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


def coarse_codes(report: Report) -> list[str]:
    """Warn of codes so coarse that the weights do not follow the gaps; say nothing of others."""
    told = [run["told"]["coarse"] for run in report["runs"] if "coarse" in run["told"]]
    return [
        (
            f"Warning: codes of {coarse['bits']} bits are too coarse (step "
            f"{number(coarse['step'])}): gaps of groups vanish in them, and the model may be less "
            f"fair than FedAvg's. Give each value --bits {coarse['needed']} or more."
        )
        for coarse in told[:1]
    ]


def closer_findings(report: Report) -> Iterator[str]:
    """Yield what other decisions than a cut at 1/2 did, how near the target came, and why."""
    notion, summary = report["notion"], report["summary"]
    runs = report["runs"]
    halves = [run["at_one_half"] for run in runs if run["at_one_half"] is not None]
    told = [run["told"] for run in runs if run["told"]]
    if halves:
        yield _decisions(summary, halves, notion, any("thresholds" in one for one in told))
    yield from _search(told, target=runs[0]["settings"].get("target", 0.0))


def _cost(summary: Report, notion: str) -> str:
    free = summary["free"]
    return (
        f"Fairness costs {100 * summary['cost']['mean']:.1f} points of accuracy: trained alike but "
        f"without it, the model is {number(free['accuracy']['mean'])} accurate at a disparity of "
        f"{number(free['disparity'][notion]['mean'])}."
    )


def _decisions(summary: Report, halves: Sequence[Report], notion: str, by_thresholds: bool) -> str:
    """Say what the scores alone would have come to, and what the method's decisions did."""
    accuracy = number(mean([half["accuracy"] for half in halves]))
    disparity = number(mean([half["disparity"][notion] for half in halves]))
    what = "thresholds" if by_thresholds else "method's own way to decide"
    how = "with a threshold for each group" if by_thresholds else "as it decides"
    return (
        f"What the {what} did: cut at 1/2 these scores would be {accuracy} accurate at "
        f"{disparity}; {how} they are {number(summary['accuracy']['mean'])} at "
        f"{number(summary['disparity'][notion]['mean'])}."
    )


def _search(told: Sequence[Report], target: float) -> Iterator[str]:
    measures = {one["target_is_for"] for one in told if "target_is_for" in one}
    if measures and 0 < target < 1:
        measure = ", ".join(sorted(measures))
        yield f"The target is for {measure}; the disparity above is their range."
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
