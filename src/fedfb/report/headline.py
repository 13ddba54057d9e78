"""The one sentence that a reader takes away, and the figures beside it."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedfb.experiments.shortfalls import first_sentences
from fedfb.report.figures import algorithms_of, setting_in_words, shown_name
from fedfb.report.frontier import LEVELS, best_within, pareto_points
from fedfb.report.html import Figure
from fedfb.report.numbers import mean, number, spread
from fedfb.report.text import NAMES, ends_in_words

Report = Mapping[str, Any]


BASELINE = "fedavg"
FOCUS = "fedfb"
TOLERATED = 0.05
"""The disparity within which a frontier's headline compares, and above it if nothing is."""

MEANS = {
    "demographic_parity": "the largest distance of a group's rate of positive decisions from the "
    "rate of all",
    "equal_opportunity": "among rows whose label is positive, the largest distance of a group's "
    "rate of positive decisions from the rate of all",
    "equalized_odds": "the largest distance of a group's rate of positive decisions from the rate "
    "of all, among rows of either label",
    "client_parity": "the range of the clients' mean losses",
}
"""What disparity means, by notion."""


def alerts(reports: Sequence[Report]) -> tuple[str, ...]:
    """Return the promises that results do not keep: they come before every headline."""
    return tuple(first_sentences(reports))


def run_headline(report: Report) -> str:
    """Say how accurate and how fair a method is, and what fairness cost."""
    summary, name = report["summary"], shown_name(report["algorithm"])
    if summary is None:
        return _range(report, name)
    where = _place(report)
    free = summary.get("free")
    if not free:
        return f"{name} is {where}."
    accuracy, disparity = free["accuracy"]["mean"], free["disparity"][report["notion"]]["mean"]
    # What was not reached has no price: "costs nothing" would praise a missed target.
    missed = any(one["kind"] == "target" for one in report.get("shortfalls", ()))
    cost = "" if missed else f": {_cost(summary['cost']['mean'])}"
    return f"{name} is {where}; without fairness {number(accuracy)} at {number(disparity)}{cost}."


def _place(report: Report) -> str:
    """Say where a method stands: accuracy, disparity and its interval."""
    summary, notion = report["summary"], report["notion"]
    known = summary["disparity"][notion].get("interval") is not None
    interval = f" (95% interval {ends_in_words(summary['disparity'][notion])})" if known else ""
    accuracy, disparity = summary["accuracy"]["mean"], summary["disparity"][notion]["mean"]
    return f"{number(accuracy)} accurate at a disparity of {number(disparity)}{interval}"


def _cost(points: float) -> str:
    """Say what fairness cost in points of accuracy.

    >>> _cost(0.0231), _cost(0.0001), _cost(-0.01)
    ('fairness costs 2.3 points', 'fairness costs nothing', 'fairness gains 1.0 points')
    """
    rounded = round(100 * points, 1)
    if rounded == 0:
        return "fairness costs nothing"
    return f"fairness {'costs' if rounded > 0 else 'gains'} {abs(rounded):.1f} points"


def _range(report: Report, name: str) -> str:
    notion, settings = report["notion"], report["summaries"]
    known = [one for one in settings if one["disparity"][notion]["mean"] is not None]
    if not known:
        return f"{name} was trained with {len(settings)} settings; none has an estimable disparity."
    fair = min(known, key=lambda one: one["disparity"][notion]["mean"])
    accurate = max(known, key=lambda one: one["accuracy"]["mean"])
    ends = [
        f"{number(one['accuracy']['mean'])} accurate at a disparity of "
        f"{number(one['disparity'][notion]['mean'])} ({setting_in_words(one['settings'])})"
        for one in (fair, accurate)
    ]
    return f"{name} goes from {ends[0]} to {ends[1]}, over {len(settings)} settings."


def comparison_headline(reports: Sequence[Report]) -> str:
    """Say where the method in focus stands beside the one without fairness."""
    single = {one["algorithm"]: one for one in reports if one["summary"] is not None}
    others = [name for name in single if name != BASELINE]
    if not others:
        return run_headline(reports[0])
    focus = single[FOCUS if FOCUS in single else others[0]]
    plain = single.get(BASELINE)
    if plain is None:
        return run_headline(focus)
    accuracy = plain["summary"]["accuracy"]["mean"]
    disparity = plain["summary"]["disparity"][focus["notion"]]["mean"]
    cost = _cost(accuracy - focus["summary"]["accuracy"]["mean"])
    return (
        f"{shown_name(focus['algorithm'])} is {_place(focus)}; {shown_name(BASELINE)}, trained "
        f"without fairness, {number(accuracy)} at {number(disparity)}: {cost}."
    )


def frontier_headline(record: Report) -> str:
    """Say which approach is the most accurate where it is fair, and what that costs."""
    approaches = [name for name in algorithms_of(record) if not _is_limit(record, name)]
    count = f"{len(approaches)} approach{'es' if len(approaches) > 1 else ''}"
    for level in (level for level in LEVELS if level >= TOLERATED):
        able = [p for name in approaches if (p := best_within(record, name, level)) is not None]
        if able:
            best = max(able, key=lambda point: point["accuracy"]["mean"])
            said = (
                f"Of {count}, {shown_name(best['algorithm'])} is the most accurate with a "
                f"disparity of at most {number(level, 2)}: {number(best['accuracy']['mean'])} at "
                f"{number(best['disparity']['mean'])}"
            )
            return said + _beside_the_baseline(record, best) + "."
    return f"Of {count}, none reaches a disparity of at most {number(LEVELS[-1], 2)}."


def _beside_the_baseline(record: Report, best: Report) -> str:
    plain = next((p for p in record["points"] if p["algorithm"] == BASELINE), None)
    if plain is None or plain is best or plain["disparity"]["mean"] is None:
        return ""
    cost = _cost(plain["accuracy"]["mean"] - best["accuracy"]["mean"])
    return (
        f"; {shown_name(BASELINE)}, trained without fairness, is "
        f"{number(plain['accuracy']['mean'])} at {number(plain['disparity']['mean'])}: {cost}"
    )


def _is_limit(record: Report, algorithm: str) -> bool:
    return any(p["limit"] for p in record["points"] if p["algorithm"] == algorithm)


def run_figures(report: Report) -> tuple[Figure, ...]:
    """Return accuracy, disparity, cost and four-fifths ratio of one method."""
    summary, runs, notion = report["summary"], report["runs"], report["notion"]
    if summary is None:
        return ()
    constant = number(mean([run["majority_accuracy"] for run in runs]))
    sure = ends_in_words(summary["disparity"][notion])
    figures = [
        Figure("accuracy", spread(summary["accuracy"]), f"a constant classifier: {constant}"),
        Figure("disparity", spread(summary["disparity"][notion]), f"95% interval {sure}"),
    ]
    if "cost" in summary:
        free = number(summary["free"]["accuracy"]["mean"])
        points = f"{100 * summary['cost']['mean']:.1f} points"
        figures.append(Figure("cost of fairness", points, f"without fairness: {free} accurate"))
    ratio = mean([run["four_fifths"] for run in runs])
    if ratio is not None:
        figures.append(
            Figure("four-fifths ratio", number(ratio), "meets .8" if ratio >= 0.8 else "below .8")
        )
    return tuple(figures)


def frontier_figures(record: Report) -> tuple[Figure, ...]:
    """Return how many approaches and points there are, and how many are in the Pareto set."""
    chosen = pareto_points(record)
    names = {point["algorithm"] for point in chosen}
    approaches = [name for name in algorithms_of(record) if not _is_limit(record, name)]
    return (
        Figure("approaches", str(len(approaches)), f"{len(record['points'])} points"),
        Figure("Pareto set", f"{len(chosen)} points", f"of {len(names)} approaches"),
        Figure("constant classifier", number(record["constant"]), "accurate, disparity 0"),
        Figure("seeds", str(len(record["seeds"])), NAMES[record["notion"]]),
    )
