"""The tables of runs and comparisons; for a terminal they are narrow.

A narrow table fits into 80 columns: no interval stands beside each rate, and methods and clients
have the names that settings give them. Rows with all digits are for other programs: CSV and frames.
"""

from collections.abc import Mapping, Sequence

from fedfb.core import MINIMUM_ROWS
from fedfb.experiments.result import Comparison, Difference, Printed, Result, Summary
from fedfb.experiments.seed_result import (
    ClientRates,
    Estimate,
    GroupRates,
    Interval,
    SeedResult,
    Statistic,
)
from fedfb.experiments.seeds import rate_interval
from fedfb.report.numbers import (
    NAMES,
    coverage_of,
    ends_in_words,
    figures,
    mean,
    number,
    setting_in_words,
    shown_name,
    spread,
    with_interval,
)
from fedfb.report.table import (
    MOST_CLIENTS,
    ManyValues,
    Row,
    Table,
    note_on_many,
    summarise_many,
    write_count,
)

MOST_PAIRED = 3
"""Of more methods than these and one, a narrow table has only the differences from the first."""


CHANCE_NOTE = "Chance: the mean disparity of as many decisions that do not depend on the group."


def result_table(result: Result, narrow: bool = False) -> Table:
    """Return accuracy and all disparities of one setting, with what the test rows can say.

    Args:
        result: of one setting.
        narrow: for a terminal; a column of remarks names the aim.
    """
    runs, summary = result.runs, result.summary or result.summaries[0]
    accuracy = (spread(summary.accuracy), ends_in_words(summary.accuracy.interval))
    constant = number(mean([run.majority_accuracy for run in runs]))
    rows = [
        ("accuracy", *accuracy, "", ""),
        ("accuracy of a constant", constant, "", "", ""),
        ("balanced accuracy", number(mean([run.balanced_accuracy for run in runs])), *[""] * 3),
        ("area under ROC", number(mean([run.auc for run in runs])), *[""] * 3),
    ]
    for name, statistic in summary.disparity.items():
        remark = "<- the aim" if name == result.notion else ""
        ends = ends_in_words(statistic.interval)
        by_chance = [chance.mean for run in runs if (chance := run.chance.get(name))]
        beside = number(mean(by_chance)) if by_chance else ""
        rows.append((NAMES[name], spread(statistic), ends, beside, remark))
    columns = ("", "mean ± spread", "95% interval", "chance")
    note = f"{coverage_of(result)} {CHANCE_NOTE}"
    if narrow:
        return Table("Test rows", (*columns, ""), tuple(rows), note)
    aim = NAMES[result.notion]
    marked = tuple(
        (f"{label} (the aim)" if label == aim else label, *cells) for label, *cells, _ in rows
    )
    return Table("Results on test rows", columns, marked, note)


def settings_table(result: Result, narrow: bool = False) -> Table:
    """Return accuracy and disparity of every setting of a grid.

    Args:
        result: of several settings.
        narrow: for a terminal, where each knob has a column.
    """
    knobs = list(result.summaries[0].settings)
    rows = tuple(
        (
            *(
                [f"{summary.settings[knob]:g}" for knob in knobs]
                if narrow
                else [setting_in_words(summary.settings)]
            ),
            *figures(summary, result.notion),
        )
        for summary in result.summaries
    )
    if narrow:
        return Table("Settings", (*knobs, "accuracy", NAMES[result.notion]), rows)
    return Table("Settings, mean ± spread", ("", "accuracy", "disparity"), rows)


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


def printed_table(results: Sequence[Result], paper: Mapping[str, Printed | None]) -> Table:
    """Return methods side by side for a terminal, beside the paper's figures where it has any.

    Args:
        results: one for each method.
        paper: printed figures by method; None or absent where the paper has none.
    """
    rows: list[tuple[str, ...]] = []
    for result in results:
        published = paper.get(result.algorithm)
        beside: tuple[str, ...] = _paper_cells(published) if any(paper.values()) else ()
        for summary in result.summaries:
            rows.append((_named(result, summary), *figures(summary, result.notion), *beside))
            beside = ("",) * len(beside)  # one figure a method, whatever the size of the grid
    extra = ("paper: accuracy", "disparity") if any(paper.values()) else ()
    columns = ("", "accuracy", "disparity", *extra)
    return Table("Test rows, mean ± spread", columns, tuple(rows))


def _named(result: Result, summary: Summary) -> str:
    if len(result.summaries) == 1:
        return result.algorithm
    knobs = " ".join(f"{knob} {value:g}" for knob, value in summary.settings.items())
    return f"{result.algorithm} ({knobs})"


def _paper_cells(row: Printed | None) -> tuple[str, str]:
    return (spread(row.accuracy), spread(row.disparity)) if row else ("-", "-")


def difference_table(
    differences: Sequence[Difference], notion: str, covered: str, narrow: bool = False
) -> Table:
    """Return paired differences of methods.

    Args:
        differences: of each pair of methods.
        notion: long name of the notion.
        covered: a sentence that says what the intervals cover.
        narrow: for a terminal; of many methods only the differences from the first.
    """
    first = differences[0].of
    many = narrow and len({row.of for row in differences}) > MOST_PAIRED
    rows = tuple(
        (
            f"{row.of} - {row.less}"
            if narrow
            else f"{shown_name(row.of)} less {shown_name(row.less)}",
            with_interval(row.accuracy),
            with_interval(row.disparity[notion]),
        )
        for row in differences
        if not many or row.of == first
    )
    columns = ("", "accuracy", "disparity")
    if narrow:
        return Table("Paired differences, with 95% intervals", columns, rows, covered)
    note = f"Methods share rows and initial models seed by seed. {covered}"
    return Table("Paired differences", columns, rows, note)


def group_table(
    result: Result, runs: Sequence[SeedResult], setting: str = "", narrow: bool = False
) -> Table:
    """Return every group's rates with their intervals, each for its rate alone.

    Args:
        result: the result that the runs belong to.
        runs: one for each seed of one setting.
        setting: the setting in words, for the caption; empty where there is one only.
        narrow: for a terminal, without intervals.
    """
    rows, shared = [], result.shared_test_rows
    for groups in zip(*(run.groups for run in runs), strict=True):
        everyone = [group.n for group in groups]
        positives = [group.positives for group in groups]
        negatives = [group.n - group.positives for group in groups]
        rates = (
            ([group.positive_rate for group in groups], everyone),
            ([group.tpr for group in groups], positives),
            ([group.fpr for group in groups], negatives),
            ([group.accuracy for group in groups], everyone),
        )
        cells = [number(mean(rate)) if narrow else _rate(rate, of, shared) for rate, of in rates]
        rows.append((groups[0].name, _count(groups, narrow), *cells))
    if narrow:
        columns = ("", "test rows", "positive", "TPR", "FPR", "accuracy")
        return Table("Groups", columns, tuple(rows))
    columns = ("group", "test rows", "positive decisions", "TPR", "FPR", "accuracy")
    return Table(_captioned("Groups", setting), columns, tuple(rows), coverage_of(result))


def client_table(
    result: Result, runs: Sequence[SeedResult], setting: str = "", narrow: bool = False
) -> Table:
    """Return every client's accuracy, loss and disparity among its rows.

    Args:
        result: the result that the runs belong to.
        runs: one for each seed of one setting.
        setting: as in :func:`group_table`.
        narrow: for a terminal, without intervals.
    """
    notion, shared = result.notion, result.shared_test_rows
    own_disparity = notion in runs[0].local_disparity
    disparity = "own disparity" if narrow else "disparity of its own rows"
    columns = ("test rows", "accuracy", "loss", *((disparity,) if own_disparity else ()))
    if len(runs[0].clients) > MOST_CLIENTS:
        caption = "Clients" if narrow else _captioned("Clients", setting)
        aimed = notion if own_disparity else None
        return _summarise_clients(runs, ("client", *columns), caption, aimed)
    rows = []
    for clients in zip(*(run.clients for run in runs), strict=True):
        accuracy, everyone = [part.accuracy for part in clients], [part.n for part in clients]
        cells = [
            number(mean(accuracy)) if narrow else _rate(accuracy, everyone, shared),
            number(mean([client.loss for client in clients])),
        ]
        if own_disparity:
            cells.append(number(mean([client.disparity[notion] for client in clients])))
        rows.append((clients[0].name, _count(clients, narrow), *cells))
    if narrow:
        return Table("Clients", ("", *columns), tuple(rows))
    caption, covered = _captioned("Clients", setting), coverage_of(result)
    return Table(caption, ("client", *columns), tuple(rows), covered)


def _captioned(what: str, setting: str) -> str:
    return f"{what}, {setting}" if setting else what


def _rate(rates: Sequence[float | None], rows: Sequence[int], shared: float) -> str:
    """Write the mean of a rate with its interval; ``rows`` are those that the rate is of."""
    interval = rate_interval(rates, rows, shared)
    return with_interval(Estimate(mean=mean(rates), interval=interval))


def _count(parts: Sequence[GroupRates | ClientRates], narrow: bool) -> str:
    """Write the rows of a group or client; their mean where seeds draw their own."""
    rows = round(mean([float(part.n) for part in parts]) or 0)
    return str(rows) if narrow else f"{rows:,}"


def _summarise_clients(
    runs: Sequence[SeedResult], columns: tuple[str, ...], caption: str, notion: str | None
) -> Table:
    """Return worst, quantiles and best of many clients, by their mean losses over seeds.

    Clients with too few test rows for a rate are in the quantiles, and not among worst and best.

    Args:
        runs: one for each seed of one setting.
        columns: headings.
        caption: above the table.
        notion: adds a column: the disparity among each client's rows. None adds none.
    """
    parts = [*zip(*(run.clients for run in runs), strict=True)]
    loss = [mean([client.loss for client in part]) for part in parts]
    rows = [mean([float(client.n) for client in part]) for part in parts]
    values = [
        ManyValues(rows, write_count),
        ManyValues([mean([client.accuracy for client in part]) for part in parts], number),
        ManyValues(loss, number),
    ]
    if notion is not None:
        own = [mean([client.disparity[notion] for client in part]) for part in parts]
        values.append(ManyValues(own, number))
    badness = [one if (n or 0) >= MINIMUM_ROWS else None for one, n in zip(loss, rows, strict=True)]
    some = summarise_many([part[0].name for part in parts], values, badness)
    measure = f"loss, of those with {MINIMUM_ROWS} test rows"
    return Table(caption, columns, some, note_on_many(len(parts), measure))


def run_rows(result: Result) -> list[Row]:
    """Return one row for each seed and setting; the interval is that of the disparity aimed at."""
    return [
        {
            "algorithm": result.algorithm,
            "seed": run.seed,
            **run.settings,
            "accuracy": run.accuracy,
            "balanced_accuracy": run.balanced_accuracy,
            "auc": run.auc,
            "loss": run.loss,
            **run.disparity,
            **_ends("disparity", run.interval[result.notion]),
        }
        for run in result.runs
    ]


def rows_by_group(result: Result) -> list[Row]:
    """Return one row for each seed, setting and group."""
    return [
        {
            "algorithm": result.algorithm,
            "seed": run.seed,
            **run.settings,
            "group": group.name,
            "rows": group.n,
            "positives": group.positives,
            "positive_rate": group.positive_rate,
            "tpr": group.tpr,
            "fpr": group.fpr,
            "accuracy": group.accuracy,
        }
        for run in result.runs
        for group in run.groups
    ]


def comparison_rows(comparison: Comparison) -> list[Row]:
    """Return one row for each method and setting: means over seeds with spreads and intervals."""
    return [
        {
            "algorithm": result.algorithm,
            **summary.settings,
            **_statistic("accuracy", summary.accuracy),
            **_statistic("disparity", summary.disparity[result.notion]),
        }
        for result in comparison.results
        for summary in result.summaries
    ]


def _statistic(name: str, statistic: Statistic) -> Row:
    ends = _ends(name, statistic.interval)
    return {name: statistic.mean, f"{name}_std": statistic.std, **ends}


def _ends(name: str, interval: Interval | None) -> Row:
    low, high = interval or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}


def table_of_run(result: Result) -> Table:
    """Return the figures of one setting, or the settings of a grid side by side."""
    return settings_table(result) if result.summary is None else result_table(result)


def table_of_comparison(comparison: Comparison) -> Table:
    """Return methods side by side."""
    return comparison_table(comparison.results)
