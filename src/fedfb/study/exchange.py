"""One exchange of a task with the clients of a study, on the server's side.

Totals are secure sums: the server takes its turns, every client takes its own, and the result is
the total over the clients that uploaded. A client that drops out is not asked again in this round.
It is asked again in the next round. If too few clients remain, the sum stays masked, and the task
is repeated with the clients that are online, under fresh keys. A task that has a total is never
repeated.
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
    ClientEntry,
    Kind,
    SecureError,
    SentMessage,
    Session,
    ThresholdError,
    Total,
    advance,
    decode,
    derive_public_key,
    draw_period,
    make_roster,
    make_session,
    open_sum,
    receive,
    unmask,
    write_roster,
)
from fedfb.study.journal import ExchangeTotal, Journal, join_names, pack_message, unpack_message
from fedfb.study.keys import ServerSecrets
from fedfb.study.study import make_study_plan
from fedfb.study.transport import Transport
from fedfb.study.trial import ACHIEVABLE, TUNE

_TURNS = (Kind.KEYS, Kind.SHARES, Kind.MASKED, Kind.CONFIRMATION, Kind.REVEAL)


class CarriedSum(NamedTuple):
    """A total, a record of every message, and the clients that answered every turn."""

    total: Total
    messages: list[SentMessage]
    remaining: set[int]


def sum_over_transport(
    transport: Transport,
    session: Session,
    link_key: bytes,
    begin: Mapping[int, Mapping[str, Any]],
    where: str,
) -> CarriedSum:
    """Run one secure sum over the clients of a session.

    A client that does not answer a turn, or sends an invalid message, is silent from then on.

    Args:
        transport: carries the turns.
        session: the sum.
        link_key: the server's private link key.
        begin: what each client is sent together with its invitation, by id.
        where: round and task, for the log.

    Raises:
        ThresholdError: too many clients are silent. The sum stays masked.
    """
    server, outgoing = open_sum(session, link_key)
    messages, remaining = list[SentMessage](), set(begin)
    for kind in _TURNS:
        messages += [SentMessage(Kind(kind - 1), SERVER, id, len(m)) for id, m in outgoing.items()]
        if kind is Kind.KEYS:
            first = {id: {**begin[id], "invitation": frame} for id, frame in outgoing.items()}
            replies = transport.exchange("begin", first, where)
        else:
            turn = {id: {"frame": frame} for id, frame in outgoing.items()}
            replies = transport.exchange("turn", turn, where)
        for id, reply in replies.items():
            try:
                server = receive(server, reply["frame"])
            except SecureError as error:
                name = transport.study.clients[id]
                transport.log.write("refused", f"{where}: {error}", client=name)
                continue
            messages.append(SentMessage(kind, id, SERVER, len(reply["frame"])))
        remaining &= set(server.arrived)
        server, outgoing = advance(server)
    return CarriedSum(unmask(server), messages, remaining)


POLL_S = 0.2
"""How often the server looks which clients are online, while it waits."""


class TooFewClientsError(FedFBError):
    """Fewer clients are online than the study needs."""


@dataclass
class PeriodKeys:
    """The public keys of the current key period. A sum that failed begins a new period."""

    period: bytes = field(default_factory=draw_period)
    clients: dict[int, ClientEntry] = field(default_factory=dict)


@dataclass(frozen=True)
class Phase:
    """What all exchanges of one phase have in common.

    ``description`` is what clients must know for the phase. ``like`` returns an upload of the same
    shapes as theirs, from the task and its broadcast. ``memories`` holds, for each client, the
    place of its last upload that is part of a total; the memory itself stays at the client.
    """

    transport: Transport
    secrets: ServerSecrets
    keys: PeriodKeys
    name: str
    description: str
    ledger: Ledger
    open_journal: Callable[[int], Journal]
    like: Callable[[Task, Arrays], Arrays]
    memories: Memories

    @property
    def title(self) -> str:
        """The words before the round in messages: empty in the run itself."""
        return f"{self.name}, " if self.name in (TUNE, ACHIEVABLE) else ""

    def make_ask(self, round: int, everybody: bool = False) -> Callable[[Task, Arrays], Arrays]:
        """Return the function that exchanges the tasks of one round.

        Args:
            round: the number of the round; 0 is the set-up.
            everybody: ask all clients, not only those drawn for the round.
        """
        study = self.transport.study
        share = 1.0 if everybody or not round else study.experiment.participation
        drawn = drawn_places(len(study.clients), share, study.seed, round)
        journal, numbers, present = self.open_journal(round), count(), list[int]()
        if round > 1:  # the first checkpoint is that of round 1
            journal.forget_earlier()
        saved = dict(self.memories)

        def ask(task: Task, broadcast: Arrays) -> Arrays:
            number = next(numbers)
            total = journal.find(number)
            # Never exchange a task again that has a total: two totals of the same uploads over
            # different clients would reveal the upload of one client.
            if total is None:
                total = self._repeat_until_total(
                    drawn, round, number, task, broadcast, present, saved
                )
                journal.write(number, total)
            for id in total.clients:
                self.memories[id] = {"place": np.array([round, number])}
            return total.arrays

        return ask

    def _repeat_until_total(
        self,
        drawn: Sequence[int],
        round: int,
        number: int,
        task: Task,
        broadcast: Arrays,
        present: list[int],
        saved: Memories,
    ) -> ExchangeTotal:
        """Repeat an exchange until enough clients answer; ``present`` is updated."""
        transport, where = self.transport, f"{self.title}round {round}, {task.name}"
        while True:
            if len(present) < transport.study.fewest:
                present[:] = self.assemble(drawn, where, for_all=not round)
            exchange = Exchange(round, number, task, broadcast, tuple(present), {})
            carry = self._sum_securely if task.reduce == "sum" else self._gather_uploads
            try:
                total, remaining = carry(exchange, saved, where)
            except ThresholdError as error:
                self.keys.period, self.keys.clients = draw_period(), {}
                present.clear()
                transport.log.write("repeated", f"{where}: {error} The task is repeated.")
                continue
            lost = set(present) - remaining
            present[:] = sorted(remaining)
            text = f"{where}: {join_names(transport.study, total.clients)} answered"
            transport.log.write(
                "answered",
                text,
                phase=self.name,
                round=round,
                question=number,
                task=task.name,
                asked=list(exchange.clients),
                counted=list(total.clients),
                gone=sorted(lost),
            )
            return total

    def assemble(self, drawn: Sequence[int], where: str, for_all: bool) -> list[int]:
        """Wait until enough of the clients drawn for a round are online and have keys.

        Args:
            drawn: the clients drawn for the round.
            where: round and task, for the log and for errors.
            for_all: wait for all of them; after the waiting time, continue with as many as the
                study needs.

        Raises:
            TooFewClientsError: too few clients are online after the waiting time of the study.
        """
        study, transport = self.transport.study, self.transport
        least = study.fewest
        end, waiting = time.monotonic() + study.wait_s, False
        while True:
            self._collect_keys([id for id in transport.list_present() if id in drawn], where)
            online = transport.list_present()
            present = [id for id in drawn if id in self.keys.clients and id in online]
            over = time.monotonic() > end
            if len(present) >= (len(drawn) if for_all and not over else least):
                return present
            if over:
                raise TooFewClientsError(
                    f"{where}: {len(present)} of the {len(drawn)} clients asked are online "
                    f"({join_names(study, present)}), and at least {least} must be. Waited for "
                    f"{study.wait_s:g} s. Nothing is lost: fedfb serve continues from here."
                )
            if not waiting:
                missing = join_names(study, set(drawn) - set(present))
                transport.log.write("waiting", f"{where}: waiting for {missing}")
                waiting = True
            time.sleep(POLL_S)

    def _collect_keys(self, present: Sequence[int], where: str) -> None:
        """Ask clients for their keys of this period: those without keys, or that have failed."""
        failed = self.transport.failed
        new = [id for id in present if id not in self.keys.clients or id in failed]
        if not new:
            return
        hello = {
            "study": self.transport.study.digest,
            "run": self.keys.period,
            "told": self.description,
        }
        for id in new:
            failed.pop(id, None)
            self.keys.clients.pop(id, None)
        replies = self.transport.exchange("hello", dict.fromkeys(new, hello), where)
        for id, reply in replies.items():
            self.keys.clients[id] = ClientEntry(id, reply["link"], reply["identity"])
            name = self.transport.study.clients[id]
            self.transport.log.write("joined", f"{name} is online", client=name)

    def _make_contents(self, exchange: Exchange, saved: Memories) -> dict[int, dict[str, Any]]:
        common = {
            "phase": self.name,
            "round": exchange.round,
            "question": exchange.number,
            "task": exchange.task.name,
            "broadcast": pack_message(exchange.broadcast),
            "run": self.keys.period,
        }
        return {
            id: {
                **common,
                "after": _format_place(self.memories, id),
                "saved": _format_place(saved, id),
            }
            for id in exchange.clients
        }

    def _sum_securely(
        self, exchange: Exchange, saved: Memories, where: str
    ) -> tuple[ExchangeTotal, set[int]]:
        """Carry a task by one secure sum; return also the clients that answered every turn."""
        task, contents = exchange.task, self._make_contents(exchange, saved)
        like = self.like(task, exchange.broadcast)
        roster = make_roster(
            self.keys.period,
            derive_public_key(self.secrets.link),
            [self.keys.clients[id] for id in exchange.clients],
            make_study_plan(self.transport.study, len(exchange.clients)),
        )
        parts = parts_of(task, like, len(exchange.clients))
        session = make_session(roster, exchange.round, exchange.number, parts)
        roster_bytes = write_roster(roster)
        begin = {id: {**content, "roster": roster_bytes} for id, content in contents.items()}
        total, messages, remaining = sum_over_transport(
            self.transport, session, self.secrets.link, begin, where
        )
        broadcast_size = len(contents[exchange.clients[0]]["broadcast"]) + len(roster_bytes)
        self.ledger.write(sum_entries(exchange, like, broadcast_size, messages, total.survivors))
        arrays = read_total(task, like, decode(session.schema, len(total.survivors), total.vector))
        return ExchangeTotal(arrays, total.survivors), remaining

    def _gather_uploads(
        self, exchange: Exchange, saved: Memories, where: str
    ) -> tuple[ExchangeTotal, set[int]]:
        """Carry a task whose uploads the server needs one by one, unmasked."""
        contents = self._make_contents(exchange, saved)
        replies = self.transport.exchange("single", contents, where)
        if len(replies) < self.transport.study.fewest:
            raise ThresholdError(f"{len(replies)} clients answered.")
        ids = sorted(replies)
        uploads = [unpack_message(replies[id]["upload"]) for id in ids]
        down = {id: {"broadcast": len(content["broadcast"])} for id, content in contents.items()}
        up = {id: {"upload": len(replies[id]["upload"])} for id in ids}
        self.ledger.write(
            [
                *entries(exchange, "down", "public", exchange.broadcast, down),
                *entries(exchange, "up", "single", uploads[0], up),
            ]
        )
        return ExchangeTotal(reduce_uploads(exchange.task, uploads), tuple(ids)), set(ids)


def _format_place(memories: Mapping[int, Arrays], id: int) -> str:
    """Return the place of a client's last upload that counted: round-exchange, '' before any."""
    place = memories.get(id, {}).get("place")
    return "" if place is None else "-".join(str(number) for number in place.tolist())
