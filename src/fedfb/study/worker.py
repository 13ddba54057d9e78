"""The process that holds a silo's rows and answers for it: started again should it die."""

import multiprocessing
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from fedfb.errors import FedFBError
from fedfb.study.keys import Bundle


class DiedError(Exception):
    """The worker's process ended in the middle of its work."""


class Worker:
    """One silo's process, by a pipe. Of what it was told, a new one knows nothing."""

    def __init__(self, bundle: Bundle, data: Path, folder: Path) -> None:
        self._start = (bundle, data, folder)
        self._process: Any = None
        self._pipe: Connection | None = None

    @property
    def pid(self) -> int:
        """The process's id."""
        return int(self._process.pid)

    def open(self) -> dict[str, Any]:
        """Start the process; return what its file holds, or raise what is wrong with it."""
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        self._process = context.Process(target=_work, args=(there, *self._start), daemon=True)
        self._process.start()
        there.close()
        return self._receive()

    def ask(self, action: str, content: dict[str, Any]) -> dict[str, Any]:
        """Have one message answered; a process that has died is started anew for the next."""
        if self._pipe is None:
            self.open()
        assert self._pipe is not None
        try:
            self._pipe.send((action, content))
        except OSError:
            self._lost()
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        assert self._pipe is not None
        try:
            reply = self._pipe.recv()
        except (EOFError, OSError):
            self._lost()
        if isinstance(reply, Exception):
            raise reply
        found: dict[str, Any] = reply
        return found

    def _lost(self) -> NoReturn:
        self.close()
        raise DiedError("the process that answers for this silo died; another one takes its place")

    def close(self) -> None:
        """End the process."""
        if self._pipe is not None:
            self._pipe.close()
            self._process.kill()
            self._process.join()
            self._pipe = None


def _work(pipe: Connection, bundle: Bundle, data: Path, folder: Path) -> None:
    from threadpoolctl import threadpool_limits

    from fedfb.study.client import handle, open_silo

    try:
        silo = open_silo(bundle, data, folder)
    except FedFBError as error:
        pipe.send(error)
        return
    pipe.send({"train": len(silo.train), "test": len(silo.test)})
    with threadpool_limits(limits=1):
        while True:
            try:
                action, content = pipe.recv()
            except (EOFError, KeyboardInterrupt):
                sys.exit(0)
            silo, reply = handle(silo, action, content)
            pipe.send(reply)
