"""``fedfb ledger``: what left the clients in a run."""

import json
from pathlib import Path
from typing import Annotated

import typer

from fedfb.errors import DataError


def ledger(
    run: Annotated[Path, typer.Argument(help="The folder of a run: its --out.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, with every message, instead of tables.")
    ] = False,
) -> None:
    """Show what left the clients in a run and reached the server.

    RUN is the folder that fedfb run --out has made, also of a run that was stopped.

    Example: fedfb ledger runs/mine
    """
    from fedfb.data.request import BUILT_IN
    from fedfb.experiments.store import LEDGER, read_experiment
    from fedfb.files import interpreting
    from fedfb.report.ledger import as_record, print_ledger
    from fedfb.runtime.ledger import EXPECTED, read_ledger

    path = run / LEDGER
    if not path.is_file():
        raise DataError(
            f"{run} holds no ledger (no {LEDGER}). Name the folder of a run: fedfb run ... --out "
            "FOLDER writes one."
        )
    accounts = read_ledger(path)
    published = read_experiment(run).data in BUILT_IN
    with interpreting(path, EXPECTED):
        record = as_record(accounts, published)
    if as_json:
        typer.echo(json.dumps(record, indent=1))
    else:
        print_ledger(accounts, published)
