"""A client's side of a study: it runs the program, and answers what its own program asks.

From the wire the client takes frames and totals, of sizes that follow from its program. It derives
every task, broadcast, roster rule and place itself. What does not fit is refused before anything
leaves, and the reason stays with the owner of the client.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, runtime_checkable

from fedfb.core import Arrays
from fedfb.errors import ConfigError, DataError, DisclosureError, FedFBError, WriteError
from fedfb.experiments.run_folder import EXPERIMENT, LEDGER
from fedfb.experiments.spec_file import to_toml
from fedfb.files import make_folder, unseal, write_whole
from fedfb.runtime.ledger import Entry, Visibility
from fedfb.runtime.loop import Progress
from fedfb.runtime.secure import encode_upload
from fedfb.secure import (
    Kind,
    ProtocolError,
    SecureError,
)
from fedfb.secure.keys import KEY_BYTES, sign, urandom
from fedfb.secure.secrets import Ring
from fedfb.study.attempt import Attempt
from fedfb.study.exchange import (
    ATTEMPTS,
    Planned,
    accept_broadcast,
    check_roster,
    extend_chain,
    hash_context,
    make_sum_session,
    read_content,
    single_bytes,
    start_chain,
    write_arrays,
    write_single_text,
)
from fedfb.study.journal import Journal, Message, TotalRecord
from fedfb.study.keys import PrivateKeys, PublicKeys
from fedfb.study.ledger import StudyLedger
from fedfb.study.program import FinishedStudy, Program
from fedfb.study.results import write_results
from fedfb.study.seal import (
    Signature,
    check_signatures,
    refuse_other_code,
    refuse_other_keys,
    write_attested_text,
)
from fedfb.study.study import Study, study_to_toml
from fedfb.study.totals import check_total
from fedfb.study.trial import Rows
from fedfb.study.wire import NO_TURN, SINGLE, Request, Response, State, Turn

STUDY_FILE, SIGNATURES = "study.toml", "signatures.json"

RANDOMNESS = "randomness"
"""The name in the journal of the secret from which a sum's random bytes follow."""

BROADCAST = "broadcast"
"""The name in the journal of the broadcast that the server sent, where processors differ."""

STOPS: Mapping[str, str] = {
    "": "the server ended the study for this client and gave no reason.",
    "seal": "the server runs another study than study.toml says. Compare the files (fedfb study "
    "show), and ask the server's user which one is right.",
    "code": "the server runs another version of fedfb. All sides must run the version that "
    "study.toml names.",
    "left": "this client has left the study before, and cannot come back. Its owner saw the reason "
    "then.",
    "strikes": "the server has refused messages of this client and ended the study for it. Its "
    "user knows which.",
    "stopped": "the server has stopped the study; its user knows why. If it is served again, the "
    "same command continues.",
}
"""What the reasons mean that a server can give. A server cannot send words of its own."""


PARTING_S = 10.0
"""How long a client tries to say a last word."""


@runtime_checkable  # so that annotated shapes can be checked
class Link(Protocol):
    """What brings the requests of this client to the server."""

    def ask(self, request: Request, patience_s: float | None = None) -> Response:
        """Return the server's response; wait and try again while the server is away.

        Args:
            request: what the client asks for.
            patience_s: how long to try; None: as long as the study says.

        Raises:
            DataError: the server is away for too long.
        """


class LeftError(FedFBError):
    """A client cannot answer, and has left the study for good."""


class ClientCarrier:
    """A client's part of every exchange.

    Args:
        study: the study.
        keys: the client's keys.
        journal: the client's journal.
        link: brings requests to the server.
        ledger: where messages are recorded.
        notify: is called with sentences for the owner.
    """

    def __init__(
        self,
        study: Study,
        keys: PrivateKeys,
        journal: Journal,
        link: Link,
        ledger: StudyLedger,
        notify: Callable[[str], None],
    ) -> None:
        self._study, self._keys, self._journal = study, keys, journal
        self._link, self._ledger, self._notify = link, ledger, notify
        self._id = study.names.index(keys.public.name)
        self._chain = start_chain(study)
        self._next = 0
        self._attempt: Attempt | None = None
        self._answer: tuple[Arrays, Arrays] | None = None

    def carry(self, planned: Planned) -> Arrays:
        """Return the total of an exchange: from the journal, or by taking part in it."""
        study, total = self._study, self._journal.find_total(planned.number)
        context = hash_context(study, self._chain, planned, planned.broadcast)
        if total is None:
            total = self._obtain(planned, context)
        elif total.context != context and study.terms.processors == "same":
            raise DataError(
                f"{planned.place}: the journal {self._journal.path} was written by a program that "
                "computed otherwise. Go on with the same version of fedfb on the same kind of "
                "processor, or make a new study."
            )
        self._chain = extend_chain(self._chain, len(study.clients), total)
        self._next = planned.number + 1
        return read_content(study, planned, total)

    def finish(self) -> None:
        """Tell the server that this client has the last total."""
        self._tell("done")

    def _tell(self, state: State) -> None:
        """Tell the server something that needs no response; a server that is away is no matter."""
        with suppress(DataError):
            self._link.ask(self._make_request(state), patience_s=PARTING_S)

    def _make_request(self, state: State, turn: Turn = NO_TURN, answer: bytes = b"") -> Request:
        study, attestation = self._study, b""
        if study.terms.allow_differences:
            text = write_attested_text(study, self._next, self._chain)
            attestation = sign(self._keys.identity_bytes, text)
        seal, code = bytes.fromhex(study.seal), study.code.encode()
        return Request(seal, code, state, self._next, attestation, turn, answer)

    def _obtain(self, planned: Planned, context: bytes) -> TotalRecord:
        """Take part in an exchange until its total is there, and write the total down."""
        self._next = planned.number
        self._attempt = self._answer = None
        request = self._make_request("waiting")
        while True:
            response = self._link.ask(request)
            if response.kind == "stop":
                raise ConfigError(STOPS[response.reason])
            if response.kind == "total":
                return self._accept_total(planned, context, response)
            if response.kind == "turn":
                request = self._take_turn(planned, response)
            else:
                request = self._make_request("waiting")

    def _take_turn(self, planned: Planned, response: Response) -> Request:
        """Return the request that answers a turn, or that says that it will not be answered."""
        turn = response.turn
        try:
            answer = self._answer_turn(planned, response)
        except (SecureError, DisclosureError) as error:
            self._notify(f"{planned.place}: refused: {error}")
            return self._make_request("silent", turn)
        except WriteError:
            raise  # a full disk says nothing about rows: the same command goes on
        except FedFBError as error:
            self._journal.state_fact("left", str(error).encode())
            self._tell("left")
            raise LeftError(
                f"{planned.place}: {error} This client has left the study. The server does not "
                "learn the reason."
            ) from error
        return self._make_request("answered", turn, answer)

    def _answer_turn(self, planned: Planned, response: Response) -> bytes:
        turn = response.turn
        if turn.number != planned.number:
            raise ProtocolError(
                f"the server asks for exchange {turn.number}, and the program is at "
                f"{planned.number}."
            )
        check_roster(self._study, planned, response.roster, self._id)
        if planned.is_sum != (turn.kind != SINGLE):
            raise DisclosureError("the server asks for a single value where the program sums.")
        attempt = self._open_attempt(planned, response)
        reply = attempt.replies.get(turn.kind)
        if reply is not None:
            if reply.content != response.frame:
                raise ProtocolError("the server asks the same turn twice, and differently.")
            return reply.answer
        answer = self._make_answer(planned, attempt, turn.kind, response.frame)
        message = Message(turn.kind, self._id, response.frame, answer)
        # On the disk before it leaves: after a kill the client sends this answer and no other.
        final = turn.kind in (Kind.SURVIVORS, SINGLE)
        self._journal.write_message(attempt.number, message, flush=final)
        attempt.replies[turn.kind] = message
        return answer

    def _open_attempt(self, planned: Planned, response: Response) -> Attempt:
        """Return the attempt that a turn belongs to; refuse one that must not be answered."""
        study, number, roster = self._study, response.turn.attempt, response.roster
        attempt = self._attempt
        if attempt is not None and attempt.number == number:
            if attempt.session.roster.ids != roster:
                raise ProtocolError("the server changes the roster of a sum that has begun.")
            return attempt
        last = self._journal.last_attempt()
        if not max(last, 1) <= number <= ATTEMPTS:
            raise ProtocolError(f"attempt {number} is not one that can follow attempt {last}.")
        if number > last and self._has_confirmed(last):
            raise ProtocolError(
                "the server begins a sum anew that this client has confirmed. Two totals of the "
                "same uploads over different clients would show a single one."
            )
        broadcast = self._agree_on_broadcast(planned, response)
        context = hash_context(study, self._chain, planned, broadcast)
        if context != response.context:
            raise ProtocolError(
                "the server computes another task or broadcast than this client's program, or saw "
                "another total before. Either it lies, or the processors compute differently: "
                "then make a study with --processors different."
            )
        session = make_sum_session(study, planned, context, number, roster)
        attempt = Attempt(study, self._keys, number, session, broadcast)
        if number == last:
            attempt.restore(self._journal.messages(number), self._journal.fact(RANDOMNESS))
        self._attempt = attempt
        return attempt

    def _has_confirmed(self, attempt: int) -> bool:
        messages = self._journal.messages(attempt)
        return any(message.turn == Kind.SURVIVORS for message in messages)

    def _agree_on_broadcast(self, planned: Planned, response: Response) -> Arrays:
        """Return what the client computes with: its own broadcast, or the server's if it fits."""
        if self._study.terms.processors == "same":
            return planned.broadcast
        data = response.broadcast or self._journal.fact(BROADCAST) or b""
        accepted = accept_broadcast(data, planned.broadcast)
        if accepted is None:
            raise ProtocolError(
                "the server's broadcast is not the one of this client's program, beyond rounding."
            )
        self._journal.state_fact(BROADCAST, data)
        self._answer = None  # an earlier attempt may have had another broadcast
        return accepted

    def _find_broadcast(self, planned: Planned) -> Arrays:
        """Return what the upload in the total was computed with, also after a restart."""
        if self._attempt is not None:
            return self._attempt.broadcast
        stored = self._journal.fact(BROADCAST)
        accepted = None if stored is None else accept_broadcast(stored, planned.broadcast)
        return planned.broadcast if accepted is None else accepted

    def _make_answer(self, planned: Planned, attempt: Attempt, kind: int, frame: bytes) -> bytes:
        if kind == SINGLE:
            upload = write_arrays(self._make_upload(planned, attempt.broadcast)[0])
            if len(upload) != single_bytes(planned):
                raise DataError("the upload has another shape than the study says.")
            text = write_single_text(attempt.session.context, self._id, upload)
            return upload + sign(self._keys.identity_bytes, text)
        if kind == Kind.INVITATION:
            # A client that cannot compute its upload says so before it takes any part.
            self._encode(planned, attempt)
            seed = urandom(KEY_BYTES)
            self._journal.state_fact(RANDOMNESS, seed)
            attempt.begin(seed)
        return attempt.step(kind, frame, lambda: self._encode(planned, attempt))

    def _make_upload(self, planned: Planned, broadcast: Arrays) -> tuple[Arrays, Arrays]:
        if self._answer is None:
            assert planned.answer is not None
            self._answer = planned.answer(broadcast, self._journal.find_memory(planned.phase))
        return self._answer

    def _encode(self, planned: Planned, attempt: Attempt) -> Ring:
        upload, _ = self._make_upload(planned, attempt.broadcast)
        try:
            name = self._study.names[self._id]
            return encode_upload(attempt.session.schema, planned.task, upload, name)
        except SecureError as error:
            # It depends on rows: the client leaves once, and does not refuse again and again.
            raise DataError(str(error)) from error

    def _accept_total(self, planned: Planned, context: bytes, response: Response) -> TotalRecord:
        """Check a total and write it down."""
        try:
            total = check_total(self._study, self._chain, self._id, planned, context, response)
        except (SecureError, DisclosureError, ValueError) as error:
            raise DisclosureError(
                f"{planned.place}: the server's total is refused: {error} Nothing has been sent "
                "since. Tell the other clients and the server's user."
            ) from error
        self._write_total(planned, total, len(response.evidence))
        return total

    def _write_total(self, planned: Planned, total: TotalRecord, evidence: int) -> None:
        """Write a total, what this client keeps, and the ledger, all at once."""
        counted, memory = self._id in total.survivors, None
        if counted:
            # After a restart the upload may not be in memory: the same rows give the same again.
            _, after = self._make_upload(planned, self._find_broadcast(planned))
            memory = (planned.phase, after)
        text = self._ledger.format(planned, self._list_entries(planned, total, evidence))
        self._journal.write_total(planned.number, total, text, memory)
        self._ledger.append(text)

    def _list_entries(self, planned: Planned, total: TotalRecord, evidence: int) -> list[Entry]:
        """Return what left this client in all attempts, and what it received."""
        up, down = dict[str, int](), dict[str, int]()
        for attempt in range(1, self._journal.last_attempt() + 1):
            for message in self._journal.messages(attempt):
                words = "upload" if message.turn == SINGLE else Kind(message.turn + 1).words
                up[words] = up.get(words, 0) + len(message.answer)
                if message.turn != SINGLE:
                    words = Kind(message.turn).words
                    down[words] = down.get(words, 0) + len(message.content)
        down |= {"total": len(total.content), "evidence": evidence}
        place = (planned.round, planned.exchange, planned.task.name)
        shapes = {name: value.shape for name, value in planned.like.items()}
        visibility: Visibility = "masked" if planned.is_sum else "single"
        sent = [Entry(*place, "up", visibility, shapes, up, [self._id])] if up else []
        return [Entry(*place, "down", "public", {}, down, [self._id]), *sent]


def receive_signatures(study: Study, link: Link) -> dict[str, Signature]:
    """Return the signatures of all clients on the study, from the server, and check them."""
    seal, code = bytes.fromhex(study.seal), study.code.encode()
    response = link.ask(Request(seal, code, "hello", 0))
    if response.kind == "stop":
        raise ConfigError(STOPS[response.reason])
    signatures = {
        name: Signature(name, study.seal, raw.hex())
        for name, raw in response.signatures.items()
        if name in study.names
    }
    check_signatures(study, signatures)
    return signatures


def join_study(
    study: Study,
    keys: PrivateKeys,
    pins: Mapping[str, PublicKeys],
    rows: Rows,
    folder: Path,
    link: Link,
    notify: Callable[[str], None],
    agreed: Sequence[str] = (),
) -> FinishedStudy:
    """Take part in a study to its end, from where an earlier call stopped.

    Args:
        study: the study.
        keys: the client's keys.
        pins: the public keys of the other clients, from these themselves.
        rows: the client's rows, checked.
        folder: the folder for the client's own files.
        link: brings requests to the server.
        notify: is called with sentences for the owner.
        agreed: what the owner was shown before joining; kept in the folder.
    """
    refuse_other_code(study, STUDY_FILE)
    refuse_other_keys(study, keys, pins)
    make_folder(folder, 0o700)
    journal = Journal(folder, study.seal)
    try:
        left = journal.fact("left")
        if left is not None:
            raise ConfigError(f"this client has left the study: {left.decode()}")
        signatures = receive_signatures(study, link)
        unseal(folder)
        write_whole(folder / STUDY_FILE, study_to_toml(study))
        write_whole(folder / EXPERIMENT, to_toml(study.experiment))
        raw = {name: signature.signature for name, signature in signatures.items()}
        write_whole(folder / SIGNATURES, json.dumps(raw, indent=1))
        if agreed:
            write_whole(folder / "agreed.txt", "\n".join(agreed) + "\n")
        ledger = StudyLedger(study, folder / LEDGER)
        ledger.restore(journal)
        carrier = ClientCarrier(study, keys, journal, link, ledger, notify)
        program = Program(study, carrier, rows, lambda phase, p: _notify_round(notify, phase, p))
        finished = program.run()
        write_results(study, finished, folder, lambda event, text: notify(text))
        carrier.finish()
        return finished
    finally:
        journal.close()


def _notify_round(notify: Callable[[str], None], phase: str, progress: Progress) -> None:
    title = "" if phase == "run" else f"{phase}, "
    notify(f"{title}round {progress.round} of {progress.rounds} is done")
