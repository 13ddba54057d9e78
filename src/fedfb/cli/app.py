"""The commands together, and the one place where errors become messages."""

import errno
import os
import sys
from typing import TextIO

import typer

import fedfb
from fedfb.cli import audit, data, explain, frontier, model, paper, run, study
from fedfb.cli.options import Sections, with_plugins
from fedfb.errors import FedFBError, WriteError
from fedfb.files import say

INTERRUPTED = 130
"""The exit code by which typer tells Ctrl-C."""

READER_LEFT = 1
"""The exit code by which click tells that nobody reads stdout any more."""

ROOM = "Make room there, or give another place."

app = typer.Typer(
    name="fedfb",
    help="Train one accurate classifier that treats groups alike, "
    "from data that may not leave its owners.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (run.run, run.compare, model.predict, explain.explain):
    app.command(cls=Sections)(with_plugins(command))
app.command(cls=Sections)(explain.ledger)
app.command(cls=Sections)(run.demo)
app.command(name="list", cls=Sections)(with_plugins(explain.show))
app.command(cls=Sections)(explain.check)
app.command(cls=Sections)(paper.achievable)
app.command(cls=Sections)(paper.reproduce)
for command in (frontier.frontier, model.report, audit.audit, model.export):
    app.command(cls=Sections)(with_plugins(command))
app.add_typer(data.app, name="schema")

app.add_typer(study.study, name="study")
for command in (study.serve, study.join, study.status, study.fetch):
    app.command(cls=Sections)(command)


def _tell_version(asked: bool) -> None:
    if asked:
        from fedfb.engine.choose import describe_engine  # here: the help does not need numpy

        typer.echo(f"fedfb {fedfb.__version__}\nengine: {describe_engine()}")
        raise typer.Exit


@app.callback()
def everything(
    debug: bool = typer.Option(
        False, "--debug", help="Show where an error arose, with its traceback."
    ),
    version: bool = typer.Option(
        False,
        "--version",
        callback=_tell_version,
        is_eager=True,
        help="Show the version and the engine.",
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
    stdout = sys.stdout  # click puts another stream in its place where the reader has left
    try:
        _run(arguments, stdout)
    except (FedFBError, OSError, MemoryError) as error:
        if "--debug" in sys.argv:
            raise
        if not _is_writable(stdout) or _has_no_room(error):
            _drop(stdout)
            if isinstance(error, BrokenPipeError):
                sys.exit(READER_LEFT)
            error = WriteError(f"cannot write to standard output: {_reason(error)}. {ROOM}")
        say(f"fedfb: {error if isinstance(error, FedFBError) else _sentence(error)}")
        if not _is_writable(sys.stderr):
            _drop(sys.stderr)
        sys.exit(2)
    except SystemExit as ending:
        if ending.code == INTERRUPTED:
            say("fedfb: stopped. A run with --out goes on with --resume.")
        raise


def _run(arguments: list[str], stdout: TextIO | None) -> None:
    try:
        app(arguments)
    except SystemExit:
        # What is still in the buffer would fail at the very end, where nobody can catch it.
        if stdout is not None:
            stdout.flush()
        raise


def _is_writable(stream: TextIO | None) -> bool:
    """Tell whether a stream takes what is still in its buffer; a closed one (None) has nothing."""
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


def _drop(stream: TextIO | None) -> None:
    """Lead what is still in a stream's buffer nowhere: Python would fail on it at its end."""
    if stream is None:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _sentence(error: OSError | MemoryError) -> str:
    """Phrase what the system refused, where no part of fedfb has foreseen it."""
    if isinstance(error, MemoryError):
        return (
            f"the memory of this machine is not enough ({_reason(error)}). Give fewer or smaller "
            "rows, models or settings."
        )
    where = "" if error.filename is None else f" {error.filename}"
    return f"cannot use{where or ' a file or a connection'}: {_reason(error)}. {ROOM}"


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
