"""The frontier: how each method trades accuracy for fairness, on the same seeds.

A point is in the Pareto set if no other point is at least as accurate and at least as fair, and
better on one of the two.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields, replace
from math import inf
from typing import Any, NamedTuple

import msgspec

from fedfb.algorithms import METHODS, Method, find_method
from fedfb.algorithms.fedfb.thresholds import LEVELS
from fedfb.errors import FedFBError
from fedfb.experiments.cache import Store, load_rows, result_of
from fedfb.experiments.codec import SCHEMA
from fedfb.experiments.effect import share_settings
from fedfb.experiments.evaluate import mean_and_std
from fedfb.experiments.outcome import OnRound
from fedfb.experiments.reporting import plain
from fedfb.experiments.resolve import given_grid, resolve, total_rounds, tuning_grid
from fedfb.experiments.result import (
    Frontier,
    GroupMeans,
    LeftOut,
    MethodShortfall,
    Point,
    Result,
    Shortfall,
)
from fedfb.experiments.run_folder import versions
from fedfb.experiments.seed_result import Estimate, SeedResult, Statistic
from fedfb.experiments.seeds import shared_test_rows
from fedfb.experiments.shortfalls import other_notes
from fedfb.experiments.spec import PRIVACY, Experiment
from fedfb.experiments.train import check_runnable
from fedfb.notions import long_name
from fedfb.settings import setting_of
from fedfb.tables.sources import describe_data


class Spot(NamedTuple):
    """Where a classifier stands; None is what cannot be estimated."""

    accuracy: float | None
    disparity: float | None


def dominates(place: Spot, other: Spot) -> bool:
    """Return True if ``place`` is at least as good on both axes and better on one of them.

    >>> dominates(Spot(0.9, 0.1), Spot(0.8, 0.1)), dominates(Spot(0.9, 0.1), Spot(0.9, 0.1))
    (True, False)
    """
    if place.accuracy is None or place.disparity is None:
        return False
    if other.accuracy is None or other.disparity is None:
        return False
    as_good = place.accuracy >= other.accuracy and place.disparity <= other.disparity
    return as_good and place != other


def pareto(places: Sequence[Spot]) -> list[bool]:
    """Return for every place whether no other dominates it; equal places have equal marks.

    A place whose disparity is not known is never in the set.

    >>> pareto([Spot(0.9, 0.2), Spot(0.8, 0.1), Spot(0.7, 0.15), Spot(0.8, None)])
    [True, True, False, False]
    """
    return [
        place.disparity is not None and not any(dominates(other, place) for other in places)
        for place in places
    ]


_BASELINE = "fedavg"
"""The method without fairness: one point, where curves begin."""

LIMIT = "hardt"
"""The pooled oracle: all rows in one place and a threshold for each group."""

QUICK_LEVELS = (0.0, 0.05, 1.0)


class Curve(NamedTuple):
    """One approach along one of its knobs: the values are the runs of one grid."""

    algorithm: str
    knob: str | None
    experiment: Experiment


class _Plan(NamedTuple):
    """What is to be trained, and what cannot be."""

    curves: tuple[Curve, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def rounds(self) -> int:
        """The rounds of all curves and seeds together."""
        return sum(total_rounds(curve.experiment) for curve in self.curves)


def plan(
    experiment: Experiment, groups: int, names: Sequence[str] | None = None, quick: bool = False
) -> _Plan:
    """Return the curves of the methods named, or of all that aim at the notion.

    Args:
        experiment: settings for all methods together.
        groups: number of groups of the data.
        names: methods to plan; None: all that aim at the notion.
        quick: few points of each curve: the ends and the usual value.

    >>> [curve.algorithm for curve in plan(Experiment(), 2, ["fedavg", "fedfb"]).curves]
    ['fedavg', 'fedfb']
    """
    curves: list[Curve] = []
    left_out: list[LeftOut] = []
    for request in share_settings(experiment, list(METHODS) if names is None else names):
        method = find_method(request.algorithm)
        reason = _unfit(method, long_name(experiment.notion), groups, is_named=names is not None)
        try:
            if reason is None:
                check_runnable(resolve(replace(request, target=request.target[:1])), groups)
                curves.extend(_curves(method, request, quick))
                continue
        except FedFBError as error:
            reason = str(error)
        left_out.append(LeftOut(algorithm=method.name, reason=reason))
    return _Plan(tuple(curves), tuple(left_out))


def _unfit(method: Method, notion: str, groups: int, is_named: bool) -> str | None:
    """Say why a method is left out; a method that the user named need not aim at fairness."""
    if not method.fair and method.name != _BASELINE and not is_named:
        return "does not aim at fairness"
    if method.fair and notion not in method.notions:
        able = ", ".join(name.replace("_", " ") for name in method.notions)
        return f"aims at {able} only"
    if method.most_groups is not None and groups > method.most_groups:
        return f"compares at most {method.most_groups} groups, and these data have {groups}"
    return None


def _curves(method: Method, experiment: Experiment, quick: bool) -> Iterator[Curve]:
    """Yield a curve over the targets; for a method without, one over each of its knobs.

    The other knobs, and the learning rate where it is not picked, stay as the method usually has
    them.
    """
    [usual, *_], tried = given_grid(experiment), tuning_grid(experiment)
    if "target" in usual:
        levels = experiment.target or (QUICK_LEVELS if quick else LEVELS)
        for some in _together(experiment, levels):
            yield Curve(method.name, "target", replace(experiment, target=some))
        return
    experiment = replace(experiment, target=())
    grids = {
        knob: sorted({setting[knob] for setting in tried} | {usual[knob]})
        for knob in usual
        if knob != "lr"
    }
    several = {knob: values for knob, values in grids.items() if len(values) > 1}
    for knob, values in several.items():
        tried_of_knob = sorted({values[0], usual[knob], values[-1]}) if quick else values
        for some in _together(experiment, tried_of_knob):
            assignment = f"{knob}={','.join(map(repr, some))}"
            yield Curve(method.name, knob, replace(experiment, knobs=(assignment,)))
    if not several:
        yield Curve(method.name, None, experiment)


def _together(experiment: Experiment, values: Sequence[float]) -> list[tuple[float, ...]]:
    """Return which values are trained in one run: all of them, or where each costs privacy, one."""
    if experiment.privacy_epsilon is None:
        return [tuple(values)]
    return [(value,) for value in values]


def frontier(
    experiment: Experiment,
    names: Sequence[str] | None = None,
    store: Store | None = None,
    *,
    quick: bool = False,
    epsilons: Sequence[float] = (),
    on_plan: Callable[[_Plan], OnRound] = lambda plan: lambda progress: None,
) -> Frontier:
    """Train every method and return its points, the Pareto set, the limit and what was left out.

    A method that fails does not stop the others: it is listed with its reason.

    Args:
        experiment: settings for all methods together.
        names: methods to train; None: all that aim at the notion.
        store: where seeds are read and written; None trains every seed.
        quick: few points of each curve.
        epsilons: every method that can hide rows is trained under each epsilon, and the others
            are left out; Pareto sets are then those of each epsilon. Empty: no privacy.
        on_plan: is called with the plan before training; returns what is called after every round.
    """
    for name in names or ():
        find_method(name)
    rows = load_rows(experiment)
    first = rows.federations[experiment.seeds[0]]
    planned = _plan_all(experiment, epsilons, len(first.group_names), names, quick)
    on_round = on_plan(planned)
    points: list[Point] = []
    failed: list[LeftOut] = []
    constant: list[float | None] = []
    notes = list(first.notes)
    short: list[MethodShortfall] = []
    for curve in planned.curves:
        try:
            result = result_of(curve.experiment, store, rows, on_round=on_round)
        except FedFBError as error:
            failed.append(LeftOut(algorithm=curve.algorithm, reason=str(error)))
            continue
        # Overwritten by each curve: all are tested on the same rows, so the values are the same.
        constant = [run.majority_accuracy for run in result.runs]
        points.extend(_points(curve, result))
        notes.extend(other_notes(result))
        short.extend(_named(shortfall, curve) for shortfall in result.shortfalls)
    short = _once_a_method(short)
    level = mean_and_std(constant).mean
    return Frontier(
        schema=SCHEMA,
        data=describe_data(experiment.data),
        model=experiment.model,
        notion=long_name(experiment.notion),
        seeds=experiment.seeds,
        settings=plain(asdict(experiment)),
        experiment_hash=experiment.hash,
        groups=tuple(first.group_names),
        constant=level,
        points=tuple(_pareto_by_epsilon(_different(points), level)),
        epsilons=tuple(None if epsilon == inf else epsilon for epsilon in epsilons),
        left_out=planned.left_out,
        failed=tuple(failed),
        shortfalls=tuple(short),
        notes=tuple(dict.fromkeys([*(shortfall.sentence for shortfall in short), *notes])),
        versions=versions(experiment),
        shared_test_rows=shared_test_rows(experiment, rows.federations),
    )


def _named(shortfall: Shortfall, curve: Curve) -> MethodShortfall:
    epsilon = curve.experiment.privacy_epsilon
    at = "" if epsilon is None else f", epsilon {epsilon:g}"
    return MethodShortfall(
        algorithm=curve.algorithm,
        epsilon=epsilon,
        kind=shortfall.kind,
        sentence=f"{curve.algorithm}{at}: {shortfall.sentence}",
        values=shortfall.values,
    )


def _once_a_method(shortfalls: Sequence[MethodShortfall]) -> list[MethodShortfall]:
    """Return one shortfall of a kind for a method; what all methods share is one of the rows."""
    by_method: dict[tuple[Any, ...], MethodShortfall] = {}
    for shortfall in shortfalls:
        if shortfall.kind != "copies":
            of = (shortfall.algorithm, shortfall.epsilon, shortfall.kind)
            by_method.setdefault(of, shortfall)
    of_rows = [
        msgspec.structs.replace(shortfall, sentence=shortfall.sentence.partition(": ")[2])
        for shortfall in shortfalls
        if shortfall.kind == "copies"
    ]
    return [*by_method.values(), *of_rows[:1]]


def _plan_all(
    experiment: Experiment,
    epsilons: Sequence[float],
    groups: int,
    names: Sequence[str] | None,
    quick: bool,
) -> _Plan:
    """Return the curves of every epsilon, of methods that can be had with all of them."""
    if not epsilons:
        return plan(experiment, groups, names, quick)
    each = [plan(_with_epsilon(experiment, epsilon), groups, names, quick) for epsilon in epsilons]
    left_out = {
        method.algorithm: method for plan_of_epsilon in each for method in plan_of_epsilon.left_out
    }
    curves = [curve for plan_of_epsilon in each for curve in plan_of_epsilon.curves]
    remaining = tuple(curve for curve in curves if curve.algorithm not in left_out)
    return _Plan(remaining, tuple(left_out.values()))


def _with_epsilon(experiment: Experiment, epsilon: float) -> Experiment:
    """Return the experiment with an epsilon; without one, also without what goes with it."""
    if epsilon != inf:
        return replace(experiment, privacy_epsilon=epsilon)
    private = [declared for declared in fields(experiment) if setting_of(declared).panel == PRIVACY]
    usual: dict[str, Any] = {declared.name: declared.default for declared in private}
    return replace(experiment, **usual)


def _pareto_by_epsilon(points: Sequence[Point], constant: float | None) -> list[Point]:
    return [
        marked
        for epsilon in dict.fromkeys(point.epsilon for point in points)
        for marked in with_pareto([p for p in points if p.epsilon == epsilon], constant)
    ]


def _points(curve: Curve, result: Result) -> Iterator[Point]:
    """Yield one point for every setting of a curve, with its intervals."""
    method, notion = find_method(curve.algorithm), result.notion
    for place, summary in enumerate(result.summaries):
        runs = result.runs_of(place)
        # A mean over some of the seeds could not be compared with means over all of them.
        estimable = all(run.disparity[notion] is not None for run in runs)
        yield Point(
            algorithm=curve.algorithm,
            knob=curve.knob,
            epsilon=curve.experiment.privacy_epsilon,
            settings=summary.settings,
            accuracy=_estimate(summary.accuracy),
            disparity=_estimate(summary.disparity[notion] if estimable else None),
            seeds=tuple((run.accuracy, run.disparity[notion]) for run in runs),
            groups=_group_means(runs),
            pooled=method.is_pooled(method.variants[0]),
            limit=curve.algorithm == LIMIT,
            diverged=summary.diverged,
            pareto=False,
        )


def _estimate(statistic: Statistic | None) -> Estimate:
    """Return mean and interval; None of both where the mean is not of all seeds."""
    if statistic is None:
        return Estimate(mean=None, interval=None)
    return Estimate(mean=statistic.mean, interval=statistic.interval)


def _group_means(runs: Sequence[SeedResult]) -> tuple[GroupMeans, ...]:
    by_group = zip(*(run.groups for run in runs), strict=True)
    return tuple(
        GroupMeans(
            name=of_seeds[0].name,
            positive_rate=mean_and_std([rates.positive_rate for rates in of_seeds]).mean,
            tpr=mean_and_std([rates.tpr for rates in of_seeds]).mean,
            fpr=mean_and_std([rates.fpr for rates in of_seeds]).mean,
            accuracy=mean_and_std([rates.accuracy for rates in of_seeds]).mean,
        )
        for of_seeds in by_group
    )


def _different(points: Sequence[Point]) -> list[Point]:
    """Leave out what is another setting of a method with the same result on every seed.

    Curves over two knobs meet where both are as usual, and some knobs do nothing in a variant.
    """
    results: set[tuple[str, str]] = set()
    different = []
    for point in points:
        figures = point.settings if point.diverged else point.seeds
        result = (f"{point.algorithm} {point.epsilon}", repr(figures))
        if result not in results:
            results.add(result)
            different.append(point)
    return different


def with_pareto(points: Sequence[Point], constant: float | None) -> list[Point]:
    """Mark the points that neither another point nor the constant classifier dominates.

    The oracle is the limit, not one of the methods: it dominates nothing and is not marked.

    Args:
        points: all points that are compared with one another.
        constant: accuracy of the constant classifier, whose disparity is 0.
    """
    compared = [point for point in points if not point.limit]
    places = [Spot(point.accuracy.mean, point.disparity.mean) for point in compared]
    fixed = [] if constant is None else [Spot(constant, 0.0)]
    marks = iter(pareto([*places, *fixed]))
    return [
        msgspec.structs.replace(point, pareto=False if point.limit else next(marks))
        for point in points
    ]
