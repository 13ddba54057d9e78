"""All commands together, and the one place where errors become messages."""

import errno
import os
import sys
from typing import TextIO

import typer

import fedfb
from fedfb.cli import audit, explain, frontier, model, paper, run, schema, study
from fedfb.cli.options import Sections, add_plugin_option
from fedfb.errors import FedFBError, WriteError
from fedfb.files import say
from fedfb.tables.address import hide

INTERRUPTED = 130
"""The exit code of typer after Ctrl-C."""

READER_LEFT = 1
"""The exit code of click if nobody reads stdout any more."""

ROOM = "Make room there, or choose another place."

app = typer.Typer(
    name="fedfb",
    help="Train one accurate classifier that treats groups alike, "
    "from rows that stay with their clients.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (run.run, run.compare, model.predict, explain.explain):
    app.command(cls=Sections)(add_plugin_option(command))
app.command(cls=Sections)(explain.ledger)
app.command(cls=Sections)(run.demo)
app.command(name="list", cls=Sections)(add_plugin_option(explain.show))
app.command(cls=Sections)(explain.check)
app.command(cls=Sections)(paper.achievable)
app.command(cls=Sections)(paper.reproduce)
for command in (frontier.frontier, model.report, audit.audit, model.export):
    app.command(cls=Sections)(add_plugin_option(command))
app.command(cls=Sections)(schema.doctor)
app.add_typer(schema.app, name="schema")

app.add_typer(study.study, name="study")
for command in (study.serve, study.join, study.status, study.fetch):
    app.command(cls=Sections, hidden=True)(command)  # as they were called before version 0.2


def _print_version(requested: bool) -> None:
    if requested:
        from fedfb.engine.base import describe_engine  # here: the help does not need numpy

        typer.echo(f"fedfb {fedfb.__version__}\nengine: {describe_engine()}")
        raise typer.Exit


@app.callback()
def set_global_options(
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
    version: bool = typer.Option(
        False,
        "--version",
        callback=_print_version,
        is_eager=True,
        help="Show the version and the engine.",
    ),
) -> None:
    """Train one accurate classifier that treats groups alike.

    The rows stay with their clients.
    """


def main() -> None:
    """Run the command line; an error that a user can correct is printed, with exit code 2."""
    # Clients already train in parallel: more BLAS threads would only wait, .1 s of every start.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Passwords of databases go no further than this line: no message or file can repeat them.
    arguments = [hide(argument) for argument in sys.argv[1:] if argument != "--debug"]
    stdout = sys.stdout  # click replaces this stream if its reader has left
    try:
        try:
            app(arguments)
        except SystemExit:
            # Flush now: an error at the end of the process could not be caught.
            if stdout is not None:
                stdout.flush()
            raise
    except (FedFBError, OSError, MemoryError) as error:
        if "--debug" in sys.argv:
            raise
        if not _is_writable(stdout) or _has_no_room(error):
            _discard(stdout)
            if isinstance(error, BrokenPipeError):
                sys.exit(READER_LEFT)
            error = WriteError(f"cannot write to standard output: {_find_reason(error)}. {ROOM}")
        say(f"fedfb: {error if isinstance(error, FedFBError) else _describe(error)}")
        if not _is_writable(sys.stderr):
            _discard(sys.stderr)
        sys.exit(2)
    except SystemExit as ending:
        if ending.code == INTERRUPTED:
            say("fedfb: stopped. A run with --out continues with --resume.")
        raise


def _is_writable(stream: TextIO | None) -> bool:
    """Return True if a stream accepts its buffer; a closed stream (None) has none."""
    try:
        if stream is not None:
            stream.flush()
    except OSError:
        return False
    return True


def _has_no_room(error: BaseException) -> bool:
    """Return True if a stream without a buffer (PYTHONUNBUFFERED) had no room: files have names."""
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return isinstance(error, OSError) and error.filename is None and error.errno in full


def _discard(stream: TextIO | None) -> None:
    """Discard the buffer of a stream: Python would fail on it when the process ends."""
    if stream is None:
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def _describe(error: OSError | MemoryError) -> str:
    """Return a sentence about an error of the system that no other part of fedfb expects."""
    if isinstance(error, MemoryError):
        return (
            f"this machine has too little memory ({_find_reason(error)}). Use fewer rows, smaller "
            "models or fewer settings."
        )
    where = "" if error.filename is None else f" {error.filename}"
    return f"cannot use{where or ' a file or a connection'}: {_find_reason(error)}. {ROOM}"


def _find_reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
