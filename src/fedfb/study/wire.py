"""The two messages of a study: what a client asks for, and what the server has for it.

A client always begins. It sends what it has (the answer to the last turn), and the server holds the
request open until there is something for the client. Neither message can name code, files, arrays
or text for people: sizes, types and words follow from the study.
"""

from typing import Annotated, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from fedfb.errors import DataError

Number = Annotated[int, Meta(ge=-1, lt=1 << 31)]
Hash = Annotated[bytes, Meta(max_length=64)]

SINGLE = 100
"""The turn in which a client sends a single upload. The turns of a sum are those of ``Kind``."""


class Turn(NamedTuple):
    """A turn: the number of the exchange, of the attempt at it, and the kind of the message."""

    number: Number
    attempt: Number
    kind: Number


NO_TURN = Turn(-1, -1, -1)

State = Literal["hello", "waiting", "answered", "silent", "left", "done"]
"""What a client says of itself: it has just come; it waits; it answers the turn; it will not answer
this turn; it has left for good; it has the last total. What it has left for, its owner reads."""


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request of a client.

    ``next`` is the first exchange of which the client has no total. ``attestation`` is its
    signature on the chain before it. ``answer`` belongs to ``turn``.
    """

    seal: Hash
    code: Hash
    state: State
    next: Number
    attestation: Hash = b""
    turn: Turn = NO_TURN
    answer: bytes = b""


Reason = Literal["", "seal", "code", "left", "strikes", "stopped"]
"""Why the server ends the study for a client; the client has the words."""


class Response(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the server has for a client.

    ``wait``: nothing yet. ``signatures``: the clients' signatures on the seal. ``turn``: a message
    of a sum, with the roster and the context of the exchange, and the broadcast where processors
    differ. ``total``: the total of the exchange ``turn.number``, with evidence or attestations.
    ``stop``: the study ends here for this client.
    """

    kind: Literal["wait", "signatures", "turn", "total", "stop"]
    turn: Turn = NO_TURN
    context: Hash = b""
    roster: tuple[Number, ...] = ()
    survivors: tuple[Number, ...] = ()
    frame: bytes = b""
    broadcast: bytes = b""
    evidence: bytes = b""
    attestations: dict[Number, Hash] = {}
    signatures: dict[str, Hash] = {}
    reason: Reason = ""


def write(message: Request | Response) -> bytes:
    """Write a message."""
    return msgspec.msgpack.encode(message)


def read_request(data: bytes) -> Request:
    """Read a request; other bytes are refused."""
    return _read(data, Request, "a client")


def read_response(data: bytes) -> Response:
    """Read a response; other bytes are refused."""
    return _read(data, Response, "the server")


T = TypeVar("T", Request, Response)


class MalformedError(DataError):
    """Bytes that are no message of this version."""


def _read(data: bytes, kind: type[T], sender: str) -> T:
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, OverflowError):
        raise MalformedError(f"{sender} sent {len(data)} bytes that are no message.") from None
