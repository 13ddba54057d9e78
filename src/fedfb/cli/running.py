"""``fedfb run``: one method on one data set."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from fedfb.cli.options import Strict, end_strictly, experiment_options
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
    strict: Strict = False,
) -> None:
    """Train one method and report its accuracy and disparity.

    FILE is an experiment as TOML, such as the experiment.toml that --out keeps; flags override its
    values.

    Example: fedfb run --data synthetic --algorithm fedfb --notion dp --seeds 5
    """
    from fedfb.experiments import outcome, store
    from fedfb.experiments.resolve import total_rounds
    from fedfb.report.tables import print_run

    if resume and out is None:
        raise ConfigError("--resume needs the folder of the run to go on with: --out DIR.")
    claimed = store.claim(out, experiment, resume) if out else nullcontext()
    rounds = total_rounds(experiment)
    with claimed as checkpoints, progress_bar(rounds, "rounds") as on_round:
        ledger = out / store.LEDGER if out else None
        result = outcome.run(
            experiment, checkpoints=checkpoints, ledger=ledger, on_round=on_round, warn=False
        )
        if out:
            store.save(result, out)
    if out:
        talk(f"Model, results, rounds and ledger are in {out}.")
    if as_json:
        typer.echo(json.dumps(result.report, indent=1, allow_nan=False))
    else:
        print_run(result.report)
    end_strictly(strict, result.report["shortfalls"])
