"""A client that sends nonsense: it counts as silent, three times, and the server goes on."""

import os
from dataclasses import replace

import msgspec
import pytest

from attacks.liars import CLIENTS, QUICK, Network, prepare, run_by_hand
from fedfb.secure import Kind
from fedfb.study import attempt as client_side
from fedfb.study import client as study_client
from fedfb.study.server import TooFewClientsError
from fedfb.study.wire import Request, write
from study.by_hand import federation
from study.replay import assert_same_bits


def honest(made, **fields):
    seal, code = bytes.fromhex(made.study.seal), made.study.code.encode()
    return Request(**{"seal": seal, "code": code, "state": "waiting", "next": 0, **fields})


def as_map(made, **fields):
    values = msgspec.to_builtins(honest(made), builtin_types=(bytes,))
    return msgspec.msgpack.encode({**values, **fields})


JUNK = {
    "no bytes": lambda made: b"",
    "no message": lambda made: b"\xc1",
    "random bytes": lambda made: os.urandom(300),
    "cut short": lambda made: write(honest(made))[:-7],
    "bytes after the end": lambda made: write(honest(made)) + b"\0",
    "no keys": lambda made: msgspec.msgpack.encode({}),
    "a list": lambda made: msgspec.msgpack.encode([1, 2]),
    "a number": lambda made: msgspec.msgpack.encode(7),
    "an unknown field": lambda made: as_map(made, phase="../run"),
    "a number for an answer": lambda made: as_map(made, answer=5),
    "nothing for an answer": lambda made: as_map(made, answer=None),
    "a text for a turn": lambda made: as_map(made, turn="0-1"),
    "half a turn": lambda made: as_map(made, turn=[1, 2]),
    "an unknown state": lambda made: as_map(made, state="finish"),
    "a huge number": lambda made: as_map(made, next=2**63),
    "a negative number": lambda made: as_map(made, next=-5),
    "nested deeply": lambda made: b"\x91" * 100_000,
    "a long attestation": lambda made: as_map(made, attestation=b"\0" * 1000),
    "a place of the future": lambda made: write(honest(made, next=10_000)),
    "a bad attestation": lambda made: write(honest(made, attestation=b"\1" * 64)),
    "a map of maps": lambda made: msgspec.msgpack.encode({"seal": {"a": {}}}),
}


class Junk(Network):
    """Before some honest requests of west, west sends junk."""

    junk, times = b"", 2

    def handle(self, id, data):
        if id == 3 and self.times and self.open.wait(20):
            self.times -= 1
            self.mailbox.handle(3, self.junk, hold_s=0.1)
        return super().handle(id, data)


@pytest.mark.parametrize("kind", JUNK)
def test_a_malformed_request_never_stops_the_server(kind, tmp_path):
    made = prepare(tmp_path, replace(QUICK, algorithm="fedavg", rounds=1))
    network = Junk()
    network.junk = JUNK[kind](made)
    ends = run_by_hand(made, network=network)
    assert not isinstance(ends.server, BaseException), ends.server
    assert (made.run / "result.json").exists()


FRAMES = {
    "no bytes": lambda frame: b"",
    "one bit": lambda frame: frame[:-1] + bytes([frame[-1] ^ 1]),
    "cut short": lambda frame: frame[:-9],
    "longer": lambda frame: frame + b"\0",
    "413 MB declared": lambda frame: frame[:-40] + b"\x18\xa0\0\0" + frame[-36:],
    "zeros": lambda frame: bytes(len(frame)),
}


@pytest.mark.slow
@pytest.mark.parametrize("turn", [k for k in Kind if k % 2 == 0], ids=lambda kind: kind.words)
@pytest.mark.parametrize("kind", FRAMES)
def test_a_malformed_frame_is_a_strike_and_the_sum_goes_on(kind, turn, tmp_path):
    """Where the study allows sums over the others; they end in the bits of a run without west."""
    terms = {"allow_differences": True, "least": 3, "timeout_s": 1.5}
    made = prepare(tmp_path, replace(QUICK, algorithm="fedavg", rounds=1), **terms)

    class Bad(Network):
        def handle(self, id, data):
            request = msgspec.msgpack.decode(data, type=Request)
            if id == 3 and request.state == "answered" and request.turn.kind == turn:
                frame = FRAMES[kind](request.answer)
                data = write(msgspec.structs.replace(request, answer=frame))
            return super().handle(id, data)

    ends = run_by_hand(made, network=Bad())
    assert not isinstance(ends.server, BaseException), ends.server
    named = [text for text in made.events if text.startswith("west: ")]
    assert named, "the operator learns who sent it"
    told = [line for name in CLIENTS[:3] for line in made.notes[name]]
    assert not any("west" in line for line in told), "and nobody else does"


def test_three_strikes_end_the_study_for_a_client_only(tmp_path):
    terms = {"allow_differences": True, "least": 3, "timeout_s": 1.5}
    made = prepare(tmp_path, replace(QUICK, algorithm="fedavg", rounds=2), **terms)
    network = Junk()
    network.junk, network.times = b"\xc1", 50
    ends = run_by_hand(made, network=network)
    assert not isinstance(ends.server, BaseException), ends.server
    assert any("the study has ended for it" in text for text in made.events)
    assert "refused messages of this client" in str(ends.west)
    states = [federation.final_state(made.state(name)) for name in CLIENTS[:3]]
    for state in states:
        assert_same_bits(state, federation.final_state(made.run))


def test_a_study_of_all_clients_says_for_whom_it_has_ended(tmp_path):
    made = prepare(tmp_path, replace(QUICK, algorithm="fedavg"))
    network = Junk()
    network.junk, network.times = b"\xc1", 50
    ends = run_by_hand(made, network=network)
    assert isinstance(ends.server, TooFewClientsError)
    assert "the study has ended for west" in str(ends.server)


def test_a_client_with_other_code_is_refused_with_what_to_do(tmp_path):
    made = prepare(tmp_path)

    class Older(Network):
        def handle(self, id, data):
            request = msgspec.msgpack.decode(data, type=Request)
            if id == 2:
                data = write(msgspec.structs.replace(request, code=b"0.0.9 0123456789abcdef"))
            return super().handle(id, data)

    ends = run_by_hand(made, network=Older())
    assert "the server runs another version of fedfb" in str(ends.south)
    assert any("south runs fedfb 0.0.9" in text for text in made.events)


def test_no_side_goes_on_with_other_code(tmp_path):
    """After an update of fedfb a study must not end in other bits than its clients signed."""
    made = prepare(tmp_path)
    older = msgspec.structs.replace(made.study.terms, code="0.0.9 0123456789abcdef")
    made.study = replace(made.study, terms=older)
    ends = run_by_hand(made)
    for name in ("server", *CLIENTS):
        assert "made with fedfb 0.0.9 0123456789abcdef, and this is fedfb" in str(vars(ends)[name])


def test_false_shares_of_a_client_do_not_stop_the_sum(tmp_path, monkeypatch):
    """Its shares of other secrets are left out: the rest restores them, and the check tells."""
    made = prepare(tmp_path, replace(QUICK, algorithm="fedavg", rounds=1))
    plain = client_side.reveal

    def reveal(state, message):
        if state.id == 3:
            held = {id: pair._replace(seed=bytes(33)) for id, pair in state.held.items()}
            state = replace(state, held=held)
        return plain(state, message)

    monkeypatch.setattr(client_side, "reveal", reveal)
    ends = run_by_hand(made)
    assert not isinstance(ends.server, BaseException), ends.server
    alone = federation.train_alone(made.study, tmp_path, made.files)
    expected = alone.fitted[0].trained.state._asdict()
    assert_same_bits(federation.final_state(made.run), expected)


def test_a_total_beyond_the_rows_of_all_clients_is_refused(tmp_path, monkeypatch):
    """Counts are bounded by the largest number of rows, which the study states."""
    made = prepare(tmp_path)
    made.study = replace(made.study, terms=msgspec.structs.replace(made.study.terms, rows=400))
    plain = study_client.encode_upload

    def encode_upload(schema, task, upload, who):
        vector = plain(schema, task, upload, who)
        if who == "west" and task.name == "row counts":
            vector = vector.copy()
            vector[0] += 1601  # four clients of 400 rows have fewer
        return vector

    monkeypatch.setattr(study_client, "encode_upload", encode_upload)
    ends = run_by_hand(made)
    for name in ("east", "north", "south"):
        assert "is beyond 4 times its bound 400" in str(getattr(ends, name))
    assert "is beyond 4 times its bound 400" in str(ends.server)
