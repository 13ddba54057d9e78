"""A server that lies: it learns no more than an honest one, whatever it sends.

Each test states the attack, and that it fails before a masked vector of the exchange leaves.
"""

import shutil
from dataclasses import replace
from typing import Literal, get_origin

import msgspec
import numpy as np
import pytest

from attacks.liars import (
    CLIENTS,
    QUICK,
    Network,
    answered,
    masked_places,
    notes,
    prepare,
    run_by_hand,
    run_program,
)
from fedfb.core import Arrays
from fedfb.errors import ConfigError, DisclosureError
from fedfb.secure import Kind
from fedfb.study import server as server_side
from fedfb.study.exchange import extend_chain
from fedfb.study.journal import TotalRecord
from fedfb.study.keys import make_private_keys
from fedfb.study.seal import refuse_other_keys, sign_seal
from fedfb.study.study import make_study
from fedfb.study.wire import SINGLE, Response, Turn, read_request, write
from study.by_hand import TERMS, HandLink, Killed, join, serve

FIT = "round 1, fit"


def change_at(place, **fields):
    """Return a plan that changes one exchange of the server's program."""
    return lambda planned: planned._replace(**fields) if planned.place == place else planned


def test_chosen_models_are_not_answered(tmp_path, monkeypatch):
    """With 45 models of its choice a server once read all rows of a client."""
    made, seen = prepare(tmp_path), []

    def plan(planned):
        if planned.place != FIT:
            return planned
        seen.append(planned.number)
        chosen: Arrays = {name: np.array(value) for name, value in planned.broadcast.items()}
        chosen["params"].flat[0] += 1000.0
        return planned._replace(broadcast=chosen)

    ends = run_program(made, monkeypatch, plan)
    assert isinstance(ends.server, server_side.TooFewClientsError)
    assert seen
    assert seen[0] not in masked_places(ends), "a masked vector of a chosen model has left"
    assert notes(made, "computes another task or broadcast") == set(CLIENTS)


@pytest.mark.parametrize("bit", [0, 17, 63])
def test_one_changed_bit_of_a_broadcast_is_refused(bit, tmp_path, monkeypatch):
    made, seen = prepare(tmp_path), []

    def plan(planned):
        if planned.place != "round 2, measure":
            return planned
        seen.append(planned.number)
        params = np.array(planned.broadcast["params"], np.float64)
        params.reshape(-1).view(np.uint64)[1] ^= np.uint64(1) << np.uint64(bit)
        return planned._replace(broadcast={**planned.broadcast, "params": params})

    ends = run_program(made, monkeypatch, plan)
    assert seen[0] not in masked_places(ends)


def test_another_task_in_the_place_of_one_is_not_answered(tmp_path, monkeypatch):
    made, tasks = prepare(tmp_path), {}

    def plan(planned):
        tasks[planned.task.name] = planned
        if planned.place != "round 1, confusion":
            return planned
        other = tasks["measure"]
        return planned._replace(task=other.task, broadcast=other.broadcast, like=other.like)

    ends = run_program(made, monkeypatch, plan)
    number = tasks["confusion"].number
    assert number not in masked_places(ends)


def test_the_same_exchange_is_not_asked_a_second_time(tmp_path, monkeypatch):
    """The server inserts an exchange that has been, to sum it over other clients."""
    made, first = prepare(tmp_path), {}
    honest = server_side.ServerCarrier.carry

    def carry(self, planned):
        total = honest(self, planned)
        if planned.place == "round 0, count" and not first:
            first["number"] = planned.number + 1
            return honest(self, planned._replace(number=planned.number + 1))
        return total

    monkeypatch.setattr(server_side.ServerCarrier, "carry", carry)
    ends = run_by_hand(made)
    assert first["number"] not in masked_places(ends)


class Forgetful(Network):
    """A server that has wiped its journal, and pretends that its clients have done the same."""

    def handle(self, id, data):
        request = read_request(data)
        if request.state != "hello":
            data = write(msgspec.structs.replace(request, next=0, attestation=b""))
        return super().handle(id, data)


def test_a_server_that_begins_anew_gets_no_exchange_again(tmp_path):
    """A new run once made clients answer the same tasks again, over other clients."""
    made = prepare(tmp_path)

    def die(id, request, response):
        if request.next == 4:
            raise Killed
        return response

    run_by_hand(made, change=die)
    shutil.rmtree(made.run)
    network = Forgetful()
    ends = run_by_hand(made, network=network)
    asked = {request.turn.number for _, request in network.requests if request.turn.kind >= 0}
    assert asked == {0}, "the server did ask from the start"
    assert not masked_places(ends), "an exchange of before was answered again"
    assert notes(made, "asks for exchange 0, and the program is at 4") == set(CLIENTS)


def test_a_sum_that_was_confirmed_is_not_begun_anew(tmp_path):
    """Two totals of the same uploads over different clients show the upload of one client."""
    made, asked = prepare(tmp_path, allow_differences=True, least=3), []

    def change(id, request, response):
        # After the confirmation the server claims a failure, and begins anew without west.
        if response.kind == "turn" and response.turn.kind == Kind.CONFIRMATION_LIST:
            asked.append((id, response.turn))
            turn = Turn(response.turn.number, response.turn.attempt + 1, Kind.INVITATION)
            return msgspec.structs.replace(response, turn=turn, roster=(0, 1, 2))
        return response

    ends = run_by_hand(made, change=change)
    assert asked
    number = asked[0][1].number
    again = [
        r for _, r in ends.network.requests
        if r.state == "answered" and r.turn.number == number and r.turn.attempt > 1
    ]  # fmt: skip
    assert not again
    assert notes(made, "begins a sum anew that this client has confirmed")


@pytest.mark.parametrize("roster", [(0, 1, 2), (0, 1), (0, 0, 1, 2), (0, 1, 2, 3, 4), ()])
def test_a_sum_over_other_clients_than_all_is_refused(roster, tmp_path):
    made = prepare(tmp_path)

    def change(id, request, response):
        if response.kind == "turn":
            return msgspec.structs.replace(response, roster=roster)
        return response

    ends = run_by_hand(made, change=change)
    assert not answered(ends, Kind.INVITATION, 0)


def test_a_server_that_leaves_a_client_out_of_the_survivors_gets_no_total(tmp_path, monkeypatch):
    """It drops west after the masked vectors: the difference to the last sum would be west's."""
    made = prepare(tmp_path)
    honest = server_side.ServerCarrier._receive

    def receive(self, planned, attempt, state, id, frame):
        if planned.place == "round 1, measure" and state.awaits is Kind.MASKED and id == 3:
            return state
        return honest(self, planned, attempt, state, id, frame)

    monkeypatch.setattr(server_side.ServerCarrier, "_receive", receive)
    plain = server_side.advance

    def advance(state):
        if state.awaits is Kind.MASKED:  # the honest server refuses; the liar goes on
            plan = state.session.roster.plan._replace(fewest=3)
            object.__setattr__(state.session.roster, "plan", plan)
        return plain(state)

    monkeypatch.setattr(server_side, "advance", advance)
    ends = run_by_hand(made)
    confirmations = {
        request.turn.number
        for _, request in ends.network.requests
        if request.state == "answered" and request.turn.kind == Kind.SURVIVORS
    }
    reveals = {
        request.turn.number
        for _, request in ends.network.requests
        if request.state == "answered" and request.turn.kind == Kind.CONFIRMATION_LIST
    }
    last = max(masked_places(ends))
    assert last not in confirmations, "a client confirmed a sum without all"
    assert last not in reveals


def test_an_invented_total_is_refused_although_all_see_the_same(tmp_path, monkeypatch):
    """With totals of its choice a server would steer the program to models of its choice."""
    made = prepare(tmp_path)
    honest = server_side.ServerCarrier._obtain

    def obtain(self, planned, context):
        total, evidence = honest(self, planned, context)
        if planned.place != FIT:
            return total, evidence
        words = np.frombuffer(total.content, "<u8").copy()
        words[0] += np.uint64(1)
        forged = total._replace(content=words.tobytes())
        self._journal._database.execute("DELETE FROM totals WHERE number = ?", (planned.number,))
        self._journal.write_total(planned.number, forged, "", evidence=evidence)
        return forged, evidence

    monkeypatch.setattr(server_side.ServerCarrier, "_obtain", obtain)
    ends = run_by_hand(made)
    for name in CLIENTS:
        assert isinstance(getattr(ends, name), DisclosureError)
        assert "the server's total is refused: the signed vectors have another sum" in str(
            getattr(ends, name)
        )


def test_evidence_of_another_sum_or_none_is_refused(tmp_path):
    for number, evidence in enumerate((b"", b"\0\0\0\1", b"\0" * 5000)):
        made = prepare(tmp_path / str(number))

        def change(id, request, response, evidence=evidence):
            if response.kind == "total" and response.turn.number == 2:
                return msgspec.structs.replace(response, evidence=evidence)
            return response

        ends = run_by_hand(made, change=change)
        assert all(isinstance(getattr(ends, name), DisclosureError) for name in CLIENTS)
        assert max(masked_places(ends)) == 2


def test_attestations_that_the_clients_did_not_sign_are_refused(tmp_path):
    made = prepare(tmp_path)

    def change(id, request, response):
        if response.kind == "total" and response.turn.number == 1:
            lies = dict.fromkeys(range(4), b"\x01" * 64)
            return msgspec.structs.replace(response, attestations=lies, frame=b"\0" * 8)
        return response

    ends = run_by_hand(made, change=change)
    assert all(isinstance(getattr(ends, name), DisclosureError) for name in CLIENTS)


@pytest.mark.parametrize("lie", ["total", "survivors", "context", "roster"])
def test_clients_that_were_told_different_totals_never_meet_again(lie, tmp_path):
    """Above the size of verified totals only the chain protects: it is part of every key."""
    made = prepare(tmp_path, verified_bytes=0)

    def change(id, request, response):
        if response.kind != "total" or response.turn.number != 2 or id != 3:
            return response
        words = np.frombuffer(response.frame, "<u8").copy()
        words[0] ^= np.uint64(1)
        lies = {
            "total": {"frame": words.tobytes()},
            "survivors": {"survivors": (0, 1, 2)},
            "context": {"context": b"\0" * 32},
            "roster": {"roster": (0, 1, 3)},
        }
        return msgspec.structs.replace(response, **lies[lie])

    ends = run_by_hand(made, change=change)
    assert max(masked_places(ends)) == 2, "a sum went on over clients with different totals"


def test_unequal_studies_have_unequal_seals_and_need_all_signatures(tmp_path):
    """The server gives north another study.toml, with other settings, under its own key."""
    made = prepare(tmp_path)
    terms = {**TERMS, "code": made.study.code, "timeout_s": 1.0, "wait_s": 2.0}
    publics = [keys.public for keys in made.keys.values()]
    other = make_study(
        terms, made.study.schema, replace(QUICK, rounds=3), made.server.public, publics
    )
    network = Network()
    ends = {}

    def change(id, request, response):
        if response.kind == "signatures":  # the signatures of the others, on the other seal
            raw = {n: bytes.fromhex(s.signature) for n, s in made.signatures().items()}
            return msgspec.structs.replace(response, signatures=raw)
        return response

    class LiesAboutSeal(HandLink):
        def ask(self, request, patience_s=None):
            seal = bytes.fromhex(made.study.seal)
            return super().ask(msgspec.structs.replace(request, seal=seal), patience_s)

    import threading

    from fedfb.study.client import join_study

    def north():
        link = LiesAboutSeal(network, 1, change)
        try:
            join_study(
                other, made.keys["north"], made.pins(), made.rows("north"),
                tmp_path / "north", link, lambda text: None,
            )  # fmt: skip
        except BaseException as error:  # noqa: BLE001
            ends["north"] = error

    thread = threading.Thread(target=north)
    thread.start()
    run = run_by_hand(made, names=("east", "south", "west"), network=network)
    thread.join(30)
    assert isinstance(ends["north"], ConfigError)
    assert "does not fit its public key" in str(ends["north"])
    assert not masked_places(run)


def test_a_server_that_makes_up_clients_is_refused_before_joining(tmp_path):
    """Keys that the server made would let it read the one real client among them."""
    made = prepare(tmp_path)
    invented = {name: make_private_keys(name) for name in CLIENTS}
    invented["north"] = made.keys["north"]
    publics = [keys.public for keys in invented.values()]
    terms = {**TERMS, "code": made.study.code}
    study = make_study(terms, made.study.schema, QUICK, made.server.public, publics)
    with pytest.raises(ConfigError, match="cannot be trusted: the study has other keys of east"):
        refuse_other_keys(study, made.keys["north"], made.pins())
    with pytest.raises(ConfigError, match=r"there is no west\.pub: get it from west"):
        refuse_other_keys(study, made.keys["north"], {"north": made.keys["north"].public})
    signed = {name: sign_seal(study, keys) for name, keys in invented.items()}
    assert set(signed) == set(CLIENTS)  # the server can sign for those it made up, and only these


def test_a_single_value_is_not_given_where_the_program_sums(tmp_path):
    made = prepare(tmp_path)

    def change(id, request, response):
        if response.kind == "turn" and response.turn.number == 4:
            turn = response.turn._replace(kind=SINGLE)
            return msgspec.structs.replace(response, turn=turn, frame=b"")
        return response

    ends = run_by_hand(made, change=change)
    assert 4 not in masked_places(ends)
    assert notes(made, "asks for a single value where the program sums") == set(CLIENTS)


def test_scores_are_shown_once_and_only_where_the_study_says_so(tmp_path):
    """The histogram of scores was answered 1,100 times, for models of the server's choice."""
    made, asked = prepare(tmp_path, achievable=True), []

    def change(id, request, response):
        if response.kind == "turn" and response.turn.kind == SINGLE:
            asked.append(response.turn)
        if response.kind == "total" and asked and response.turn.number == asked[0].number:
            return Response("turn", asked[0]._replace(attempt=2), response.context, (0, 1, 2, 3))
        return response

    ends = run_by_hand(made, change=change)
    sent = {}
    for id, request in ends.network.requests:
        if request.state == "answered" and request.turn.kind == SINGLE:
            sent.setdefault(id, set()).add(request.answer)
    assert asked
    assert all(len(answers) == 1 for answers in sent.values()), "another histogram has left"


def test_a_client_that_cannot_answer_says_so_once_with_fixed_bytes(tmp_path):
    """Who refuses, and why, told cells of its rows; now it leaves once, and gives no reason."""
    parted = []
    for factor in (1e30, 1e32):
        folder = tmp_path / f"{factor:g}"
        steps = replace(
            QUICK, algorithm="fedavg", lr=(factor,), optimiser="sgd", precision="float32"
        )
        made = prepare(folder, steps)
        ends = run_by_hand(made)
        parted += [r for _, r in ends.network.requests if r.state == "left"]
        left = [getattr(ends, n) for n in CLIENTS if "has left the study" in str(getattr(ends, n))]
        assert left
        # It has left for good: the same command does not come back.
        [name] = [n for n in CLIENTS if getattr(ends, n) is left[0]]
        with pytest.raises(ConfigError, match="has left the study"):
            join(made, Network(), name)
    assert all(request.answer == b"" and request.turn == (-1, -1, -1) for request in parted)


def test_a_response_can_name_no_file_code_or_words(tmp_path):
    """The wire has numbers, hashes and frames; the one dictionary of names is filtered."""
    texts = [
        field.name
        for field in msgspec.structs.fields(Response)
        if "str" in str(field.type) and get_origin(field.type) is not Literal
    ]
    assert texts == ["signatures"]
    made = prepare(tmp_path)

    def change(id, request, response):
        if response.kind == "signatures":
            more = {**response.signatures, "../../etc/x": b"\0" * 64}
            return msgspec.structs.replace(response, signatures=more)
        return response

    before = set(tmp_path.rglob("*"))
    ends = run_by_hand(made, change=change)
    assert not isinstance(ends.server, BaseException)
    new = {path.name for path in tmp_path.rglob("*")} - {path.name for path in before}
    assert not any("etc" in name for name in new)


def test_a_bad_place_or_frame_is_refused_and_the_program_goes_on(tmp_path):
    """Junk before every honest turn: each client refuses it, and answers the turn after it."""
    made, junk = prepare(tmp_path, replace(QUICK, rounds=1)), {}
    kinds = [0, 2, 4, 6, 8, 10, 77, SINGLE, -1]

    def change(id, request, response):
        place = len(junk)
        if response.kind != "turn" or (id, response.turn) in junk:
            return response
        number, kind = request.next + place % 2, kinds[place % len(kinds)]
        false = Turn(number, 1 + place % 12, kind)
        junk[id, response.turn] = false
        return Response("turn", false, b"\1" * 32, (0, 1, 2, 3), frame=bytes(place % 300))

    ends = run_by_hand(made, change=change)
    assert len(junk) > 100
    assert not isinstance(ends.server, BaseException), ends.server
    answered_turns = {
        (id, request.turn) for id, request in ends.network.requests if request.state == "answered"
    }
    assert answered_turns <= set(junk), "an honest turn, never junk, was answered"


def test_no_sum_begins_before_all_clients_are_there(tmp_path):
    """A client that came late once showed its counts: the totals after it less those before."""
    made = prepare(tmp_path)
    ends = run_by_hand(made, names=CLIENTS[:3])
    assert isinstance(ends.server, server_side.TooFewClientsError)
    assert not masked_places(ends)
    assert not answered(ends, Kind.INVITATION, 0)


def test_the_chain_has_a_part_in_every_key():
    total = TotalRecord(b"\1" * 32, (0, 1, 2), (0, 1, 2), b"\2" * 8)
    chains = {
        extend_chain(b"\0" * 32, 3, total),
        extend_chain(b"\1" * 32, 3, total),
        extend_chain(b"\0" * 32, 3, total._replace(context=b"\3" * 32)),
        extend_chain(b"\0" * 32, 3, total._replace(survivors=(0, 1))),
        extend_chain(b"\0" * 32, 3, total._replace(roster=(0, 1))),
        extend_chain(b"\0" * 32, 3, total._replace(content=b"\4" * 8)),
    }
    assert len(chains) == 6


def test_an_honest_server_is_served(tmp_path):
    """The harness itself: without a lie the study ends, on every side alike."""
    made = prepare(tmp_path)
    ends = run_by_hand(made, serving=serve)
    models = [(made.run / "models.npz").read_bytes()]
    models += [(made.state(name) / "models.npz").read_bytes() for name in CLIENTS]
    assert not isinstance(ends.server, BaseException)
    assert len(set(models)) == 1
