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


def test_processes_that_die_stop_or_come_late_leave_the_sums_of_the_others(tmp_path):
    """Too few clients: tests/study/test_by_hand.py, where the same messages are handed over."""
    settings = ["--algorithm", "ditto", "--notion", "cp", "--rounds", "9"]
    with Federation(tmp_path, settings, timeout=8, wait=60) as there:
        there.start()
        there.wait_for("round 2, fit")
        there.kill("server")  # in a round; it goes on where it was
        after_kill = len(there.events())
        there.start("server")
        there.wait_for("round 2 of 9", after=after_kill)
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
        assert there.finish() == 0, there.out("server")
        assert time.monotonic() - began < 90
    later = [event["text"] for event in there.events()[after_kill:]]
    assert not any(text.startswith(("round 0,", "round 1,")) for text in later), later
    counted = [set(e["counted"]) for e in there.events() if e["event"] == "answered"]
    assert {0, 1, 2, 3} in counted
    assert {frozenset(c) for c in counted} >= {frozenset({1, 2, 3}), frozenset({0, 2, 3})}
    assert_same_bits(federation.final_state(there.study), replayed(there.study, there.clients))
