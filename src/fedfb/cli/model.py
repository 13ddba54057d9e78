"""Commands that use a trained model: ``fedfb predict``, ``export`` and ``report``."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedfb.cli.options import Query, TrustCode, dialect_options, refuse_taken, talk
from fedfb.errors import ConfigError
from fedfb.extras import is_installed, refuse_without
from fedfb.tables.dialect import Dialect
from fedfb.tables.sources import with_query

_Seed = Annotated[
    int | None,
    typer.Option(metavar="N", help="The model of this seed (default: the run's first)."),
]
_Setting = Annotated[
    int,
    typer.Option(
        metavar="N", help="Which setting of a grid, from 0 (default 0).", show_default=False
    ),
]


@dialect_options
def predict(
    dialect: Dialect,
    folder: Annotated[Path, typer.Argument(help="The --out folder of a finished run.")],
    rows: Annotated[
        str,
        typer.Argument(
            help="A CSV or Parquet file, a database, or '-', with the columns of training."
        ),
    ],
    seed: _Seed = None,
    setting: _Setting = 0,
    client: Annotated[
        str | None,
        typer.Option(help="The client of these rows, if every client has its own model."),
    ] = None,
    query: Query = None,
    keep: Annotated[
        str, typer.Option(help="Columns to copy to the output, such as id,branch.")
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write: .parquet, or CSV (default: print CSV)."),
    ] = None,
    calibrated: Annotated[
        bool,
        typer.Option(
            "--calibrated",
            help="Add a column with the probability that each score stands for in its group.",
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    trust_code: TrustCode = False,
) -> None:
    """Print score and decision of every row of a file, as CSV.

    FOLDER is the --out folder of a finished run, ROWS a file with the same raw columns as the
    training rows. The score is P(favourable). The decision is 1 if the score reaches the threshold:
    one half, the run's common cut, or that of the row's group where the method sets thresholds. If
    decisions are randomised, the column has the probability of 1.

    A category that training did not have is read as a missing one. A row of a group that training
    did not have is decided without its group, at the plain threshold. A note counts both.

    Weights that make decisions fair move scores away from probabilities. With --calibrated a third
    column has the probability that a score stood for among the training rows of the row's group;
    the file then needs the columns of groups. No decision depends on it.

    Rows are read, decided and written in parts, so a file may be larger than the memory.

    Example: fedfb predict runs/adult rows.csv --keep id --out decisions.csv
    """
    from fedfb.experiments.rule import decide_parts, describe_unknown, write_decisions
    from fedfb.experiments.run_folder import load_model

    if force and out is None:
        raise ConfigError("--force has no effect without --out. Leave it out, or give --out.")
    if out is not None:
        refuse_taken(out, force)
    model = load_model(folder, seed, setting, trust_code)
    copied = tuple(dict.fromkeys(name.strip() for name in keep.split(",") if name.strip()))
    parts = decide_parts(model, with_query(rows, query), copied, client, dialect, calibrated)
    total = write_decisions(parts, out)
    for note in total.notes:
        talk(note)
    into = model.encoder.groups.into
    for note in describe_unknown(total.unknown, into[-1] if into else None):
        talk(f"note: {note}")
    if out is not None:
        talk(f"Score and decision of {total.rows} rows are in {out}.")


if TYPE_CHECKING:
    from fedfb.export.handover import HandOver


def export(
    folder: Annotated[Path, typer.Argument(help="The --out folder of a finished run.")],
    to: Annotated[
        Literal["onnx", "skops", "json"],
        typer.Option(help="The format (json: coefficients; default onnx).", show_default=False),
    ] = "onnx",
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write (default: model.onnx, .skops or .json in FOLDER)."),
    ] = None,
    seed: _Seed = None,
    setting: _Setting = 0,
    client: Annotated[
        str | None,
        typer.Option(help="The client of the model, if every client has its own model."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    trust_code: TrustCode = False,
) -> None:
    """Write a trained model as one file that runs without fedfb.

    FOLDER is the --out folder of a finished run. The file contains preprocessing and thresholds by
    group: it reads raw columns and returns score and decision. Before the file is written, it
    decides 200 artificial rows, and its decisions are compared with those of the model.

    Example: fedfb export runs/adult --to onnx --out adult.onnx
    """
    from fedfb.export.handover import take_over
    from fedfb.files import write_whole

    handover = take_over(folder, seed, setting, client, trust_code)
    path = folder / f"model.{to}" if out is None else out
    refuse_taken(path, force)
    content, sentence = {"onnx": _write_onnx, "skops": _write_skops, "json": _write_json}[to](
        handover
    )
    write_whole(path, content)
    talk(f"The model is in {path}. {sentence}")


def _write_onnx(handover: "HandOver") -> tuple[bytes, str]:
    refuse_without("export", "--to onnx", "onnx")
    from fedfb.export.handover import made_up_rows, refuse_difference
    from fedfb.export.to_onnx import onnx_model, run_onnx

    content = onnx_model(handover).SerializeToString()
    if not is_installed("onnxruntime"):
        return content, "It was not checked: onnxruntime is not installed."
    rows = made_up_rows(handover)
    refuse_difference(handover, rows, run_onnx(content, rows), "ONNX file")
    return content, f"onnxruntime decides {len(rows)} made-up rows as fedfb does."


def _write_skops(handover: "HandOver") -> tuple[bytes, str]:
    refuse_without("export", "--to skops", "skops")
    from fedfb.export.formats import run_skops, skops_file
    from fedfb.export.handover import made_up_rows, refuse_difference

    content, types = skops_file(handover)
    rows = made_up_rows(handover)
    refuse_difference(handover, rows, run_skops(content, types, handover, rows), "skops file")
    return content, f"A reader of the file must trust these types: {', '.join(types)}."


def _write_json(handover: "HandOver") -> tuple[bytes, str]:
    from fedfb.export.formats import coefficients

    text = json.dumps(coefficients(handover), indent=1, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode(), "docs/hand-over.md explains how to read it."


PAGE = "report.html"


def report(
    folder: Annotated[
        Path,
        typer.Argument(help="The --out folder of run, compare, frontier or reproduce."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write (default: report.html in the folder)."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Make one page of a run, comparison, frontier or reproduction.

    FOLDER is the --out folder of fedfb run, compare, frontier or reproduce. The page is a single
    HTML file that needs no network.

    Example: fedfb report runs/mine --out mine.html
    """
    from fedfb.files import interpreting, write_whole
    from fedfb.paper.page import page_of_folder
    from fedfb.report.folder import WRITTEN
    from fedfb.report.html import check_tools, render

    check_tools()
    path = folder / PAGE if out is None else out
    # Values of the right types may still contradict each other, in a file that somebody changed.
    with interpreting(folder, WRITTEN):
        page = page_of_folder(folder)
        refuse_taken(path, force)
        content = render(page)
    write_whole(path, content)
    talk(f"The page is in {path}.")
