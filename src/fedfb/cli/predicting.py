"""``fedfb predict``: decide new rows with a trained model."""

import csv
import io
from pathlib import Path
from typing import Annotated

import typer

from fedfb.cli.outfile import refuse_taken
from fedfb.cli.progress import talk
from fedfb.errors import ConfigError


def predict(
    folder: Annotated[Path, typer.Argument(help="The --out folder of a finished run.")],
    rows: Annotated[
        Path, typer.Argument(help="A CSV or Parquet file with the columns of the training rows.")
    ],
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="The model of this seed (default: the run's first)."),
    ] = None,
    setting: Annotated[
        int,
        typer.Option(
            metavar="N", help="Which setting of a grid, from 0 (default 0).", show_default=False
        ),
    ] = 0,
    client: Annotated[
        str | None,
        typer.Option(help="Whose rows these are, where clients have models of their own."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write (default: print).")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write over a file that is there already.")
    ] = False,
) -> None:
    """Print score and decision of every row of a file, as CSV.

    FOLDER is the --out folder of a finished run, ROWS a CSV or Parquet file with the columns it was
    trained on, as raw as these were. The score is P(favourable); the decision is 1 where it is at
    least one half (where decisions are randomised, the chance of 1).

    Example: fedfb predict runs/adult rows.csv --out decisions.csv
    """
    from fedfb.data import encode_file
    from fedfb.experiments.store import load_model
    from fedfb.files import write_whole

    if force and out is None:
        raise ConfigError("--force has no effect without --out. Leave it out, or give --out.")
    if out is not None:
        refuse_taken(out, force)
    model = load_model(folder, seed, setting)
    prediction = model.predict(encode_file(model.encoder, rows, groups=False), client)
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(["score", "decision"])
    for score, decision in zip(prediction.score[0], prediction.decision[0], strict=True):
        writer.writerow([f"{score:.6f}", f"{decision:g}"])
    if out is None:
        typer.echo(lines.getvalue(), nl=False)
        return
    write_whole(out, lines.getvalue())
    talk(f"Score and decision of {len(prediction.score[0])} rows are in {out}.")
