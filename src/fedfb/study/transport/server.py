"""The server's side of the transport: Flower's SuperLink, in the server's own process.

TLS and node authentication are on. Only the Fleet routes are served, on which clients fetch
messages and bring replies. Flower's routes for control and for apps, by which anybody who reaches
them could register nodes and start runs, do not exist here: this process starts the one run itself.
No code travels: clients run what they have installed.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import uvicorn
from fastapi import FastAPI
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.constant import (
    HEARTBEAT_PATIENCE,
    NOOP_ACCOUNT_NAME,
    NOOP_FLWR_AID,
    SUPERLINK_NODE_ID,
)
from flwr.server.superlink.linkstate import LinkState
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME, NOOP_FEDERATION_ID, TaskType
from flwr.supercore.error import http_error_translator
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.protobuf.translation import ProtobufTranslationMiddleware
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.config_loader import (
    get_federation_manager,
    get_objectstore_linkstate_factories,
)
from flwr.superlink.routers.fleet.node_auth import NodeAuthMiddleware
from flwr.superlink.routers.fleet.router import router as fleet_router
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware

from fedfb.errors import ConfigError, FedFBError, WriteError
from fedfb.experiments.result import Result
from fedfb.experiments.run_folder import read_result
from fedfb.files import write_whole
from fedfb.study.journal import EVENTS, RECORD, RESUME_HINT, RUN_FOLDER, Log
from fedfb.study.keys import SECRETS, ServerSecrets
from fedfb.study.server import open_folder, run_study
from fedfb.study.study import Study
from fedfb.study.transport import check_reply, note_silence

CONTENT_S = 10.0
"""Seconds within which the parts of a reply must arrive after the reply is announced."""


class InProcessGrid(Grid):
    """Flower's grid over a SuperLink in this process: messages of the server need no network."""

    def __init__(self, state: LinkState, run: Run) -> None:
        self.state = state
        self.set_run(run)

    def set_run(self, run: Run) -> None:
        self._run = run

    @property
    def run(self) -> Run:
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        return self.state.get_nodes(self._run.run_id)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Store messages where nodes fetch them; return their ids."""
        ids, run = [], self._run.run_id
        for message in messages:
            session = self.state.start_session(run)
            message.metadata.__dict__["_message_id"] = message.object_id
            bare, tree = remove_content_from_message(message), get_object_tree(message)
            stored, missing = self.state.store_message_and_object_tree(bare, tree, session)
            objects = get_all_nested_objects(message)
            for name in missing:
                self.state.store_object(run, session, name, objects[name].deflate())
            ids.append(message.metadata.message_id if stored else "")
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies that have arrived; the SuperLink itself replies with errors."""
        store, messages = self.state.object_store, []
        for reply in self.state.get_message_res(set(message_ids), self._run.run_id):
            if reply.has_error():
                messages.append(reply)
                continue
            id = reply.metadata.message_id
            names = [tree.object_id for tree in iterate_object_tree(store.get_object_tree(id))]
            contents = {name: self._content(name) for name in names}
            if not all(contents.values()):
                continue
            store.delete(id)
            message = cast(Message, inflate_object_from_contents(id, contents))
            message.metadata.__dict__["_message_id"] = id
            messages.append(message)
        self.state.delete_messages({reply.metadata.reply_to_message_id for reply in messages})
        return messages

    def _content(self, name: str) -> bytes:
        # A reply is announced before its parts arrive. If its node dies, they never arrive.
        end = time.monotonic() + CONTENT_S
        while time.monotonic() < end:
            content = self.state.get_object(self._run.run_id, name)
            if content:
                return content
            time.sleep(0.01)
        return b""

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Send messages and return the replies that arrive in time."""
        sent, replies = set(self.push_messages(messages)) - {""}, list[Message]()
        waiting = set(sent)
        end, pause = None if timeout is None else time.monotonic() + timeout, 0.005
        while waiting and (end is None or time.monotonic() < end):
            arrivals = list(self.pull_messages(waiting))
            replies += arrivals
            waiting -= {reply.metadata.reply_to_message_id for reply in arrivals}
            time.sleep(pause)
            pause = min(pause * 1.3, 0.1)
        # Delete the messages: Flower then refuses replies that arrive later.
        self.state.delete_messages(waiting)
        for id in sent:
            self.state.object_store.delete(id)
        return replies


_HEARTBEAT_S = 10.0
"""Seconds between two signals to Flower that its run is alive."""


@dataclass(frozen=True)
class SuperLink:
    """A running SuperLink: its state, its grid, and the node of every client by name."""

    state: LinkState
    grid: InProcessGrid
    nodes: Mapping[str, int]

    def find_last_heartbeat(self, client: str) -> float:
        """Return the time of a client's last heartbeat, in seconds since the epoch; 0: offline."""
        [node] = self.state.get_node_info(node_ids=[self.nodes[client]])
        if node.status != "online":
            return 0.0
        return float(node.online_until - HEARTBEAT_PATIENCE * node.heartbeat_interval)


@contextmanager
def open_superlink(study: Study, secrets: ServerSecrets, folder: Path) -> Iterator[SuperLink]:
    """Serve the nodes of a study for as long as the context lasts.

    Args:
        study: the study.
        secrets: certificates, and the clients' public keys.
        folder: where the certificate and its key are written for the web server.
    """
    listener = _bind(study)
    app = make_fleet_app()
    state: LinkState = app.state.linkstate_factory.state()
    nodes = {
        client: state.create_node(
            NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, keys.node.encode(), 0, name=client
        )
        for client, keys in secrets.clients.items()
    }
    run, task = _start_run(state)
    certificate, key = folder / "tls.pem", folder / "tls.key"
    write_whole(certificate, secrets.certificates.certificate)
    write_whole(key, secrets.certificates.key, 0o600)
    config = uvicorn.Config(
        app,
        log_level="critical",
        access_log=False,
        ssl_certfile=str(certificate),
        ssl_keyfile=str(key),
        timeout_keep_alive=120,
        timeout_graceful_shutdown=2,
        lifespan="off",
        ws="none",
    )
    server, end = uvicorn.Server(config), threading.Event()
    server_thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    heartbeat_thread = threading.Thread(
        target=_send_task_heartbeats, args=(state, task, end), daemon=True
    )
    server_thread.start()
    heartbeat_thread.start()
    try:
        while not server.started:
            if not server_thread.is_alive():
                raise ConfigError(f"the SuperLink did not start on {study.address}.")
            time.sleep(0.02)
        yield SuperLink(state, InProcessGrid(state, run), nodes)
    finally:
        end.set()
        server.should_exit = True
        server_thread.join(timeout=5)
        listener.close()


def _bind(study: Study) -> socket.socket:
    """Open the port of the study, on all addresses of this machine or on loopback only."""
    local = study.host in ("localhost", "127.0.0.1")
    listener = socket.socket(socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1" if local else "0.0.0.0", study.port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"port {study.port} cannot be used: {error.strerror}. Stop the program that uses it "
            f"(ss -ltnp 'sport = :{study.port}' shows it), or give the study another address."
        ) from None
    return listener


def _start_run(state: LinkState) -> tuple[Run, int]:
    """Begin a run of Flower; this process is its only task, and the sender of its messages."""
    run_id = state.create_run(
        "", "", "", {}, NOOP_FEDERATION_ID, None, NOOP_FLWR_AID, TaskType.SERVER_APP
    )
    [run] = state.get_run_info(run_ids=[run_id])
    task = cast(int, run.primary_task_id)
    state.claim_task(task)
    state.activate_task(task)
    TaskIdentity.run_id, TaskIdentity.task_id = run_id, task
    TaskIdentity.node_id = SUPERLINK_NODE_ID
    return run, task


def _send_task_heartbeats(state: LinkState, task: int, end: threading.Event) -> None:
    while not end.wait(_HEARTBEAT_S):
        state.acknowledge_task_heartbeat(task)


def make_fleet_app() -> FastAPI:
    """Return Flower's Fleet API alone, with its authentication of nodes.

    The whole SuperLink (``flwr.superlink.main.create_app``) passes each request through six more
    layers, for routes that are not served here. They would take half of the time of a request.
    """
    app = FastAPI(
        openapi_url=None,
        middleware=[
            Middleware(BaseHTTPMiddleware, dispatch=http_error_translator),
            Middleware(ProtobufTranslationMiddleware),
            Middleware(NodeAuthMiddleware),
        ],
    )
    _, states = get_objectstore_linkstate_factories(
        FLWR_IN_MEMORY_DB_NAME, get_federation_manager()
    )
    app.state.linkstate_factory = states
    app.state.enable_supernode_auth = True  # nodes cannot register themselves
    app.include_router(fleet_router)
    return app


GRACE_S = 60.0
"""Seconds that Flower keeps a message after its time-out; the server deletes it before."""


@dataclass(frozen=True)
class FlowerTransport:
    """The transport to the clients by the nodes of a running SuperLink."""

    study: Study
    link: SuperLink
    log: Log
    failed: dict[int, float] = field(default_factory=dict)

    def list_present(self) -> list[int]:
        """Return the clients whose nodes are online, with a heartbeat since they last failed."""
        heartbeats = {
            id: self.link.find_last_heartbeat(name) for id, name in enumerate(self.study.clients)
        }
        return [id for id, when in heartbeats.items() if when > self.failed.get(id, 0.0)]

    def exchange(
        self, kind: str, contents: Mapping[int, Mapping[str, Any]], where: str
    ) -> dict[int, dict[str, Any]]:
        """Send each client its message and return the replies that arrive in time, by client.

        Replies are matched by the message they answer: an error of the SuperLink has another
        sender.
        """
        timeout = self.study.timeout_s
        messages = {
            id: Message(
                RecordDict({RECORD: ConfigRecord(dict(content))}),
                self.link.nodes[self.study.clients[id]],
                f"query.{kind}",
                ttl=timeout + GRACE_S,
                group_id=where,
            )
            for id, content in contents.items()
        }
        replies = list(self.link.grid.send_and_receive(list(messages.values()), timeout=timeout))
        by_message = {reply.metadata.reply_to_message_id: reply for reply in replies}
        contents_by_client: dict[int, dict[str, Any]] = {}
        for id, message in messages.items():
            content = self._read(id, by_message.get(message.metadata.message_id), where)
            if content is not None:
                contents_by_client[id] = content
        return contents_by_client

    def _read(self, id: int, reply: Message | None, where: str) -> dict[str, Any] | None:
        if reply is None:
            late = f"did not answer within {self.study.timeout_s:g} s"
            note_silence(self, id, late, where, failed=time.time())
            return None
        if reply.has_error():
            from_client = reply.metadata.src_node_id == self.link.nodes[self.study.clients[id]]
            failed = 0.0 if from_client else time.time()
            note_silence(self, id, reply.error.reason or "failed", where, failed)
            return None
        return check_reply(self, id, reply.content[RECORD], where)


def serve_study(
    study: Study, secrets: ServerSecrets, folder: Path, notify: Callable[[str], None]
) -> Result:
    """Run a study to its end, from where an earlier run of it stopped; return the result.

    Args:
        study: the study.
        secrets: the server's keys.
        folder: the folder of the study.
        notify: is called with sentences for the user.
    """
    run_folder = folder / RUN_FOLDER
    try:
        open_folder(study, run_folder)
        log = Log(run_folder / EVENTS, notify)
        with open_superlink(study, secrets, folder / SECRETS) as link:
            log.write("serving", f"{study.name} is served on {study.address}")
            app = make_server_app(study, secrets, run_folder, link, log)
            try:
                app(link.grid, Context(link.grid.run.run_id, 0, {}, RecordDict(), {}))
            except FedFBError as error:
                log.write("stopped", f"stopped: {error}")
                raise
    except WriteError as error:
        raise WriteError(f"{error} {RESUME_HINT}") from error
    return read_result(run_folder, "the result that this study has just written")


def make_server_app(
    study: Study, secrets: ServerSecrets, folder: Path, link: SuperLink, log: Log
) -> ServerApp:
    """Return the ServerApp of a study."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        run_study(FlowerTransport(study, link, log), secrets, folder)

    return app
