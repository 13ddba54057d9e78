"""The commands together, and the one place where errors become messages."""

import os
import sys

import typer

import fedfb
from fedfb.cli import (
    accounting,
    achieving,
    auditing,
    catalogue,
    checking,
    comparing,
    demo,
    explaining,
    exporting,
    frontier,
    joining,
    predicting,
    reporting,
    reproducing,
    running,
    schemas,
    serving,
    study,
)
from fedfb.cli.plugins import with_plugins
from fedfb.cli.sections import Sections
from fedfb.errors import FedFBError

INTERRUPTED = 130
"""The exit code by which typer tells Ctrl-C."""

app = typer.Typer(
    name="fedfb",
    help="Train one accurate classifier that treats groups alike, "
    "from data that may not leave its owners.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (running.run, comparing.compare, predicting.predict, explaining.explain):
    app.command(cls=Sections)(with_plugins(command))
app.command(cls=Sections)(accounting.ledger)
app.command(cls=Sections)(demo.demo)
app.command(name="list", cls=Sections)(with_plugins(catalogue.show))
app.command(cls=Sections)(checking.check)
app.command(cls=Sections)(achieving.achievable)
app.command(cls=Sections)(reproducing.reproduce)
for command in (frontier.frontier, reporting.report, auditing.audit, exporting.export):
    app.command(cls=Sections)(with_plugins(command))
app.add_typer(schemas.app, name="schema")

app.add_typer(study.study, name="study")
for command in (serving.serve, joining.join, serving.status, serving.fetch):
    app.command(cls=Sections)(command)


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"fedfb {fedfb.__version__}")
        raise typer.Exit


@app.callback()
def everything(
    debug: bool = typer.Option(
        False, "--debug", help="Show where an error arose, with its traceback."
    ),
    version: bool = typer.Option(
        False, "--version", callback=_tell_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Train one accurate classifier that treats groups alike.

    The data may not leave its owners.
    """


def main() -> None:
    """Run the command line; what a user can mend is told in a line or two, with exit code 2."""
    # Clients train side by side already: more BLAS threads would only wait, .1 s of every start.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        app(arguments)
    except FedFBError as error:
        if "--debug" in sys.argv:
            raise
        typer.echo(f"fedfb: {error}", err=True)
        sys.exit(2)
    except SystemExit as ending:
        if ending.code == INTERRUPTED:
            typer.echo("fedfb: stopped. A run with --out goes on with --resume.", err=True)
        raise
