"""Several methods on the same seeds: what each reaches, and how they differ seed by seed."""

from collections.abc import Callable, Sequence
from itertools import combinations

from fedfb.data import Federation
from fedfb.experiments.effect import share_settings
from fedfb.experiments.evaluation import Record
from fedfb.experiments.fit import check_runnable
from fedfb.experiments.outcome import Outcome, load_federations, run
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
    experiments = for_methods(experiment, algorithms)
    rows = load_federations(experiments[0])
    check_on_rows(experiments, rows[experiment.seeds[0]])
    outcomes = [run(one, on_round=on_round, federations=rows, warn=False) for one in experiments]
    found = [one for outcome in outcomes for one in outcome.report["shortfalls"]]
    if found:
        from fedfb.experiments.shortfall_warnings import warn_of  # here: it needs scikit-learn

        warn_of(found, stacklevel=2)
    return outcomes


def for_methods(experiment: Experiment, algorithms: Sequence[str]) -> list[Experiment]:
    """Return the experiment with each of several methods, with the settings that the method reads.

    One that cannot be run is refused at once, before any other is trained.
    """
    experiments = share_settings(experiment, algorithms)
    for one in experiments:
        check_runnable(one)
    return experiments


def check_on_rows(experiments: Sequence[Experiment], rows: Federation) -> None:
    """Refuse methods that cannot compare as many groups as the rows have."""
    for one in experiments:
        check_runnable(one, len(rows.group_names))


def differences(reports: Sequence[Record]) -> list[Record]:
    """Return, for every two methods, the mean difference over seeds with its 95% interval.

    Methods share rows and initial models seed by seed, so differences are paired: what a seed does
    to both cancels. Reports on several settings have no one result per seed and are left out. What
    the intervals cover is said by ``fedfb.experiments.seeds.coverage``.
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
