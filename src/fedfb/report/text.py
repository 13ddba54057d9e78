"""Tables for a terminal of 80 columns.

Results go to stdout, messages to stderr. Many clients are summed up in a few rows, here and on
the page.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from fedfb.experiments.result import (
    ClientRates,
    Comparison,
    Difference,
    Estimate,
    Frontier,
    GroupRates,
    Interval,
    Picked,
    Printed,
    Result,
    SeedResult,
    Summary,
    Tuning,
)
from fedfb.experiments.seeds import coverage
from fedfb.experiments.shortfalls import first_sentences, other_notes
from fedfb.report.numbers import figures, mean, number, spread
from fedfb.report.sentences import coarse_codes, findings
from fedfb.shapes import Array, Float

QUANTILES = {"least": 0.0, "lower quarter": 0.25, "median": 0.5, "upper quarter": 0.75,
             "largest": 1.0}  # fmt: skip
SUMMARY = "Each column is sorted alone. The run's JSON has every client."


def summary_rows(runs: Sequence[SeedResult], notion: str | None) -> list[tuple[str, ...]]:
    """Return least, quarters and largest of the clients' means over seeds, column by column.

    Columns are test rows, accuracy and loss. A column leaves out clients where it is not
    estimable.

    Args:
        runs: one for each seed of one setting.
        notion: adds a column: the disparity among each client's rows. None adds none.
    """
    columns = [
        _means([[client.n for client in run.clients] for run in runs]),
        _means([[client.accuracy for client in run.clients] for run in runs]),
        _means([[client.loss for client in run.clients] for run in runs]),
    ]
    if notion is not None:
        disparities = [[client.disparity[notion] for client in run.clients] for run in runs]
        columns.append(_means(disparities))
    rows = []
    for name, share in QUANTILES.items():
        first, *others = (np.quantile(column, share) if len(column) else None for column in columns)
        rows.append((name, str(round(first or 0)), *(number(other) for other in others)))
    return rows


def _means(values: Sequence[Sequence[Any]]) -> Float[Array, " i"]:
    """Return every client's mean over the seeds that have a value; clients without are left out."""
    table = np.array(values, dtype=np.float64)  # None becomes NaN
    seeds = np.sum(~np.isnan(table), axis=0)
    means: Float[Array, " i"] = np.nansum(table, axis=0)[seeds > 0] / seeds[seeds > 0]
    return means


NAMES = {
    "demographic_parity": "demographic parity",
    "spd": "statistical parity difference",
    "equal_opportunity": "equal opportunity",
    "equalized_odds": "equalized odds",
    "client_parity": "client parity (loss)",
}


MOST_PAIRED = 3
"""Of more methods than these and one, only differences from the first are printed."""

_MOST_CLIENTS = 20
"""Of more clients the terminal shows quantiles."""


def make_console() -> Console:
    """Return the console on which tables are printed."""
    # A name such as "[0, 25)" is to be printed, not read as a style.
    return Console(highlight=False, markup=False, emoji=False)


def make_table(title: str, *columns: str, wrap: str = "") -> Table:
    """Return an empty table; the first column is text, the others are numbers.

    Args:
        title: above the table.
        *columns: headings.
        wrap: the heading of a column of text that may be wrapped.
    """
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for place, column in enumerate(columns):
        text = place == 0 or column == wrap
        table.add_column(
            column,
            justify="left" if text else "right",
            no_wrap=column != wrap if wrap else place > 0,
            overflow="fold",
        )
    return table


def heading(result: Result) -> str:
    """Say what was run, and whether the model is given the group."""
    seeds = result.seeds
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds"
    is_given = "yes" if result.group_is_given else "no"
    return (
        f"{result.data}, {result.model}, {NAMES[result.notion]}, {which}\n"
        f"group given to the model: {is_given}"
    )


def print_run(result: Result) -> None:
    """Print one method's results: disparities with intervals, groups, clients."""
    console = make_console()
    print_first(first_sentences([result]), console)
    console.print(result.algorithm, style="bold", end="")
    console.print(f" on {heading(result)}")
    for line in coarse_codes(result):
        console.print(line, style="bold")
    if result.tuning:
        console.print(_choice(result.tuning))
    if result.picked:
        console.print(_picked(result.picked))
    console.print()
    if result.summary is None:
        console.print(_settings_table(result))
    else:
        console.print(_result_table(result))
        console.print(coverage_of(result), style="dim")
        console.print(_group_table(result.runs))
        console.print(f"four-fifths ratio (least to largest rate): {_four_fifths(result.runs)}\n")
        if result.runs[0].clients:
            console.print(_client_table(result.runs, result.notion))
        for line in findings(result):
            console.print(line)
    if result.privacy:
        from fedfb.report.privacy import print_privacy

        print_privacy(result.privacy)
    for note in other_notes(result):
        console.print(f"note: {note}", style="dim")


def print_first(sentences: Sequence[str], console: Console) -> None:
    """Print the promises that a result does not keep, before anything else.

    Args:
        sentences: one for each shortfall.
        console: where to print.
    """
    for sentence in sentences:
        console.print(sentence, style="bold")
    if sentences:
        console.print()


def _choice(tuning: Tuning) -> str:
    chosen = ", ".join(f"{k} {v:g}" for k, v in tuning.chosen.items())
    floor = tuning.accuracy_floor
    least = "" if floor is None else f" (accuracy at least {number(floor)})"
    return f"chosen on validation rows{least}: {chosen}"


def _picked(picked: Sequence[Picked]) -> str:
    """Say what the seeds picked, and how many of them.

    >>> def choice(lr):
    ...     return Picked(seed=0, chosen={"lr": lr}, accuracy_floor=None, candidates=())
    >>> _picked([choice(0.001), choice(0.001), choice(0.01)])
    'picked on validation rows: lr 0.001 (2 seeds), 0.01 (1 seed)'
    """
    parts = []
    for knob in picked[0].chosen:
        values = Counter(choice.chosen[knob] for choice in picked)
        choices = [
            f"{value:g}" + (f" ({n} seed{'s' if n > 1 else ''})" if len(values) > 1 else "")
            for value, n in sorted(values.items())
        ]
        parts.append(f"{knob} {', '.join(choices)}")
    return f"picked on validation rows: {'; '.join(parts)}"


def _result_table(result: Result) -> Table:
    table = make_table("Test rows", "", "mean ± spread", "95% interval", "")
    for (label, value, interval), remark in result_rows(result):
        table.add_row(label, value, interval, remark)
    return table


def result_rows(result: Result) -> Iterator[tuple[tuple[str, str, str], str]]:
    """Yield the rows of the results of one setting: label, mean and interval; and a remark."""
    runs, summary = result.runs, result.summary or result.summaries[0]
    constant = number(mean([run.majority_accuracy for run in runs]))
    accuracy = ("accuracy", spread(summary.accuracy), ends_in_words(summary.accuracy.interval))
    yield accuracy, f"(constant: {constant})"
    balanced, area = [run.balanced_accuracy for run in runs], [run.auc for run in runs]
    yield ("balanced accuracy", number(mean(balanced)), ""), ""
    yield ("area under ROC", number(mean(area)), ""), ""
    for name, statistic in summary.disparity.items():
        aim = "<- the aim" if name == result.notion else ""
        yield (NAMES[name], spread(statistic), ends_in_words(statistic.interval)), aim


def ends_in_words(interval: Interval | None) -> str:
    """Write the ends of an interval.

    >>> ends_in_words((0.0, 0.2)), ends_in_words(None)
    ('.000 to .200', 'not estimable')
    """
    return "not estimable" if interval is None else " to ".join(map(number, interval))


def coverage_of(result: Result | Frontier) -> str:
    """Say what the intervals of a result or a frontier cover, and what not."""
    return coverage(len(result.seeds), result.shared_test_rows)


def _group_table(runs: Sequence[SeedResult]) -> Table:
    table = make_table("\nGroups", "", "test rows", "positive", "TPR", "FPR", "accuracy")
    for groups in zip(*(run.groups for run in runs), strict=True):
        rates = (
            mean([group.positive_rate for group in groups]),
            mean([group.tpr for group in groups]),
            mean([group.fpr for group in groups]),
            mean([group.accuracy for group in groups]),
        )
        table.add_row(groups[0].name, _rows(groups), *map(number, rates))
    return table


def _client_table(runs: Sequence[SeedResult], notion: str) -> Table:
    disparity_column = ("own disparity",) if notion in runs[0].local_disparity else ()
    several = len(runs[0].clients)
    many = several > _MOST_CLIENTS
    title = f"{several:,} clients, each column sorted alone" if many else "Clients"
    table = make_table(title, "", "test rows", "accuracy", "loss", *disparity_column)
    if many:
        for row in summary_rows(runs, notion if disparity_column else None):
            table.add_row(*row)
        return table
    for clients in zip(*(run.clients for run in runs), strict=True):
        means = [
            mean([client.accuracy for client in clients]),
            mean([client.loss for client in clients]),
        ]
        if disparity_column:
            means.append(mean([client.disparity[notion] for client in clients]))
        table.add_row(clients[0].name, _rows(clients), *map(number, means))
    return table


def _rows(parts: Iterable[GroupRates | ClientRates]) -> str:
    """Return the number of rows of a group or client; their mean where seeds draw their own."""
    return str(round(mean([float(part.n) for part in parts]) or 0))


def _four_fifths(runs: Sequence[SeedResult]) -> str:
    ratio = mean([run.four_fifths for run in runs])
    if ratio is None:
        return "not estimable"
    return f"{number(ratio)} ({'meets' if ratio >= 0.8 else 'below'} 0.8)"


def _settings_table(result: Result) -> Table:
    knobs = list(result.summaries[0].settings)
    table = make_table("Settings", *knobs, "accuracy", NAMES[result.notion])
    for summary in result.summaries:
        values = [f"{summary.settings[knob]:g}" for knob in knobs]
        table.add_row(*values, *figures(summary, result.notion))
    return table


def print_comparison(comparison: Comparison, paper: Mapping[str, Printed | None]) -> None:
    """Print methods side by side, beside the paper's figures, and their paired differences.

    Args:
        comparison: results of several methods.
        paper: printed figures by method; None or absent where the paper has none.
    """
    results = comparison.results
    console, notion = make_console(), results[0].notion
    print_first(comparison.notes, console)
    console.print(heading(results[0]) + "\n")
    for line in (line for result in results for line in coarse_codes(result)):
        console.print(line, style="bold")
    printed = any(paper.values())
    extra = ("paper: accuracy", "disparity") if printed else ()
    table = make_table("Test rows, mean ± spread", "", "accuracy", "disparity", *extra)
    for result in results:
        beside = _paper_cells(paper, result, printed)
        for summary in result.summaries:
            table.add_row(_named(result, summary), *figures(summary, notion), *beside)
            beside = ()  # one figure a method, whatever the size of the grid
    console.print(table)
    if comparison.differences:
        console.print(_difference_table(comparison.differences, notion))
        console.print(coverage_of(results[0]), style="dim")
    constant = number(mean([run.majority_accuracy for run in results[0].runs]))
    console.print(f"\nA constant classifier is {constant} accurate with disparity 0.", style="dim")
    if results[0].privacy:
        from fedfb.report.privacy import privacy_sentence as in_one_sentence
        from fedfb.report.privacy import sentences

        for result in results:
            if result.privacy:
                console.print(f"{result.algorithm}: {in_one_sentence(result.privacy)}")
        console.print("\n".join(sentences(results[0].privacy)), style="dim")
    for note in dict.fromkeys(note for result in results for note in other_notes(result)):
        console.print(f"note: {note}", style="dim")


def _named(result: Result, summary: Summary) -> str:
    if len(result.summaries) == 1:
        return result.algorithm
    knobs = " ".join(f"{knob} {value:g}" for knob, value in summary.settings.items())
    return f"{result.algorithm} ({knobs})"


def _paper_cells(
    paper: Mapping[str, Printed | None], result: Result, printed: bool
) -> tuple[str, ...]:
    row = paper.get(result.algorithm)
    if not printed:
        return ()
    return (spread(row.accuracy), spread(row.disparity)) if row else ("-", "-")


def _difference_table(differences: Sequence[Difference], notion: str) -> Table:
    table = make_table("\nPaired differences, with 95% intervals", "", "accuracy", "disparity")
    first = differences[0].of
    many = len({row.of for row in differences}) > MOST_PAIRED
    for row in differences:
        if many and row.of != first:
            continue
        cells = (with_interval(row.accuracy), with_interval(row.disparity[notion]))
        table.add_row(f"{row.of} - {row.less}", *cells)
    return table


def with_interval(estimate: Estimate) -> str:
    """Write a mean with its interval.

    >>> with_interval(Estimate(mean=0.75, interval=(0.7, 0.8)))
    '.750 [.700, .800]'
    """
    interval = estimate.interval
    ends = f" [{number(interval[0])}, {number(interval[1])}]" if interval else ""
    return number(estimate.mean) + ends


def print_catalogue(sections: Mapping[str, Mapping[str, str]]) -> None:
    """Print what there is to choose from."""
    console = make_console()
    for title, entries in sections.items():
        table = Table(title=title.capitalize(), title_justify="left", title_style="bold", box=None,
                      show_header=False, pad_edge=False)  # fmt: skip
        for name, meaning in entries.items():
            table.add_row(name, meaning)
        console.print(table)
        console.print()
