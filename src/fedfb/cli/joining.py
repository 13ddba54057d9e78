"""``fedfb join``: a silo takes part in a study."""

from pathlib import Path
from typing import Annotated

import typer

from fedfb.cli.progress import talk
from fedfb.errors import ConfigError
from fedfb.extras import refuse_without


def join(
    bundle: Annotated[Path, typer.Argument(help="The silo's bundle.")],
    data: Annotated[
        Path | None, typer.Option(help="The silo's own rows, a CSV or Parquet file.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="The silo's own keys, if it made them (fedfb study key).")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="Where the silo keeps what is its own (default: beside BUNDLE)."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before joining.")] = False,
) -> None:
    """Take part in a study with one's own rows, which stay here.

    BUNDLE is the file that the coordinator has made for this silo. The rows are checked against the
    study's schema; then all that will be sent is shown, and asked for once.

    Example: fedfb join north.bundle --data north.csv
    """
    refuse_without("flower", "a study")
    from fedfb.flower.bundle import read_bundle
    from fedfb.flower.disclosure import what_is_sent
    from fedfb.flower.places import state_of
    from fedfb.flower.worker import Worker

    if data is None:
        raise ConfigError("fedfb join needs the silo's own rows: --data FILE.csv.")
    own = read_bundle(bundle, key)
    folder = state or state_of(bundle)
    worker = Worker(own, data, folder)
    try:
        rows = worker.open()
        typer.echo("\n".join(what_is_sent(own, data, rows["train"], rows["test"])))
        if not yes:
            typer.confirm("Join?", abort=True)
        from fedfb.flower.node import run_node

        run_node(own, worker, folder, talk)
    finally:
        worker.close()
    talk(f"The study is finished. Its model and report: fedfb fetch {bundle} --to FOLDER")
