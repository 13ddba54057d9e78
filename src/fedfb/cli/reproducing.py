"""``fedfb reproduce``: the paper's tables and figures, ours beside the printed ones."""

from pathlib import Path
from typing import Annotated

import typer

from fedfb.cli.progress import talk
from fedfb.errors import ConfigError


def reproduce(
    target: Annotated[str, typer.Argument(help="table1, table2, ..., figure-cp, ...; or all.")],
    out: Annotated[
        Path,
        typer.Option(
            help="Keep finished cells and the page in this folder (default runs/reproduction).",
            show_default=False,
        ),
    ] = Path("runs/reproduction"),
    quick: Annotated[
        bool, typer.Option("--quick", help="One seed, nothing tuned: a first look.")
    ] = False,
    into: Annotated[
        Path | None,
        typer.Option(
            help="Renew the target's section, and its picture, in a page that all of them wrote.",
            metavar="PAGE",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", help="Seeds trained at a time (default: all cores)."),
    ] = None,
) -> None:
    """Redo a table or figure of the paper, ours beside the printed.

    A reproduction that was stopped goes on where it stopped: finished cells are kept in --out.

    Example: fedfb reproduce table1 --quick
    """
    if into is not None and not into.is_file():
        raise ConfigError(f"--into {into}: there is no such page. Give docs/reproduction.md.")
    if jobs is not None and jobs < 1:
        raise ConfigError(f"--jobs {jobs}: expected at least 1 seed at a time.")
    from fedfb.experiments import reproduction, targets
    from fedfb.files import make_folder, write_json, write_whole
    from fedfb.report.reproduction import as_markdown, renew
    from fedfb.report.reproduction_figures import draw_target

    chosen = targets.names() if target == "all" else [target]
    wanted = [targets.read_target(name) for name in chosen]
    reproduction.check_data(wanted, out, quick)
    make_folder(out)
    found = []
    for one in wanted:
        talk(one.title)
        done = reproduction.reproduce(
            one, out, quick, lambda row, column: talk(f"  {row}, {column}"), jobs
        )
        found.append(done)
        draw_target(done, out / "reproduction")
    page, data = out / f"{target}.md", out / f"{target}.json"
    write_whole(page, as_markdown(found))
    write_json(data, found)
    if into is not None:
        renewed = into.read_text(encoding="utf-8")
        for done in found:
            renewed = renew(renewed, done)
            if f"(reproduction/{done['target']}.svg)" in renewed:  # tables have no picture there
                draw_target(done, into.parent / "reproduction")
        write_whole(into, renewed)
    typer.echo(as_markdown(found))
    talk(f"The page is {page}, the figures as numbers {data}.")
