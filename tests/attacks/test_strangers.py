"""Strangers on the network: they fail in the TLS handshake, before a message is read."""

import resource
import socket
import ssl
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from attacks.liars import prepare
from fedfb.errors import ConfigError
from fedfb.study.disclosure import estimate_request
from fedfb.study.keys import make_private_keys
from fedfb.study.transport import METHOD, GrpcLink, GrpcServer
from fedfb.study.wire import Request, Response, read_request, write
from study.by_hand import federation


class Echo:
    """A mailbox that writes down what reaches it."""

    def __init__(self):
        self.requests = []

    def handle(self, id, data):
        self.requests.append((id, len(data)))
        read_request(data)
        return write(Response("wait"))


@pytest.fixture
def served(tmp_path):
    """A study that is served on loopback: the study, its echo, and its port."""
    port = federation.free_port()
    made = prepare(tmp_path, address=f"127.0.0.1:{port}")
    echo = Echo()
    server = GrpcServer(made.study, made.server, estimate_request(made.study))
    with server.serve(echo):
        yield made, echo, port


def call(port, certificate, key, data=b"x", root=None):
    credentials = grpc.ssl_channel_credentials(root, key, certificate)
    with grpc.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
        return channel.unary_unary(METHOD)(data, timeout=5)


def request(made):
    seal, code = bytes.fromhex(made.study.seal), made.study.code.encode()
    return Request(seal, code, "hello", 0)


def test_a_client_of_the_study_is_known_by_its_certificate(served):
    made, echo, _ = served
    for id, name in enumerate(made.study.names):
        link = GrpcLink(made.study, made.keys[name], lambda text: None, 1 << 20)
        assert link.ask(request(made)).kind == "wait"
        assert echo.requests[-1][0] == id
        link.close()


def test_a_stranger_reaches_nothing(served):
    made, echo, port = served
    stranger = make_private_keys("north")
    root = made.server.public.certificate.encode()
    with pytest.raises(grpc.RpcError):
        call(
            port, stranger.public.certificate.encode(), stranger.certificate_key.encode(), root=root
        )
    with pytest.raises(grpc.RpcError):
        call(port, None, None, root=root)
    assert echo.requests == []


def test_a_certificate_that_a_client_issued_is_not_one_of_the_study(served):
    """The clients' certificates are roots of trust for TLS: each is compared as a whole."""
    made, echo, port = served
    west = made.keys["west"]
    signer = serialization.load_pem_private_key(west.certificate_key.encode(), None)
    issuer = x509.load_pem_x509_certificate(west.public.certificate.encode()).subject
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedfb north")])
    now = datetime.now(UTC)
    issued = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(signer, hashes.SHA256())
    )
    pem = issued.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with pytest.raises(grpc.RpcError):
        call(port, pem, private, root=made.server.public.certificate.encode())
    assert echo.requests == []


def test_a_large_body_is_refused_before_it_is_read(served):
    made, echo, port = served
    north = made.keys["north"]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    body = bytes(40 << 20)
    with pytest.raises(grpc.RpcError) as refused:
        call(
            port, north.public.certificate.encode(), north.certificate_key.encode(), body,
            made.server.public.certificate.encode(),
        )  # fmt: skip
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert echo.requests == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10


def test_bytes_without_tls_and_half_open_connections_stop_nothing(served):
    made, echo, port = served
    with ExitStack() as open_ones:
        for number in range(50):
            connection = open_ones.enter_context(socket.create_connection(("127.0.0.1", port)))
            if number % 2:
                connection.sendall(
                    b"POST /v1/control HTTP/1.1\r\nContent-Length: 400000000\r\n\r\n"
                )
        link = GrpcLink(made.study, made.keys["east"], lambda text: None, 1 << 20)
        assert link.ask(request(made)).kind == "wait"
        link.close()
    assert len(echo.requests) == 1


def test_a_client_sends_nothing_to_a_server_with_another_certificate(served):
    made, echo, port = served
    other = prepare(made.folder / "other", address=f"127.0.0.1:{port}")
    link = GrpcLink(other.study, other.keys["east"], lambda text: None, 1 << 20)
    with pytest.raises(
        ConfigError, match=r"another certificate than study\.toml\. Nothing was sent"
    ):
        link.ask(request(other))
    assert echo.requests == []


def test_plain_tls_without_a_certificate_gets_no_answer(served):
    _, echo, port = served
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    refused = (ssl.SSLError, ConnectionError)

    def knock():
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain) as secured,
        ):
            secured.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            if not secured.recv(100):
                raise ConnectionError

    with pytest.raises(refused):
        knock()
    assert echo.requests == []
