"""Commands about the paper: ``fedfb reproduce`` and ``fedfb achievable``."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedfb.cli.options import experiment_options, talk
from fedfb.errors import ConfigError
from fedfb.experiments.spec import Experiment
from fedfb.settings import flag_of, numbers
from fedfb.tables.sources import join_patterns


def reproduce(
    target: Annotated[str, typer.Argument(help="table1, table2, ..., figure-cp, ...; or all.")],
    out: Annotated[
        Path,
        typer.Option(
            help="The folder for finished cells and the page (default runs/reproduction).",
            show_default=False,
        ),
    ] = Path("runs/reproduction"),
    quick: Annotated[
        bool, typer.Option("--quick", help="One seed, nothing tuned: a first look.")
    ] = False,
    into: Annotated[
        Path | None,
        typer.Option(
            help="Replace the section and the picture of this target in a page of all targets.",
            metavar="PAGE",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", help="Seeds trained at a time (default: all cores)."),
    ] = None,
) -> None:
    """Reproduce a table or figure of the paper.

    The output shows our numbers beside the printed ones. A reproduction that was stopped continues
    where it stopped: --out holds the finished cells.

    Example: fedfb reproduce table1 --quick
    """
    if into is not None and not into.is_file():
        raise ConfigError(f"--into {into}: there is no such page. Give docs/reproduction.md.")
    if jobs is not None and jobs < 1:
        raise ConfigError(f"--jobs {jobs}: expected at least 1 seed at a time.")
    from fedfb.files import make_folder, write_json, write_whole
    from fedfb.paper import reproduce as reproduction
    from fedfb.paper import targets
    from fedfb.paper.markdown import as_markdown, draw_target, renew

    chosen = targets.target_names() if target == "all" else [target]
    specs = [targets.read_target(name) for name in chosen]
    reproduction.check_data(specs, out, quick)
    make_folder(out)
    records = []
    for target_spec in specs:
        talk(target_spec.title)
        record = reproduction.reproduce(
            target_spec, out, quick, lambda row, column: talk(f"  {row}, {column}"), jobs
        )
        records.append(record)
        draw_target(record, out / "reproduction")
    page, data = out / f"{target}.md", out / f"{target}.json"
    write_whole(page, as_markdown(records))
    write_json(data, records)
    if into is not None:
        renewed = into.read_text(encoding="utf-8")
        for record in records:
            renewed = renew(renewed, record)
            if f"(reproduction/{record['target']}.svg)" in renewed:  # tables have no picture there
                draw_target(record, into.parent / "reproduction")
        write_whole(into, renewed)
    typer.echo(as_markdown(records))
    talk(f"The page is {page}. The numbers of the figures are in {data}.")


if TYPE_CHECKING:
    from fedfb.theory import Population

SCORE_SETTINGS = (
    *("query", "label", "positive", "sensitive", "client_column", "schema", "ignore", "bins"),
    *("merge", "dates", "partition", "clients", "groups"),
    *("heterogeneity", "q", "rows", "split_seed", "sensitive_at_prediction", "model", "hidden"),
    *("lr", "rounds", "local_epochs", "batch", "seeds", "engine"),
)
"""The settings of an experiment that influence the scores."""

SURFACES = ("example1", "fig1b", "fig1c")
"""Settings whose picture in the paper is a surface over the local budgets."""


@experiment_options(
    *(field.name for field in fields(Experiment) if field.name not in SCORE_SETTINGS)
)
def achievable(
    experiment: Experiment,
    setting: Annotated[
        str | None,
        typer.Option(help="A population of the paper: example1, fig1b, fig1c, fig2, fig3, toy."),
    ] = None,
    population: Annotated[
        Path | None, typer.Option(help="Your own population, as TOML.", metavar="FILE")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="Estimate the population from data, by the scores of FedAvg.", metavar="DATA"
        ),
    ] = None,
    levels: Annotated[
        str | None,
        typer.Option(
            help="Disparities for which to print accuracies (default 0,.01,.02,.05,.1,.2).",
            metavar="D,..",
        ),
    ] = None,
    eps: Annotated[
        str | None,
        typer.Option(help="Local budgets: print their result.", metavar="E0,E1,.."),
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
    """Show what fairness each approach can reach, before training.

    The output has the exact optima of the paper's Section 3: train together (CFL), average locally
    fair models (LFT+FedAvg), or let them vote (LFT+Ensemble). The disparity is |P0 - P1|; with more
    than two groups it is max |Pa - P|, and the vote is left out. With --data one FedAvg model is
    trained, and its scores stand for P(y=1).

    Example: fedfb achievable --setting fig2 --q .3,.7 --levels 0,.1,.2 --plot curves.png
    """
    from fedfb.report.figures import check_figure_path
    from fedfb.theory.achievable import ACHIEVABLE_LEVELS, picture_levels, select_levels
    from fedfb.theory.achievable import achievable as solve
    from fedfb.theory.pictures import draw_gaps, print_achievable

    for path in (plot, plot_gaps):
        if path:
            check_figure_path(path)
    if sum(map(bool, (setting, population, data))) != 1:
        raise ConfigError(
            "fedfb achievable needs one population: --setting NAME (example1, fig1b, fig1c, fig2, "
            "fig3, toy), --population FILE, or --data DATA."
        )
    if not data:
        _refuse_settings(experiment)
    printed, budgets = (
        _read_numbers(levels, "--levels") or ACHIEVABLE_LEVELS,
        _read_numbers(eps, "--eps") or None,
    )
    if data:
        title = join_patterns(data)
        chosen, extra = estimate_population(replace(experiment, data=title))
    else:
        (chosen, title), extra = choose_population(setting, population, experiment.q), {}
    if plot_gaps:
        draw_gaps(chosen, title, plot_gaps)
    # Solve once for the levels of the table and of the picture.
    drawn_levels = picture_levels(chosen) if plot and setting not in (*SURFACES, "toy") else ()
    record = solve(chosen, sorted({*printed, *drawn_levels}), budgets)
    if plot:
        draw_achievable(
            chosen, select_levels(record, drawn_levels), setting, bool(experiment.q), title, plot
        )
    record = {**select_levels(record, printed), **extra}
    if as_json:
        typer.echo(json.dumps(record, indent=1))
    else:
        print_achievable(record, title)


def choose_population(
    setting: str | None, file: Path | None, shares: tuple[float, ...]
) -> "tuple[Population, str]":
    """Return the population of the flags, and its title."""
    from fedfb.theory import setting as named
    from fedfb.theory.achievable import read_population

    if file is not None:
        if shares:
            raise ConfigError("--q belongs to --setting; a file states the q of its clients.")
        return read_population(file), str(file)
    shares_text = f", q = {', '.join(f'{share:g}' for share in shares)}" if shares else ""
    return named(str(setting), *shares), f"{setting}{shares_text}"


def estimate_population(experiment: Experiment) -> "tuple[Population, dict[str, Any]]":
    """Return the population of the scores on data, with intervals and what was revealed."""
    from fedfb.theory.from_scores import count_scores, describe_scores, population_of

    scored = count_scores(experiment)
    return population_of(scored.counts), describe_scores(scored, experiment.seeds[0])


def draw_achievable(
    population: "Population",
    record: dict[str, Any],
    setting: str | None,
    has_shares: bool,
    title: str,
    path: Path,
) -> None:
    """Draw what the paper draws of a setting: a surface, people, four panels, or one curve.

    Args:
        population: the population.
        record: its solution at the levels of the picture.
        setting: the name of the setting; None for data or a file.
        has_shares: True if --q names the shares; then there is one curve.
        title: the title of the picture.
        path: a PNG or SVG file.
    """
    from fedfb.theory import FIG2_PANELS, FIG3_PANELS, toy
    from fedfb.theory import setting as named
    from fedfb.theory.achievable import achievable, picture_levels
    from fedfb.theory.pictures import draw_surface, draw_toy, draw_trade_off

    if setting == "toy":
        return draw_toy(toy(), path)
    if setting in SURFACES:
        return draw_surface(population, title, path)
    panels = {"fig2": FIG2_PANELS, "fig3": FIG3_PANELS}.get(setting or "")
    if not panels or has_shares:
        return draw_trade_off({title: record}, path)
    # The first panel is the setting itself, which has been solved.
    others = [named(str(setting), *q) for q in panels[1:]]
    records = [record, *(achievable(other, picture_levels(other)) for other in others)]
    titles = [f"q = {', '.join(map(str, q))}" for q in panels]
    return draw_trade_off(dict(zip(titles, records, strict=True)), path)


def _refuse_settings(experiment: Experiment) -> None:
    """Refuse settings of data and training without --data: they would have no effect."""
    for field in fields(experiment):
        if field.name != "q" and getattr(experiment, field.name) != field.default:
            flag = flag_of(field.name)
            raise ConfigError(f"{flag} has no effect without --data. Leave it out, or give --data.")


def _read_numbers(text: str | None, flag: str) -> tuple[float, ...]:
    if text is None:
        return ()
    try:
        return numbers(text)
    except ConfigError as error:
        raise ConfigError(f"{flag}: {error}") from None
