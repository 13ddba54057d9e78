"""Several methods on the same seeds: what each reaches, and how they differ seed by seed."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations

from fedfb.algorithms import find_method
from fedfb.experiments.evaluation import Record
from fedfb.experiments.fit import check_secure
from fedfb.experiments.outcome import Outcome, run
from fedfb.experiments.seeds import accuracy_difference, disparity_difference, shared_rows_of
from fedfb.experiments.spec import Experiment
from fedfb.runtime import Progress


def compare(
    experiment: Experiment,
    algorithms: Sequence[str],
    *,
    on_round: Callable[[Progress], None] = lambda progress: None,
) -> list[Outcome]:
    """Run the same experiment with each of several methods."""
    return [run(one, on_round=on_round) for one in for_methods(experiment, algorithms)]


def for_methods(experiment: Experiment, algorithms: Sequence[str]) -> list[Experiment]:
    """Return the experiment with each of several methods; one that must be refused is, at once."""
    experiments = [for_method(experiment, name, algorithms) for name in algorithms]
    for one in experiments:
        check_secure(one)
    return experiments


def for_method(experiment: Experiment, name: str, algorithms: Sequence[str]) -> Experiment:
    """Return the experiment with one of several methods, which gets those knobs that it has.

    A knob that none of them has is left in, and refused where the method is resolved.
    """
    has = {other: set(find_method(other).knobs) for other in algorithms}
    known = set().union(*has.values()) - has[name]
    knobs = tuple(k for k in experiment.knobs if k.partition("=")[0] not in known)
    return replace(experiment, algorithm=name, knobs=knobs)


def differences(reports: Sequence[Record]) -> list[Record]:
    """Return, for every two methods, the mean difference over seeds with its 95% interval.

    Methods share rows and initial models seed by seed, so differences are paired: what a seed does
    to both cancels. Reports on several settings have no one result per seed and are left out. What
    the intervals cover is said by :func:`fedfb.experiments.seeds.coverage`.
    """
    comparable = [report for report in reports if report["summary"] is not None]
    return [_difference(one, other) for one, other in combinations(comparable, 2)]


def _difference(one: Record, other: Record) -> Record:
    notion, shared = one["notion"], shared_rows_of(one)
    runs = one["runs"], other["runs"]
    return {
        "of": one["algorithm"],
        "less": other["algorithm"],
        "accuracy": accuracy_difference(*runs, shared),
        "disparity": {notion: disparity_difference(*runs, notion, shared)},
    }
