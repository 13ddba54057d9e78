"""The page of an output folder: its sections, tables and pictures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from fedfb.errors import FedFBError
from fedfb.experiments.effect import share_settings
from fedfb.experiments.explain import Explained, explain
from fedfb.experiments.reporting import plain
from fedfb.experiments.result import Frontier, Result, Round
from fedfb.experiments.shortfalls import other_notes
from fedfb.experiments.spec_file import from_values
from fedfb.report import headline, privacy
from fedfb.report import page_tables as tables
from fedfb.report.figures import (
    Series,
    series_of_frontier,
    series_of_results,
    setting_in_words,
    shown_name,
)
from fedfb.report.folder import Found, ReportedRun
from fedfb.report.frontier import EACH, NOTHING_BETTER, left_out_in_words, of_epsilon, pareto_points
from fedfb.report.html import Fold, Page, Section, Table
from fedfb.report.ledger import exchanges_sentence as exchange_sentence
from fedfb.report.ledger import sentence as ledger_sentence
from fedfb.report.numbers import mean, number
from fedfb.report.sentences import closer_findings, coarse_codes
from fedfb.report.svg import Line, Picture, curves_picture, scatter_picture
from fedfb.report.text import NAMES, coverage_of

MOST_SETTINGS = 12
"""Of a larger grid only so many settings have tables of their own; the rest is in the JSON."""

MOST_LINES = 50
"""Of more groups or clients a picture shows least, median and largest."""

FEW_CLIENTS = (3, 6)
"""As many clients show whether what a client sends depends on their number."""

QUANTITIES: dict[str, Callable[[Round], Any]] = {
    "training accuracy": lambda row: row.accuracy,
    "training disparity": lambda row: row.disparity,
    "signal": lambda row: row.signal,
    "lambda": lambda row: row.lam,
}


def make_page(content: Found) -> Page:
    """Return the page of a run, a comparison or a frontier."""
    if content.frontier is not None:
        page = _private_frontier_page if content.frontier.epsilons else _frontier_page
        return page(content.frontier)
    return _comparison_page(content) if len(content.runs) > 1 else _run_page(content.runs[0])


def _run_page(run: ReportedRun) -> Page:
    result = run.result
    single = result.summary is not None
    findings = (*coarse_codes(result), *(closer_findings(result) if single else ()))
    table = tables.result_table(result) if single else tables.settings_table(result)
    overview = Section(
        "results",
        "Accuracy and disparity",
        findings,
        (_scatter([result]),),
        (table,),
    )
    return Page(
        title=f"{shown_name(result.algorithm)} on {result.data}",
        kind=_kind(result),
        headline=headline.run_headline(result),
        figures=headline.run_figures(result),
        sections=(
            overview,
            *_people(result),
            *_training(result, "training"),
            *_privacy([result]),
            _exchanges(run),
            *_notes(other_notes(result)),
            _settings(result, run.versions),
        ),
        footer=_made_from(result.experiment_hash),
        alerts=headline.alerts([result]),
    )


def _comparison_page(content: Found) -> Page:
    results = [run.result for run in content.runs]
    first = results[0]
    overview_tables = [tables.comparison_table(results)]
    if content.differences:
        overview_tables.append(
            tables.difference_table(content.differences, first.notion, coverage_of(first))
        )
    overview = Section(
        "results", "Accuracy and disparity", (), (_scatter(results),), tuple(overview_tables)
    )
    exchanged = {
        run.result.algorithm: explained
        for run in content.runs
        if (explained := explained_run(run)) is not None
    }
    return Page(
        title=f"{len(results)} methods on {first.data}",
        kind=_kind(first),
        headline=headline.comparison_headline(results),
        figures=(),
        sections=(
            overview,
            *(_method_section(run) for run in content.runs),
            *_privacy(results),
            Section(
                "exchanges",
                "What was exchanged",
                tables=(tables.method_table(exchanged),),
                folds=tuple(_exchange_fold(run) for run in content.runs),
            ),
            *_notes(
                list(dict.fromkeys(note for result in results for note in other_notes(result)))
            ),
            _settings(first, content.runs[0].versions),
        ),
        footer=_made_from(", ".join(result.experiment_hash for result in results)),
        alerts=headline.alerts(results),
    )


def _method_section(run: ReportedRun) -> Section:
    """Return groups, clients and training of one method among several."""
    result, name = run.result, run.result.algorithm
    people, training = list(_people(result)), list(_training(result, f"training-{name}"))
    single = result.summary is not None
    findings = (*coarse_codes(result), *(closer_findings(result) if single else ()))
    people_tables = tuple(table for section in people for table in section.tables)
    folds = tuple(fold for section in people for fold in section.folds)
    curves = tuple(
        Fold("Training, round by round", pictures=section.pictures) for section in training
    )
    return Section(
        f"method-{name}", shown_name(name), findings, (), people_tables, (*folds, *curves)
    )


def _frontier_page(frontier: Frontier) -> Page:
    chosen, covered = pareto_points(frontier), coverage_of(frontier)
    left_out = [f"Left out: {left_out_in_words(frontier.left_out)}."] * bool(frontier.left_out)
    failed = [f"{failure.algorithm} failed: {failure.reason}" for failure in frontier.failed]
    picture = _frontier_picture(frontier)
    exchanged = _explained_methods(frontier)
    seeds = f"{len(frontier.seeds)} seeds" if len(frontier.seeds) > 1 else "one seed"
    return Page(
        title=f"The frontier on {frontier.data}",
        kind=f"{frontier.model}, {NAMES[frontier.notion]}, {seeds}",
        headline=headline.frontier_headline(frontier),
        figures=headline.frontier_figures(frontier),
        sections=(
            Section(
                "results",
                "Accuracy and disparity",
                tuple(failed),
                (picture,),
                (tables.level_table(frontier),),
            ),
            Section(
                "pareto",
                "The Pareto set",
                (
                    "No other point is both as accurate and as fair as one of these, nor is the "
                    "constant classifier. The limit is not an approach and stays out.",
                    *([] if chosen else [NOTHING_BETTER]),
                ),
                tables=(tables.point_table("Pareto set, fairest first", chosen, covered),),
                folds=(
                    Fold("Groups along the Pareto set", (tables.pareto_group_table(frontier),)),
                    Fold(
                        f"All {len(frontier.points)} points",
                        (
                            tables.point_table(
                                "All points, by approach", frontier.points, coverage_of(frontier)
                            ),
                        ),
                    ),
                ),
            ),
            *([_method_exchanges(exchanged)] if exchanged else []),
            *_notes([*other_notes(frontier), *left_out]),
            _settings(frontier, frontier.versions),
        ),
        footer=_made_from(frontier.experiment_hash),
        alerts=_frontier_alerts(frontier),
    )


def _private_frontier_page(frontier: Frontier) -> Page:
    """Return a page with a part for every epsilon, each with its picture and points."""
    left_out = [f"Left out: {left_out_in_words(frontier.left_out)}."] * bool(frontier.left_out)
    failed = [f"{failure.algorithm} failed: {failure.reason}" for failure in frontier.failed]
    seeds = f"{len(frontier.seeds)} seeds" if len(frontier.seeds) > 1 else "one seed"
    parts = []
    for place, epsilon in enumerate(frontier.epsilons):
        of_one_epsilon, title = (
            of_epsilon(frontier, epsilon),
            f"epsilon {privacy.epsilon_in_words(epsilon)}",
        )
        picture = _frontier_picture(of_one_epsilon, f"scatter-{place}")
        table = tables.point_table(
            f"All points at {title}", of_one_epsilon.points, coverage_of(frontier)
        )
        parts.append(Section(f"epsilon-{place}", title.capitalize(), (), (picture,), (table,)))
    return Page(
        title=f"Accuracy, disparity and privacy on {frontier.data}",
        kind=f"{frontier.model}, {NAMES[frontier.notion]}, {seeds}",
        headline=f"{EACH} Delta is {frontier.delta:g}.",
        figures=(),
        sections=(
            *parts,
            *_notes([*failed, *other_notes(frontier), *left_out]),
            _settings(frontier, frontier.versions),
        ),
        footer=_made_from(frontier.experiment_hash),
        alerts=_frontier_alerts(frontier),
    )


def _frontier_alerts(frontier: Frontier) -> tuple[str, ...]:
    return tuple(shortfall.sentence for shortfall in frontier.shortfalls)


def _method_exchanges(exchanged: Mapping[str, Explained]) -> Section:
    sentence = "Numbers that a client sends in a round beside its model and the weight it has."
    return Section(
        "exchanges", "What was exchanged", (sentence,), tables=(tables.method_table(exchanged),)
    )


def _kind(result: Result) -> str:
    seeds = result.seeds
    which = f"{len(seeds)} seeds" if len(seeds) > 1 else f"seed {seeds[0]}"
    negation = "" if result.group_is_given else "not "
    return f"{result.model}, {NAMES[result.notion]}, {which}, group {negation}given to the model"


def _frontier_picture(frontier: Frontier, name: str = "scatter") -> Picture:
    series = series_of_frontier(frontier)
    caption = (
        f"Each point is the mean of one setting over seeds. {coverage_of(frontier)} Disparity: "
        f"{headline.NOTION_MEANINGS[frontier.notion]}. Up and left is better. The dashed line is "
        "the limit: all rows in one place and a threshold for each group."
    )
    return _scatter_of(series, frontier.constant, frontier.notion, caption, name)


def _scatter(results: Sequence[Result]) -> Picture:
    constant = mean([run.majority_accuracy for run in results[0].runs])
    notion = results[0].notion
    caption = (
        f"Large: means; small: single seeds. {coverage_of(results[0])} Disparity: "
        f"{headline.NOTION_MEANINGS[notion]}. Up and left is better."
    )
    return _scatter_of(series_of_results(results), constant, notion, caption)


def _scatter_of(
    series: Sequence[Series],
    constant: float | None,
    notion: str,
    caption: str,
    name: str = "scatter",
) -> Picture:
    ends = [point for curve in series for point in curve.points]
    alt = "Accuracy against disparity: " + (
        f"{len(ends)} points of {len({curve.name for curve in series})} methods, disparities "
        f"{number(min(p.disparity for p in ends))} to {number(max(p.disparity for p in ends))}, "
        f"accuracies {number(min(p.accuracy for p in ends))} to "
        f"{number(max(p.accuracy for p in ends))}. The tables have all numbers."
        if ends
        else "no setting has an estimable disparity."
    )
    return scatter_picture(name, series, constant, notion, alt, caption)


def _people(result: Result) -> Sequence[Section]:
    """Return groups and clients of every setting; those of a grid are folded."""
    number_of = len(result.summaries)
    parts = []
    for place, summary in enumerate(result.summaries[:MOST_SETTINGS]):
        runs = result.runs_of(place)
        setting = setting_in_words(summary.settings) if number_of > 1 else ""
        groups = tables.group_table(result, runs, setting)
        clients = tables.client_table(result, runs, setting) if runs[0].clients else None
        parts.append((setting, tuple(table for table in (groups, clients) if table is not None)))
    if number_of == 1:
        return [Section("people", "Groups and clients", tables=parts[0][1])]
    folds = tuple(Fold(f"At {setting}", setting_tables) for setting, setting_tables in parts)
    return [Section("people", "Groups and clients", folds=folds)]


def _training(result: Result, name: str) -> Sequence[Section]:
    """Return curves over rounds: of all seeds, or of all settings of the first seed."""
    number_of = len(result.summaries)
    several = number_of > 1
    of_one_seed = result.runs[:number_of] if several else result.runs
    runs = [run for run in of_one_seed if run.diverged is None][:MOST_SETTINGS]
    panels, many = {}, False
    for title, quantity in QUANTITIES.items():
        values = [[quantity(row) for row in run.rounds] for run in runs]
        many |= any(np.size(value) > MOST_LINES for of_run in values for value in of_run)
        lines = [line for owner, of_run in enumerate(values) for line in _lines(of_run, owner)]
        if lines:
            panels[title] = lines
    if not panels:
        return []
    owners = [setting_in_words(r.settings) if several else f"seed {r.seed}" for r in runs]
    of = f"seed {runs[0].seed}" if several else "all seeds"
    caption = f"On training rows, of {of}."
    if any(line.component for lines in panels.values() for line in lines):
        caption += " Solid, dashed, dotted: the groups (or clients) that are compared."
        caption += f" Of more than {MOST_LINES}: least, median, largest." if many else ""
    alt = f"Curves over {len(runs[0].rounds)} rounds: {', '.join(panels)}."
    picture = curves_picture(name, panels, owners, alt, caption)
    return [Section("training", "Training, round by round", pictures=(picture,))]


def _lines(values: Sequence[Any], owner: int) -> list[Line]:
    """Return the lines of a quantity that is a number or a vector in every round, or not known."""
    vectors = [np.ravel(value).tolist() for value in values if value is not None]
    if len({len(value) for value in vectors}) != 1:
        return []
    # More lines than a reader can follow: least, median and largest stand for all.
    if len(vectors[0]) > MOST_LINES:
        vectors = np.quantile(vectors, (0.0, 0.5, 1.0), axis=1).T.tolist()
    return [Line(line, owner, place) for place, line in enumerate(zip(*vectors, strict=True))]


def _privacy(results: Sequence[Result]) -> Sequence[Section]:
    """Return every client's epsilon and what it covers; empty for runs without privacy."""
    private = [(result, result.privacy) for result in results if result.privacy]
    if not private:
        return []
    each = [
        f"{shown_name(result.algorithm)}: {privacy.privacy_sentence(spending)}."
        for result, spending in private
    ]
    client_tables = tuple(
        Table(shown_name(result.algorithm), ("client", *privacy.PRIVACY_COLUMNS), tuple(rows))
        for result, spending in private
        if (rows := privacy.client_rows(spending))
    )
    of_all = privacy.sentences(private[0][1])
    return [Section("privacy", "Privacy", (*each, *of_all), tables=client_tables)]


def _exchanges(run: ReportedRun) -> Section:
    fold = _exchange_fold(run)
    return Section("exchanges", "What was exchanged", (fold.text,), tables=fold.tables)


def _exchange_fold(run: ReportedRun) -> Fold:
    name, explained = shown_name(run.result.algorithm), explained_run(run)
    sentences, fold_tables = [], []
    if explained is None:
        sentences.append("This method is not known here: name its file with --plugin.")
    else:
        sentences.append(exchange_sentence(explained))
        fold_tables.append(tables.exchange_table(name, explained))
    if run.accounts:
        sentences.append(ledger_sentence(run.accounts))
        fold_tables.append(tables.ledger_table(run.accounts))
    return Fold(name, tuple(fold_tables), text=" ".join(sentences))


def explained_run(run: ReportedRun) -> Explained | None:
    """Play the method on as many groups and clients; None if the method is not available."""
    result = run.result
    clients = max(len(result.runs[0].clients), 2)
    return _explain(result.settings, len(result.groups), clients, run.inputs)


def _explain(
    settings: Mapping[str, Any], groups: int, clients: int, inputs: int | None
) -> Explained | None:
    values = _set(settings)
    try:
        played = [
            explain(from_values(values), groups, number, inputs or 8)
            for number in (FEW_CLIENTS if clients > FEW_CLIENTS[-1] else (clients,))
        ]
        # Thousands of clients are played only where what a client sends depends on their number.
        if played[0] == played[-1]:
            return played[0]
        return explain(from_values(values), groups, clients, inputs or 8)
    except FedFBError:
        return None


def _explained_methods(frontier: Frontier) -> dict[str, Explained]:
    names = list(dict.fromkeys(point.algorithm for point in frontier.points))
    settings = {**frontier.settings, "target": []}
    try:
        each = share_settings(from_values(_set(settings)), names)
    except FedFBError:
        return {}
    explanations = {
        request.algorithm: _explain(plain(asdict(request)), len(frontier.groups), 3, None)
        for request in each
    }
    return {name: explained for name, explained in explanations.items() if explained is not None}


def _set(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _made_from(hashes: str) -> str:
    return f"Made by fedfb from what the run left behind. Experiment {hashes}."


def _notes(notes: Sequence[str]) -> Sequence[Section]:
    return [Section("notes", "Notes", tuple(notes))] if notes else []


def _settings(result: Result | Frontier, versions: Mapping[str, str]) -> Section:
    settings = result.settings
    setting_tables: list[Table] = [tables.given_table(settings)]
    if versions:
        setting_tables.append(tables.versions_table(versions))
    seeds = ", ".join(map(str, result.seeds))
    return Section(
        "settings",
        "Settings and versions",
        (f"Seeds: {seeds}.", f"Experiment: {result.experiment_hash} (hash of all settings)."),
        tables=tuple(setting_tables),
        folds=(Fold("All settings", (tables.all_settings_table(settings),)),),
    )
