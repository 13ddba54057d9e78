"""The process that holds a client's rows and answers messages. It is replaced if it dies."""

import multiprocessing
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from fedfb.errors import FedFBError
from fedfb.study.keys import Bundle
from fedfb.tables.address import copy_secrets, keep_secrets
from fedfb.tables.dialect import DETECT, Dialect


class WorkerDiedError(Exception):
    """The worker's process ended before it answered."""


class Worker:
    """The process of one client, reached by a pipe.

    A new process has no keys and no description of the phase: it knows only its rows.
    """

    def __init__(
        self, bundle: Bundle, data: str | Path, folder: Path, dialect: Dialect = DETECT
    ) -> None:
        self._start = (bundle, data, folder, dialect, copy_secrets())
        self._process: Any = None
        self._pipe: Connection | None = None

    @property
    def pid(self) -> int:
        """The id of the process."""
        return int(self._process.pid)

    def open(self) -> dict[str, Any]:
        """Start the process; return numbers of rows and notes, or raise the error of its file."""
        context = multiprocessing.get_context("spawn")
        self._pipe, other_end = context.Pipe()
        self._process = context.Process(target=_work, args=(other_end, *self._start), daemon=True)
        self._process.start()
        other_end.close()
        return self._receive()

    def answer(self, kind: str, content: dict[str, Any]) -> dict[str, Any]:
        """Return the reply to one message.

        Args:
            kind: the kind of message.
            content: its content.

        Raises:
            WorkerDiedError: the process died. The next call starts another one.
        """
        if self._pipe is None:
            self.open()
        assert self._pipe is not None
        try:
            self._pipe.send((kind, content))
        except OSError:
            self._raise_died()
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        assert self._pipe is not None
        try:
            reply = self._pipe.recv()
        except (EOFError, OSError):
            self._raise_died()
        if isinstance(reply, Exception):
            raise reply
        content: dict[str, Any] = reply
        return content

    def _raise_died(self) -> NoReturn:
        self.close()
        raise WorkerDiedError(
            "the process that answers for this client died; another one replaces it"
        )

    def close(self) -> None:
        """End the process."""
        if self._pipe is not None:
            self._pipe.close()
            self._process.kill()
            self._process.join()
            self._pipe = None


def _work(
    pipe: Connection,
    bundle: Bundle,
    data: str | Path,
    folder: Path,
    dialect: Dialect,
    secrets: dict[str, dict[str, str]],
) -> None:
    from threadpoolctl import threadpool_limits

    from fedfb.study.client import handle, open_client

    keep_secrets(secrets)
    try:
        client = open_client(bundle, data, folder, dialect)
    except FedFBError as error:
        pipe.send(error)
        return
    pipe.send({"train": len(client.train), "test": len(client.test), "notes": client.notes})
    with threadpool_limits(limits=1):
        while True:
            try:
                kind, content = pipe.recv()
            except (EOFError, KeyboardInterrupt):
                sys.exit(0)
            client, reply = handle(client, kind, content)
            pipe.send(reply)
