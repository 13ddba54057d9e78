"""The server's turns of one secure sum, every silo's by mail."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from fedfb.flower.mail import Mail
from fedfb.secure import (
    SERVER,
    Kind,
    SecureError,
    Sent,
    Session,
    Total,
    advance,
    open_sum,
    receive,
    unmask,
)

TURNS = (Kind.KEYS, Kind.SHARES, Kind.MASKED, Kind.CONFIRMATION, Kind.REVEAL)


class Mailed(NamedTuple):
    """A sum, every message of it, and who was there to its end."""

    total: Total
    sent: list[Sent]
    left: set[int]


def sum_by_mail(
    mail: Mail,
    session: Session,
    link_key: bytes,
    begin: Mapping[int, Mapping[str, Any]],
    where: str,
) -> Mailed:
    """Run one secure sum over the silos of a session; ``begin`` goes with their invitations.

    Who does not answer a turn, or wrongly, is silent from then on. Raises ``ThresholdError`` if too
    many are; then the sum stays masked.
    """
    server, outgoing = open_sum(session, link_key)
    sent, left = list[Sent](), set(begin)
    for kind in TURNS:
        sent += [Sent(Kind(kind - 1), SERVER, id, len(m)) for id, m in outgoing.items()]
        if kind is Kind.KEYS:
            first = {id: {**begin[id], "invitation": frame} for id, frame in outgoing.items()}
            replies = mail.exchange("begin", first, where)
        else:
            turn = {id: {"frame": frame} for id, frame in outgoing.items()}
            replies = mail.exchange("turn", turn, where)
        for id, said in replies.items():
            try:
                server = receive(server, said["frame"])
            except SecureError as error:
                mail.log.write("refused", f"{where}: {error}", silo=mail.study.silos[id])
                continue
            sent.append(Sent(kind, id, SERVER, len(said["frame"])))
        left &= set(server.arrived)
        server, outgoing = advance(server)
    return Mailed(unmask(server), sent, left)
