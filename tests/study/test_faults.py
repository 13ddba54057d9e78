"""Processes that die, stop and come back: the run ends in the state of an undisturbed one.

Undisturbed means over the same participants: :mod:`flower.replay` reads off the log who was in
which sum, and works it out without messages or masks.
"""

import os
import signal
import time

import pytest

from study.by_hand import federation
from study.processes import Federation
from study.replay import assert_same_bits, replayed

pytestmark = pytest.mark.slow


def test_a_server_that_is_killed_or_lacks_clients_goes_on_where_it_was(tmp_path):
    settings = ["--algorithm", "fedfb", "--rounds", "4"]
    with Federation(tmp_path, settings, timeout=6, wait=20) as there:
        there.start()
        there.wait_for("round 2, fit")
        there.kill("coordinator")
        after_kill = len(there.events())
        there.start("coordinator")
        there.wait_for("round 3, fit", after=after_kill)
        there.kill("east")
        there.kill("south")
        killed = time.monotonic()
        assert there.finish() == 2
        assert time.monotonic() - killed < 90
        said = there.out("coordinator")
        assert "at least 3 must be" in said
        assert "Nothing is lost" in said
        assert "Traceback" not in said
        after_stop = len(there.events())
        there.kill("north")
        there.kill("west")
        there.start()
        assert there.finish() == 0, there.out("coordinator")
    for after, done in ((after_kill, ("round 0", "round 1")), (after_stop, ("round 1", "round 2"))):
        later = [event["text"] for event in there.events()[after:]]
        assert not any(text.startswith(done) for text in later), later
    assert_same_bits(federation.final_state(there.study), replayed(there.study, there.silos))


def test_clients_that_die_stop_or_come_late_leave_the_sums_of_the_others(tmp_path):
    settings = ["--algorithm", "ditto", "--notion", "cp", "--rounds", "9"]
    with Federation(tmp_path, settings, timeout=8, wait=60) as there:
        there.start()
        there.wait_for("round 1 of 9")
        os.kill(there.worker("east"), signal.SIGKILL)  # a client process dies within a round
        there.wait_for("east: the process that answers for this client died")
        there.wait_for("round 3 of 9")
        slow = there.worker("north")
        os.kill(slow, signal.SIGSTOP)  # a node is slow
        there.wait_for("north: did not answer within 8 s")
        os.kill(slow, signal.SIGCONT)
        there.wait_for("north is online", after=len(there.events()))
        before = len(there.events())
        there.kill("west")  # a node is killed
        there.wait_for("west: ", after=before)
        there.start("west")  # and joins late
        there.wait_for("west is online", after=before)
        began = time.monotonic()
        assert there.finish() == 0, there.out("coordinator")
        assert time.monotonic() - began < 90
    counted = [set(e["counted"]) for e in there.events() if e["event"] == "answered"]
    assert {0, 1, 2, 3} in counted
    assert {frozenset(c) for c in counted} >= {frozenset({1, 2, 3}), frozenset({0, 2, 3})}
    assert_same_bits(federation.final_state(there.study), replayed(there.study, there.silos))
