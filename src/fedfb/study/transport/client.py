"""The client's side of the transport: it fetches Flower's messages and brings back the replies.

This is the part of Flower's SuperNode that talks to the SuperLink, without the part that runs code
sent by the SuperLink. Messages go to a ClientApp whose work is done by a process of this client,
which stays alive. If that process dies, the server is told at once and another process is started.
"""

import fcntl
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import httpx
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import ObjectTree, PullObjectRequest, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import bytes_to_private_key
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fedfb.errors import ConfigError, DataError
from fedfb.files import make_folder, read_text, write_whole, writing
from fedfb.study.journal import RECORD
from fedfb.study.keys import Bundle
from fedfb.study.worker import Worker, WorkerDiedError

_HEARTBEAT_S = 10.0
"""Seconds between two heartbeats, Flower's minimum. A node that misses two is offline."""

RETRY_S = 0.02
"""Seconds before the next request for a part of a message that is announced but not there yet."""

NODE_ID = "the number of this client at the server. Remove the file and join again"

Notify = Callable[[str], None]


class WithdrawnError(Exception):
    """The server no longer waits for the reply to a message."""


@contextmanager
def open_fleet_client(bundle: Bundle) -> Iterator[FleetHttpClient]:
    private = bytes_to_private_key(bundle.keys.node.encode())
    with FleetHttpClient.from_server_address(
        bundle.study.address,
        False,
        bundle.authority.encode(),
        interceptors=[
            RuntimeVersionHttpInterceptor(component_name="SuperNode"),
            NodeAuthHttpInterceptor(private, private.public_key()),
        ],
    ) as client:
        yield client


def activate_node(bundle: Bundle, client: FleetHttpClient, folder: Path, notify: Notify) -> Node:
    """Register this node as online at the SuperLink, and wait for the SuperLink if necessary.

    Args:
        bundle: the study, and this client's keys.
        client: the connection.
        folder: where the node's number is kept.
        notify: is called with sentences for the user.
    """
    end, notified = time.monotonic() + bundle.study.wait_s, False
    id_file = folder / "node-id"
    request = ActivateNodeRequest(
        public_key=bundle.keys.public.node.encode(), heartbeat_interval=_HEARTBEAT_S
    )
    while True:
        try:
            if id_file.exists():
                _leave(client, read_node_id(id_file))
            node = Node(node_id=client.ActivateNode(request).node_id)
            write_whole(id_file, str(node.node_id))
            notify(f"joined {bundle.study.name} at {bundle.study.address} as {bundle.client}")
            return node
        except httpx.HTTPStatusError as error:
            if error.response.status_code < 500:
                _refuse_stranger(bundle, error)
        except httpx.HTTPError as error:
            _refuse_certificate(bundle, error)
        if time.monotonic() > end:
            raise DataError(
                f"there was no server at {bundle.study.address} for {bundle.study.wait_s:g} "
                "seconds. Ask whether it is running, and whether this machine can reach the port."
            )
        if not notified:
            notify(f"waiting for the server at {bundle.study.address} ...")
            notified = True
        time.sleep(0.5)


def read_node_id(path: Path) -> int:
    """Return the number that this node had before."""
    text = read_text(path, NODE_ID)
    # Flower's ids are unsigned numbers of 64 bits.
    if not (text.isascii() and text.isdecimal() and int(text) < 2**64):
        raise DataError(f"{path} cannot be read: it holds {text[:30]!r}. Expected {NODE_ID}.")
    return int(text)


def _leave(client: FleetHttpClient, node: int) -> None:
    """End the presence of an earlier process: Flower activates no node that is still online."""
    try:
        client.DeactivateNode(DeactivateNodeRequest(node_id=node))
    except httpx.HTTPStatusError:
        return  # a server that was restarted has assigned other ids


def _refuse_stranger(bundle: Bundle, error: httpx.HTTPStatusError) -> NoReturn:
    raise ConfigError(
        f"the server at {bundle.study.address} does not accept {bundle.client!r}: its node key is "
        "not registered with the study that runs there, or the clocks differ by minutes. Ask for "
        f"a bundle of the current study. (The server answered {error.response.status_code}.)"
    ) from None


def _refuse_certificate(bundle: Bundle, error: httpx.HTTPError) -> None:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise ConfigError(
                f"the certificate at {bundle.study.address} is not the one of this study "
                f"({cause.verify_message}): this is another server, somebody in between, or a "
                "new version of the study. Nothing was sent. Compare addresses and bundles."
            ) from None
        cause = cause.__cause__ or cause.__context__


@contextmanager
def send_heartbeats(client: FleetHttpClient, node: Node) -> Iterator[None]:
    end = threading.Event()

    def beat() -> None:
        request = SendNodeHeartbeatRequest(node=node, heartbeat_interval=_HEARTBEAT_S)
        while not end.wait(_HEARTBEAT_S * 0.5):
            # Ignore a lost heartbeat: the next one follows. The loop that fetches messages detects
            # a lost connection and opens another.
            with suppress(httpx.HTTPError, RuntimeError):
                client.SendNodeHeartbeat(request)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()


def _pull(client: FleetHttpClient, node: Node) -> Message | None:
    response = client.PullMessages(PullMessagesRequest(node=node))
    if not response.messages_list:
        return None
    bare, tree = message_from_proto(response.messages_list[0]), response.message_object_trees[0]
    run, contents = bare.metadata.run_id, dict[str, bytes]()
    try:
        for part in iterate_object_tree(tree):
            contents[part.object_id] = _fetch_object(client, node, run, part.object_id)
    except WithdrawnError:
        return None
    message = inflate_object_from_contents(tree.object_id, contents)
    assert isinstance(message, Message)
    message.metadata.__dict__["_message_id"] = tree.object_id
    return message


def _fetch_object(client: FleetHttpClient, node: Node, run: int, id: str) -> bytes:
    request = PullObjectRequest(node=node, run_id=run, object_id=id)
    response = client.PullObject(request)
    while response.object_found and not response.object_available:  # announced, not there yet
        time.sleep(RETRY_S)
        response = client.PullObject(request)
    if not response.object_found:
        raise WithdrawnError
    return bytes(response.object_content)


def push(client: FleetHttpClient, node: Node, reply: Message) -> None:
    reply.metadata.__dict__["_message_id"] = reply.object_id
    tree: ObjectTree = get_object_tree(reply)
    run, objects = reply.metadata.run_id, get_all_nested_objects(reply)
    response = client.PushMessages(
        PushMessagesRequest(
            node=node,
            messages_list=[message_to_proto(remove_content_from_message(reply))],
            message_object_trees=[tree],
            clientapp_runtime_list=[0.0],
        )
    )
    for id in response.objects_to_push:
        client.PushObject(
            PushObjectRequest(
                node=node,
                run_id=run,
                session_id=response.session_id,
                object_id=id,
                object_content=objects[id].deflate(),
            )
        )


SHORTEST_POLL_S, LONGEST_POLL_S = 0.02, 1.0
"""Seconds between two requests for messages: right after a message, and after a long silence."""

MESSAGE_KINDS = ("hello", "begin", "turn", "single", "finish")
"""The kinds of messages that a client answers."""


def run_node(bundle: Bundle, worker: Worker, folder: Path, notify: Notify) -> None:
    """Answer the messages of a study until it is finished; wait for a server that is away.

    Args:
        bundle: the study, and this client's keys.
        worker: the process that answers.
        folder: where the client keeps its own files.
        notify: is called with sentences for the user.
    """
    app, finished = make_client_app(worker), False
    with _lock_folder(folder):
        while not finished:
            with open_fleet_client(bundle) as client:
                node = activate_node(bundle, client, folder, notify)
                with send_heartbeats(client, node):
                    finished = _serve(bundle, client, node, app, notify)


def make_client_app(worker: Worker) -> ClientApp:
    """Return the ClientApp of a client: its worker answers each kind of message."""
    app = ClientApp()
    for kind in MESSAGE_KINDS:

        @app.query(kind)
        def answer(message: Message, context: Context) -> Message:
            record = message.content[RECORD]
            name = message.metadata.message_type.rpartition(".")[2]
            reply = worker.answer(name, dict(record))
            return Message(RecordDict({RECORD: ConfigRecord(reply)}), reply_to=message)

    return app


def _serve(
    bundle: Bundle, client: FleetHttpClient, node: Node, app: ClientApp, notify: Notify
) -> bool:
    """Answer messages until the last one (True) or until the connection is lost (False)."""
    pause, context = SHORTEST_POLL_S, Context(0, node.node_id, {}, RecordDict(), {})
    while True:
        try:
            message = _pull(client, node)
            if message is None:  # none, or one that was withdrawn
                time.sleep(pause)
                pause = min(pause * 1.5, LONGEST_POLL_S)
                continue
            pause = SHORTEST_POLL_S
            reply = _answer_message(app, message, context, notify)
            push(client, node, reply)
        except (httpx.HTTPError, OSError) as error:
            notify(f"the connection was lost ({error}); reconnecting")
            return False
        if message.metadata.message_type.endswith(".finish") and reply.has_content():
            return True


def _answer_message(app: ClientApp, message: Message, context: Context, notify: Notify) -> Message:
    try:
        return app(message, context)
    except WorkerDiedError as error:
        notify(str(error))
        failure = Error(ErrorCode.CLIENT_APP_CRASHED, str(error))
        return Message(failure, reply_to=message)


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Refuse a second node on the same folder: it would fetch the first node's messages."""
    make_folder(folder)
    with ExitStack() as stack:
        with writing(folder):
            file = stack.enter_context((folder / "lock").open("w"))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(
                f"another fedfb join uses {folder} already. Stop it first, or give this client its "
                "own folder (--state)."
            ) from None
        yield
