"""What the server has for each client, and what each client has sent: shared by threads.

The thread of the program posts turns and waits for answers. Threads of the transport hand in the
requests of clients, and wait until there is something for them. Nothing that a client sends stops
the server: what is malformed counts as silence and as a strike, and three strikes end the study for
this client.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from fedfb.secure import SecureError
from fedfb.secure.keys import check_signature
from fedfb.study.journal import EVIDENCE, Journal, Log
from fedfb.study.seal import Signature, write_attested_text
from fedfb.study.study import Study
from fedfb.study.wire import (
    MalformedError,
    Reason,
    Request,
    Response,
    Turn,
    read_request,
    write,
)

HOLD_S = 20.0
"""How long a request is held open until there is something for its client."""

STRIKES = 3
"""So many malformed messages, and the study has ended for a client."""


@dataclass
class Visitor:
    """What the server knows of one client. ``ticket`` counts requests: only the last one waits."""

    online: bool = False
    next: int = -1
    ticket: int = 0
    strikes: int = 0
    ended: Reason = ""
    done: bool = False
    refusals: set[Reason] = field(default_factory=set)
    post: Response | None = None
    answers: dict[Turn, bytes | None] = field(default_factory=dict)


class Mailbox:
    """The mailboxes of all clients.

    Args:
        study: the study.
        journal: holds the totals that clients ask for, and takes their attestations.
        signatures: the clients' signatures on the study.
        log: for the server's operator.
    """

    def __init__(
        self,
        study: Study,
        journal: Journal,
        signatures: Mapping[str, Signature],
        log: Log,
    ) -> None:
        self._study, self._log, self._journal = study, log, journal
        self._signatures = {name: bytes.fromhex(s.signature) for name, s in signatures.items()}
        self._visitors = {id: Visitor() for id in range(len(study.clients))}
        self._changed = threading.Condition()
        self._totals, self._chain = journal.count_totals(), b""
        self._evidence = journal.fact(EVIDENCE) or b""
        self._stopped = False

    def handle(self, id: int, data: bytes, hold_s: float = HOLD_S) -> bytes:
        """Return the response to one request of a client, after waiting for it if need be.

        Args:
            id: the client, as the transport has authenticated it.
            data: the request.
            hold_s: how long to wait.
        """
        try:
            request = read_request(data)
        except MalformedError as error:
            self.strike(id, str(error))
            return write(Response("wait"))
        return write(self._respond(id, request, hold_s))

    def _respond(self, id: int, request: Request, hold_s: float) -> Response:
        refusal = self._find_refusal(id, request)
        if refusal:
            return Response("stop", reason=refusal)
        with self._changed:
            visitor = self._visitors[id]
            if request.state == "hello":
                self._note_arrival(id, visitor)
                return Response("signatures", signatures=self._signatures)
            if 0 <= request.next <= self._totals and self._take(id, visitor, request):
                return self._wait(visitor, request, hold_s)
        # Out of the lock: the log is a file.
        self.strike(id, "what it says contradicts the course of the study")
        return Response("wait")

    def _find_refusal(self, id: int, request: Request) -> Reason:
        study, visitor, name = self._study, self._visitors[id], self._study.names[id]
        if visitor.ended:
            return visitor.ended
        if request.seal != bytes.fromhex(study.seal):
            return self._refuse(visitor, "seal", f"{name} joins with another study")
        if request.code != study.code.encode():
            code = request.code.decode("utf-8", "replace")
            text = f"{name} runs fedfb {code}, and the study was made with {study.code}"
            return self._refuse(visitor, "code", text)
        return ""

    def _refuse(self, visitor: Visitor, reason: Reason, text: str) -> Reason:
        """Say once to the operator why a client is refused: a bad client must not fill the disk."""
        if reason not in visitor.refusals:
            visitor.refusals.add(reason)
            self._log.write("refused", text)
        return reason

    def _note_arrival(self, id: int, visitor: Visitor) -> None:
        if not visitor.online:
            name = self._study.names[id]
            self._log.write("joined", f"{name} is online", client=name)
        visitor.online = True
        self._changed.notify_all()

    def _take(self, id: int, visitor: Visitor, request: Request) -> bool:
        """Take what a request says; return False if no honest client can say it."""
        if not self._take_attestation(id, request):
            return False
        self._note_arrival(id, visitor)
        visitor.next, visitor.ticket = request.next, visitor.ticket + 1
        post = visitor.post
        if request.state in ("answered", "silent") and post and request.turn == post.turn:
            answer = request.answer if request.state == "answered" else None
            visitor.answers.setdefault(request.turn, answer)
        if request.state == "left":
            visitor.ended, name = "left", self._study.names[id]
            self._log.write("left", f"{name} has left the study; its owner knows why", client=name)
        visitor.done = visitor.done or (request.state == "done" and request.next == self._totals)
        return True

    def _take_attestation(self, id: int, request: Request) -> bool:
        if not request.attestation or not self._chain or request.next != self._totals:
            return True
        identity = self._study.clients[id].identity_bytes
        text = write_attested_text(self._study, request.next, self._chain)
        try:
            check_signature(identity, text, request.attestation, "the chain")
        except SecureError:
            return False
        self._journal.write_attestation(request.next, id, request.attestation)
        return True

    def _wait(self, visitor: Visitor, request: Request, hold_s: float) -> Response:
        ticket, end = visitor.ticket, time.monotonic() + hold_s
        while True:
            if visitor.ended:
                return Response("stop", reason=visitor.ended)
            if request.next < self._totals:
                return self._find_total(request.next)
            post = visitor.post
            # What a client said to a server that was killed since is not in the answers.
            if post and post.turn not in visitor.answers:
                return post
            if self._stopped:
                return Response("stop", reason="stopped")
            left = end - time.monotonic()
            if left <= 0 or visitor.ticket != ticket or visitor.done:
                return Response("wait")
            self._changed.wait(left)

    def _find_total(self, number: int) -> Response:
        total = self._journal.find_total(number)
        assert total is not None
        is_last = number == self._totals - 1
        return Response(
            "total",
            Turn(number, 0, -1),
            context=total.context,
            roster=total.roster,
            survivors=total.survivors,
            frame=total.content,
            evidence=self._evidence if is_last else b"",
            attestations={} if is_last else self._journal.attestations(number + 1),
        )

    def strike(self, id: int, reason: str) -> None:
        """Count a malformed message of a client; after the third the study has ended for it."""
        name = self._study.names[id]
        with self._changed:
            visitor = self._visitors[id]
            visitor.strikes += 1
            out = visitor.strikes >= STRIKES and not visitor.ended
            if out:
                visitor.ended = "strikes"
            self._changed.notify_all()
        self._log.write("strike", f"{name}: {reason}", client=name)
        if out:
            text = f"{name} has sent {STRIKES} malformed messages: the study has ended for it"
            self._log.write("out", text, client=name)

    def publish(self, totals: int, evidence: bytes, chain: bytes) -> None:
        """Let clients have all totals up to a number of them.

        Args:
            totals: how many exchanges have a total now.
            evidence: what shows the last of them.
            chain: the chain over them.
        """
        with self._changed:
            self._totals, self._evidence, self._chain = totals, evidence, chain
            for visitor in self._visitors.values():
                visitor.post, visitor.answers = None, {}
            self._changed.notify_all()

    def post(self, responses: Mapping[int, Response]) -> None:
        """Put a message into the mailboxes of clients, in place of the last one."""
        with self._changed:
            for id, visitor in self._visitors.items():
                visitor.post, visitor.answers = responses.get(id), {}
            self._changed.notify_all()

    def collect(self, turn: Turn, ids: Collection[int], timeout_s: float) -> dict[int, bytes]:
        """Return what clients answered to a turn; wait for those that may still answer.

        A client that does not answer in time counts as absent until its next request.
        """
        answers: dict[int, bytes] = {}

        def missing() -> set[int]:
            return {
                id
                for id in ids
                if turn not in self._visitors[id].answers and not self._visitors[id].ended
            }

        with self._changed:
            self._changed.wait_for(lambda: not missing(), timeout_s)
            for id in missing():
                self._visitors[id].online = False
            for id in ids:
                answer = self._visitors[id].answers.get(turn)
                if answer is not None:
                    answers[id] = answer
        return answers

    def wait_for(self, number: int, enough: Callable[[set[int]], bool], timeout_s: float) -> bool:
        """Wait until enough clients have come to an exchange; return False if they have not.

        Args:
            number: the number of the exchange.
            enough: decides on the ids of those who have come.
            timeout_s: how long to wait.
        """
        with self._changed:
            return self._changed.wait_for(lambda: enough(self.find_present(number)), timeout_s)

    def find_present(self, number: int) -> set[int]:
        """Return the clients that wait for an exchange."""
        with self._changed:
            return {
                id
                for id, visitor in self._visitors.items()
                if visitor.online and not visitor.ended and visitor.next == number
            }

    def find_online(self) -> set[int]:
        """Return the clients that are online, wherever they are in the study."""
        with self._changed:
            return {id for id, v in self._visitors.items() if v.online and not v.ended}

    def mark_absent(self, ids: Collection[int]) -> None:
        """Count clients as absent until their next request."""
        with self._changed:
            for id in ids:
                self._visitors[id].online = False

    def find_ended(self) -> dict[int, Reason]:
        """Return the clients for which the study has ended, and why."""
        with self._changed:
            return {id: v.ended for id, v in self._visitors.items() if v.ended}

    def finish(self, timeout_s: float) -> set[int]:
        """Wait until the clients have the last total; return those that have it."""

        def is_over() -> bool:
            visitors = self._visitors.values()
            return all(visitor.done or visitor.ended for visitor in visitors)

        with self._changed:
            self._changed.wait_for(is_over, timeout_s)
            return {id for id, visitor in self._visitors.items() if visitor.done}

    def stop(self) -> None:
        """Tell all clients that ask that the server has stopped."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
