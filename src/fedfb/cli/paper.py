"""``fedfb reproduce``: the paper's tables and figures, ours beside the printed ones.

``fedfb achievable``: what fairness each approach can reach, before anyone trains.
"""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedfb.cli.options import experiment_options
from fedfb.cli.progress import talk
from fedfb.errors import ConfigError
from fedfb.experiments.settings import flag_of, numbers
from fedfb.experiments.spec import Experiment


def reproduce(
    target: Annotated[str, typer.Argument(help="table1, table2, ..., figure-cp, ...; or all.")],
    out: Annotated[
        Path,
        typer.Option(
            help="Keep finished cells and the page in this folder (default runs/reproduction).",
            show_default=False,
        ),
    ] = Path("runs/reproduction"),
    quick: Annotated[
        bool, typer.Option("--quick", help="One seed, nothing tuned: a first look.")
    ] = False,
    into: Annotated[
        Path | None,
        typer.Option(
            help="Renew the target's section, and its picture, in a page that all of them wrote.",
            metavar="PAGE",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", help="Seeds trained at a time (default: all cores)."),
    ] = None,
) -> None:
    """Redo a table or figure of the paper, ours beside the printed.

    A reproduction that was stopped goes on where it stopped: finished cells are kept in --out.

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

    chosen = targets.names() if target == "all" else [target]
    wanted = [targets.read_target(name) for name in chosen]
    reproduction.check_data(wanted, out, quick)
    make_folder(out)
    found = []
    for one in wanted:
        talk(one.title)
        done = reproduction.reproduce(
            one, out, quick, lambda row, column: talk(f"  {row}, {column}"), jobs
        )
        found.append(done)
        draw_target(done, out / "reproduction")
    page, data = out / f"{target}.md", out / f"{target}.json"
    write_whole(page, as_markdown(found))
    write_json(data, found)
    if into is not None:
        renewed = into.read_text(encoding="utf-8")
        for done in found:
            renewed = renew(renewed, done)
            if f"(reproduction/{done['target']}.svg)" in renewed:  # tables have no picture there
                draw_target(done, into.parent / "reproduction")
        write_whole(into, renewed)
    typer.echo(as_markdown(found))
    talk(f"The page is {page}, the figures as numbers {data}.")


if TYPE_CHECKING:
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
    from fedfb.report.figures import check_figure_path
    from fedfb.theory.achievable import LEVELS, picture_levels, select_levels
    from fedfb.theory.achievable import achievable as solve
    from fedfb.theory.pictures import draw_gaps, print_achievable

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
        draw(found, select_levels(record, shown), setting, bool(experiment.q), title, plot)
    record = {**select_levels(record, asked), **told}
    if as_json:
        typer.echo(json.dumps(record, indent=1))
    else:
        print_achievable(record, title)


def chosen_population(
    setting: str | None, file: Path | None, shares: tuple[float, ...]
) -> "tuple[Population, str]":
    """Return the population asked for, and what to call it."""
    from fedfb.theory import setting as named
    from fedfb.theory.achievable import read_population

    if file is not None:
        if shares:
            raise ConfigError("--q belongs to --setting; a file states the q of its clients.")
        return read_population(file), str(file)
    told = f", q = {', '.join(f'{share:g}' for share in shares)}" if shares else ""
    return named(str(setting), *shares), f"{setting}{told}"


def population_of_data(experiment: Experiment) -> "tuple[Population, dict[str, Any]]":
    """Return the population of the scores on data, with intervals and what was revealed."""
    from fedfb.theory.from_scores import count_scores, describe_scores, population_of

    scored = count_scores(experiment)
    return population_of(scored.counts), describe_scores(scored, experiment.seeds[0])


def draw(
    population: "Population",
    record: dict[str, Any],
    setting: str | None,
    one: bool,
    title: str,
    path: Path,
) -> None:
    """Draw what the paper draws of a setting: a surface, people, four panels; else one curve."""
    from fedfb.theory import FIG2_PANELS, FIG3_PANELS, toy
    from fedfb.theory import setting as named
    from fedfb.theory.achievable import achievable, picture_levels
    from fedfb.theory.pictures import draw_surface, draw_toy, draw_trade_off

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
