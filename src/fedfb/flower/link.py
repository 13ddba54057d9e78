"""Flower's SuperLink in the coordinator's own process: TLS, node authentication, and the grid.

Only the Fleet routes are served, on which silos fetch and bring messages. Flower's routes for
control and for apps, by which anybody who reaches them could register nodes and start runs, do not
exist here: this process starts the one run itself. No code travels: silos run what they have
installed.
"""

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import uvicorn
from fastapi import FastAPI
from flwr.common.constant import (
    HEARTBEAT_PATIENCE,
    NOOP_ACCOUNT_NAME,
    NOOP_FLWR_AID,
    SUPERLINK_NODE_ID,
)
from flwr.server.superlink.linkstate import LinkState
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME, NOOP_FEDERATION_ID, TaskType
from flwr.supercore.error import http_error_translator
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

from fedfb.errors import ConfigError
from fedfb.files import write_whole
from fedfb.flower.bundle import Office
from fedfb.flower.grid import LinkGrid
from fedfb.flower.study import Study

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
