"""Progress on a terminal; silence in a pipe."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from fedfb import runtime

talk = Console(stderr=True)
"""Where the program talks; stdout is for data."""


@contextmanager
def progress_bar(total: int, label: str) -> Iterator[Callable[["runtime.Progress"], None]]:
    """Show how many rounds are done, of all seeds and methods together."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=talk, transient=True, disable=not talk.is_terminal) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, advance=1)
