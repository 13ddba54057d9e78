"""Several methods on the same seeds: what each reaches, and how they differ seed by seed."""

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from fedfb.algorithms import find_method
from fedfb.data import Federation
from fedfb.experiments.effect import share_settings
from fedfb.experiments.evaluation import Record
from fedfb.experiments.fit import check_runnable, refuse_too_many
from fedfb.experiments.outcome import Outcome, load_federations, run
from fedfb.experiments.spec import Experiment
from fedfb.runtime import Progress

LEVEL = 0.95


def compare(
    experiment: Experiment,
    algorithms: Sequence[str],
    *,
    on_round: Callable[[Progress], None] = lambda progress: None,
) -> list[Outcome]:
    """Run the same experiment with each of several methods."""
    experiments = for_methods(experiment, algorithms)
    rows = load_federations(experiments[0])
    refuse_many_groups(algorithms, rows[experiment.seeds[0]])
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


def refuse_many_groups(algorithms: Sequence[str], rows: Federation) -> None:
    """Refuse methods that cannot compare as many groups as the rows have."""
    for name in algorithms:
        refuse_too_many(find_method(name), len(rows.group_names))


def differences(reports: Sequence[Record]) -> list[Record]:
    """Return, for every two methods, the mean difference over seeds with its 95% interval.

    Methods share rows and initial models seed by seed, so differences are paired: what a seed does
    to both cancels. Reports on several settings have no one result per seed and are left out.
    """
    comparable = [report for report in reports if report["summary"] is not None]
    return [_difference(one, other) for one, other in combinations(comparable, 2)]


def _difference(one: Record, other: Record) -> Record:
    notion = one["notion"]
    pairs = list(zip(one["runs"], other["runs"], strict=True))
    disparity = [(a["disparity"][notion], b["disparity"][notion]) for a, b in pairs]
    known = [a - b for a, b in disparity if a is not None and b is not None]
    return {
        "of": one["algorithm"],
        "less": other["algorithm"],
        "accuracy": paired_interval([a["accuracy"] - b["accuracy"] for a, b in pairs]),
        "disparity": {notion: paired_interval(known)},
    }


def paired_interval(values: Sequence[float]) -> Record:
    r"""Return the mean of paired differences and its interval :math:`\bar d\pm t_{n-1}\,s/\sqrt n`.

    >>> paired_interval([0.1, 0.3])["mean"], paired_interval([0.1])["interval"]
    (0.2, None)
    """
    if not values:
        return {"mean": None, "interval": None}
    mean = float(np.mean(values))
    if len(values) < 2:
        return {"mean": mean, "interval": None}
    from scipy.special import stdtrit  # only here: importing scipy takes a while

    quantile = float(stdtrit(len(values) - 1, 0.5 + LEVEL / 2))
    half = quantile * float(np.std(values, ddof=1)) / len(values) ** 0.5
    return {"mean": mean, "interval": [mean - half, mean + half]}
