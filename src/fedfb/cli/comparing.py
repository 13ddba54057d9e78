"""``fedfb compare``: several methods on the same seeds."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fedfb.cli.options import Strict, end_strictly, experiment_options, read_names
from fedfb.cli.progress import progress_bar, talk
from fedfb.cli.storing import make_store
from fedfb.errors import ConfigError
from fedfb.experiments.spec import Experiment


@experiment_options("algorithm")
def compare(
    experiment: Experiment,
    file: Annotated[
        Path | None, typer.Argument(help="An experiment as TOML; flags override its values.")
    ] = None,
    algorithms: Annotated[
        str | None,
        typer.Option(
            help="Methods to compare (default fedavg,fedfb,cfl; with --secure or --privacy-epsilon "
            "fedavg,fedfb).",
            metavar="A,B,..",
            show_default=False,
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw accuracy against disparity into this PNG or SVG.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Keep every method's run in this new folder.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    no_store: Annotated[
        bool, typer.Option("--no-store", help="Train everything anew, and keep nothing of it.")
    ] = False,
    strict: Strict = False,
) -> None:
    """Train several methods on the same rows and compare them.

    All share rows and initial models seed by seed, so their differences are paired. What was
    trained before is read from the store ($FEDFB_STORE, else ~/.cache/fedfb/runs); with --out
    models are kept, and everything is trained. FILE is an experiment as TOML; flags override its
    values.

    Example: fedfb compare --algorithms fedavg,fedfb --seeds 5 --plot points.png
    """
    if out and no_store:
        raise ConfigError(
            "--no-store has no effect with --out, which trains everything. Leave one of them out."
        )
    apart = experiment.secure or experiment.privacy_epsilon is not None
    usual = "fedavg,fedfb" if apart else "fedavg,fedfb,cfl"
    names = read_names(usual if algorithms is None else algorithms, "--algorithms")
    reports = compare_and_show(experiment, names, plot, as_json, out, no_store)
    end_strictly(strict, [one for report in reports for one in report["shortfalls"]])


def compare_and_show(
    experiment: Experiment,
    names: list[str],
    plot: Path | None,
    as_json: bool,
    out: Path | None = None,
    no_store: bool = False,
) -> list[dict[str, Any]]:
    """Run the comparison, print it and draw it; return the reports."""
    from fedfb.experiments.compare import differences, for_methods
    from fedfb.experiments.compared import compare_into, reports_of
    from fedfb.experiments.published import published
    from fedfb.experiments.resolve import total_rounds
    from fedfb.experiments.shortfalls import first_sentences
    from fedfb.report.figures import check_figure_path, draw_comparison
    from fedfb.report.tables import print_comparison

    if plot:
        check_figure_path(plot)
    experiments = for_methods(experiment, names)
    rounds = sum(map(total_rounds, experiments))
    with progress_bar(rounds, "rounds") as on_round:
        reports = (
            compare_into(out, experiment, names, on_round)
            if out
            else reports_of(experiment, names, make_store(no_store), on_round)
        )
    if out:
        talk(f"The runs are in {out}; a page to look at: fedfb report {out}")
    paper = {one.algorithm: published(one) for one in experiments}
    found = differences(reports)
    if as_json:
        shown = {"notes": first_sentences(reports), "results": reports, "differences": found}
        typer.echo(json.dumps(shown, indent=1, allow_nan=False))
    else:
        print_comparison(reports, found, paper)
    if plot:
        draw_comparison(reports, paper, plot)
        talk(f"The picture is in {plot}.")
    return reports
