"""A silo's node: it fetches Flower's messages, has them answered, and brings the answers.

The part of Flower's SuperNode that talks to the SuperLink, without the part that runs code which
the SuperLink sends: messages go to a ClientApp whose work is done by a process of this silo, which
stays warm. Should that process die, the coordinator is told at once and another one is started.

A node's dealings with Flower's Fleet API: it joins, shows signs of life, fetches and brings.
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
from fedfb.study.keys import Bundle
from fedfb.study.mail import RECORD
from fedfb.study.worker import DiedError, Worker

BEAT_S = 10.0
"""Seconds between two signs of life; Flower takes no fewer. Two missed, and a node is offline."""

AGAIN_S = 0.02
"""How soon to ask again for a part of a message that was announced before it is there."""

NODE_ID = "the number that this silo had at the coordinator. Remove the file and join again"

Tell = Callable[[str], None]


class WithdrawnError(Exception):
    """A message that the coordinator no longer waits to be answered."""


@contextmanager
def fleet_client(bundle: Bundle) -> Iterator[FleetHttpClient]:
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


def activated(bundle: Bundle, client: FleetHttpClient, folder: Path, tell: Tell) -> Node:
    """Show this node to the SuperLink, and wait for it as long as the study says."""
    end, said = time.monotonic() + bundle.study.wait_s, False
    remembered = folder / "node-id"
    request = ActivateNodeRequest(
        public_key=bundle.keys.public.node.encode(), heartbeat_interval=BEAT_S
    )
    while True:
        try:
            if remembered.exists():
                _leave(client, read_node_id(remembered))
            node = Node(node_id=client.ActivateNode(request).node_id)
            write_whole(remembered, str(node.node_id))
            tell(f"joined {bundle.study.name} at {bundle.study.address} as {bundle.silo}")
            return node
        except httpx.HTTPStatusError as error:
            if error.response.status_code < 500:
                _refuse_stranger(bundle, error)
        except httpx.HTTPError as error:
            _refuse_certificate(bundle, error)
        if time.monotonic() > end:
            raise DataError(
                f"there was no coordinator at {bundle.study.address} for {bundle.study.wait_s:g} "
                "seconds. Ask whether it is running, and whether the port can be reached from here."
            )
        if not said:
            tell(f"waiting for the coordinator at {bundle.study.address} ...")
            said = True
        time.sleep(0.5)


def read_node_id(path: Path) -> int:
    """Return the number that a node had before."""
    text = read_text(path, NODE_ID)
    # Flower's ids are unsigned numbers of 64 bits.
    if not (text.isascii() and text.isdecimal() and int(text) < 2**64):
        raise DataError(f"{path} cannot be read: it holds {text[:30]!r}. Expected {NODE_ID}.")
    return int(text)


def _leave(client: FleetHttpClient, node: int) -> None:
    """Take back an earlier process's presence: Flower activates no node that is still online."""
    try:
        client.DeactivateNode(DeactivateNodeRequest(node_id=node))
    except httpx.HTTPStatusError:
        return  # a coordinator that was started anew has given other ids


def _refuse_stranger(bundle: Bundle, error: httpx.HTTPStatusError) -> NoReturn:
    raise ConfigError(
        f"the coordinator at {bundle.study.address} does not take {bundle.silo!r} in: its node key "
        "is not registered with the study that runs there, or the clocks differ by minutes. Ask "
        f"for a bundle of the present study. (It answered {error.response.status_code}.)"
    ) from None


def _refuse_certificate(bundle: Bundle, error: httpx.HTTPError) -> None:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise ConfigError(
                f"the certificate at {bundle.study.address} is not the one of this study "
                f"({cause.verify_message}): this is another coordinator, somebody in between, or a "
                "study that was made anew. Nothing was sent. Compare addresses and bundles."
            ) from None
        cause = cause.__cause__ or cause.__context__


@contextmanager
def beating(client: FleetHttpClient, node: Node) -> Iterator[None]:
    over = threading.Event()

    def beat() -> None:
        request = SendNodeHeartbeatRequest(node=node, heartbeat_interval=BEAT_S)
        while not over.wait(BEAT_S * 0.5):
            # A sign of life that is lost is followed by the next; a lost connection is noticed by
            # whoever fetches messages, who then opens another.
            with suppress(httpx.HTTPError, RuntimeError):
                client.SendNodeHeartbeat(request)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def pull(client: FleetHttpClient, node: Node) -> Message | None:
    response = client.PullMessages(PullMessagesRequest(node=node))
    if not response.messages_list:
        return None
    bare, tree = message_from_proto(response.messages_list[0]), response.message_object_trees[0]
    run, contents = bare.metadata.run_id, dict[str, bytes]()
    try:
        for part in iterate_object_tree(tree):
            contents[part.object_id] = _object(client, node, run, part.object_id)
    except WithdrawnError:
        return None
    message = inflate_object_from_contents(tree.object_id, contents)
    assert isinstance(message, Message)
    message.metadata.__dict__["_message_id"] = tree.object_id
    return message


def _object(client: FleetHttpClient, node: Node, run: int, id: str) -> bytes:
    request = PullObjectRequest(node=node, run_id=run, object_id=id)
    found = client.PullObject(request)
    while found.object_found and not found.object_available:  # announced before it is there
        time.sleep(AGAIN_S)
        found = client.PullObject(request)
    if not found.object_found:
        raise WithdrawnError
    return bytes(found.object_content)


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
