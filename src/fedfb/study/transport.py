"""The transport of a study: requests over gRPC with mutual TLS.

Each side presents the certificate that the study lists, and accepts no other: there is no authority
that could issue more. A stranger fails in the handshake, before a byte of a message is read. The
size of messages is capped by what the study's program can send.
"""

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from cryptography.hazmat.primitives import hashes

# Said before grpc is imported: its own log would write lines of C++ to the terminal of the owner.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
import grpc

from fedfb.errors import ConfigError, DataError
from fedfb.study.keys import PrivateKeys, read_certificate
from fedfb.study.mailbox import HOLD_S, Mailbox
from fedfb.study.study import Study
from fedfb.study.wire import MalformedError, Request, Response, read_response, write

METHOD = "/fedfb.Study/Next"

MARGIN_S = 30.0
"""How much longer than the server holds a request a client waits for the response."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
"""The pauses between attempts to reach the server."""

ENVELOPE_BYTES = 1 << 16
"""The room for all of a message but vectors."""


def _options(most_bytes: int) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", most_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.so_reuseport", 0),
        ("grpc.enable_http_proxy", 0),
    ]


class GrpcServer:
    """Serves a mailbox on the address of a study.

    Args:
        study: the study.
        keys: the server's keys.
        most_bytes: the largest request of an honest client.
        bind: host:port to listen on; None: the study's port on all interfaces.
    """

    def __init__(
        self, study: Study, keys: PrivateKeys, most_bytes: int, bind: str | None = None
    ) -> None:
        self._study, self._keys, self._most_bytes = study, keys, most_bytes
        self._bind = bind or f"{_any_interface(study.host)}:{study.port}"

    @contextmanager
    def serve(self, mailbox: Mailbox) -> Iterator[None]:
        """Serve the mailbox while the context is open."""
        study = self._study
        ids = {_fingerprint(keys.certificate): id for id, keys in enumerate(study.clients)}
        # One thread for each request that is held open, and some to take what comes meanwhile.
        pool = ThreadPoolExecutor(2 * len(study.clients) + 4, thread_name_prefix="study")
        server = grpc.server(
            pool,
            options=_options(self._most_bytes + ENVELOPE_BYTES),
            maximum_concurrent_rpcs=2 * len(study.clients) + 4,
        )
        handler = grpc.method_handlers_generic_handler(
            "fedfb.Study",
            {"Next": grpc.unary_unary_rpc_method_handler(_make_behaviour(mailbox, ids))},
        )
        server.add_generic_rpc_handlers((handler,))
        roots = "".join(keys.certificate for keys in study.clients).encode()
        credentials = grpc.ssl_server_credentials(
            [(self._keys.certificate_key.encode(), self._keys.public.certificate.encode())],
            root_certificates=roots,
            require_client_auth=True,
        )
        try:
            port = server.add_secure_port(self._bind, credentials)
        except RuntimeError:
            port = 0
        if not port:
            raise ConfigError(
                f"{self._bind} cannot be used: the address is in use, or not one of this machine. "
                "End what listens there, or give another address by --bind."
            )
        server.start()
        try:
            yield
        finally:
            server.stop(grace=1.0).wait()
            pool.shutdown(wait=False, cancel_futures=True)


def _any_interface(host: str) -> str:
    """Return the address to listen on: a loopback address stays, a public name is behind any."""
    if host in ("127.0.0.1", "localhost", "::1"):
        return "[::1]" if host == "::1" else host
    return "[::]"


def _fingerprint(pem: str) -> bytes:
    return read_certificate(pem).fingerprint(hashes.SHA256())


def _make_behaviour(
    mailbox: Mailbox, ids: Mapping[bytes, int]
) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    def behave(data: bytes, context: grpc.ServicerContext) -> bytes:
        [pem] = context.auth_context().get("x509_pem_cert", [b""])
        # A certificate that a client has issued would pass as well, if it were not compared.
        id = ids.get(_fingerprint(pem.decode()) if pem else b"")
        if id is None:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "unknown certificate")
        assert id is not None
        return mailbox.handle(id, data)

    return behave


class GrpcLink:
    """Brings the requests of a client to the server of a study.

    Args:
        study: the study.
        keys: the client's keys.
        notify: is called with sentences for the owner.
        most_bytes: the largest response of an honest server.
    """

    def __init__(
        self, study: Study, keys: PrivateKeys, notify: Callable[[str], None], most_bytes: int
    ) -> None:
        self._study, self._keys, self._notify = study, keys, notify
        self._most_bytes = most_bytes
        self._channel: Any = None

    def close(self) -> None:
        """Close the connection."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _open(self) -> Any:
        if self._channel is None:
            credentials = grpc.ssl_channel_credentials(
                self._study.server.certificate.encode(),
                self._keys.certificate_key.encode(),
                self._keys.public.certificate.encode(),
            )
            host = self._study.host
            target = f"[{host}]" if ":" in host else host
            options = _options(self._most_bytes + ENVELOPE_BYTES)
            self._channel = grpc.secure_channel(
                f"{target}:{self._study.port}", credentials, options
            )
        return self._channel.unary_unary(METHOD)

    def ask(self, request: Request, patience_s: float | None = None) -> Response:
        """Return the server's response; wait and try again while the server is away."""
        terms = self._study.terms
        patience = terms.wait_s if patience_s is None else patience_s
        end, pause, content = time.monotonic() + patience, FIRST_PAUSE_S, write(request)
        away, reason = False, ""
        while True:
            try:
                data = self._open()(content, timeout=HOLD_S + MARGIN_S)
                return read_response(data)
            except grpc.RpcError as error:
                self._refuse_strangers(error)
                if "Socket closed" in str(error.details()):
                    reason = (
                        ", or it closes the connection: the study that it serves may list another "
                        "certificate of this client"
                    )
            except MalformedError as error:
                self._notify(str(error))
            self.close()
            if time.monotonic() >= end:
                raise DataError(
                    f"there is no server at {terms.address} for {patience:g} seconds{reason}. Ask "
                    "its user whether it runs this study; the same command continues."
                )
            if not away and patience_s is None:
                self._notify(f"waiting for the server at {terms.address}")
                away = True
            time.sleep(min(pause * random.uniform(0.5, 1.0), max(end - time.monotonic(), 0.0)))
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _refuse_strangers(self, error: grpc.RpcError) -> None:
        """Refuse a server with another certificate, and say if the server refuses this client."""
        details, code = str(error.details()), error.code()
        if "CERTIFICATE_VERIFY_FAILED" in details or "Hostname Verification" in details:
            raise ConfigError(
                f"the server at {self._study.terms.address} has another certificate than "
                "study.toml. Nothing was sent. Ask its user whether the study was made again."
            ) from error
        if code is grpc.StatusCode.UNAUTHENTICATED or "alert" in details.lower():
            raise ConfigError(
                f"the server at {self._study.terms.address} does not accept the certificate of "
                f"{self._keys.public.name!r}. Compare study.toml with the server's."
            ) from error
