"""``ask`` over Flower's grid: the same questions as in one process, put to silos elsewhere.

Sums are secure: the coordinator takes the server's turns, every silo its own, and what comes out is
the sum over those who uploaded. Who falls silent stays away for the rest of the round and is asked
again in the next. A sum that too few take part in stays masked, and the question is put again to
those who are there, under fresh keys; nothing that was answered is ever asked again.

The server's turns of one secure sum, every silo's by mail.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from fedfb.core import Arrays, Task
from fedfb.errors import FedFBError
from fedfb.runtime.boundary import Exchange, entries, reduce_uploads
from fedfb.runtime.ledger import Ledger
from fedfb.runtime.local import Memories, drawn_places
from fedfb.runtime.secure import parts_of, read_total, sum_entries
from fedfb.secure import (
    SERVER,
    Kind,
    Party,
    SecureError,
    Sent,
    Session,
    ThresholdError,
    Total,
    advance,
    decode,
    make_roster,
    make_session,
    new_run,
    open_sum,
    public_key,
    receive,
    unmask,
    write_roster,
)
from fedfb.study.journal import Answered, Journal
from fedfb.study.keys import Office
from fedfb.study.mail import Mail, names, pack_arrays, unpack_arrays
from fedfb.study.study import plan_of
from fedfb.study.trial import ACHIEVABLE, TUNE

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


LOOK_S = 0.2
"""How often the coordinator looks who is there, while it waits."""


class TooFewError(FedFBError):
    """Fewer silos are there than the study needs."""


@dataclass
class Keys:
    """The keys of the present run of secure sums: new ones after a sum that failed."""

    run: bytes = field(default_factory=new_run)
    parties: dict[int, Party] = field(default_factory=dict)


@dataclass(frozen=True)
class Inquiry:
    """What all questions of one phase have in common.

    ``told`` is what silos must know for the phase. ``like`` gives an answer of the same shapes as
    theirs, from the question and what is sent along with it. The coordinator's ``memories`` of a
    silo are the place of its last answer that counted.
    """

    mail: Mail
    office: Office
    keys: Keys
    phase: str
    told: str
    ledger: Ledger
    journals: Callable[[int], Journal]
    like: Callable[[Task, Arrays], Arrays]
    memories: Memories

    @property
    def title(self) -> str:
        """What precedes the rounds of a phase in messages: nothing in the run itself."""
        return f"{self.phase}, " if self.phase in (TUNE, ACHIEVABLE) else ""

    def ask_of(self, round: int, everybody: bool = False) -> Callable[[Task, Arrays], Arrays]:
        """Return the ask of one round: put to those drawn for it who are there, or to all."""
        study = self.mail.study
        share = 1.0 if everybody or not round else study.experiment.participation
        drawn = drawn_places(len(study.silos), share, study.seed, round)
        journal, numbers, there = self.journals(round), count(), list[int]()
        if round > 1:  # the first checkpoint is that of round 1
            journal.forget_earlier()
        saved = dict(self.memories)

        def ask(task: Task, broadcast: Arrays) -> Arrays:
            number = next(numbers)
            answered = journal.find(number)
            if answered is None:
                answered = self._insist(drawn, round, number, task, broadcast, there, saved)
                journal.write(number, answered)
            for id in answered.counted:
                self.memories[id] = {"place": np.array([round, number])}
            return answered.total

        return ask

    def _insist(
        self,
        drawn: Sequence[int],
        round: int,
        number: int,
        task: Task,
        broadcast: Arrays,
        there: list[int],
        saved: Memories,
    ) -> Answered:
        """Put a question until enough silos answer it; ``there`` are those still in this round."""
        mail, where = self.mail, f"{self.title}round {round}, {task.name}"
        while True:
            if len(there) < mail.study.fewest:
                there[:] = self.assemble(drawn, where, for_all=not round)
            question = Exchange(round, number, task, broadcast, tuple(there), {})
            put = self._masked if task.reduce == "sum" else self._gathered
            try:
                answered, left = put(question, saved, where)
            except ThresholdError as error:
                self.keys.run, self.keys.parties = new_run(), {}
                there.clear()
                mail.log.write("repeated", f"{where}: {error} The question is put again.")
                continue
            gone = set(there) - left
            there[:] = sorted(left)
            text = f"{where}: {names(mail.study, answered.counted)} answered"
            mail.log.write(
                "answered",
                text,
                phase=self.phase,
                round=round,
                question=number,
                task=task.name,
                asked=list(question.clients),
                counted=list(answered.counted),
                gone=sorted(gone),
            )
            return answered

    def assemble(self, drawn: Sequence[int], where: str, for_all: bool) -> list[int]:
        """Wait until enough of the silos drawn for a round are there and have keys.

        ``for_all``: wait for all of them, and go on with as many as the study needs when the time
        is over.
        """
        study, mail = self.mail.study, self.mail
        least = study.fewest
        end, waiting = time.monotonic() + study.wait_s, False
        while True:
            self._greet([id for id in mail.present() if id in drawn], where)
            there = [id for id in drawn if id in self.keys.parties and id in mail.present()]
            over = time.monotonic() > end
            if len(there) >= (len(drawn) if for_all and not over else least):
                return there
            if over:
                raise TooFewError(
                    f"{where}: {len(there)} of the {len(drawn)} silos asked are there "
                    f"({names(mail.study, there)}), and at least {least} must be. Waited for "
                    f"{study.wait_s:g} s. Nothing is lost: fedfb serve goes on from here."
                )
            if not waiting:
                lacking = names(mail.study, set(drawn) - set(there))
                mail.log.write("waiting", f"{where}: waiting for {lacking}")
                waiting = True
            time.sleep(LOOK_S)

    def _greet(self, present: Sequence[int], where: str) -> None:
        """Ask silos for their keys of this run: those who are new, or have failed since."""
        new = [id for id in present if id not in self.keys.parties or id in self.mail.failed]
        if not new:
            return
        hello = {"study": self.mail.study.digest, "run": self.keys.run, "told": self.told}
        for id in new:
            self.mail.failed.pop(id, None)
            self.keys.parties.pop(id, None)
        for id, said in self.mail.exchange("hello", dict.fromkeys(new, hello), where).items():
            self.keys.parties[id] = Party(id, said["link"], said["identity"])
            name = self.mail.study.silos[id]
            self.mail.log.write("joined", f"{name} is there", silo=name)

    def _told(self, question: Exchange, saved: Memories) -> dict[int, dict[str, Any]]:
        common = {
            "phase": self.phase,
            "round": question.round,
            "question": question.number,
            "task": question.task.name,
            "broadcast": pack_arrays(question.broadcast),
            "run": self.keys.run,
        }
        return {
            id: {**common, "after": _place(self.memories, id), "saved": _place(saved, id)}
            for id in question.clients
        }

    def _masked(self, question: Exchange, saved: Memories, where: str) -> tuple[Answered, set[int]]:
        """Carry a question by one secure sum; return also who was there to its end."""
        task, told = question.task, self._told(question, saved)
        like = self.like(task, question.broadcast)
        roster = make_roster(
            self.keys.run,
            public_key(self.office.link),
            [self.keys.parties[id] for id in question.clients],
            plan_of(self.mail.study, len(question.clients)),
        )
        parts = parts_of(task, like, len(question.clients))
        session = make_session(roster, question.round, question.number, parts)
        listed = write_roster(roster)
        begin = {id: {**content, "roster": listed} for id, content in told.items()}
        total, sent, left = sum_by_mail(self.mail, session, self.office.link, begin, where)
        broadcast = len(told[question.clients[0]]["broadcast"]) + len(listed)
        self.ledger.write(sum_entries(question, like, broadcast, sent, total.survivors))
        answer = read_total(task, like, decode(session.schema, len(total.survivors), total.vector))
        return Answered(answer, total.survivors), left

    def _gathered(
        self, question: Exchange, saved: Memories, where: str
    ) -> tuple[Answered, set[int]]:
        """Carry a question whose answers are needed one by one, unmasked."""
        told = self._told(question, saved)
        replies = self.mail.exchange("single", told, where)
        if len(replies) < self.mail.study.fewest:
            raise ThresholdError(f"{len(replies)} silos answered.")
        in_order = sorted(replies)
        uploads = [unpack_arrays(replies[id]["upload"]) for id in in_order]
        down = {id: {"broadcast": len(content["broadcast"])} for id, content in told.items()}
        up = {id: {"upload": len(replies[id]["upload"])} for id in in_order}
        self.ledger.write(
            [
                *entries(question, "down", "public", question.broadcast, down),
                *entries(question, "up", "single", uploads[0], up),
            ]
        )
        return Answered(reduce_uploads(question.task, uploads), tuple(in_order)), set(in_order)


def _place(memories: Mapping[int, Arrays], id: int) -> str:
    """Write the place of a silo's last answer that counted: round-question, '' before any."""
    place = memories.get(id, {}).get("place")
    return "" if place is None else "-".join(str(number) for number in place.tolist())
