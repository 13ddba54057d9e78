"""The transport of a study: what the server needs from it, and the only package that imports flwr.

``server`` and ``client`` carry messages by Flower, one file for each side. Nothing leaves the
machine except the messages of a study: Flower's telemetry, its check for newer versions and its
installation of packages at run time are off.
"""

import os
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from fedfb.errors import FedFBError
from fedfb.study.journal import Log
from fedfb.study.study import Study

OFFLINE = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_LOG_LEVEL": "CRITICAL",
}

# Flower reads these variables when it is imported. Python runs this file before the modules of this
# package, which import Flower.
for _name, _value in OFFLINE.items():
    os.environ.setdefault(_name, _value)


class StoppedByClientError(FedFBError):
    """A client refuses to continue, and says why."""


@runtime_checkable  # so that annotated shapes can be checked
class Transport(Protocol):
    """Carries messages to the clients of a study, by their ids.

    ``failed`` is the time at which a client last left a message unanswered, in seconds since the
    epoch. It is 0 if the client itself reported that it cannot answer: such a client is asked
    again.
    """

    @property
    def study(self) -> Study: ...

    @property
    def log(self) -> Log: ...

    @property
    def failed(self) -> dict[int, float]: ...

    def list_present(self) -> list[int]:
        """Return the clients that are online and have been heard of since they last failed."""
        ...

    def exchange(
        self, kind: str, contents: Mapping[int, Mapping[str, Any]], where: str
    ) -> dict[int, dict[str, Any]]:
        """Send each client its message and return the replies that arrive in time, by client.

        Args:
            kind: the kind of message: hello, begin, turn, single or finish.
            contents: what each client is sent, by id.
            where: round and task, for the log.
        """
        ...


def check_reply(
    transport: Transport, id: int, reply: Mapping[str, Any], where: str
) -> dict[str, Any] | None:
    """Return a reply; None, with an entry in the log, if the client reports that it cannot answer.

    Args:
        transport: the transport that carried the reply; its log and ``failed`` are updated.
        id: the client.
        reply: what the client sent.
        where: round and task, for the log.

    Raises:
        StoppedByClientError: the client refuses to continue. This stops the study.
    """
    if "stop" in reply:
        transport.log.write("stopped by client", f"{where}: {reply['stop']}")
        raise StoppedByClientError(f"{where}: {reply['stop']}")
    if "silent" in reply:
        note_silence(transport, id, str(reply["silent"]), where, failed=0.0)
        return None
    return dict(reply)


def note_silence(transport: Transport, id: int, why: str, where: str, failed: float) -> None:
    """Write to the log that a client has left a message unanswered.

    Args:
        transport: the transport whose log and ``failed`` are updated.
        id: the client.
        why: the reason, for the log.
        where: round and task, for the log.
        failed: the time in seconds since the epoch; 0 if the client may be asked again at once.
    """
    name = transport.study.clients[id]
    transport.failed[id] = failed
    transport.log.write("silent", f"{where}: {name}: {why}", client=name, why=why)
