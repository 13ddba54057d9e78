"""``fedfb predict``: decide new rows with a trained model.

``fedfb export``: a trained model for those who do not have fedfb.

``fedfb report``: a run, comparison, frontier or reproduction as one page to look at.
"""

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedfb.cli.options import refuse_taken
from fedfb.cli.progress import talk
from fedfb.errors import ConfigError
from fedfb.extras import is_installed, refuse_without


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
    from fedfb.experiments.run_folder import load_model
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


if TYPE_CHECKING:
    from fedfb.export.handover import HandOver


def export(
    folder: Annotated[Path, typer.Argument(help="The --out folder of a finished run.")],
    to: Annotated[
        Literal["onnx", "skops", "json"],
        typer.Option(help="What to write (json: coefficients; default onnx).", show_default=False),
    ] = "onnx",
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write (default: model.onnx, .skops or .json in FOLDER)."),
    ] = None,
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
        typer.Option(help="Whose model, where clients have models of their own."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write over a file that is there already.")
    ] = False,
) -> None:
    """Write a trained model as one file that runs without fedfb.

    FOLDER is the --out folder of a finished run. Preprocessing and thresholds by group are inside:
    raw columns go in, score and decision come out. Before it is written, the file decides 200
    made-up rows and is compared with the model.

    Example: fedfb export runs/adult --to onnx --out adult.onnx
    """
    from fedfb.export.handover import take_over
    from fedfb.files import write_whole

    hand = take_over(folder, seed, setting, client)
    path = folder / f"model.{to}" if out is None else out
    refuse_taken(path, force)
    content, told = {"onnx": _onnx, "skops": _skops, "json": _json}[to](hand)
    write_whole(path, content)
    talk(f"The model is in {path}. {told}")


def _onnx(hand: "HandOver") -> tuple[bytes, str]:
    refuse_without("export", "--to onnx", "onnx")
    from fedfb.export.comparing import made_up_rows, refuse_difference
    from fedfb.export.to_onnx import onnx_model, run_onnx

    content = onnx_model(hand).SerializeToString()
    if not is_installed("onnxruntime"):
        return content, "It was not checked: onnxruntime is not installed."
    rows = made_up_rows(hand)
    refuse_difference(hand, rows, run_onnx(content, rows), "ONNX file")
    return content, f"onnxruntime decides {len(rows)} made-up rows as fedfb does."


def _skops(hand: "HandOver") -> tuple[bytes, str]:
    refuse_without("export", "--to skops", "skops")
    from fedfb.export.comparing import made_up_rows, refuse_difference
    from fedfb.export.formats import run_skops, skops_file

    content, types = skops_file(hand)
    rows = made_up_rows(hand)
    refuse_difference(hand, rows, run_skops(content, types, hand, rows), "skops file")
    return content, f"Whoever reads it trusts these types: {', '.join(types)}."


def _json(hand: "HandOver") -> tuple[bytes, str]:
    from fedfb.export.formats import coefficients

    text = json.dumps(coefficients(hand), indent=1, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode(), "docs/hand-over.md says how to read it."


PAGE = "report.html"


def report(
    folder: Annotated[
        Path,
        typer.Argument(help="What run, compare, frontier or reproduce wrote with --out."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write (default: report.html in the folder)."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write over a file that is there already.")
    ] = False,
) -> None:
    """Make one page of a run, comparison, frontier or reproduction.

    FOLDER is what fedfb run, compare, frontier or reproduce wrote with --out. The page is a single
    HTML file that needs no network: send it to whoever is to look at it.

    Example: fedfb report runs/mine --out mine.html
    """
    from fedfb.files import write_whole
    from fedfb.paper.page import page_of_folder
    from fedfb.report.html import check_tools, render

    check_tools()
    path = folder / PAGE if out is None else out
    page = page_of_folder(folder)
    refuse_taken(path, force)
    write_whole(path, render(page))
    talk(f"The page is in {path}.")
