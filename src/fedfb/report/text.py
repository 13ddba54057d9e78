"""Results on a terminal of 80 columns. Results go to stdout, messages to stderr."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fedfb.experiments.result import Comparison, Picked, Printed, Result, Tuning
from fedfb.experiments.seed_result import SeedResult
from fedfb.experiments.shortfalls import first_sentences, other_notes
from fedfb.report.left_out import left_out_table
from fedfb.report.numbers import NAMES, coverage_of, mean, number
from fedfb.report.sentences import coarse_codes, findings
from fedfb.report.table import Table, make_console, print_table
from fedfb.report.tables import (
    client_table,
    difference_table,
    group_table,
    printed_table,
    result_table,
    settings_table,
)

if TYPE_CHECKING:
    from rich.console import Console


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
        print_table(settings_table(result, narrow=True), console)
    else:
        print_table(result_table(result, narrow=True), console)
        console.print()
        print_table(group_table(result, result.runs, narrow=True), console)
        console.print(f"four-fifths ratio (least to largest rate): {_four_fifths(result.runs)}\n")
        if result.runs[0].clients:
            print_table(client_table(result, result.runs, narrow=True), console)
        left_out = left_out_table(result, result.runs, narrow=True)
        if left_out is not None:
            console.print()
            print_table(left_out, console)
        for line in findings(result):
            console.print(line)
    if result.privacy:
        from fedfb.report.privacy import print_privacy

        print_privacy(result.privacy)
    for note in other_notes(result):
        console.print(f"note: {note}", style="dim")


def print_first(sentences: Sequence[str], console: "Console") -> None:
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


def _four_fifths(runs: Sequence[SeedResult]) -> str:
    ratio = mean([run.four_fifths for run in runs])
    if ratio is None:
        return "not estimable"
    return f"{number(ratio)} ({'meets' if ratio >= 0.8 else 'below'} 0.8)"


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
    print_table(printed_table(results, paper), console)
    if comparison.differences:
        console.print()
        covered = coverage_of(results[0])
        paired = difference_table(comparison.differences, notion, covered, narrow=True)
        print_table(paired, console)
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


def print_catalogue(sections: Mapping[str, Mapping[str, str]]) -> None:
    """Print what there is to choose from."""
    console = make_console()
    for title, entries in sections.items():
        print_table(Table(title.capitalize(), (), tuple(entries.items())), console)
        console.print()
