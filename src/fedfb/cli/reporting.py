"""``fedfb report``: a run, comparison, frontier or reproduction as one page to look at."""

from pathlib import Path
from typing import Annotated

import typer

from fedfb.cli.outfile import refuse_taken
from fedfb.cli.progress import talk

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
    from fedfb.report.page.folder import read_folder
    from fedfb.report.page.render import check_tools, render
    from fedfb.report.page.sections import make_page

    check_tools()
    path = folder / PAGE if out is None else out
    found = read_folder(folder)
    refuse_taken(path, force)
    page = make_page(found)
    write_whole(path, render(page))
    talk(f"The page is in {path}.")
