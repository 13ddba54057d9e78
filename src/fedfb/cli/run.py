"""Commands that train: ``fedfb run``, ``compare`` and ``demo``."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

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
from fedfb.extras import is_installed, missing_message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedfb.experiments.result import Comparison, Printed


@experiment_options()
def run(
    experiment: Experiment,
    file: Annotated[
        Path | None, typer.Argument(help="An experiment as TOML; flags override its values.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write model, results and checkpoints into this new folder.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    strict: Strict = False,
) -> None:
    """Train one method and report its accuracy and disparity.

    FILE is an experiment as TOML, such as the experiment.toml in an --out folder. Flags override
    its values.

    Example: fedfb run --data synthetic --algorithm fedfb --notion dp --seeds 5
    """
    from fedfb.experiments import run_folder as store
    from fedfb.experiments.codec import to_json
    from fedfb.experiments.outcome import train
    from fedfb.experiments.resolve import total_rounds
    from fedfb.report.text import print_run

    if resume and out is None:
        raise ConfigError("--resume needs the folder of the run to continue: --out DIR.")
    claimed = store.claim(out, experiment, resume) if out else nullcontext()
    rounds = total_rounds(experiment)
    with claimed as checkpoints, progress_bar(rounds, "rounds") as on_round:
        ledger = out / store.LEDGER if out else None
        outcome = train(
            experiment, checkpoints=checkpoints, ledger=ledger, on_round=on_round, on_note=talk
        )
        if out:
            store.save(outcome, out)
    if out:
        talk(f"Model, results, rounds and ledger are in {out}.")
    if as_json:
        typer.echo(to_json(outcome.result))
    else:
        print_run(outcome.result)
    end_strictly(strict, outcome.result.shortfalls)


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
        Path | None, typer.Option(help="Write the run of every method into this new folder.")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Write the means into this CSV; - is stdout.")
    ] = None,
    latex: Annotated[
        Path | None, typer.Option(help="Write the table into this LaTeX file; - is stdout.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    no_store: Annotated[
        bool, typer.Option("--no-store", help="Train everything again, and store nothing.")
    ] = False,
    strict: Strict = False,
) -> None:
    """Train several methods on the same rows and compare them.

    For each seed all methods share rows and initial models, so their differences are paired.
    Results of earlier runs are read from the store ($FEDFB_STORE, else ~/.cache/fedfb/runs). With
    --out everything is trained, and models are kept. FILE is an experiment as TOML; flags override
    its values.

    Example: fedfb compare --algorithms fedavg,fedfb --seeds 5 --plot points.png
    """
    if out and no_store:
        raise ConfigError(
            "--no-store has no effect with --out, which trains everything. Leave one of them out."
        )
    apart = experiment.secure or experiment.privacy_epsilon is not None
    usual = "fedavg,fedfb" if apart else "fedavg,fedfb,cfl"
    names = read_names(usual if algorithms is None else algorithms, "--algorithms")
    to_stdout = [as_json, csv == STDOUT, latex == STDOUT]
    if sum(to_stdout) > 1:
        raise ConfigError(
            "--json, --csv - and --latex - all print to stdout. Give the others a file."
        )
    for flag, path in (("--csv", csv), ("--latex", latex)):
        check_writable(flag, path)
    shown = Shown(as_json, csv, latex)
    comparison = compare_and_show(experiment, names, plot, shown, out, no_store)
    end_strictly(strict, comparison.notes)


class Shown(NamedTuple):
    """How a comparison is shown: tables, or one of these on stdout, and files beside it."""

    as_json: bool = False
    csv: Path | None = None
    latex: Path | None = None


def compare_and_show(
    experiment: Experiment,
    names: list[str],
    plot: Path | None,
    shown: Shown,
    out: Path | None = None,
    no_store: bool = False,
) -> "Comparison":
    """Run the comparison, print it and draw it; return it."""
    from fedfb.experiments.compare import compare_into, for_methods, make_comparison, results_of
    from fedfb.experiments.resolve import total_rounds
    from fedfb.paper.targets import published
    from fedfb.report.figures import check_figure_path, draw_comparison

    if plot:
        check_figure_path(plot)
    experiments = for_methods(experiment, names)
    rounds = sum(map(total_rounds, experiments))
    with progress_bar(rounds, "rounds") as on_round:
        comparison = make_comparison(
            compare_into(out, experiment, names, on_round)
            if out
            else results_of(experiment, names, make_store(no_store), on_round)
        )
    if out:
        talk(f"The runs are in {out}; a page to look at: fedfb report {out}")
    paper = {one.algorithm: published(one) for one in experiments}
    _show(comparison, paper, shown)
    if plot:
        draw_comparison(comparison, paper, plot)
        talk(f"The picture is in {plot}.")
    return comparison


def _show(comparison: "Comparison", paper: "Mapping[str, Printed | None]", shown: Shown) -> None:
    """Write the files that were asked for, and print what belongs on stdout."""
    from fedfb.experiments.codec import to_json
    from fedfb.files import write_whole
    from fedfb.report.table import to_csv
    from fedfb.report.tables import comparison_rows
    from fedfb.report.text import print_comparison

    texts = {}
    if shown.csv:
        texts[shown.csv] = to_csv(comparison_rows(comparison))
    if shown.latex:
        texts[shown.latex] = comparison.to_latex() + "\n"
    for path, text in texts.items():
        if path != STDOUT:
            write_whole(path, text)
            talk(f"The table is in {path}.")
    if STDOUT in texts:
        typer.echo(texts[STDOUT], nl=False)
    elif shown.as_json:
        typer.echo(to_json(comparison))
    else:
        print_comparison(comparison, paper)


NEXT = """
What to type next (in this folder: .venv/bin/fedfb ...):
  fedfb run --data adult --notion eo --seeds 5 --out runs/adult
  fedfb run --data 'clients/*' --label approved --positive yes --sensitive sex
  fedfb compare --help
  fedfb list"""


def demo(
    plot: Annotated[
        Path,
        typer.Option(
            help="Draw into this PNG or SVG (default demo/accuracy-disparity.png).",
            show_default=False,
        ),
    ] = Path("demo/accuracy-disparity.png"),
) -> None:
    """Compare FedAvg, FedFB and CFL on synthetic data.

    It downloads nothing and takes less than a minute.

    Example: fedfb demo
    """
    from fedfb.experiments.spec import Experiment
    from fedfb.files import make_folder

    drawing = is_installed("matplotlib")
    if drawing:
        make_folder(plot.parent)
    # The paper's clients train locally, and its models are given the group: only so its figures
    # may stand beside ours.
    experiment = Experiment(
        model="mlp", solver="local", seeds=tuple(range(5)), sensitive_at_prediction=True
    )
    methods = ["fedavg", "fedfb", "cfl"]
    compare_and_show(experiment, methods, plot if drawing else None, Shown())
    if not drawing:
        talk(f"There is no picture: {missing_message('report', 'it', ['matplotlib'])}")
    talk(NEXT)
