"""The page of an output folder: of a run, a comparison or a frontier."""

from collections.abc import Mapping

from fedfb.experiments.explain import Explained
from fedfb.experiments.result import Frontier, Result
from fedfb.experiments.shortfalls import other_notes
from fedfb.report import frontier as frontiers
from fedfb.report import headline, ledger, tables
from fedfb.report.folder import Found, ReportedRun
from fedfb.report.frontier import EACH, NOTHING_BETTER, left_out_in_words, of_epsilon, pareto_points
from fedfb.report.html import Fold, Page, Section
from fedfb.report.numbers import NAMES, coverage_of, shown_name
from fedfb.report.sections import (
    exchange_fold,
    exchange_section,
    explain_methods,
    explained_run,
    frontier_picture,
    notes_sections,
    people_sections,
    privacy_sections,
    results_picture,
    settings_section,
    training_sections,
)
from fedfb.report.text import closer_findings, coarse_codes, epsilon_in_words


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
        (results_picture([result]),),
        (table,),
    )
    return Page(
        title=f"{shown_name(result.algorithm)} on {result.data}",
        kind=_kind(result),
        headline=headline.run_headline(result),
        figures=headline.run_figures(result),
        sections=(
            overview,
            *people_sections(result),
            *training_sections(result, "training"),
            *privacy_sections([result]),
            exchange_section(run),
            *notes_sections(other_notes(result)),
            settings_section(result, run.versions),
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
        "results", "Accuracy and disparity", (), (results_picture(results),), tuple(overview_tables)
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
            *privacy_sections(results),
            Section(
                "exchanges",
                "What was exchanged",
                tables=(ledger.method_table(exchanged),),
                folds=tuple(exchange_fold(run) for run in content.runs),
            ),
            *notes_sections(
                list(dict.fromkeys(note for result in results for note in other_notes(result)))
            ),
            settings_section(first, content.runs[0].versions),
        ),
        footer=_made_from(", ".join(result.experiment_hash for result in results)),
        alerts=headline.alerts(results),
    )


def _method_section(run: ReportedRun) -> Section:
    """Return groups, clients and training of one method among several."""
    result, name = run.result, run.result.algorithm
    people, training = (
        list(people_sections(result)),
        list(training_sections(result, f"training-{name}")),
    )
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
    picture = frontier_picture(frontier)
    exchanged = explain_methods(frontier)
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
                (frontiers.level_table(frontier),),
            ),
            Section(
                "pareto",
                "The Pareto set",
                (
                    "No other point is both as accurate and as fair as one of these, nor is the "
                    "constant classifier. The limit is not an approach and stays out.",
                    *([] if chosen else [NOTHING_BETTER]),
                ),
                tables=(frontiers.point_table("Pareto set, fairest first", chosen, covered),),
                folds=(
                    Fold("Groups along the Pareto set", (frontiers.pareto_group_table(frontier),)),
                    Fold(
                        f"All {len(frontier.points)} points",
                        (
                            frontiers.point_table(
                                "All points, by approach", frontier.points, coverage_of(frontier)
                            ),
                        ),
                    ),
                ),
            ),
            *([_method_exchanges(exchanged)] if exchanged else []),
            *notes_sections([*other_notes(frontier), *left_out]),
            settings_section(frontier, frontier.versions),
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
            f"epsilon {epsilon_in_words(epsilon)}",
        )
        picture = frontier_picture(of_one_epsilon, f"scatter-{place}")
        table = frontiers.point_table(
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
            *notes_sections([*failed, *other_notes(frontier), *left_out]),
            settings_section(frontier, frontier.versions),
        ),
        footer=_made_from(frontier.experiment_hash),
        alerts=_frontier_alerts(frontier),
    )


def _frontier_alerts(frontier: Frontier) -> tuple[str, ...]:
    return tuple(shortfall.sentence for shortfall in frontier.shortfalls)


def _method_exchanges(exchanged: Mapping[str, Explained]) -> Section:
    sentence = "Numbers that a client sends in a round beside its model and the weight it has."
    return Section(
        "exchanges", "What was exchanged", (sentence,), tables=(ledger.method_table(exchanged),)
    )


def _kind(result: Result) -> str:
    seeds = result.seeds
    which = f"{len(seeds)} seeds" if len(seeds) > 1 else f"seed {seeds[0]}"
    negation = "" if result.group_is_given else "not "
    return f"{result.model}, {NAMES[result.notion]}, {which}, group {negation}given to the model"


def _made_from(hashes: str) -> str:
    return f"Made by fedfb from what the run left behind. Experiment {hashes}."
