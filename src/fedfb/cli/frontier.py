"""``fedfb frontier``: every approach on the same seeds, accuracy against disparity."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedfb.cli.options import (
    STDOUT,
    Strict,
    check_writable,
    end_strictly,
    experiment_options,
    make_store,
    progress_bar,
    read_names,
    talk,
)
from fedfb.errors import ConfigError
from fedfb.experiments.spec import Experiment
from fedfb.extras import is_installed
from fedfb.settings import numbers as read_numbers
from fedfb.settings import seeds as read_seeds

if TYPE_CHECKING:
    from fedfb.experiments.cache import Store
    from fedfb.experiments.result import Frontier

CHOSEN = (
    *("algorithm", "variant", "outer", "cost", "alpha", "knobs"),
    *("tune", "accuracy_floor", "seeds", "leave_out_clients"),
)
"""Settings that a frontier goes through by itself, or reads in its own way."""

USUAL_SEEDS, QUICK_SEEDS = "5", "1"


@experiment_options(*CHOSEN)
def frontier(
    experiment: Experiment,
    file: Annotated[
        Path | None, typer.Argument(help="An experiment as TOML; flags override its values.")
    ] = None,
    algorithms: Annotated[
        str,
        typer.Option(
            help="Methods, or all that aim at the notion (the default).",
            metavar="A,B,..",
            show_default=False,
        ),
    ] = "all",
    seeds: Annotated[
        str | None,
        typer.Option(
            help="Seeds to train with: 5 means 0 to 4; 100:110 is 100 to 109 (default 5).",
            metavar="N|N:N",
        ),
    ] = None,
    privacy_epsilons: Annotated[
        str | None,
        typer.Option(
            help="Train with each epsilon, such as 1,3,10,inf; private methods only.",
            metavar="X,X,..",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write points, picture and CSV into this new folder.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw into this PNG or SVG.")] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Write the points into this CSV; - is stdout.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="One seed, and at most three points a curve.")
    ] = False,
    no_store: Annotated[
        bool, typer.Option("--no-store", help="Train everything again, and store nothing.")
    ] = False,
    strict: Strict = False,
) -> None:
    """Draw accuracy against disparity for every approach.

    All methods share rows and seeds. FedFB, CFL and thresholds vary --target, other methods vary
    their own knobs, one at a time. Results of earlier runs are read from the store ($FEDFB_STORE,
    else ~/.cache/fedfb/runs). FILE is an experiment as TOML; flags override its values.

    Example: fedfb frontier --data adult --notion dp --algorithms all --out frontiers/adult
    """
    from fedfb.experiments.run_folder import claim_empty
    from fedfb.report.figures import check_figure_path

    if as_json and csv == STDOUT:
        raise ConfigError("--json and --csv - both print to stdout. Give the CSV a file.")
    if plot:
        check_figure_path(plot)
    check_writable("--csv", csv)
    names = None if algorithms == "all" else read_names(algorithms, "--algorithms")
    given = seeds or (None if file else QUICK_SEEDS if quick else USUAL_SEEDS)
    if given:
        experiment = replace(experiment, seeds=read_seeds(given))
    epsilons = _read_epsilons(privacy_epsilons, experiment)
    with claim_empty(out) if out else nullcontext():
        found = _trained(experiment, names, quick, make_store(no_store), epsilons)
        if out:
            _keep(found, out)
    show_frontier(found, csv, as_json)
    if plot:
        _draw(found, plot)
        talk(f"The picture is in {plot}.")
    end_strictly(strict, found.shortfalls)


def _read_epsilons(value: str | None, experiment: Experiment) -> tuple[float, ...]:
    if value is None:
        return ()
    if experiment.privacy_epsilon is not None:
        raise ConfigError("--privacy-epsilon and --privacy-epsilons both say how private to be.")
    found = read_numbers(value)
    if min(found) <= 0 or len(set(found)) < len(found):
        raise ConfigError(
            f"--privacy-epsilons takes different numbers above 0 or inf, got {value!r}."
        )
    return found


def _draw(found: "Frontier", path: Path) -> None:
    from fedfb.report.frontier import draw_frontier, draw_private_frontier

    if found.epsilons:
        draw_private_frontier(found, path)
    else:
        draw_frontier(found, path)


def _trained(
    experiment: Experiment,
    names: list[str] | None,
    quick: bool,
    store: "Store | None",
    epsilons: tuple[float, ...],
) -> "Frontier":
    from contextlib import ExitStack

    from fedfb.experiments.frontier import frontier as train_all

    # How many rounds there are is known once rows are read, as the number of groups decides.
    with ExitStack() as shown:
        found = train_all(
            experiment,
            names,
            store,
            quick=quick,
            epsilons=epsilons,
            on_plan=lambda plan: shown.enter_context(progress_bar(plan.rounds, "rounds")),
        )
    if not found.points:
        reasons = [f"{o.algorithm}: {o.reason}" for o in (*found.failed, *found.left_out)]
        raise ConfigError(f"no method could be trained. {'; '.join(reasons)}")
    return found


def _keep(found: "Frontier", folder: Path) -> None:
    """Write what a frontier came to into its folder; the picture only where it can be drawn."""
    from fedfb.experiments.codec import to_builtins
    from fedfb.experiments.run_folder import FRONTIER
    from fedfb.files import write_json, write_whole

    write_json(folder / FRONTIER, to_builtins(found))
    write_whole(folder / "frontier.csv", _csv(found))
    if is_installed("matplotlib"):
        _draw(found, folder / "frontier.svg")
    talk(f"The frontier is in {folder}; a page to look at: fedfb report {folder}")


def _csv(found: "Frontier") -> str:
    from fedfb.report.frontier import frontier_csv

    return frontier_csv(found)


def show_frontier(found: "Frontier", csv: Path | None, as_json: bool) -> None:
    """Print the frontier as tables, JSON or CSV, and write the CSV asked for."""
    from fedfb.experiments.codec import to_json
    from fedfb.files import write_whole
    from fedfb.report.frontier import print_frontier, print_private_frontier

    if csv == STDOUT:
        typer.echo(_csv(found), nl=False)
        return
    if csv:
        write_whole(csv, _csv(found))
        talk(f"The points are in {csv}.")
    if as_json:
        typer.echo(to_json(found))
    elif found.epsilons:
        print_private_frontier(found)
    else:
        print_frontier(found)
