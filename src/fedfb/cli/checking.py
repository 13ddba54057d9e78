"""``fedfb check``: whether a method holds to what every method must hold to."""

from pathlib import Path
from typing import Annotated

import typer


def check(
    method: Annotated[
        str, typer.Argument(help="A Python file with a METHOD, or a method of fedfb list.")
    ],
) -> None:
    """Check a method of your own, and say what is broken.

    METHOD is a Python file that defines one (docs/extend.md), or a name from fedfb list. One line
    per check; the exit code is 1 if any failed.

    Example: fedfb check mine.py
    """
    from fedfb.algorithms import METHODS, register
    from fedfb.experiments.conformance import checks, failure_of
    from fedfb.experiments.plugins import read_methods

    known = METHODS.get(method)
    methods = (known,) if known else read_methods(Path(method))
    failed = 0
    for one in methods:
        register(one)
        for name, look in checks(one):
            broken = failure_of(look)
            failed += broken is not None
            typer.echo(f"{one.name}, {name}: {'passed' if broken is None else 'BROKEN: ' + broken}")
    if failed:
        raise typer.Exit(1)
