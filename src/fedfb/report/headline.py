"""The headline of a page: one sentence, and the key figures beside it."""

from collections.abc import Sequence

from fedfb.experiments.result import Figures, Frontier, Point, Result
from fedfb.experiments.shortfalls import first_sentences
from fedfb.report.figures import algorithms_of
from fedfb.report.frontier import FRONTIER_LEVELS, best_within, pareto_points
from fedfb.report.html import Figure
from fedfb.report.numbers import (
    NAMES,
    ends_in_words,
    mean,
    number,
    setting_in_words,
    shown_name,
    spread,
)

_BASELINE = "fedavg"
_FOCUS = "fedfb"
TOLERATED = 0.05
"""The disparity within which a frontier's headline compares, and above it if nothing is."""

NOTION_MEANINGS = {
    "demographic_parity": "the largest distance of a group's rate of positive decisions from the "
    "rate of all",
    "equal_opportunity": "among rows whose label is positive, the largest distance of a group's "
    "rate of positive decisions from the rate of all",
    "equalized_odds": "the largest distance of a group's rate of positive decisions from the rate "
    "of all, among rows of either label",
    "client_parity": "the range of the clients' mean losses",
}
"""What disparity means, by notion."""


def alerts(results: Sequence[Result]) -> tuple[str, ...]:
    """Return the promises that results do not keep: they come before every headline."""
    return tuple(first_sentences(results))


def run_headline(result: Result) -> str:
    """Say how accurate and how fair a method is, and what fairness cost."""
    summary, name = result.summary, shown_name(result.algorithm)
    if summary is None:
        return _range(result, name)
    where = _place(summary, result.notion)
    free = summary.free
    if not free:
        return f"{name} is {where}."
    accuracy, disparity = free.accuracy.mean, free.disparity[result.notion].mean
    # What was not reached has no price: "costs nothing" would praise a missed target.
    missed = any(shortfall.kind == "target" for shortfall in result.shortfalls)
    points = None if summary.cost is None else summary.cost.mean
    cost = "" if missed or points is None else f": {_cost(points)}"
    return f"{name} is {where}; without fairness {number(accuracy)} at {number(disparity)}{cost}."


def _place(summary: Figures, notion: str) -> str:
    """Say where a method stands: accuracy, disparity and its interval."""
    accuracy, disparity = summary.accuracy.mean, summary.disparity[notion]
    ends = disparity.interval
    interval = "" if ends is None else f" (95% interval {ends_in_words(ends)})"
    return f"{number(accuracy)} accurate at a disparity of {number(disparity.mean)}{interval}"


def _cost(points: float) -> str:
    """Say what fairness cost in points of accuracy.

    >>> _cost(0.0231), _cost(0.0001), _cost(-0.01)
    ('fairness costs 2.3 points', 'fairness costs nothing', 'fairness gains 1.0 points')
    """
    rounded = round(100 * points, 1)
    if rounded == 0:
        return "fairness costs nothing"
    return f"fairness {'costs' if rounded > 0 else 'gains'} {abs(rounded):.1f} points"


def _range(result: Result, name: str) -> str:
    notion, settings = result.notion, result.summaries
    estimable = [summary for summary in settings if summary.disparity[notion].mean is not None]
    if not estimable:
        return f"{name} was trained with {len(settings)} settings; none has an estimable disparity."
    fair = min(estimable, key=lambda summary: summary.disparity[notion].mean or 0.0)
    accurate = max(estimable, key=lambda summary: summary.accuracy.mean or 0.0)
    ends = [
        f"{number(summary.accuracy.mean)} accurate at a disparity of "
        f"{number(summary.disparity[notion].mean)} ({setting_in_words(summary.settings)})"
        for summary in (fair, accurate)
    ]
    return f"{name} goes from {ends[0]} to {ends[1]}, over {len(settings)} settings."


def comparison_headline(results: Sequence[Result]) -> str:
    """Say where the method in focus stands beside the one without fairness."""
    single = {result.algorithm: result for result in results if result.summary is not None}
    others = [name for name in single if name != _BASELINE]
    if not others:
        return run_headline(results[0])
    focus = single[_FOCUS if _FOCUS in single else others[0]]
    plain = single[_BASELINE].summary if _BASELINE in single else None
    if plain is None or focus.summary is None:
        return run_headline(focus)
    return (
        f"{shown_name(focus.algorithm)} is {_place(focus.summary, focus.notion)}; "
        f"{shown_name(_BASELINE)}, trained without fairness, {number(plain.accuracy.mean)} at "
        f"{number(plain.disparity[focus.notion].mean)}"
        f"{_beside(plain.accuracy.mean, focus.summary.accuracy.mean)}."
    )


def _beside(plain: float | None, fair: float | None) -> str:
    """Say what fairness cost, where both accuracies are known."""
    return "" if plain is None or fair is None else f": {_cost(plain - fair)}"


def frontier_headline(frontier: Frontier) -> str:
    """Say which approach is the most accurate where it is fair, and what that costs."""
    approaches = [name for name in algorithms_of(frontier) if not _is_limit(frontier, name)]
    count = f"{len(approaches)} approach{'es' if len(approaches) > 1 else ''}"
    for level in (level for level in FRONTIER_LEVELS if level >= TOLERATED):
        able = [p for name in approaches if (p := best_within(frontier, name, level)) is not None]
        if able:
            best = max(able, key=lambda point: point.accuracy.mean or 0.0)
            first = (
                f"Of {count}, {shown_name(best.algorithm)} is the most accurate with a "
                f"disparity of at most {number(level, 2)}: {number(best.accuracy.mean)} at "
                f"{number(best.disparity.mean)}"
            )
            return first + _beside_the_baseline(frontier, best) + "."
    return f"Of {count}, none reaches a disparity of at most {number(FRONTIER_LEVELS[-1], 2)}."


def _beside_the_baseline(frontier: Frontier, best: Point) -> str:
    plain = next((p for p in frontier.points if p.algorithm == _BASELINE), None)
    if plain is None or plain is best or plain.disparity.mean is None:
        return ""
    return (
        f"; {shown_name(_BASELINE)}, trained without fairness, is "
        f"{number(plain.accuracy.mean)} at {number(plain.disparity.mean)}"
        f"{_beside(plain.accuracy.mean, best.accuracy.mean)}"
    )


def _is_limit(frontier: Frontier, algorithm: str) -> bool:
    return any(point.limit for point in frontier.points if point.algorithm == algorithm)


def run_figures(result: Result) -> tuple[Figure, ...]:
    """Return accuracy, disparity, cost and four-fifths ratio of one method."""
    summary, runs, notion = result.summary, result.runs, result.notion
    if summary is None:
        return ()
    constant = number(mean([run.majority_accuracy for run in runs]))
    sure = ends_in_words(summary.disparity[notion].interval)
    figures = [
        Figure("accuracy", spread(summary.accuracy), f"a constant classifier: {constant}"),
        Figure("disparity", spread(summary.disparity[notion]), f"95% interval {sure}"),
    ]
    if summary.free and summary.cost and summary.cost.mean is not None:
        free = number(summary.free.accuracy.mean)
        points = f"{100 * summary.cost.mean:.1f} points"
        figures.append(Figure("cost of fairness", points, f"without fairness: {free} accurate"))
    ratio = mean([run.four_fifths for run in runs])
    if ratio is not None:
        figures.append(
            Figure("four-fifths ratio", number(ratio), "meets .8" if ratio >= 0.8 else "below .8")
        )
    return tuple(figures)


def frontier_figures(frontier: Frontier) -> tuple[Figure, ...]:
    """Return how many approaches and points there are, and how many are in the Pareto set."""
    chosen = pareto_points(frontier)
    names = {point.algorithm for point in chosen}
    approaches = [name for name in algorithms_of(frontier) if not _is_limit(frontier, name)]
    return (
        Figure("approaches", str(len(approaches)), f"{len(frontier.points)} points"),
        Figure("Pareto set", f"{len(chosen)} points", f"of {len(names)} approaches"),
        Figure("constant classifier", number(frontier.constant), "accurate, disparity 0"),
        Figure("seeds", str(len(frontier.seeds)), NAMES[frontier.notion]),
    )
