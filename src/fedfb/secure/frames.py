"""The envelope of every message: what it is, where it belongs, who sends it, and a tag over it all.

The tag is an HMAC under a key that only the server and this party can derive, for this session and
this direction. A header can be read without any key, to route a message or to write it down.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from fedfb.secure.encoding import number
from fedfb.secure.errors import FormatError, ProtocolError
from fedfb.secure.keys import TAG_BYTES, check_tag, derive, tag
from fedfb.secure.roster import SERVER, Session


class Kind(IntEnum):
    """The messages of a sum in their order: the server's and the parties' take turns."""

    INVITATION = 0
    KEYS = 1
    KEY_LIST = 2
    SHARES = 3
    SHARE_LIST = 4
    MASKED = 5
    SURVIVORS = 6
    CONFIRMATION = 7
    CONFIRMATION_LIST = 8
    REVEAL = 9

    @property
    def words(self) -> str:
        return self.name.lower().replace("_", " ")


class Header(NamedTuple):
    """What stands on the outside of a message."""

    kind: Kind
    run: bytes
    round: int
    question: int
    session: bytes
    sender: int
    recipient: int

    def __str__(self) -> str:
        """Name the message as error texts do."""
        sender = "the server" if self.sender == SERVER else f"party {self.sender}"
        place = f"round {self.round}, question {self.question}"
        return f"the {self.kind.words} of {sender} ({place})"


MAGIC = b"fedfb-secure-sum"
VERSION = 1
LAYOUT = struct.Struct(">16sBB16sII32sII")
"""Magic, version, kind, run, round, question, session digest, sender, recipient."""

OVERHEAD_BYTES = LAYOUT.size + 4 + TAG_BYTES


def header_of(session: Session, kind: Kind, sender: int, recipient: int) -> Header:
    """Return the header of a message of this session."""
    run = session.roster.run
    return Header(kind, run, session.round, session.question, session.digest, sender, recipient)


def write_frame(header: Header, body: bytes, link: bytes) -> bytes:
    """Put a body into its envelope. ``link`` is the secret that server and party share."""
    outside = LAYOUT.pack(MAGIC, VERSION, *header) + number(len(body))
    key = derive(link, header.session, b"link", header.sender, header.recipient)
    content = outside + body
    return content + tag(key, content)


def read_header(message: bytes) -> Header:
    """Read the outside of a message without checking its tag."""
    if len(message) < OVERHEAD_BYTES:
        raise FormatError(f"a message of {len(message)} bytes, expected {OVERHEAD_BYTES} or more.")
    magic, version, kind, *place = LAYOUT.unpack_from(message)
    if magic != MAGIC or version != VERSION:
        raise FormatError(f"not a message of a secure sum of version {VERSION}.")
    if kind > max(Kind):
        raise FormatError(f"a message of the unknown kind {kind}.")
    length = int.from_bytes(message[LAYOUT.size : LAYOUT.size + 4], "big")
    if len(message) != OVERHEAD_BYTES + length:
        raise FormatError(
            f"a message of {len(message)} bytes, expected {OVERHEAD_BYTES + length}: it was cut "
            "off, or something was added to it."
        )
    return Header(Kind(kind), *place)


def open_frame(message: bytes, expected: Header, link: bytes) -> bytes:
    """Return the body of a message that is what, whose and when it should be."""
    header = read_header(message)
    if header != expected:
        raise ProtocolError(
            f"got {header}, expected {expected}{_hidden_difference(header, expected)}."
        )
    key = derive(link, header.session, b"link", header.sender, header.recipient)
    check_tag(key, message[:-TAG_BYTES], message[-TAG_BYTES:], str(header))
    return message[LAYOUT.size + 4 : -TAG_BYTES]


def _hidden_difference(header: Header, expected: Header) -> str:
    if header.run != expected.run:
        return " of another run"
    if header.session != expected.session:
        return " with another roster or schema"
    return "" if header.recipient == expected.recipient else f" for {expected.recipient}"
