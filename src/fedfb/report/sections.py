"""The sections of the pages of results: their sentences, pictures and tables."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from fedfb.errors import FedFBError
from fedfb.experiments.effect import share_settings
from fedfb.experiments.explain import Explained, explain
from fedfb.experiments.reporting import plain
from fedfb.experiments.resolve import resolve
from fedfb.experiments.result import Frontier, Result
from fedfb.experiments.seed_result import Round
from fedfb.experiments.spec import Experiment
from fedfb.experiments.spec_file import from_values
from fedfb.report import headline, ledger, tables
from fedfb.report.figures import (
    Series,
    series_of_frontier,
    series_of_results,
)
from fedfb.report.folder import ReportedRun
from fedfb.report.html import Fold, Line, Picture, Section, curves_picture, scatter_picture
from fedfb.report.ledger import exchanges_sentence as exchange_sentence
from fedfb.report.ledger import sentence as ledger_sentence
from fedfb.report.left_out import left_out_table
from fedfb.report.numbers import coverage_of, mean, number, setting_in_words, shown_name
from fedfb.report.table import Table
from fedfb.report.text import PRIVACY_COLUMNS, client_rows, privacy_sentence, privacy_sentences

MOST_SETTINGS = 12
"""Of a larger grid only so many settings have tables of their own; the rest is in the JSON."""

MOST_LINES = 50
"""Of more groups or clients a picture shows least, median and largest."""

FEW_CLIENTS = (3, 6)
"""As many clients show whether what a client sends depends on their number."""

CURVES: dict[str, Callable[[Round], Any]] = {
    "training accuracy": lambda row: row.accuracy,
    "training disparity": lambda row: row.disparity,
    "signal": lambda row: row.signal,
    "lambda": lambda row: row.lam,
}


def frontier_picture(frontier: Frontier, name: str = "scatter") -> Picture:
    series = series_of_frontier(frontier)
    caption = (
        f"Each point is the mean of one setting over seeds. {coverage_of(frontier)} Disparity: "
        f"{headline.NOTION_MEANINGS[frontier.notion]}. Up and left is better. The dashed line is "
        "the limit: all rows in one place and a threshold for each group."
    )
    return _scatter_of(series, frontier.constant, frontier.notion, caption, name)


def results_picture(results: Sequence[Result]) -> Picture:
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


def people_sections(result: Result) -> Sequence[Section]:
    """Return groups and clients of every setting; those of a grid are folded."""
    number_of = len(result.summaries)
    parts = []
    for place, summary in enumerate(result.summaries[:MOST_SETTINGS]):
        runs = result.runs_of(place)
        setting = setting_in_words(summary.settings) if number_of > 1 else ""
        groups = tables.group_table(result, runs, setting)
        clients = tables.client_table(result, runs, setting) if runs[0].clients else None
        left_out = left_out_table(result, runs, setting)
        some = (groups, clients, left_out)
        parts.append((setting, tuple(table for table in some if table is not None)))
    if number_of == 1:
        return [Section("people", "Groups and clients", tables=parts[0][1])]
    folds = tuple(Fold(f"At {setting}", setting_tables) for setting, setting_tables in parts)
    return [Section("people", "Groups and clients", folds=folds)]


def training_sections(result: Result, name: str) -> Sequence[Section]:
    """Return curves over rounds: of all seeds, or of all settings of the first seed."""
    number_of = len(result.summaries)
    several = number_of > 1
    of_one_seed = result.runs[:number_of] if several else result.runs
    runs = [run for run in of_one_seed if run.diverged is None][:MOST_SETTINGS]
    panels, many = {}, False
    for title, quantity in CURVES.items():
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


def privacy_sections(results: Sequence[Result]) -> Sequence[Section]:
    """Return every client's epsilon and what it covers; empty for runs without privacy."""
    private = [(result, result.privacy) for result in results if result.privacy]
    if not private:
        return []
    each = [
        f"{shown_name(result.algorithm)}: {privacy_sentence(spending)}."
        for result, spending in private
    ]
    client_tables = tuple(
        Table(shown_name(result.algorithm), ("client", *PRIVACY_COLUMNS), tuple(rows))
        for result, spending in private
        if (rows := client_rows(spending))
    )
    of_all = privacy_sentences(private[0][1])
    return [Section("privacy", "Privacy", (*each, *of_all), tables=client_tables)]


def exchange_section(run: ReportedRun) -> Section:
    fold = exchange_fold(run)
    return Section("exchanges", "What was exchanged", (fold.text,), tables=fold.tables)


def exchange_fold(run: ReportedRun) -> Fold:
    name, explained = shown_name(run.result.algorithm), explained_run(run)
    sentences, fold_tables = [], []
    if explained is None:
        sentences.append("This method is not known here: name its file with --plugin.")
    else:
        sentences.append(exchange_sentence(explained))
        fold_tables.append(ledger.exchange_table(name, explained))
    if run.accounts:
        sentences.append(ledger_sentence(run.accounts))
        fold_tables.append(ledger.ledger_table(run.accounts))
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


def explain_methods(frontier: Frontier) -> dict[str, Explained]:
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


def notes_sections(notes: Sequence[str]) -> Sequence[Section]:
    return [Section("notes", "Notes", tuple(notes))] if notes else []


def settings_section(result: Result | Frontier, versions: Mapping[str, str]) -> Section:
    settings = result.settings
    setting_tables: list[Table] = [given_table(settings)]
    if versions:
        setting_tables.append(versions_table(versions))
    seeds = ", ".join(map(str, result.seeds))
    return Section(
        "settings",
        "Settings and versions",
        (f"Seeds: {seeds}.", f"Experiment: {result.experiment_hash} (hash of all settings)."),
        tables=tuple(setting_tables),
        folds=(Fold("All settings", (all_settings_table(settings),)),),
    )


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
