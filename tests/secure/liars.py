"""A server that says what it likes: it holds the link keys, and the clients' honest answers."""

from fedfb import secure
from fedfb.secure import SERVER, Kind
from fedfb.secure.encoding import pack_set, unpack, unpack_entries
from fedfb.secure.keys import agree
from fedfb.secure.messages import LAYOUT, make_header, write_frame
from fedfb.secure.secrets import SHARE_BYTES
from secure.clients import TURNS, client_step, ring_vectors, seeded


def say(fed, kind, client, body):
    """Speak as the server, which holds the link keys and may say what it likes."""
    link = agree(fed.server_key, fed.roster.by_id[client].link, "")
    return write_frame(make_header(fed.session, kind, SERVER, client), body, link)


def body_of(message):
    return message[LAYOUT.size + 4 : -32]


def until(fed, last, vectors=None, silent=()):
    """Run honestly up to and with the clients' messages of one kind.

    Returns the clients' states, their messages of that kind, and the server before it closes.
    """
    vectors, states, draw = vectors or ring_vectors(fed), {}, seeded(1)
    server, outgoing = secure.open_sum(fed.session, fed.server_key)
    for turn in TURNS[: TURNS.index(last) + 1]:
        replies = {}
        for id, message in outgoing.items():
            replies[id] = client_step(fed, states, turn, id, message, vectors, draw)
            if not (turn is Kind.MASKED and id in silent):
                server = secure.receive(server, replies[id])
        if turn is not last:
            server, outgoing = secure.advance(server)
    return states, replies, server


def survivors(fed, ids, client):
    return say(fed, Kind.SURVIVORS, client, pack_set(ids, fed.roster.ids))


def reveal_shares(message):
    return [unpack_entries(part, "", SHARE_BYTES) for part in unpack(body_of(message), "", 2)]
