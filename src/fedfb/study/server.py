"""The server's side of a study: it carries messages and adds up.

The server runs the same program as every client. It decides nothing but who is invited to a sum,
and how long it waits.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from fedfb.core import Arrays
from fedfb.errors import FedFBError
from fedfb.experiments.run_folder import EXPERIMENT, LEDGER
from fedfb.experiments.spec_file import to_toml
from fedfb.files import make_folder, unseal, write_whole
from fedfb.runtime.boundary import Exchange, entries
from fedfb.runtime.ledger import Entry
from fedfb.runtime.loop import Progress
from fedfb.runtime.secure import sum_entries
from fedfb.secure import (
    SERVER,
    AuthenticationError,
    Kind,
    SecureError,
    SentMessage,
    ServerState,
    ThresholdError,
    advance,
    estimate_bytes,
    make_evidence,
    open_sum,
    read_header,
    receive,
    verify_total,
    write_evidence,
)
from fedfb.secure.encoding import pack_number
from fedfb.secure.keys import SIGNATURE_BYTES, check_signature
from fedfb.secure.secrets import write_ring
from fedfb.study.exchange import (
    ATTEMPTS,
    Planned,
    extend_chain,
    hash_context,
    make_sum_session,
    read_content,
    single_bytes,
    start_chain,
    write_arrays,
    write_single_text,
    write_singles,
)
from fedfb.study.journal import (
    CLOSED,
    EVENTS,
    EVIDENCE,
    Journal,
    Log,
    Message,
    TotalRecord,
    name_clients,
    read_ids,
)
from fedfb.study.keys import PrivateKeys
from fedfb.study.ledger import StudyLedger
from fedfb.study.mailbox import Mailbox
from fedfb.study.program import FinishedStudy, Program
from fedfb.study.results import write_results
from fedfb.study.seal import Signature, check_signatures, refuse_other_code
from fedfb.study.study import Study
from fedfb.study.wire import SINGLE, Response, Turn

TURNS = (Kind.KEYS, Kind.SHARES, Kind.MASKED, Kind.CONFIRMATION, Kind.REVEAL)

NEEDED_AGAIN = (Kind.CONFIRMATION, Kind.REVEAL)
"""Turns in which a sum cannot begin anew: a client that has confirmed answers no other attempt."""


ROSTER = -2
"""The place in the journal of the roster of an attempt, among its turns."""

PATIENCE_S, POLL_S = 0.5, 5.0
"""How long the server waits before it says whom it waits for, and between two looks."""


class TooFewClientsError(FedFBError):
    """Fewer clients are online than the study needs."""


@runtime_checkable  # so that annotated shapes can be checked
class ServerTransport(Protocol):
    """What brings requests of authenticated clients to a mailbox."""

    def serve(self, mailbox: Mailbox) -> AbstractContextManager[None]:
        """Serve the mailbox while the context is open."""


class ServerCarrier:
    """The server's part of every exchange.

    Args:
        study: the study.
        keys: the server's keys.
        journal: the server's journal.
        mailbox: the clients' mailboxes.
        ledger: where messages are recorded.
        log: for the server's operator.
    """

    def __init__(
        self,
        study: Study,
        keys: PrivateKeys,
        journal: Journal,
        mailbox: Mailbox,
        ledger: StudyLedger,
        log: Log,
    ) -> None:
        self._study, self._keys, self._journal = study, keys, journal
        self._mailbox, self._ledger, self._log = mailbox, ledger, log
        self._chain, self._totals = start_chain(study), journal.count_totals()

    def carry(self, planned: Planned) -> Arrays:
        """Return the total of an exchange: from the journal, or by asking the clients."""
        if planned.number == 0 and not self._totals:
            self._mailbox.publish(0, b"", self._chain)
        context = hash_context(self._study, self._chain, planned, planned.broadcast)
        total = self._journal.find_total(planned.number)
        if total is None:
            total, evidence = self._obtain(planned, context)
        else:
            evidence = self._journal.fact(EVIDENCE) or b""
        self._chain = extend_chain(self._chain, len(self._study.clients), total)
        if planned.number >= self._totals - 1:
            self._mailbox.publish(planned.number + 1, evidence, self._chain)
        return read_content(self._study, planned, total)

    def _obtain(self, planned: Planned, context: bytes) -> tuple[TotalRecord, bytes]:
        """Begin sums until one has a total."""
        first = max(self._journal.last_attempt(), 1)
        for attempt in range(first, ATTEMPTS + 1):
            roster = self._assemble(planned, attempt)
            carry = self._carry_sum if planned.is_sum else self._carry_singles
            try:
                total, evidence = carry(planned, context, attempt, roster)
            except ThresholdError as error:
                self._log.write("repeated", f"{planned.place}: {error}")
                continue
            names = name_clients(self._study.names, total.survivors)
            self._log.write(
                "answered",
                f"{planned.place}: {names} answered",
                phase=planned.phase,
                round=planned.round,
                question=planned.exchange,
                task=planned.task.name,
                asked=list(total.roster),
                counted=list(total.survivors),
            )
            return total, evidence
        raise TooFewClientsError(
            f"{planned.place}: {ATTEMPTS} sums have failed, and clients begin no more of them. See "
            "the log for the clients that were absent. Make a new study: fedfb study init."
        )

    def _assemble(self, planned: Planned, attempt: int) -> tuple[int, ...]:
        """Return the roster of an attempt: that of the journal, or of the clients that are there.

        Where sums may be over different clients, a sum without some of the drawn clients is begun
        only after these had time to come.
        """
        for message in self._journal.messages(attempt):
            if message.sender == CLOSED and message.turn == ROSTER:
                return read_ids(message.content)
        study, mailbox, drawn = self._study, self._mailbox, set(planned.drawn)
        terms, end, patience = study.terms, time.monotonic() + study.terms.wait_s, PATIENCE_S
        later = terms.allow_differences and planned.round > 0
        while True:
            able = drawn - set(mailbox.find_ended())
            if len(able) < (study.fewest if terms.allow_differences else len(drawn)):
                raise self._make_ended_error(planned)
            required = able & mailbox.find_online() if later else able
            left = end - time.monotonic()
            mailbox.wait_for(
                planned.number,
                lambda present, needed=required: (  # type: ignore[misc]
                    len(present & drawn) >= study.fewest and present >= needed
                ),
                max(min(patience, left), 0.0),
            )
            present = mailbox.find_present(planned.number) & drawn
            over = time.monotonic() >= end
            if len(present) >= study.fewest and (present >= required or over):
                return self._begin(attempt, tuple(sorted(present)))
            if over:
                raise self._make_absent_error(planned, present)
            if patience == PATIENCE_S:
                missing = name_clients(study.names, able - present)
                self._log.write("waiting", f"{planned.place}: waiting for {missing}")
                patience = min(terms.timeout_s, POLL_S)
                waiting_since = time.monotonic()
            elif later and time.monotonic() - waiting_since >= terms.timeout_s:
                mailbox.mark_absent(required - present)

    def _begin(self, attempt: int, present: tuple[int, ...]) -> tuple[int, ...]:
        content = b"".join(map(pack_number, present))
        self._journal.write_message(attempt, Message(ROSTER, CLOSED, content, b""))
        return present

    def _make_absent_error(self, planned: Planned, present: set[int]) -> TooFewClientsError:
        study = self._study
        return TooFewClientsError(
            f"{planned.place}: {len(present)} of the {len(planned.drawn)} clients asked are online "
            f"({name_clients(study.names, present)}), and at least {study.fewest} must be. Waited "
            f"for {study.terms.wait_s:g} s. Nothing is lost: fedfb study serve continues from here."
        )

    def _make_ended_error(self, planned: Planned) -> TooFewClientsError:
        ended = self._mailbox.find_ended()
        names = name_clients(self._study.names, ended)
        return TooFewClientsError(
            f"{planned.place}: the study has ended for {names}, and a sum needs "
            f"{self._study.fewest} clients. The log says why. If the cause is corrected, fedfb "
            "study serve continues from here; else make a new study without them."
        )

    def _carry_sum(
        self, planned: Planned, context: bytes, attempt: int, ids: tuple[int, ...]
    ) -> tuple[TotalRecord, bytes]:
        """Run one secure sum; go on with the one of the journal."""
        session = make_sum_session(self._study, planned, context, attempt, ids)
        state, outgoing = open_sum(session, self._keys.link_bytes)
        sent = list[SentMessage]()
        for kind in TURNS:
            sent += [SentMessage(Kind(kind - 1), SERVER, id, len(m)) for id, m in outgoing.items()]
            state = self._take_turn(planned, context, attempt, state, outgoing)
            sent += [
                SentMessage(kind, message.sender, SERVER, len(message.content))
                for message in self._journal.messages(attempt)
                if message.turn == kind and message.sender != CLOSED
            ]
            state, outgoing = advance(state)
        evidence = make_evidence(state)
        vector, survivors = verify_total(session, evidence)
        total = TotalRecord(context, ids, survivors, write_ring(vector))
        evidence_bytes = b""
        if estimate_bytes(session.words, len(ids)) <= self._study.terms.verified_bytes:
            evidence_bytes = pack_number(attempt) + write_evidence(evidence)
        exchange, size = self._describe(planned, ids)
        messages = sum_entries(exchange, planned.like, size, sent, survivors)
        self._write_total(planned, total, messages, evidence_bytes)
        return total, evidence_bytes

    def _write_broadcast(self, planned: Planned) -> bytes:
        """Return the broadcast as it travels: nothing where all processors compute the same."""
        different = self._study.terms.processors == "different"
        return write_arrays(planned.broadcast) if different else b""

    def _describe(self, planned: Planned, ids: tuple[int, ...]) -> tuple[Exchange, int]:
        """Return an exchange for the ledger, and the bytes of its broadcast, as it travels."""
        size = len(self._write_broadcast(planned))
        sent = planned.broadcast if size else {}
        return Exchange(planned.round, planned.exchange, planned.task, sent, ids, {}), size

    def _make_posts(
        self,
        planned: Planned,
        context: bytes,
        turn: Turn,
        ids: tuple[int, ...],
        frames: Mapping[int, bytes],
    ) -> dict[int, Response]:
        first = turn.kind in (Kind.INVITATION, SINGLE)
        broadcast = self._write_broadcast(planned) if first else b""
        return {
            id: Response("turn", turn, context, ids, frame=frame, broadcast=broadcast)
            for id, frame in frames.items()
        }

    def _take_turn(
        self,
        planned: Planned,
        context: bytes,
        attempt: int,
        state: ServerState,
        outgoing: Mapping[int, bytes],
    ) -> ServerState:
        """Return the state with the answers to a turn, those of the journal first."""
        kind, terms = state.awaits, self._study.terms
        assert kind is not None
        recorded = [m for m in self._journal.messages(attempt) if m.turn == kind]
        for message in recorded:
            if message.sender == CLOSED:
                return state
            state = receive(state, message.content)
        turn, ids = Turn(planned.number, attempt, kind - 1), state.session.roster.ids
        missing = {id: frame for id, frame in outgoing.items() if id not in state.arrived}
        self._mailbox.post(self._make_posts(planned, context, turn, ids, missing))
        end = time.monotonic() + terms.wait_s
        while True:
            answers = self._mailbox.collect(turn, set(missing), terms.timeout_s)
            for id, frame in answers.items():
                state = self._receive(planned, attempt, state, id, frame)
            missing = {id: frame for id, frame in missing.items() if id not in state.arrived}
            if kind not in NEEDED_AGAIN or len(state.arrived) >= _enough(state):
                break
            # Whoever has confirmed answers no other attempt: only waiting helps.
            if time.monotonic() >= end or set(missing) <= set(self._mailbox.find_ended()):
                raise self._make_absent_error(planned, set(state.arrived))
        closed = Message(kind, CLOSED, b"", b"")
        self._journal.write_message(attempt, closed, flush=kind is Kind.MASKED)
        return state

    def _receive(
        self, planned: Planned, attempt: int, state: ServerState, id: int, frame: bytes
    ) -> ServerState:
        """Return the state with a client's message; a message that is refused is a strike."""
        kind = state.awaits
        assert kind is not None
        try:
            if read_header(frame).sender != id:
                raise AuthenticationError("it sends the message of another client")
            after = receive(state, frame)
        except SecureError as error:
            self._mailbox.strike(id, f"{planned.place}: {error}")
            return state
        self._journal.write_message(attempt, Message(kind, id, frame, b""))
        return after

    def _carry_singles(
        self, planned: Planned, context: bytes, attempt: int, ids: tuple[int, ...]
    ) -> tuple[TotalRecord, bytes]:
        """Gather single uploads, which the server and all clients see."""
        study, length = self._study, single_bytes(planned)
        uploads = {
            m.sender: m.content
            for m in self._journal.messages(attempt)
            if m.turn == SINGLE and m.sender != CLOSED
        }
        turn = Turn(planned.number, attempt, SINGLE)
        missing = dict.fromkeys(sorted(set(ids) - set(uploads)), b"")
        self._mailbox.post(self._make_posts(planned, context, turn, ids, missing))
        for id, answer in self._mailbox.collect(turn, set(missing), study.terms.timeout_s).items():
            upload, signature = answer[:-SIGNATURE_BYTES], answer[-SIGNATURE_BYTES:]
            text = write_single_text(context, id, upload)
            try:
                if len(upload) != length:
                    raise AuthenticationError(f"an upload of {len(upload)} bytes, not {length}.")
                check_signature(study.clients[id].identity_bytes, text, signature, "its upload")
            except SecureError as error:
                self._mailbox.strike(id, f"{planned.place}: {error}")
                continue
            self._journal.write_message(attempt, Message(SINGLE, id, answer, b""))
            uploads[id] = answer
        if len(uploads) < (study.fewest if study.terms.allow_differences else len(ids)):
            raise ThresholdError(f"{len(uploads)} of {len(ids)} clients answered.")
        survivors = tuple(sorted(uploads))
        content = b"".join(uploads[id][:length] for id in survivors)
        total = TotalRecord(context, ids, survivors, content)
        exchange, size = self._describe(planned, ids)
        down = {id: {"broadcast": size} for id in ids}
        up = {id: {"upload": len(uploads[id])} for id in survivors}
        evidence_bytes = write_singles(uploads)
        messages = [
            *entries(exchange, "down", "public", exchange.broadcast, down),
            *entries(exchange, "up", "single", planned.like, up),
        ]
        self._write_total(planned, total, messages, evidence_bytes)
        return total, evidence_bytes

    def _write_total(
        self,
        planned: Planned,
        total: TotalRecord,
        messages: list[Entry],
        evidence_bytes: bytes,
    ) -> None:
        everybody = tuple(range(len(self._study.clients)))
        sizes = {"total": len(total.content), "evidence": len(evidence_bytes)}
        place = (planned.round, planned.exchange, planned.task.name)
        messages = [*messages, Entry(*place, "down", "public", {}, sizes, everybody)]
        text = self._ledger.format(planned, messages)
        self._journal.write_total(planned.number, total, text, evidence=evidence_bytes)
        self._ledger.append(text)


def _enough(state: ServerState) -> int:
    """Return how many clients must confirm, or reveal, for the sum to end."""
    plan = state.session.roster.plan
    complete = plan.degree == len(state.session.roster.clients) - 1
    return plan.threshold if complete else plan.fewest


def serve_study(
    study: Study,
    keys: PrivateKeys,
    signatures: Mapping[str, Signature],
    folder: Path,
    transport: ServerTransport,
    notify: Callable[[str], None],
) -> FinishedStudy:
    """Run a study to its end, from where an earlier run of it stopped.

    Args:
        study: the study.
        keys: the server's keys.
        signatures: the clients' signatures on the study.
        folder: the folder of the run.
        transport: brings requests of clients.
        notify: is called with sentences for the user.
    """
    refuse_other_code(study, "the study")
    check_signatures(study, signatures)
    make_folder(folder, 0o700)
    unseal(folder)
    write_whole(folder / EXPERIMENT, to_toml(study.experiment))
    journal, log = Journal(folder, study.seal), Log(folder / EVENTS, notify)
    mailbox = Mailbox(study, journal, signatures, log)
    ledger = StudyLedger(study, folder / LEDGER)
    ledger.restore(journal)
    carrier = ServerCarrier(study, keys, journal, mailbox, ledger, log)
    with transport.serve(mailbox):
        log.write("serving", f"{study.name} is served on {study.terms.address}")
        try:
            program = Program(study, carrier, None, lambda phase, p: _log_round(log, phase, p))
            finished = program.run()
            write_results(study, finished, folder, log.write)
            done = mailbox.finish(study.terms.timeout_s)
        except FedFBError as error:
            log.write("stopped", f"stopped: {error}")
            mailbox.stop()
            raise
        names = name_clients(study.names, done)
        log.write("finished", f"finished; {names} have the result", got=sorted(done))
    journal.close()
    return finished


def _log_round(log: Log, phase: str, progress: Progress) -> None:
    lam = progress.record.lam
    weights = "" if lam is None else f", lambda {np.round(lam, 4).tolist()}"
    title = "" if phase == "run" else f"{phase}, "
    log.write(
        "round",
        f"{title}round {progress.round} of {progress.rounds} is done{weights}",
        phase=phase,
        round=progress.round,
        rounds=progress.rounds,
    )
