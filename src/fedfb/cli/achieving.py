"""``fedfb achievable``: what fairness each approach can reach, before anyone trains."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedfb.cli.options import experiment_options
from fedfb.errors import ConfigError
from fedfb.experiments.settings import flag_of, numbers
from fedfb.experiments.spec import Experiment

if TYPE_CHECKING:
    from fedfb.experiments.evaluation import Record
    from fedfb.theory import Population

KEPT = (
    *("label", "positive", "sensitive", "client_column", "schema", "ignore", "bins", "merge"),
    *("partition", "clients", "groups"),
    *("heterogeneity", "q", "rows", "split_seed", "sensitive_at_prediction", "model", "hidden"),
    *("lr", "rounds", "local_epochs", "batch", "seeds", "engine"),
)
"""The settings of an experiment that say something of the scores."""

SURFACES = ("example1", "fig1b", "fig1c")
"""Settings whose picture in the paper is a surface over the local budgets."""


@experiment_options(*(field.name for field in fields(Experiment) if field.name not in KEPT))
def achievable(
    experiment: Experiment,
    setting: Annotated[
        str | None,
        typer.Option(help="A population of the paper: example1, fig1b, fig1c, fig2, fig3, toy."),
    ] = None,
    population: Annotated[
        Path | None, typer.Option(help="A population of one's own, as TOML.", metavar="FILE")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Read the population off data: the scores of FedAvg.", metavar="DATA"),
    ] = None,
    levels: Annotated[
        str | None,
        typer.Option(
            help="Disparities to tell accuracies for (default 0,.01,.02,.05,.1,.2).",
            metavar="D,..",
        ),
    ] = None,
    eps: Annotated[
        str | None,
        typer.Option(help="Local budgets: describe what they lead to.", metavar="E0,E1,.."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw trade-off curves (Fig. 1: a surface; toy: people) into this PNG or SVG."
        ),
    ] = None,
    plot_gaps: Annotated[
        Path | None,
        typer.Option(help="Draw g, the gap P0 - P1, against lambda into this PNG or SVG."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Tell what fairness each approach can reach, before training.

    Exact optima of the paper's Section 3: training together (CFL), averaging locally fair models
    (LFT+FedAvg), and letting them vote (LFT+Ensemble). Disparities are |P0 - P1|; of more than two
    groups max |Pa - P|, without the vote. On data, one FedAvg model is trained, and its scores are
    taken for P(y=1).

    Example: fedfb achievable --setting fig2 --q .3,.7 --levels 0,.1,.2 --plot curves.png
    """
    from fedfb.experiments.achievable import LEVELS, at_levels, picture_levels
    from fedfb.experiments.achievable import achievable as solve
    from fedfb.report.achievable import draw_gaps, print_achievable
    from fedfb.report.figures import check_figure_path

    for path in (plot, plot_gaps):
        if path:
            check_figure_path(path)
    if [setting, population, data].count(None) != 2:
        raise ConfigError(
            "fedfb achievable needs one population: --setting NAME (example1, fig1b, fig1c, fig2, "
            "fig3, toy), --population FILE, or --data DATA."
        )
    if data is None:
        _refuse_settings(experiment)
    asked, budgets = _read(levels, "--levels") or LEVELS, _read(eps, "--eps") or None
    if data is not None:
        found, told = population_of_data(replace(experiment, data=data))
        title = data
    else:
        (found, title), told = chosen_population(setting, population, experiment.q), {}
    if plot_gaps:
        draw_gaps(found, title, plot_gaps)
    # One search serves the table and the picture.
    shown = picture_levels(found) if plot and setting not in (*SURFACES, "toy") else ()
    record = solve(found, sorted({*asked, *shown}), budgets)
    if plot:
        draw(found, at_levels(record, shown), setting, bool(experiment.q), title, plot)
    record = {**at_levels(record, asked), **told}
    if as_json:
        typer.echo(json.dumps(record, indent=1))
    else:
        print_achievable(record, title)


def chosen_population(
    setting: str | None, file: Path | None, shares: tuple[float, ...]
) -> "tuple[Population, str]":
    """Return the population asked for, and what to call it."""
    from fedfb.experiments.population_file import read_population
    from fedfb.theory import setting as named

    if file is not None:
        if shares:
            raise ConfigError("--q belongs to --setting; a file states the q of its clients.")
        return read_population(file), str(file)
    told = f", q = {', '.join(f'{share:g}' for share in shares)}" if shares else ""
    return named(str(setting), *shares), f"{setting}{told}"


def population_of_data(experiment: Experiment) -> "tuple[Population, dict[str, Any]]":
    """Return the population of the scores on data, with intervals and what was revealed."""
    from fedfb.experiments.score_population import count_scores, population_of, told_of

    scored = count_scores(experiment)
    return population_of(scored.counts), told_of(scored, experiment.seeds[0])


def draw(
    population: "Population",
    record: "Record",
    setting: str | None,
    one: bool,
    title: str,
    path: Path,
) -> None:
    """Draw what the paper draws of a setting: a surface, people, four panels; else one curve."""
    from fedfb.experiments.achievable import achievable, picture_levels
    from fedfb.report.achievable import draw_surface, draw_trade_off
    from fedfb.report.toy import draw_toy
    from fedfb.theory import FIG2_PANELS, FIG3_PANELS, toy
    from fedfb.theory import setting as named

    if setting == "toy":
        return draw_toy(toy(), path)
    if setting in SURFACES:
        return draw_surface(population, title, path)
    panels = {"fig2": FIG2_PANELS, "fig3": FIG3_PANELS}.get(setting or "")
    if not panels or one:
        return draw_trade_off({title: record}, path)
    # The first panel is the setting itself, which has been solved.
    others = [named(str(setting), *q) for q in panels[1:]]
    records = [record, *(achievable(other, picture_levels(other)) for other in others)]
    titles = [f"q = {', '.join(map(str, q))}" for q in panels]
    return draw_trade_off(dict(zip(titles, records, strict=True)), path)


def _refuse_settings(experiment: Experiment) -> None:
    """Refuse settings of data and training where a population is named: nothing reads them."""
    for field in fields(experiment):
        if field.name != "q" and getattr(experiment, field.name) != field.default:
            flag = flag_of(field.name)
            raise ConfigError(f"{flag} has no effect without --data. Leave it out, or give --data.")


def _read(text: str | None, flag: str) -> tuple[float, ...]:
    if text is None:
        return ()
    try:
        return numbers(text)
    except ConfigError as error:
        raise ConfigError(f"{flag}: {error}") from None
