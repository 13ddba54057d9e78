"""Flower's SuperLink in the coordinator's own process: TLS, node authentication, and the grid.

Only the Fleet routes are served, on which silos fetch and bring messages. Flower's routes for
control and for apps, by which anybody who reaches them could register nodes and start runs, do not
exist here: this process starts the one run itself. No code travels: silos run what they have
installed.

Flower's grid over the state of a SuperLink in this process: messages go through no network.

Mail by Flower's grid: every message is answered, or its silo noted as silent, in time.

A study served by Flower: the SuperLink, and on it the ServerApp that runs the study.
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
from fedfb.study.journal import EVENTS, GOES_ON, RUN, Log
from fedfb.study.keys import SECRETS, Office
from fedfb.study.mail import RECORD, heed, note_silence
from fedfb.study.server import open_folder, run_study
from fedfb.study.study import Study

CONTENT_S = 10.0
"""How long the parts of a reply may come after it was announced."""


class LinkGrid(Grid):
    """A grid by which this process is the sender of every message and the reader of every reply."""

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
        """Put messages where nodes find them; return their ids."""
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
        """Return the replies that are there; one of the SuperLink itself tells of an error."""
        store, found = self.state.object_store, []
        for reply in self.state.get_message_res(set(message_ids), self._run.run_id):
            if reply.has_error():
                found.append(reply)
                continue
            id = reply.metadata.message_id
            names = [tree.object_id for tree in iterate_object_tree(store.get_object_tree(id))]
            contents = {name: self._content(name) for name in names}
            if not all(contents.values()):
                continue
            store.delete(id)
            message = cast(Message, inflate_object_from_contents(id, contents))
            message.metadata.__dict__["_message_id"] = id
            found.append(message)
        self.state.delete_messages({reply.metadata.reply_to_message_id for reply in found})
        return found

    def _content(self, name: str) -> bytes:
        # A reply is announced before its parts arrive; of a node that dies in between none come.
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
        """Send messages and return the replies that come in time."""
        sent, replies = set(self.push_messages(messages)) - {""}, list[Message]()
        waiting = set(sent)
        end, pause = None if timeout is None else time.monotonic() + timeout, 0.005
        while waiting and (end is None or time.monotonic() < end):
            came = list(self.pull_messages(waiting))
            replies += came
            waiting -= {reply.metadata.reply_to_message_id for reply in came}
            time.sleep(pause)
            pause = min(pause * 1.3, 0.1)
        # What comes later finds no message that it answers, and is refused.
        self.state.delete_messages(waiting)
        for id in sent:
            self.state.object_store.delete(id)
        return replies


BEAT_S = 10.0
"""How often the coordinator tells Flower that its run is alive."""


@dataclass(frozen=True)
class Link:
    """A running SuperLink: its state, its run, and the node of every silo."""

    state: LinkState
    grid: LinkGrid
    nodes: Mapping[str, int]

    def heard(self, silo: str) -> float:
        """Return when a silo's node last showed itself, in seconds since the epoch; 0: offline."""
        [node] = self.state.get_node_info(node_ids=[self.nodes[silo]])
        if node.status != "online":
            return 0.0
        return float(node.online_until - HEARTBEAT_PATIENCE * node.heartbeat_interval)


@contextmanager
def superlink(study: Study, office: Office, secrets: Path) -> Iterator[Link]:
    """Serve a study's nodes for as long as the context lasts."""
    listening = _bind(study)
    app = fleet_app()
    state: LinkState = app.state.linkstate_factory.state()
    nodes = {
        silo: state.create_node(NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, keys.node.encode(), 0, name=silo)
        for silo, keys in office.silos.items()
    }
    run, task = _start_run(state)
    certificate, key = secrets / "tls.pem", secrets / "tls.key"
    write_whole(certificate, office.certificates.certificate)
    write_whole(key, office.certificates.key, 0o600)
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
    server, over = uvicorn.Server(config), threading.Event()
    serving = threading.Thread(target=server.run, args=([listening],), daemon=True)
    beating = threading.Thread(target=_beat, args=(state, task, over), daemon=True)
    serving.start()
    beating.start()
    try:
        while not server.started:
            if not serving.is_alive():
                raise ConfigError(f"the SuperLink did not start on {study.address}.")
            time.sleep(0.02)
        yield Link(state, LinkGrid(state, run), nodes)
    finally:
        over.set()
        server.should_exit = True
        serving.join(timeout=5)
        listening.close()


def _bind(study: Study) -> socket.socket:
    """Take the study's port on all of this machine's addresses, or on the loopback one alone."""
    local = study.host in ("localhost", "127.0.0.1")
    listening = socket.socket(socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1" if local else "0.0.0.0", study.port))
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"port {study.port} cannot be used: {error.strerror}. Stop what listens there "
            f"(ss -ltnp 'sport = :{study.port}' shows it), or give the study another address."
        ) from None
    return listening


def _start_run(state: LinkState) -> tuple[Run, int]:
    """Begin a run of Flower; this process is its only task, and what it sends comes from it."""
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


def _beat(state: LinkState, task: int, over: threading.Event) -> None:
    while not over.wait(BEAT_S):
        state.acknowledge_task_heartbeat(task)


def fleet_app() -> FastAPI:
    """Return Flower's Fleet API alone, with its authentication of nodes.

    The whole SuperLink (``flwr.superlink.main.create_app``) takes each request through six more
    layers, for routes that are not served here: half of the time of a request.
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
"""How long after its time-out Flower keeps a message; the coordinator drops it before."""


@dataclass(frozen=True)
class Post:
    """The way to the silos by the nodes of a running SuperLink."""

    study: Study
    link: Link
    log: Log
    failed: dict[int, float] = field(default_factory=dict)

    def present(self) -> list[int]:
        """Return the silos whose nodes are online, and were heard of since they last failed."""
        heard = {id: self.link.heard(name) for id, name in enumerate(self.study.silos)}
        return [id for id, when in heard.items() if when > self.failed.get(id, 0.0)]

    def exchange(
        self, action: str, contents: Mapping[int, Mapping[str, Any]], where: str
    ) -> dict[int, dict[str, Any]]:
        """Send each silo its message and return the answers, by silo, that come in time.

        Replies are matched by the message they answer: an error of the SuperLink itself comes from
        another source than the silo.
        """
        timeout = self.study.timeout_s
        messages = {
            id: Message(
                RecordDict({RECORD: ConfigRecord(dict(content))}),
                self.link.nodes[self.study.silos[id]],
                f"query.{action}",
                ttl=timeout + GRACE_S,
                group_id=where,
            )
            for id, content in contents.items()
        }
        replies = list(self.link.grid.send_and_receive(list(messages.values()), timeout=timeout))
        by_message = {reply.metadata.reply_to_message_id: reply for reply in replies}
        found: dict[int, dict[str, Any]] = {}
        for id, message in messages.items():
            said = self._read(id, by_message.get(message.metadata.message_id), where)
            if said is not None:
                found[id] = said
        return found

    def _read(self, id: int, reply: Message | None, where: str) -> dict[str, Any] | None:
        if reply is None:
            late = f"did not answer within {self.study.timeout_s:g} s"
            note_silence(self, id, late, where, failed=time.time())
            return None
        if reply.has_error():
            own = reply.metadata.src_node_id == self.link.nodes[self.study.silos[id]]
            note_silence(
                self, id, reply.error.reason or "failed", where, 0.0 if own else time.time()
            )
            return None
        return heed(self, id, reply.content[RECORD], where)


def serve(study: Study, office: Office, folder: Path, tell: Callable[[str], None]) -> Result:
    """Run a study to its end, from where an earlier run of it stopped; return the result."""
    kept = folder / RUN
    try:
        open_folder(study, kept)
        log = Log(kept / EVENTS, tell)
        with superlink(study, office, folder / SECRETS) as link:
            log.write("serving", f"{study.name} is served on {study.address}")
            app = make_server_app(study, office, kept, link, log)
            try:
                app(link.grid, Context(link.grid.run.run_id, 0, {}, RecordDict(), {}))
            except FedFBError as error:
                log.write("stopped", f"stopped: {error}")
                raise
    except WriteError as error:
        raise WriteError(f"{error} {GOES_ON}") from error
    return read_result(kept, "the result that this study has just written")


def make_server_app(study: Study, office: Office, kept: Path, link: Link, log: Log) -> ServerApp:
    """Return the ServerApp of a study."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        run_study(Post(study, link, log), office, kept)

    return app
