"""Talk on stderr: sentences, and progress on a terminal; a pipe gets no bar."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from fedfb import runtime


def talk(sentence: str) -> None:
    """Say something to the user; stdout is for data. Where nobody can be told, go on."""
    with suppress(OSError):
        typer.secho(sentence, err=True, dim=True)


@contextmanager
def progress_bar(total: int, label: str) -> Iterator[Callable[["runtime.Progress"], None]]:
    """Show how many rounds are done, of all seeds and methods together."""
    # Here, because importing them takes a third of the time that fedfb --help may take.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    silent = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=silent) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, advance=1)
