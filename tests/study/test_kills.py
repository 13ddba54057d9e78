"""Sides that are killed at any turn go on where they were: the result has the bits of no kill."""

import random
import threading
from dataclasses import replace

import pytest

from fedfb.errors import WriteError
from fedfb.experiments.spec import Experiment
from fedfb.secure import Kind
from fedfb.study import server as server_side
from fedfb.study.journal import Journal
from study.by_hand import CLIENTS, Killed, Network, federation, join, make, run_by_hand, serve
from study.replay import assert_same_bits

QUICK = Experiment(algorithm="ditto", notion="cp", rounds=2, local_epochs=2, lr=(0.02,))
TURNS = [kind for kind in Kind if kind % 2 == 0]


def expect_bits_of_one_process(made):
    alone = federation.train_alone(made.study, made.folder, made.files)
    expected = alone.fitted[0].trained.state._asdict()
    for folder in (made.run, *(made.state(name) for name in CLIENTS)):
        assert_same_bits(federation.final_state(folder), expected)


def keep_joining(made, network, name, change=None):
    """Join, and join again after every kill, as a service that is restarted."""
    for _ in range(40):
        try:
            return join(made, network, name, change)
        except Killed:
            continue
    raise AssertionError("killed too often")


def run_with_kills(made, change, serving=serve):
    """Run a study whose sides come back after every kill."""
    ends = vars(run_by_hand(made, change=change, serving=serving, joining=keep_joining))
    network = ends.pop("network")
    assert not any(isinstance(end, BaseException) for end in ends.values()), ends
    return network


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("turn", TURNS, ids=lambda kind: kind.words)
def test_a_client_killed_in_any_turn_goes_on_in_the_same_sum(turn, moment, tmp_path):
    """Before it answers a turn, or after its answer has left and nothing has come back."""
    made, killed = make(tmp_path, replace(QUICK, rounds=1)), set()

    def change(id, request, response):
        if moment == "before":
            hit = response.kind == "turn" and response.turn.kind == turn
            number = response.turn.number
        else:
            hit = request.state == "answered" and request.turn.kind == turn
            number = request.turn.number
        if hit and number == 7 and id not in killed:
            killed.add(id)
            raise Killed
        return response

    network = run_with_kills(made, change)
    assert killed == {0, 1, 2, 3}
    # Nobody began the sum anew, and nobody sent a turn of it in two ways.
    assert {r.turn.attempt for _, r in network.requests if r.turn.number == 7} == {1}
    sent = {}
    for id, request in network.requests:
        if request.state == "answered":
            sent.setdefault((id, request.turn), set()).add(request.answer)
    assert all(len(answers) == 1 for answers in sent.values())
    expect_bits_of_one_process(made)


def test_a_server_killed_between_any_two_of_its_steps_goes_on(tmp_path, monkeypatch):
    """Each life of the server ends at a step further on than that of the life before."""
    made, lives = make(tmp_path, replace(QUICK, rounds=1)), iter(range(1, 1000))
    steps, until = {"count": 0}, {"life": 3}
    honest = server_side.Journal.write_message

    def write_message(self, attempt, message, flush=False):
        honest(self, attempt, message, flush)
        if "run" in str(self.path.parent.name):
            steps["count"] += 1
            if steps["count"] % until["life"] == 0:
                until["life"] += 11
                steps["count"] = 0
                raise Killed

    monkeypatch.setattr(server_side.Journal, "write_message", write_message)
    totals, ended = server_side.Journal.write_total, set()

    def write_total(self, number, *values, **more):
        totals(self, number, *values, **more)
        if self.path.parent.name == "run" and number in (2, 7) and number not in ended:
            ended.add(number)  # after the total is on the disk, before any client has it
            raise Killed

    monkeypatch.setattr(server_side.Journal, "write_total", write_total)

    def keep_serving(made, network):
        while next(lives):
            try:
                return serve(made, network)
            except Killed:
                continue

    run_with_kills(made, None, keep_serving)
    assert until["life"] > 3 + 4 * 11, "the server was killed five times at least"
    assert ended == {2, 7}
    expect_bits_of_one_process(made)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_kills_of_all_sides_change_no_bit(seed, tmp_path, monkeypatch):
    made, rng = make(tmp_path, replace(QUICK, rounds=3)), random.Random(seed)
    left = {"clients": 10, "server": 10}
    lock = threading.Lock()

    def strikes(who, share):
        with lock:
            hit = left[who] > 0 and rng.random() < share
            left[who] -= hit
            return hit

    def change(id, request, response):
        if strikes("clients", 0.08):
            raise Killed
        return response

    honest = server_side.Mailbox.collect

    def collect(self, turn, ids, timeout_s):
        answers = honest(self, turn, ids, timeout_s)
        if strikes("server", 0.4):
            raise Killed
        return answers

    monkeypatch.setattr(server_side.Mailbox, "collect", collect)

    def keep_serving(made, network):
        while True:
            try:
                return serve(made, network)
            except Killed:
                continue

    run_with_kills(made, change, keep_serving)
    assert left == {"clients": 0, "server": 0}
    expect_bits_of_one_process(made)


@pytest.mark.parametrize("turn", TURNS, ids=lambda kind: kind.words)
def test_a_client_lost_in_any_turn_leaves_a_sum_over_the_others(turn, tmp_path):
    """Where the study allows differences. The client comes back, and gets what it missed."""
    terms = {"allow_differences": True, "least": 3, "timeout_s": 3.0}
    made, lost = make(tmp_path, QUICK, **terms), []

    def change(id, request, response):
        away = response.kind == "turn" and response.turn.number == 7
        if id == 1 and away and response.turn.kind == turn:
            lost.append(response.turn)
            raise Killed
        return response

    network, ends = Network(), {}

    def others_then_north():
        try:
            join(made, network, "north", change)
        except Killed:
            network_after(network, 10)
            ends["north"] = join(made, network, "north")

    def network_after(network, number):
        import time

        for _ in range(600):
            if any(request.next >= number for id, request in list(network.requests) if id == 0):
                return
            time.sleep(0.05)

    thread = threading.Thread(target=others_then_north)
    thread.start()
    run = run_by_hand(made, names=("east", "south", "west"), network=network)
    thread.join(60)
    assert len(lost) == 1
    assert not isinstance(run.server, BaseException), run.server
    assert "north" in ends, made.notes["north"]
    models = [federation.final_state(made.run)]
    models += [federation.final_state(made.state(name)) for name in CLIENTS]
    for model in models[1:]:
        assert_same_bits(model, models[0])
    counted = [e for e in made.events if "round 1, fit" in e or "round 0, count" in e]
    assert counted


def test_a_client_whose_disk_is_full_stops_and_goes_on_when_there_is_room(tmp_path, monkeypatch):
    """It has not left: what it could not write has not been sent either."""
    made, full = make(tmp_path, replace(QUICK, rounds=1)), []
    honest = Journal.write_message

    def write_message(self, attempt, message, flush=False):
        if self.path.parent.name == "south.state" and message.turn == Kind.SHARE_LIST and not full:
            full.append(message)
            raise WriteError("cannot write to it: no space left on device. Make room there.")
        honest(self, attempt, message, flush)

    monkeypatch.setattr(Journal, "write_message", write_message)

    def come_back(made, network, name, change=None):
        try:
            return join(made, network, name, change)
        except WriteError:
            return join(made, network, name, change)

    ends = run_by_hand(made, joining=come_back)
    assert full
    assert not isinstance(ends.server, BaseException), ends.server
    assert not isinstance(ends.south, BaseException), ends.south
    expect_bits_of_one_process(made)


def test_states_of_a_killed_client_hold_no_secret_of_a_finished_sum(tmp_path):
    made = make(tmp_path, replace(QUICK, rounds=1))
    run_with_kills(made, None)
    import sqlite3

    for name in CLIENTS:
        database = sqlite3.connect(made.state(name) / "journal.sqlite")
        assert not database.execute("SELECT * FROM messages").fetchall()
        names = {row[0] for row in database.execute("SELECT name FROM facts")}
        assert "randomness" not in names
