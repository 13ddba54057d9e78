"""A server that says what it likes: it holds the link keys, and the parties' honest answers."""

from fedfb import secure
from fedfb.secure import SERVER, Kind
from fedfb.secure.encoding import pack_set, unpack, unpack_entries
from fedfb.secure.keys import agree
from fedfb.secure.messages import LAYOUT, header_of, write_frame
from fedfb.secure.shares import SHARE_BYTES
from secure.parties import TURNS, party_step, ring_vectors, seeded


def say(fed, kind, party, body):
    """Speak as the server, which holds the link keys and may say what it likes."""
    link = agree(fed.server_key, fed.roster.by_id[party].link, "")
    return write_frame(header_of(fed.session, kind, SERVER, party), body, link)


def body_of(message):
    return message[LAYOUT.size + 4 : -32]


def until(fed, last, vectors=None, silent=()):
    """Run honestly up to and with the parties' messages of one kind.

    Returns the parties' states, their messages of that kind, and the server before it closes.
    """
    vectors, states, draw = vectors or ring_vectors(fed), {}, seeded(1)
    server, outgoing = secure.open_sum(fed.session, fed.server_key)
    for turn in TURNS[: TURNS.index(last) + 1]:
        replies = {}
        for id, message in outgoing.items():
            replies[id] = party_step(fed, states, turn, id, message, vectors, draw)
            if not (turn is Kind.MASKED and id in silent):
                server = secure.receive(server, replies[id])
        if turn is not last:
            server, outgoing = secure.advance(server)
    return states, replies, server


def survivors(fed, ids, party):
    return say(fed, Kind.SURVIVORS, party, pack_set(ids, fed.roster.ids))


def reveal_shares(message):
    return [unpack_entries(part, "", SHARE_BYTES) for part in unpack(body_of(message), "", 2)]
