"""A silo's node: it fetches Flower's messages, has them answered, and brings the answers.

The part of Flower's SuperNode that talks to the SuperLink, without the part that runs code which
the SuperLink sends: messages go to a ClientApp whose work is done by a process of this silo, which
stays warm. Should that process die, the coordinator is told at once and another one is started.
"""

import fcntl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import Node
from flwr.supernode.fleet_http_client import FleetHttpClient

from fedfb.errors import ConfigError
from fedfb.files import make_folder, writing
from fedfb.flower.bundle import Bundle
from fedfb.flower.fleet import Tell, activated, beating, fleet_client, pull, push
from fedfb.flower.wire import RECORD
from fedfb.flower.worker import DiedError, Worker

QUICK_S, SLOW_S = 0.02, 1.0
"""How soon the node looks for the next message, right after one and after a long silence."""

ACTIONS = ("hello", "begin", "turn", "single", "finish")
"""The kinds of messages that a silo answers."""


def run_node(bundle: Bundle, worker: Worker, folder: Path, tell: Tell) -> None:
    """Serve a study until it is finished; a coordinator that is away is waited for."""
    app, finished = make_client_app(worker), False
    with _alone(folder):
        while not finished:
            with fleet_client(bundle) as client:
                node = activated(bundle, client, folder, tell)
                with beating(client, node):
                    finished = _serve(bundle, client, node, app, tell)


def make_client_app(worker: Worker) -> ClientApp:
    """Return the ClientApp of a silo: for each kind of message a query, answered by its worker."""
    app = ClientApp()
    for action in ACTIONS:

        @app.query(action)
        def answer(message: Message, context: Context) -> Message:
            record = message.content[RECORD]
            name = message.metadata.message_type.rpartition(".")[2]
            reply = worker.ask(name, dict(record))
            return Message(RecordDict({RECORD: ConfigRecord(reply)}), reply_to=message)

    return app


def _serve(bundle: Bundle, client: FleetHttpClient, node: Node, app: ClientApp, tell: Tell) -> bool:
    """Answer messages until the last one (True) or until the connection is lost (False)."""
    pause, context = QUICK_S, Context(0, node.node_id, {}, RecordDict(), {})
    while True:
        try:
            message = pull(client, node)
            if message is None:  # none, or one that was withdrawn
                time.sleep(pause)
                pause = min(pause * 1.5, SLOW_S)
                continue
            pause = QUICK_S
            reply = _answered(app, message, context, tell)
            push(client, node, reply)
        except (httpx.HTTPError, OSError) as error:
            tell(f"the connection was lost ({error}); trying again")
            return False
        if message.metadata.message_type.endswith(".finish") and reply.has_content():
            return True


def _answered(app: ClientApp, message: Message, context: Context, tell: Tell) -> Message:
    try:
        return app(message, context)
    except DiedError as error:
        tell(str(error))
        failure = Error(ErrorCode.CLIENT_APP_CRASHED, str(error))
        return Message(failure, reply_to=message)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Refuse a second node on the same folder: it would take the first one's messages."""
    make_folder(folder)
    with ExitStack() as stack:
        with writing(folder):
            file = stack.enter_context((folder / "lock").open("w"))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(
                f"another fedfb join runs on {folder} already. Stop it first, or give this silo a "
                "folder of its own (--state)."
            ) from None
        yield
