"""Results in sentences, which terminal, pages and ledger share, and on a terminal of 80 columns.

Results go to stdout, messages to stderr.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from fedfb.experiments.calibrate import EVERYBODY
from fedfb.experiments.result import Comparison, Figures, Picked, Printed, Result, Tuning
from fedfb.experiments.seed_result import ClientPrivacy, MethodAccount, Privacy, Quality, SeedResult
from fedfb.experiments.shortfalls import first_sentences, other_notes
from fedfb.report.left_out import left_out_table
from fedfb.report.numbers import NAMES, coverage_of, mean, number
from fedfb.report.table import (
    MOST_CLIENTS,
    ManyValues,
    Table,
    make_console,
    note_on_many,
    print_table,
    summarise_many,
    write_count,
)
from fedfb.report.tables import (
    client_table,
    difference_table,
    group_table,
    printed_table,
    result_table,
    settings_table,
)
from fedfb.runtime.ledger import Account

if TYPE_CHECKING:
    from rich.console import Console


PRIVACY_COLUMNS = ("epsilon", "rows", "steps", "chance", "step noise", "answers", "answer noise")
"""Columns of a client. ``chance`` is that of a row to be in a step, noises are multipliers."""


def epsilon_in_words(epsilon: float | None) -> str:
    """Write an epsilon; none is infinite.

    >>> epsilon_in_words(3.0), epsilon_in_words(0.5), epsilon_in_words(None)
    ('3', '0.5', 'inf')
    """
    return "inf" if epsilon is None else f"{epsilon:g}"


def privacy_sentence(privacy: Privacy) -> str:
    """Say in one sentence what is hidden, and how well."""
    hidden = "every row" if privacy.level == "record" else "every client"
    many = len(privacy.clients)
    return (
        f"{hidden} is hidden with epsilon {privacy.most:.3f}, delta {privacy.delta:g} at most, "
        f"in each of {many} client{'s' if many > 1 else ''}"
    )


def client_rows(privacy: Privacy) -> Iterator[tuple[str, ...]]:
    """Yield what every client spends, and on what; those that spend most come first."""
    if len(privacy.clients) > MOST_CLIENTS:
        yield from _summarise_clients(privacy.clients)
        return
    for spent in sorted(privacy.clients, key=lambda spent: -spent.epsilon):
        yield (
            spent.client,
            f"{spent.epsilon:.3f}",
            f"{spent.rows:,}",
            f"{spent.steps:,}",
            f"{spent.sampling:.4f}",
            f"{spent.training_noise:.3f}",
            f"{spent.answers}",
            f"{spent.answering_noise:.1f}",
        )


def _summarise_clients(clients: Sequence[ClientPrivacy]) -> tuple[tuple[str, ...], ...]:
    epsilon = [spent.epsilon for spent in clients]
    columns = [
        ManyValues(epsilon, lambda value: f"{value or 0:.3f}"),
        ManyValues([spent.rows for spent in clients], write_count),
        ManyValues([spent.steps for spent in clients], write_count),
        ManyValues([spent.sampling for spent in clients], lambda value: f"{value or 0:.4f}"),
        ManyValues([spent.training_noise for spent in clients], lambda value: f"{value or 0:.3f}"),
        ManyValues([spent.answers for spent in clients], write_count),
        ManyValues([spent.answering_noise for spent in clients], lambda value: f"{value or 0:.1f}"),
    ]
    return summarise_many([spent.client for spent in clients], columns, epsilon)


def privacy_sentences(privacy: Privacy) -> list[str]:
    """Say what is covered, what is not, and who must be trusted."""
    return [
        f"Covered: {'; '.join(privacy.covered)}.",
        f"Not covered: {'; '.join(privacy.not_covered)}.",
        f"Trust: {'; '.join(privacy.trust)}.",
    ]


def print_privacy(privacy: Privacy) -> None:
    """Print every client's epsilon, what it covers and what it does not cover."""
    console = make_console()
    console.print(f"\nprivacy: {privacy_sentence(privacy)}")
    print_table(Table("", ("", *PRIVACY_COLUMNS), tuple(client_rows(privacy))), console)
    if len(privacy.clients) > MOST_CLIENTS:
        console.print(note_on_many(len(privacy.clients), "epsilon"), style="dim")
    for sentence in privacy_sentences(privacy):
        console.print(sentence, style="dim")


def of_accounts(accounts: Sequence[Account]) -> Privacy | None:
    """Return the privacy of a ledger: that of the seed whose clients spent the most."""
    reports = [
        msgspec.convert(account.privacy, Privacy)
        for account in accounts
        if account.privacy is not None
    ]
    return max(reports, key=lambda privacy: privacy.most) if reports else None


def findings(result: Result) -> Iterator[str]:
    """Yield a sentence on everything that a reader would ask next, what fairness cost first."""
    summary = result.summary
    if summary and summary.free and summary.cost and summary.cost.mean is not None:
        yield _cost(summary.cost.mean, summary.free, result.notion)
    yield from closer_findings(result)


def coarse_codes(result: Result) -> list[str]:
    """Warn of codes so coarse that the weights do not follow the gaps; say nothing of others."""
    warnings = [coarse for run in result.runs if (coarse := run.method.coarse) is not None]
    return [
        (
            f"Warning: codes of {coarse.bits} bits are too coarse (step "
            f"{number(coarse.step)}): gaps of groups vanish in them, and the model may be less "
            f"fair than FedAvg's. Give each value --bits {coarse.needed} or more."
        )
        for coarse in warnings[:1]
    ]


def closer_findings(result: Result) -> Iterator[str]:
    """Yield what other decisions than a cut at 1/2 did, how near the target came, and why."""
    summary, runs = result.summary, result.runs
    accounts = [run.method for run in runs]
    if summary is not None and any(run.at_one_half is not None for run in runs):
        halves = [run.at_one_half or run for run in runs]
        yield from _decisions(summary, halves, result.notion, *_describe_rule(accounts))
    yield from _search(accounts, target=runs[0].settings.get("target", 0.0))
    yield from _calibration(runs)


def _cost(cost: float, free: Figures, notion: str) -> str:
    return (
        f"Fairness costs {100 * cost:.1f} points of accuracy: trained alike but "
        f"without it, the model is {number(free.accuracy.mean)} accurate at a disparity of "
        f"{number(free.disparity[notion].mean)}."
    )


def _describe_rule(accounts: Sequence[MethodAccount]) -> tuple[str, str]:
    """Name what decided in place of a cut at 1/2, and say how.

    >>> _describe_rule([MethodAccount(cut=0.5), MethodAccount(cut=0.47)])
    ('common cut', 'cut at .470 to .500')
    """
    if any(account.thresholds is not None for account in accounts):
        return "thresholds", "with a threshold for each group"
    cuts = sorted({account.cut for account in accounts if account.cut is not None})
    if cuts:
        return (
            "common cut",
            f"cut at {' to '.join(number(cut) for cut in cuts[:: len(cuts) - 1 or 1])}",
        )
    return "method's own way to decide", "as it decides"


def _calibration(runs: Sequence[SeedResult]) -> Iterator[str]:
    """Say how far scores are from probabilities before and after calibration."""
    by_name: dict[str, list[tuple[float, float]]] = {}
    for run in runs:
        for group in run.calibration:
            by_name.setdefault(group.name, []).append((group.before, group.after))
    errors = {
        name: tuple(mean(side) for side in zip(*pairs, strict=True))
        for name, pairs in by_name.items()
    }
    if EVERYBODY not in errors or len(errors) < 2:
        return
    everybody = errors.pop(EVERYBODY)
    worst = max(errors, key=lambda name: errors[name][0] or 0.0)
    before, after = errors[worst]
    yield (
        f"Calibration error of scores {number(everybody[0])}, of group {worst} {number(before)}; "
        f"calibrated by group (fedfb predict --calibrated) {number(everybody[1])} and "
        f"{number(after)}."
    )


def _decisions(
    summary: Figures, halves: Sequence[Quality | SeedResult], notion: str, what: str, how: str
) -> Iterator[str]:
    """Say what the scores alone would have come to, and what the method's decisions did, if any.

    Args:
        summary: figures of the method's decisions.
        halves: figures of the seeds, cut at 1/2.
        notion: the notion.
        what: names what decided.
        how: says how.
    """
    accuracy = number(mean([half.accuracy for half in halves]))
    disparity = number(mean([half.disparity[notion] for half in halves]))
    reached = (number(summary.accuracy.mean), number(summary.disparity[notion].mean))
    if (accuracy, disparity) != reached:
        yield (
            f"What the {what} did: cut at 1/2 these scores would be {accuracy} accurate at "
            f"{disparity}; {how} they are {reached[0]} at {reached[1]}."
        )


def _search(accounts: Sequence[MethodAccount], target: float) -> Iterator[str]:
    measures = {account.target_is_for for account in accounts if account.target_is_for}
    if measures and 0 < target < 1:
        measure = ", ".join(sorted(measures))
        yield f"The target is for {measure}; the disparity above is their range."
    rounds = [str(account.chosen_round) for account in accounts if account.chosen_round]
    if rounds:
        which = "round" if len(rounds) == 1 else "rounds"
        yield f"Chosen: {which} {', '.join(rounds)}, nearest to the target on training rows."
    names = sorted({name for account in accounts for name in account.left_out or ()})
    if names:
        yield f"Too few rows for a threshold of their own (cut at 1/2): {', '.join(names)}."


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
        for result in results:
            if result.privacy:
                console.print(f"{result.algorithm}: {privacy_sentence(result.privacy)}")
        console.print("\n".join(privacy_sentences(results[0].privacy)), style="dim")
    for note in dict.fromkeys(note for result in results for note in other_notes(result)):
        console.print(f"note: {note}", style="dim")


def print_catalogue(sections: Mapping[str, Mapping[str, str]]) -> None:
    """Print what there is to choose from."""
    console = make_console()
    for title, entries in sections.items():
        print_table(Table(title.capitalize(), (), tuple(entries.items())), console)
        console.print()
