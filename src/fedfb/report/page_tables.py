"""The tables of the page: results, groups, clients, exchanges, settings."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fedfb.errors import FedFBError
from fedfb.experiments.explain import Explained
from fedfb.experiments.resolve import resolve
from fedfb.experiments.result import (
    ClientRates,
    Difference,
    Estimate,
    Frontier,
    GroupRates,
    Point,
    Result,
    SeedResult,
)
from fedfb.experiments.seeds import rate_interval
from fedfb.experiments.spec import Experiment
from fedfb.report.figures import algorithms_of, knob_in_words, setting_in_words, shown_name
from fedfb.report.frontier import FRONTIER_LEVELS, best_within, pareto_points, point_figures
from fedfb.report.html import Table
from fedfb.report.ledger import LEDGER_COLUMNS, exchange_cells, kind_rows, needs
from fedfb.report.numbers import figures, mean, number
from fedfb.report.text import (
    NAMES,
    SUMMARY,
    coverage_of,
    ends_in_words,
    result_rows,
    summary_rows,
    with_interval,
)
from fedfb.runtime.ledger import Account

_MOST_CLIENTS = 200
"""Of more clients a page shows quantiles."""


def result_table(result: Result) -> Table:
    """Return accuracy and all disparities of one setting, with what the test rows can say."""
    aim = NAMES[result.notion]
    rows = [
        (f"{label} (the aim)" if label == aim else label, *cells)
        for (label, *cells), _ in result_rows(result)
    ]
    columns = ("", "mean ± spread", "95% interval")
    return Table("Results on test rows", columns, tuple(rows), coverage_of(result))


def settings_table(result: Result) -> Table:
    """Return accuracy and disparity of every setting of a grid."""
    rows = [
        (setting_in_words(summary.settings), *figures(summary, result.notion))
        for summary in result.summaries
    ]
    return Table("Settings, mean ± spread", ("", "accuracy", "disparity"), tuple(rows))


def comparison_table(results: Sequence[Result]) -> Table:
    """Return methods side by side."""
    rows = []
    for result in results:
        several = len(result.summaries) > 1
        for summary in result.summaries:
            name = shown_name(result.algorithm)
            label = f"{name}, {setting_in_words(summary.settings)}" if several else name
            interval = ends_in_words(summary.disparity[result.notion].interval)
            rows.append((label, *figures(summary, result.notion), interval))
    columns = ("", "accuracy", "disparity", "95% interval")
    covered = coverage_of(results[0])
    return Table("Test rows, mean ± spread over seeds", columns, tuple(rows), covered)


def difference_table(differences: Sequence[Difference], notion: str, covered: str) -> Table:
    """Return paired differences of methods.

    Args:
        differences: of each pair of methods.
        notion: long name of the notion.
        covered: a sentence that says what the intervals cover.
    """
    rows = [
        (
            f"{shown_name(difference.of)} less {shown_name(difference.less)}",
            with_interval(difference.accuracy),
            with_interval(difference.disparity[notion]),
        )
        for difference in differences
    ]
    return Table(
        "Paired differences", ("", "accuracy", "disparity"), tuple(rows),
        f"Methods share rows and initial models seed by seed. {covered}",
    )  # fmt: skip


def group_table(result: Result, runs: Sequence[SeedResult], setting: str = "") -> Table:
    """Return every group's rates with their intervals, each for its rate alone.

    Args:
        result: the result that the runs belong to.
        runs: one for each seed of one setting.
        setting: the setting in words, for the caption; empty where there is one only.
    """
    rows, shared = [], result.shared_test_rows
    for groups in zip(*(run.groups for run in runs), strict=True):
        everyone = [group.n for group in groups]
        positives = [group.positives for group in groups]
        negatives = [group.n - group.positives for group in groups]
        cells = (
            _rate([group.positive_rate for group in groups], everyone, shared),
            _rate([group.tpr for group in groups], positives, shared),
            _rate([group.fpr for group in groups], negatives, shared),
            _rate([group.accuracy for group in groups], everyone, shared),
        )
        rows.append((groups[0].name, _count(groups), *cells))
    columns = ("group", "test rows", "positive decisions", "TPR", "FPR", "accuracy")
    return Table(_captioned("Groups", setting), columns, tuple(rows), coverage_of(result))


def client_table(result: Result, runs: Sequence[SeedResult], setting: str = "") -> Table:
    """Return every client's accuracy, loss and disparity among its rows.

    Args:
        result: the result that the runs belong to.
        runs: one for each seed of one setting.
        setting: as in :func:`group_table`.
    """
    notion, shared = result.notion, result.shared_test_rows
    own_disparity = notion in runs[0].local_disparity
    last = ("disparity of its own rows",) if own_disparity else ()
    columns = ("test rows", "accuracy", "loss", *last)
    if (many := len(runs[0].clients)) > _MOST_CLIENTS:
        some = summary_rows(runs, notion if own_disparity else None)
        caption = _captioned(f"{many:,} clients", setting)
        return Table(caption, (f"of {many:,}", *columns), tuple(some), SUMMARY)
    rows = []
    for clients in zip(*(run.clients for run in runs), strict=True):
        everyone = [client.n for client in clients]
        cells = [
            _rate([client.accuracy for client in clients], everyone, shared),
            number(mean([client.loss for client in clients])),
        ]
        if own_disparity:
            cells.append(number(mean([client.disparity[notion] for client in clients])))
        rows.append((clients[0].name, _count(clients), *cells))
    caption, covered = _captioned("Clients", setting), coverage_of(result)
    return Table(caption, ("client", *columns), tuple(rows), covered)


def _captioned(what: str, setting: str) -> str:
    return f"{what}, {setting}" if setting else what


def _rate(rates: Sequence[float | None], rows: Sequence[int], shared: float) -> str:
    """Write the mean of a rate with its interval; ``rows`` are those that the rate is of."""
    interval = rate_interval(rates, rows, shared)
    return with_interval(Estimate(mean=mean(rates), interval=interval))


def _count(parts: Sequence[GroupRates | ClientRates]) -> str:
    return f"{round(mean([float(part.n) for part in parts]) or 0):,}"


def level_table(frontier: Frontier) -> Table:
    """Return what each approach reaches within several bounds on the disparity."""
    rows = []
    for algorithm in algorithms_of(frontier):
        best = [
            best_within(frontier, algorithm, level) for level in (*FRONTIER_LEVELS, float("inf"))
        ]
        first = next(point for point in frontier.points if point.algorithm == algorithm)
        mark = " (limit)" if first.limit else " (pooled)" if first.pooled else ""
        cells = [number(point.accuracy.mean) if point else "-" for point in best]
        rows.append((shown_name(algorithm) + mark, *cells))
    columns = ("", *(f"≤ {number(level, 2)}" for level in FRONTIER_LEVELS), "any")
    note = "A dash: no setting that was tried is so fair. Pooled: all rows in one place."
    return Table("Accuracy at a disparity of at most ...", columns, tuple(rows), note)


def point_table(caption: str, points: Sequence[Point], covered: str) -> Table:
    """Return points with their settings and intervals.

    Args:
        caption: of the table.
        points: one row each.
        covered: a sentence that says what the intervals cover.
    """
    rows = [
        (
            shown_name(point.algorithm),
            knob_in_words(point),
            *point_figures(point),
        )
        for point in points
    ]
    return Table(caption, ("", "setting", "accuracy", "disparity"), tuple(rows), covered)


def pareto_group_table(frontier: Frontier) -> Table:
    """Return the rates of positive decisions by group, along the Pareto set."""
    rows = []
    for point in pareto_points(frontier):
        name = ", ".join(filter(None, (shown_name(point.algorithm), knob_in_words(point))))
        rates = [number(group.positive_rate) for group in point.groups]
        rows.append((name, number(point.disparity.mean), *rates))
    columns = ("", "disparity", *frontier.groups)
    return Table("Rate of positive decisions, by group", columns, tuple(rows), "Means over seeds.")


def exchange_table(name: str, explained: Explained) -> Table:
    """Return what one method exchanges, one row for each task."""
    rows = tuple(exchange_cells(exchange) for exchange in explained.exchanges)
    return Table(f"{name}: a model of {explained.parameters} parameters", LEDGER_COLUMNS, rows)


def method_table(explained: Mapping[str, Explained]) -> Table:
    """Return what methods exchange, side by side."""
    rows = [
        (
            shown_name(name),
            str(of_method.exchanges_a_round),
            str(of_method.beyond_the_model),
            needs(of_method),
        )
        for name, of_method in explained.items()
    ]
    columns = ("", "exchanges a round", "numbers beside models and weights", "server needs")
    return Table("What methods exchange", columns, tuple(rows))


def ledger_table(accounts: Sequence[Account]) -> Table:
    """Return what left the clients, as the run's ledger has it."""
    columns = ("when", "question", "each client sends", "messages", "bytes", "server received")
    return Table("What left the clients in this run", columns, tuple(kind_rows(accounts, "up")))


def given_table(settings: Mapping[str, Any]) -> Table:
    """Return the main settings, and others that are not as the method usually has them."""
    main = ("data", "algorithm", "notion", "model", "sensitive_at_prediction", "seeds")
    main_settings = {name: settings[name] for name in main[:-1] if name in settings}
    try:
        # What the method fills in counts as usual; a method that is unknown here has the defaults.
        usual = asdict(resolve(Experiment(**main_settings)))
    except FedFBError:
        usual = asdict(Experiment())
    rows = [
        (name, _as_text(value))
        for name, value in settings.items()
        if name in main or _plain(usual.get(name)) != value
    ]
    return Table("Settings", ("setting", "value"), tuple(rows), "The others are as usual.")


def all_settings_table(settings: Mapping[str, Any]) -> Table:
    """Return every setting."""
    rows = tuple((name, _as_text(value)) for name, value in settings.items())
    return Table("All settings", ("setting", "value"), rows)


def versions_table(versions: Mapping[str, str]) -> Table:
    """Return what the result depends on beside its settings."""
    rows = tuple((name, str(value)) for name, value in versions.items())
    return Table("Versions", ("", "version"), rows)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _as_text(value: Any) -> str:
    if value is None or value == []:
        return "-"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
