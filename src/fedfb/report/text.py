"""Tables that read well in a terminal of 80 columns.

Stdout is data: tables go there, talk does not.

What many clients came to, in a few rows: the table of a terminal and of a page.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from fedfb.experiments.seeds import coverage, shared_rows_of
from fedfb.experiments.shortfalls import first_sentences, other_notes
from fedfb.report.numbers import figures, mean, number, spread
from fedfb.report.sentences import coarse_codes, findings
from fedfb.shapes import Array, Float

Report = Mapping[str, Any]

QUANTILES = {"least": 0.0, "lower quarter": 0.25, "median": 0.5, "upper quarter": 0.75,
             "largest": 1.0}  # fmt: skip
SUMMARY = "Each column is sorted alone. The run's JSON has every client."


def summary_rows(runs: Sequence[Report], notion: str | None) -> list[tuple[str, ...]]:
    """Return least, quarters and largest of the clients' means over seeds, column by column.

    Columns are test rows, accuracy, loss, and with a notion the disparity of a client's own rows.
    A column leaves out clients of which it is not estimable.
    """
    columns = [
        _means([[one[key] for one in run["clients"]] for run in runs])
        for key in ("n", "accuracy", "loss")
    ]
    if notion is not None:
        own = [[one["disparity"][notion] for one in run["clients"]] for run in runs]
        columns.append(_means(own))
    rows = []
    for name, share in QUANTILES.items():
        first, *others = (np.quantile(one, share) if len(one) else None for one in columns)
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

MOST_CLIENTS = 20
"""Of more clients the terminal shows quantiles."""


def make_console() -> Console:
    """Return where tables are printed."""
    # A name such as "[0, 25)" is to be printed, not read as a style.
    return Console(highlight=False, markup=False, emoji=False)


def make_table(title: str, *columns: str, wrap: str = "") -> Table:
    """Return an empty table; the first column is text, the others numbers, one may be wrapped."""
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


def heading(report: Report) -> str:
    """Say what was run, and whether the model is given the group."""
    settings = report["settings"]
    seeds = settings["seeds"]
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds"
    given = "yes" if settings["sensitive_at_prediction"] else "no"
    return (
        f"{report['data']}, {report['model']}, {NAMES[report['notion']]}, {which}\n"
        f"group given to the model: {given}"
    )


def print_run(report: Report) -> None:
    """Print one method's results: disparities with intervals, groups, clients."""
    console = make_console()
    print_first(first_sentences([report]), console)
    console.print(report["algorithm"], style="bold", end="")
    console.print(f" on {heading(report)}")
    for line in coarse_codes(report):
        console.print(line, style="bold")
    if report["tuning"]:
        console.print(_choice(report["tuning"]))
    if report["picked"]:
        console.print(_picked(report["picked"]))
    console.print()
    if report["summary"] is None:
        console.print(_settings_table(report))
    else:
        console.print(_result_table(report))
        console.print(coverage_of(report), style="dim")
        console.print(_group_table(report["runs"]))
        console.print(
            f"four-fifths ratio (least to largest rate): {_four_fifths(report['runs'])}\n"
        )
        if report["runs"][0]["clients"]:
            console.print(_client_table(report["runs"], report["notion"]))
        for line in findings(report):
            console.print(line)
    if report.get("privacy"):
        from fedfb.report.privacy import print_privacy

        print_privacy(report["privacy"])
    for note in other_notes(report):
        console.print(f"note: {note}", style="dim")


def print_first(sentences: Sequence[str], console: Console) -> None:
    """Print what a result does not keep, before anything else."""
    for sentence in sentences:
        console.print(sentence, style="bold")
    if sentences:
        console.print()


def _choice(tuning: Report) -> str:
    chosen = ", ".join(f"{k} {v:g}" for k, v in tuning["chosen"].items())
    floor = tuning["accuracy_floor"]
    least = "" if floor is None else f" (accuracy at least {number(floor)})"
    return f"chosen on validation rows{least}: {chosen}"


def _picked(picked: Sequence[Report]) -> str:
    """Say what the seeds picked, and how many of them.

    >>> _picked([{"chosen": {"lr": 0.001}}, {"chosen": {"lr": 0.001}}, {"chosen": {"lr": 0.01}}])
    'picked on validation rows: lr 0.001 (2 seeds), 0.01 (1 seed)'
    """
    parts = []
    for knob in picked[0]["chosen"]:
        values = Counter(one["chosen"][knob] for one in picked)
        said = [
            f"{value:g}" + (f" ({n} seed{'s' if n > 1 else ''})" if len(values) > 1 else "")
            for value, n in sorted(values.items())
        ]
        parts.append(f"{knob} {', '.join(said)}")
    return f"picked on validation rows: {'; '.join(parts)}"


def _result_table(report: Report) -> Table:
    table = make_table("Test rows", "", "mean ± spread", "95% interval", "")
    runs, notion = report["runs"], report["notion"]
    accuracy = report["summary"]["accuracy"]
    table.add_row("accuracy", spread(accuracy), ends_in_words(accuracy), _majority(runs))
    for key, label in (("balanced_accuracy", "balanced accuracy"), ("auc", "area under ROC")):
        table.add_row(label, number(mean([run[key] for run in runs])), "", "")
    for name, statistic in report["summary"]["disparity"].items():
        aim = "<- the aim" if name == notion else ""
        table.add_row(NAMES[name], spread(statistic), ends_in_words(statistic), aim)
    return table


def _majority(runs: Sequence[Report]) -> str:
    return f"(constant: {number(mean([run['majority_accuracy'] for run in runs]))})"


def ends_in_words(statistic: Report) -> str:
    """Write the ends of a summary's interval; a summary of before intervals has none.

    >>> ends_in_words({"mean": 0.1, "interval": [0.0, 0.2]}), ends_in_words({"mean": None})
    ('.000 to .200', 'not estimable')
    """
    interval = statistic.get("interval")
    return "not estimable" if interval is None else " to ".join(map(number, interval))


def coverage_of(report: Report) -> str:
    """Say what the intervals of a report or a frontier cover, and what not."""
    seeds = report["settings"]["seeds"]
    return coverage(len(seeds), shared_rows_of(report))


def _group_table(runs: Sequence[Report]) -> Table:
    table = make_table("\nGroups", "", "test rows", "positive", "TPR", "FPR", "accuracy")
    for place, group in enumerate(runs[0]["groups"]):
        keys = ("positive_rate", "tpr", "fpr", "accuracy")
        means = [number(mean([run["groups"][place][key] for run in runs])) for key in keys]
        table.add_row(group["name"], _rows(run["groups"][place] for run in runs), *means)
    return table


def _client_table(runs: Sequence[Report], notion: str) -> Table:
    own = ("own disparity",) if notion in runs[0]["local_disparity"] else ()
    several = len(runs[0]["clients"])
    many = several > MOST_CLIENTS
    title = f"{several:,} clients, each column sorted alone" if many else "Clients"
    table = make_table(title, "", "test rows", "accuracy", "loss", *own)
    if many:
        for row in summary_rows(runs, notion if own else None):
            table.add_row(*row)
        return table
    for place, client in enumerate(runs[0]["clients"]):
        seen = [run["clients"][place] for run in runs]
        means = [number(mean([one[key] for one in seen])) for key in ("accuracy", "loss")]
        if own:
            means.append(number(mean([one["disparity"][notion] for one in seen])))
        table.add_row(client["name"], _rows(seen), *means)
    return table


def _rows(parts: Iterable[Report]) -> str:
    """Return the number of rows of a group or client; their mean where seeds draw their own."""
    return str(round(mean([float(part["n"]) for part in parts]) or 0))


def _four_fifths(runs: Sequence[Report]) -> str:
    ratio = mean([run["four_fifths"] for run in runs])
    if ratio is None:
        return "not estimable"
    return f"{number(ratio)} ({'meets' if ratio >= 0.8 else 'below'} 0.8)"


def _settings_table(report: Report) -> Table:
    knobs = list(report["summaries"][0]["settings"])
    table = make_table("Settings", *knobs, "accuracy", NAMES[report["notion"]])
    for summary in report["summaries"]:
        values = [f"{summary['settings'][knob]:g}" for knob in knobs]
        table.add_row(*values, *figures(summary, report["notion"]))
    return table


def print_comparison(
    reports: Sequence[Report],
    differences: Sequence[Report],
    paper: Mapping[str, Report | None],
) -> None:
    """Print methods side by side, beside the paper's figures, and their paired differences."""
    console, notion = make_console(), reports[0]["notion"]
    print_first(first_sentences(reports), console)
    console.print(heading(reports[0]) + "\n")
    for line in (line for report in reports for line in coarse_codes(report)):
        console.print(line, style="bold")
    printed = any(paper.values())
    extra = ("paper: accuracy", "disparity") if printed else ()
    table = make_table("Test rows, mean ± spread", "", "accuracy", "disparity", *extra)
    for report in reports:
        beside = _paper_cells(paper, report, printed)
        for summary in report["summaries"]:
            table.add_row(_named(report, summary), *figures(summary, notion), *beside)
            beside = ()  # one figure a method, whatever the size of the grid
    console.print(table)
    if differences:
        console.print(_difference_table(differences, notion))
        console.print(coverage_of(reports[0]), style="dim")
    constant = number(mean([run["majority_accuracy"] for run in reports[0]["runs"]]))
    console.print(f"\nA constant classifier is {constant} accurate with disparity 0.", style="dim")
    if reports[0].get("privacy"):
        from fedfb.report.privacy import sentences, summary

        for report in reports:
            console.print(f"{report['algorithm']}: {summary(report['privacy'])}")
        console.print("\n".join(sentences(reports[0]["privacy"])), style="dim")
    for note in dict.fromkeys(note for report in reports for note in other_notes(report)):
        console.print(f"note: {note}", style="dim")


def _named(report: Report, summary: Report) -> str:
    if len(report["summaries"]) == 1:
        return str(report["algorithm"])
    knobs = " ".join(f"{knob} {value:g}" for knob, value in summary["settings"].items())
    return f"{report['algorithm']} ({knobs})"


def _paper_cells(
    paper: Mapping[str, Report | None], report: Report, printed: bool
) -> tuple[str, ...]:
    row = paper.get(report["algorithm"])
    if not printed:
        return ()
    return (spread(row["accuracy"]), spread(row["disparity"])) if row else ("-", "-")


def _difference_table(differences: Sequence[Report], notion: str) -> Table:
    table = make_table("\nPaired differences, with 95% intervals", "", "accuracy", "disparity")
    first = differences[0]["of"]
    many = len({row["of"] for row in differences}) > MOST_PAIRED
    for row in differences:
        if many and row["of"] != first:
            continue
        cells = (with_interval(row["accuracy"]), with_interval(row["disparity"][notion]))
        table.add_row(f"{row['of']} - {row['less']}", *cells)
    return table


def with_interval(statistic: Report) -> str:
    """Write a mean with its interval.

    >>> with_interval({"mean": 0.75, "interval": [0.7, 0.8]})
    '.750 [.700, .800]'
    """
    interval = statistic["interval"]
    ends = f" [{number(interval[0])}, {number(interval[1])}]" if interval else ""
    return number(statistic["mean"]) + ends


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
