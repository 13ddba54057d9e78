"""``fedfb run``: one method on one data set."""

import json
from pathlib import Path
from typing import Annotated

import typer

from fedfb.cli.options import experiment_options
from fedfb.cli.progress import progress_bar, talk
from fedfb.errors import ConfigError
from fedfb.experiments.spec import Experiment


@experiment_options()
def run(
    experiment: Experiment,
    file: Annotated[
        Path | None, typer.Argument(help="An experiment as TOML; flags override its values.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Keep model, results and checkpoints in this new folder.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Train one method and report accuracy and disparity on the test rows.

    Example: fedfb run --data synthetic --algorithm fedfb --notion dp --seeds 5
    """
    from fedfb.experiments import outcome, store
    from fedfb.report.tables import print_run

    if resume and out is None:
        raise ConfigError("--resume needs the folder of the run to go on with: --out DIR.")
    checkpoints = store.prepare(out, experiment, resume) if out else None
    phases = 2 if experiment.tune else 1
    with progress_bar(phases * len(experiment.seeds) * experiment.rounds, "rounds") as on_round:
        result = outcome.run(experiment, checkpoints=checkpoints, on_round=on_round)
    if out:
        store.save(result, out)
        talk.print(f"Model, results and rounds are in {out}.", style="dim", highlight=False)
    if as_json:
        typer.echo(json.dumps(result.report, indent=1, allow_nan=False))
    else:
        print_run(result.report)
