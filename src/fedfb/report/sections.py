"""From what a folder holds to the sections of its page."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from fedfb.errors import DataError, FedFBError
from fedfb.experiments.effect import share_settings
from fedfb.experiments.explain import Explained, explain
from fedfb.experiments.reporting import plain
from fedfb.experiments.shortfalls import other_notes
from fedfb.experiments.spec_file import from_values
from fedfb.files import CHANGED
from fedfb.report import headline, privacy
from fedfb.report import page_tables as tables
from fedfb.report.figures import (
    Series,
    series_of_frontier,
    series_of_reports,
    setting_in_words,
    shown_name,
)
from fedfb.report.folder import Found, Run
from fedfb.report.frontier import EACH, NOTHING_BETTER, left_out_in_words, of_epsilon, pareto_points
from fedfb.report.html import Fold, Page, Section, Table
from fedfb.report.ledger import exchanges_sentence as exchange_sentence
from fedfb.report.ledger import sentence as ledger_sentence
from fedfb.report.numbers import mean, number
from fedfb.report.sentences import closer_findings, coarse_codes
from fedfb.report.svg import Line, Picture, curves_picture, scatter_picture
from fedfb.report.text import NAMES, coverage_of

Report = Mapping[str, Any]


MOST_SETTINGS = 12
"""Of a larger grid only so many settings have tables of their own; the rest is in the JSON."""

MOST_LINES = 50
"""Of more groups or clients a picture shows least, median and largest."""

FEW_CLIENTS = (3, 6)
"""As many clients show whether what a client sends depends on their number."""

QUANTITIES = {
    "accuracy": "training accuracy",
    "disparity": "training disparity",
    "signal": "signal",
    "lambda": "lambda",
}


def make_page(found: Found) -> Page:
    """Return the page of a run, a comparison or a frontier."""
    try:
        if found.frontier is not None:
            private = found.frontier.get("epsilons")
            page = _private_frontier_page if private else _frontier_page
            return page(found.frontier)
        return _comparison_page(found) if len(found.runs) > 1 else _run_page(found.runs[0])
    except CHANGED as error:
        raise DataError(
            f"these results are not as this version of fedfb writes them ({error!r}). Run them "
            "again."
        ) from error


def _run_page(run: Run) -> Page:
    report = run.report
    single = report["summary"] is not None
    said = (*coarse_codes(report), *(closer_findings(report) if single else ()))
    shown = tables.result_table(report) if single else tables.settings_table(report)
    overview = Section(
        "results",
        "Accuracy and disparity",
        said,
        (_scatter([report]),),
        (shown,),
    )
    return Page(
        title=f"{shown_name(report['algorithm'])} on {report['data']}",
        kind=_kind(report),
        headline=headline.run_headline(report),
        figures=headline.run_figures(report),
        sections=(
            overview,
            *_people(report),
            *_training(report, "training"),
            *_privacy([report]),
            _exchanges(run),
            *_notes(other_notes(report)),
            _settings(report, run.versions),
        ),
        footer=_made_from(report["experiment_hash"]),
        alerts=headline.alerts([report]),
    )


def _comparison_page(found: Found) -> Page:
    reports = [run.report for run in found.runs]
    first = reports[0]
    shown = [tables.comparison_table(reports)]
    if found.differences:
        shown.append(
            tables.difference_table(found.differences, first["notion"], coverage_of(first))
        )
    overview = Section("results", "Accuracy and disparity", (), (_scatter(reports),), tuple(shown))
    exchanged = {
        run.report["algorithm"]: one
        for run in found.runs
        if (one := explained_run(run)) is not None
    }
    return Page(
        title=f"{len(reports)} methods on {first['data']}",
        kind=_kind(first),
        headline=headline.comparison_headline(reports),
        figures=(),
        sections=(
            overview,
            *(_method_section(run) for run in found.runs),
            *_privacy(reports),
            Section(
                "exchanges",
                "What was exchanged",
                tables=(tables.method_table(exchanged),),
                folds=tuple(_exchange_fold(run) for run in found.runs),
            ),
            *_notes(list(dict.fromkeys(note for one in reports for note in other_notes(one)))),
            _settings(first, found.runs[0].versions),
        ),
        footer=_made_from(", ".join(report["experiment_hash"] for report in reports)),
        alerts=headline.alerts(reports),
    )


def _method_section(run: Run) -> Section:
    """Return groups, clients and training of one method among several."""
    report, name = run.report, run.report["algorithm"]
    people, training = list(_people(report)), list(_training(report, f"training-{name}"))
    single = report["summary"] is not None
    said = (*coarse_codes(report), *(closer_findings(report) if single else ()))
    shown = tuple(table for section in people for table in section.tables)
    folds = tuple(fold for section in people for fold in section.folds)
    curves = tuple(
        Fold("Training, round by round", pictures=section.pictures) for section in training
    )
    return Section(f"method-{name}", shown_name(name), said, (), shown, (*folds, *curves))


def _frontier_page(record: Report) -> Page:
    chosen, covered = pareto_points(record), coverage_of(record)
    left_out = [f"Left out: {left_out_in_words(record['left_out'])}."] * bool(record["left_out"])
    failed = [f"{one['algorithm']} failed: {one['reason']}" for one in record["failed"]]
    picture = _frontier_picture(record)
    exchanged = _explained_methods(record)
    seeds = f"{len(record['seeds'])} seeds" if len(record["seeds"]) > 1 else "one seed"
    return Page(
        title=f"The frontier on {record['data']}",
        kind=f"{record['model']}, {NAMES[record['notion']]}, {seeds}",
        headline=headline.frontier_headline(record),
        figures=headline.frontier_figures(record),
        sections=(
            Section(
                "results",
                "Accuracy and disparity",
                tuple(failed),
                (picture,),
                (tables.level_table(record),),
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
                    Fold("Groups along the Pareto set", (tables.pareto_group_table(record),)),
                    Fold(
                        f"All {len(record['points'])} points",
                        (
                            tables.point_table(
                                "All points, by approach", record["points"], coverage_of(record)
                            ),
                        ),
                    ),
                ),
            ),
            *([_method_exchanges(exchanged)] if exchanged else []),
            *_notes([*other_notes(record), *left_out]),
            _settings(record, record["versions"]),
        ),
        footer=_made_from(record["experiment_hash"]),
        alerts=_frontier_alerts(record),
    )


def _private_frontier_page(record: Report) -> Page:
    """Return a page with a part for every epsilon, each with its picture and points."""
    left_out = [f"Left out: {left_out_in_words(record['left_out'])}."] * bool(record["left_out"])
    failed = [f"{one['algorithm']} failed: {one['reason']}" for one in record["failed"]]
    seeds = f"{len(record['seeds'])} seeds" if len(record["seeds"]) > 1 else "one seed"
    parts = []
    for place, epsilon in enumerate(record["epsilons"]):
        own, told = of_epsilon(record, epsilon), f"epsilon {privacy.epsilon_in_words(epsilon)}"
        picture = _frontier_picture(own, f"scatter-{place}")
        shown = tables.point_table(f"All points at {told}", own["points"], coverage_of(record))
        parts.append(Section(f"epsilon-{place}", told.capitalize(), (), (picture,), (shown,)))
    return Page(
        title=f"Accuracy, disparity and privacy on {record['data']}",
        kind=f"{record['model']}, {NAMES[record['notion']]}, {seeds}",
        headline=f"{EACH} Delta is {record['settings']['privacy_delta']:g}.",
        figures=(),
        sections=(
            *parts,
            *_notes([*failed, *other_notes(record), *left_out]),
            _settings(record, record["versions"]),
        ),
        footer=_made_from(record["experiment_hash"]),
        alerts=_frontier_alerts(record),
    )


def _frontier_alerts(record: Report) -> tuple[str, ...]:
    return tuple(one["sentence"] for one in record.get("shortfalls", ()))


def _method_exchanges(exchanged: Mapping[str, Explained]) -> Section:
    said = "Numbers that a client sends in a round beside its model and the weight it has."
    return Section(
        "exchanges", "What was exchanged", (said,), tables=(tables.method_table(exchanged),)
    )


def _kind(report: Report) -> str:
    seeds = report["settings"]["seeds"]
    which = f"{len(seeds)} seeds" if len(seeds) > 1 else f"seed {seeds[0]}"
    given = "" if report["settings"]["sensitive_at_prediction"] else "not "
    return f"{report['model']}, {NAMES[report['notion']]}, {which}, group {given}given to the model"


def _frontier_picture(record: Report, name: str = "scatter") -> Picture:
    series = series_of_frontier(record)
    caption = (
        f"Each point is the mean of one setting over seeds. {coverage_of(record)} Disparity: "
        f"{headline.MEANS[record['notion']]}. Up and left is better. The dashed line is the limit: "
        "all rows in one place and a threshold for each group."
    )
    return _scatter_of(series, record["constant"], record["notion"], caption, name)


def _scatter(reports: Sequence[Report]) -> Picture:
    constant = mean([run["majority_accuracy"] for run in reports[0]["runs"]])
    notion = reports[0]["notion"]
    caption = (
        f"Large: means; small: single seeds. {coverage_of(reports[0])} Disparity: "
        f"{headline.MEANS[notion]}. Up and left is better."
    )
    return _scatter_of(series_of_reports(reports), constant, notion, caption)


def _scatter_of(
    series: Sequence[Series],
    constant: float | None,
    notion: str,
    caption: str,
    name: str = "scatter",
) -> Picture:
    ends = [point for one in series for point in one.points]
    alt = "Accuracy against disparity: " + (
        f"{len(ends)} points of {len({one.name for one in series})} methods, disparities "
        f"{number(min(p.disparity for p in ends))} to {number(max(p.disparity for p in ends))}, "
        f"accuracies {number(min(p.accuracy for p in ends))} to "
        f"{number(max(p.accuracy for p in ends))}. The tables have all numbers."
        if ends
        else "no setting has an estimable disparity."
    )
    return scatter_picture(name, series, constant, notion, alt, caption)


def _people(report: Report) -> Sequence[Section]:
    """Return groups and clients of every setting; those of a grid are folded."""
    number_of = len(report["summaries"])
    shown = []
    for place, summary in enumerate(report["summaries"][:MOST_SETTINGS]):
        own = report["runs"][place::number_of]
        told = setting_in_words(summary["settings"]) if number_of > 1 else ""
        groups = tables.group_table(report, own, told)
        clients = tables.client_table(report, own, told) if own[0]["clients"] else None
        shown.append((told, tuple(table for table in (groups, clients) if table is not None)))
    if number_of == 1:
        return [Section("people", "Groups and clients", tables=shown[0][1])]
    folds = tuple(Fold(f"At {told}", found) for told, found in shown)
    return [Section("people", "Groups and clients", folds=folds)]


def _training(report: Report, name: str) -> Sequence[Section]:
    """Return curves over rounds: of all seeds, or of all settings of the first seed."""
    number_of = len(report["summaries"])
    several = number_of > 1
    runs = report["runs"][:number_of] if several else report["runs"]
    runs = [run for run in runs if not run.get("diverged")]
    runs = runs[:MOST_SETTINGS]
    panels, many = {}, False
    for key, title in QUANTITIES.items():
        many |= any(np.size(row[key]) > MOST_LINES for run in runs for row in run["rounds"])
        lines = [
            line
            for owner, run in enumerate(runs)
            for line in _lines([row[key] for row in run["rounds"]], owner)
        ]
        if lines:
            panels[title] = lines
    if not panels:
        return []
    owners = [setting_in_words(r["settings"]) if several else f"seed {r['seed']}" for r in runs]
    of = f"seed {runs[0]['seed']}" if several else "all seeds"
    caption = f"On training rows, of {of}."
    if any(line.component for lines in panels.values() for line in lines):
        caption += " Solid, dashed, dotted: the groups (or clients) that are compared."
        caption += f" Of more than {MOST_LINES}: least, median, largest." if many else ""
    alt = f"Curves over {len(runs[0]['rounds'])} rounds: {', '.join(panels)}."
    picture = curves_picture(name, panels, owners, alt, caption)
    return [Section("training", "Training, round by round", pictures=(picture,))]


def _lines(values: Sequence[Any], owner: int) -> list[Line]:
    """Return the lines of a quantity that is a number or a vector in every round, or not known."""
    known = [np.ravel(value).tolist() for value in values if value is not None]
    if len({len(value) for value in known}) != 1:
        return []
    if len(known[0]) > MOST_LINES:
        known = np.quantile(known, (0.0, 0.5, 1.0), axis=1).T.tolist()
    return [Line(line, owner, place) for place, line in enumerate(zip(*known, strict=True))]


def _privacy(reports: Sequence[Report]) -> Sequence[Section]:
    """Return every silo's epsilon, what it stands for and what not; nothing of plain runs."""
    private = [report for report in reports if report.get("privacy")]
    if not private:
        return []
    said = [f"{shown_name(o['algorithm'])}: {privacy.summary(o['privacy'])}." for o in private]
    shown = tuple(
        Table(shown_name(one["algorithm"]), ("silo", *privacy.COLUMNS), tuple(rows))
        for one in private
        if (rows := privacy.silo_rows(one["privacy"]))
    )
    of_all = privacy.sentences(private[0]["privacy"])
    return [Section("privacy", "Privacy", (*said, *of_all), tables=shown)]


def _exchanges(run: Run) -> Section:
    fold = _exchange_fold(run)
    return Section("exchanges", "What was exchanged", (fold.text,), tables=fold.tables)


def _exchange_fold(run: Run) -> Fold:
    name, explained = shown_name(run.report["algorithm"]), explained_run(run)
    said, shown = [], []
    if explained is None:
        said.append("This method is not known here: name its file with --plugin.")
    else:
        said.append(exchange_sentence(explained))
        shown.append(tables.exchange_table(name, explained))
    if run.accounts:
        said.append(ledger_sentence(run.accounts))
        shown.append(tables.ledger_table(run.accounts))
    return Fold(name, tuple(shown), text=" ".join(said))


def explained_run(run: Run) -> Explained | None:
    """Play the method on as many groups and clients; None where it is not known here."""
    report = run.report
    clients = max(len(report["runs"][0]["clients"]), 2)
    return _explain(report["settings"], len(report["groups"]), clients, run.inputs)


def _explain(
    settings: Mapping[str, Any], groups: int, clients: int, inputs: int | None
) -> Explained | None:
    given = _set(settings)
    try:
        played = [
            explain(from_values(given), groups, number, inputs or 8)
            for number in (FEW_CLIENTS if clients > FEW_CLIENTS[-1] else (clients,))
        ]
        # Thousands of clients are played only where what a client sends depends on their number.
        if played[0] == played[-1]:
            return played[0]
        return explain(from_values(given), groups, clients, inputs or 8)
    except FedFBError:
        return None


def _explained_methods(record: Report) -> dict[str, Explained]:
    names = list(dict.fromkeys(point["algorithm"] for point in record["points"]))
    settings = {**record["settings"], "target": []}
    try:
        each = share_settings(from_values(_set(settings)), names)
    except FedFBError:
        return {}
    found = {
        one.algorithm: _explain(plain(asdict(one)), len(record["groups"]), 3, None) for one in each
    }
    return {name: one for name, one in found.items() if one is not None}


def _set(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _made_from(hashes: str) -> str:
    return f"Made by fedfb from what the run left behind. Experiment {hashes}."


def _notes(notes: Sequence[str]) -> Sequence[Section]:
    return [Section("notes", "Notes", tuple(notes))] if notes else []


def _settings(report: Report, versions: Mapping[str, str]) -> Section:
    settings = report["settings"]
    shown: list[Table] = [tables.given_table(settings)]
    if versions:
        shown.append(tables.versions_table(versions))
    seeds = ", ".join(map(str, settings["seeds"]))
    return Section(
        "settings",
        "Settings and versions",
        (f"Seeds: {seeds}.", f"Experiment: {report['experiment_hash']} (hash of all settings)."),
        tables=tuple(shown),
        folds=(Fold("All settings", (tables.all_settings_table(settings),)),),
    )
