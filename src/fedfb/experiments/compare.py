"""Comparisons: several methods on the same seeds, and our figures beside printed ones.

A comparison reports what each method reaches and how methods differ seed by seed. The cache may
serve its seeds, so that none is trained twice; a folder may hold its runs with their models.
Against printed figures, pairs of runs that differ in one cause show where a difference comes from.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from fedfb.algorithms import find_method
from fedfb.data import Federation
from fedfb.experiments.cache import Store, load_rows, result_of
from fedfb.experiments.codec import SCHEMA
from fedfb.experiments.effect import share_settings
from fedfb.experiments.outcome import OnRound, load_federations, train
from fedfb.experiments.resolve import resolve
from fedfb.experiments.result import Comparison, Difference, Result
from fedfb.experiments.run_folder import COMPARISON, LEDGER, claim, claim_empty, save
from fedfb.experiments.seeds import accuracy_difference, disparity_difference
from fedfb.experiments.shortfalls import first_sentences
from fedfb.experiments.spec import Experiment
from fedfb.experiments.train import check_runnable
from fedfb.files import write_json
from fedfb.runtime import Progress


def compare(
    experiment: Experiment,
    algorithms: Sequence[str],
    *,
    on_round: Callable[[Progress], None] = lambda progress: None,
) -> Comparison:
    """Run the same experiment with each of several methods.

    Args:
        experiment: data, notion and settings that all methods share; its own method is ignored.
        algorithms: names of the methods, in the order of the results.
        on_round: is called after every round.
    """
    experiments = for_methods(experiment, algorithms)
    rows = load_federations(experiments[0])
    check_on_rows(experiments, rows[experiment.seeds[0]])
    results = [
        train(request, on_round=on_round, federations=rows).result for request in experiments
    ]
    shortfalls = [shortfall for result in results for shortfall in result.shortfalls]
    if shortfalls:
        from fedfb.experiments.shortfall_warnings import warn_of  # here: it needs scikit-learn

        warn_of(shortfalls, stacklevel=2)
    return make_comparison(results)


def make_comparison(results: Sequence[Result]) -> Comparison:
    """Return results side by side, with the differences of every two methods."""
    return Comparison(
        schema=SCHEMA,
        notes=tuple(first_sentences(results)),
        results=tuple(results),
        differences=tuple(differences(results)),
    )


def for_methods(experiment: Experiment, algorithms: Sequence[str]) -> list[Experiment]:
    """Return one experiment for each method, with the settings that the method reads.

    A method that cannot be run is refused before any method is trained.

    Args:
        experiment: settings for all methods together.
        algorithms: names of the methods.
    """
    experiments = share_settings(experiment, algorithms)
    for request in experiments:
        check_runnable(resolve(request))
    return experiments


def check_on_rows(experiments: Sequence[Experiment], rows: Federation) -> None:
    """Refuse methods that cannot compare as many groups as the rows have."""
    for experiment in experiments:
        check_runnable(resolve(experiment), len(rows.group_names))


def differences(results: Sequence[Result]) -> list[Difference]:
    """Return, for every two methods, the mean difference over seeds with its 95% interval.

    Methods share rows and initial models seed by seed, so differences are paired: what a seed does
    to both cancels. Results of several settings have no one result per seed and are left out. What
    the intervals cover is said by ``fedfb.experiments.seeds.coverage``.
    """
    comparable = [result for result in results if result.summary is not None]
    return [_difference(*pair) for pair in combinations(comparable, 2)]


def _difference(result: Result, other: Result) -> Difference:
    notion, shared = result.notion, result.shared_test_rows
    runs = result.runs, other.runs
    return Difference(
        of=result.algorithm,
        less=other.algorithm,
        accuracy=accuracy_difference(*runs, shared),
        disparity={notion: disparity_difference(*runs, notion, shared)},
    )


def results_of(
    experiment: Experiment,
    algorithms: Sequence[str],
    store: Store | None,
    on_round: OnRound = lambda progress: None,
) -> list[Result]:
    """Return the result of every method, training what the store does not have.

    Args:
        experiment: settings for all methods together.
        algorithms: names of the methods.
        store: where seeds are read and written; None trains every seed.
        on_round: is called after every round.
    """
    experiments = for_methods(experiment, algorithms)
    rows = load_rows(experiments[0])
    check_on_rows(experiments, rows.federations[experiment.seeds[0]])
    return [result_of(request, store, rows, on_round=on_round) for request in experiments]


def compare_into(
    folder: Path,
    experiment: Experiment,
    algorithms: Sequence[str],
    on_round: OnRound = lambda progress: None,
) -> list[Result]:
    """Train every method, save each run in a folder named after the method, and return the results.

    Args:
        folder: a new or empty folder; each method gets a folder inside.
        experiment: settings for all methods together.
        algorithms: names of the methods.
        on_round: is called after every round.
    """
    results = []
    experiments = for_methods(experiment, algorithms)
    # Only these need the number of groups; rows are read again by each run.
    if experiment.bits or any(find_method(name).most_groups for name in algorithms):
        check_on_rows(experiments, load_federations(experiments[0])[experiment.seeds[0]])
    with claim_empty(folder):
        for request in experiments:
            run_folder = folder / request.algorithm
            with claim(run_folder, request) as checkpoints:
                outcome = train(
                    request, checkpoints=checkpoints, ledger=run_folder / LEDGER, on_round=on_round
                )
                save(outcome, run_folder)
            results.append(outcome.result)
        write_json(folder / COMPARISON, {"algorithms": list(algorithms)})
    return results


_Figures = Mapping[str, Any]
"""Accuracy and disparity, each with mean and standard deviation over seeds."""

NOISE = 2.0
"""A difference counts from this many standard errors of the two means on."""

SMALLEST = 0.005
"""Differences below this are not worth a word."""

AXES = ("accuracy", "disparity")

_DIGITS = 3
"""The paper prints so many digits after the point."""


class Cause(NamedTuple):
    """A cause by name, and the rows of a table whose runs differ by it alone.

    ``columns`` are those where it is one; none are all of them.
    """

    name: str
    before: str
    after: str
    columns: tuple[str, ...] = ()


class _Step(NamedTuple):
    """The effect of a cause: the figures before it was switched, and after."""

    cause: str
    before: _Figures
    after: _Figures


class Explanation(NamedTuple):
    """Why ours is not the printed figure: steps that lead from there to here, and what is left.

    ``left`` is what no step covers: how far the first begins from the printed figure, every other
    from the end of the one before it, and ours from the end of the last, on the axis where that is
    most. ``apart`` is how far ours and the printed figure are.
    """

    steps: tuple[_Step, ...]
    apart: float
    left: float

    @property
    def verdict(self) -> str:
        """Say in a word whether the steps explain the difference.

        >>> Explanation((), 0.05, 0.05).verdict
        'unexplained'
        """
        if self.left <= max(SMALLEST, 0.2 * self.apart):
            return "explained"
        return "explained in part" if self.left <= 0.6 * self.apart else "unexplained"


def better(ours: _Figures, paper: _Figures) -> bool:
    """Return True if ours is at least as good on both axes and better on one, as printed.

    Both are compared at the paper's digits: what was rounded away there is not ours to win by.

    >>> paper = {"accuracy": {"mean": 0.8}, "disparity": {"mean": 0.2}}
    >>> better({"accuracy": {"mean": 0.8}, "disparity": {"mean": 0.1}}, paper)
    True
    >>> better({"accuracy": {"mean": 0.8004}, "disparity": {"mean": 0.1996}}, paper)
    False
    """
    (accuracy, disparity), (printed_accuracy, printed_disparity) = (
        [round(figures[axis]["mean"], _DIGITS) for axis in AXES] for figures in (ours, paper)
    )
    worse = accuracy < printed_accuracy or disparity > printed_disparity
    return not worse and (accuracy, disparity) != (printed_accuracy, printed_disparity)


def differs(ours: _Figures, paper: _Figures, seeds: int = 5) -> bool:
    """Return True if two means are further apart than their noise, on either axis.

    Args:
        ours: our figures, with mean and standard deviation by axis.
        paper: the printed figures.
        seeds: number of seeds behind each mean.
    """
    for axis in AXES:
        spreads = [figures[axis]["std"] or 0.0 for figures in (ours, paper)]
        error = (sum(std**2 for std in spreads) / seeds) ** 0.5
        if _apart(ours, paper, axis) > max(NOISE * error, SMALLEST):
            return True
    return False


def explain_difference(
    ours: _Figures, paper: _Figures, figures: Mapping[str, _Figures], causes: Sequence[Cause]
) -> Explanation:
    """Return the steps from the printed figure to ours, one for each cause whose runs exist.

    Args:
        ours: our figures.
        paper: the printed figures.
        figures: figures of the runs that exist, by the name of their row.
        causes: causes in the order of the steps.
    """
    steps = tuple(
        _Step(cause.name, figures[cause.before], figures[cause.after])
        for cause in causes
        if cause.before in figures and cause.after in figures
    )
    apart = max(_apart(ours, paper, axis) for axis in AXES)
    ends = [paper, *(step.after for step in steps)]
    begins = [*(step.before for step in steps), ours]
    # A chain: printed figure, first step, ..., last step, ours. Gaps lie between its links.
    gaps = list(zip(ends, begins, strict=True))
    left = max(sum(_apart(end, begin, axis) for end, begin in gaps) for axis in AXES)
    return Explanation(steps, apart, left)


def _apart(figures: _Figures, others: _Figures, axis: str) -> float:
    return float(abs(figures[axis]["mean"] - others[axis]["mean"]))
