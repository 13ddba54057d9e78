"""Every method by the same messages: the state, the memories and the ledger of one process."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedfb.errors import DisclosureError
from fedfb.experiments.spec import Experiment
from fedfb.runtime.ledger import read_ledger
from fedfb.study.exchange import TooFewClientsError
from fedfb.study.journal import EVENTS, Journal, read_events
from fedfb.study.study import read_study
from fedfb.study.transport import StoppedByClientError
from study.by_hand import CLIENTS, federation, make, open_clients, run_by_hand
from study.replay import assert_same_bits, replayed

QUICK = Experiment(rounds=2, local_epochs=2, lr=(0.02,))
EXACT = {"lr": (), "local_epochs": 30, "solver": "newton"}


@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm": "fedfb"},
        {"algorithm": "fedfb", "notion": "eod", "participation": 0.75, "rounds": 3},
        {"algorithm": "fedavg"},
        {"algorithm": "q-ffl", "notion": "cp"},
        {"algorithm": "fedfb-thresholds", "sensitive_at_prediction": True},
        {"algorithm": "fedfb", "sensitive_at_prediction": True},
        {"algorithm": "fedfb-sums", "notion": "cp"},
        {"algorithm": "fedfb", "notion": "cp", "participation": 0.75, "rounds": 3},
        {"algorithm": "fedfb", "notion": "cp", "lr": (), "target": (0.05,)},
        {"algorithm": "lft-fedavg"},
        {"algorithm": "ditto", "notion": "cp"},
        {"algorithm": "fairfed", "sensitive": ("sex",)},
        {"algorithm": "fedfb", "notion": "eod", **EXACT},
        {"algorithm": "fedfb", "participation": 0.75, "rounds": 3, **EXACT},
        {"algorithm": "fedfb", "notion": "cp", **EXACT},
    ],
    ids=lambda s: "-".join(map(str, s.values())),
)
def test_a_study_ends_in_the_bits_of_the_run_in_one_process(settings, tmp_path):
    study, clients = make(tmp_path, replace(QUICK, **settings))
    run_by_hand(study, clients)
    alone = federation.in_one_process(study, clients)
    assert_same_bits(federation.final_state(study), alone.fitted[0].trained.state._asdict())
    [account] = [a for a in read_ledger(study.parent / "run" / "ledger.jsonl") if a.phase == "run"]
    assert {entry.seen for entry in account.entries} == {"masked", "public"}
    tested = json.loads((study.parent / "run" / "result.json").read_text())["runs"][0]
    assert tested["accuracy"] == pytest.approx(alone.by_seed[0][0].accuracy, abs=1e-12)


def test_single_values_are_asked_for_only_where_the_study_says_so(tmp_path):
    steps = replace(QUICK, algorithm="afl", notion="cp", local_epochs=30)
    with pytest.raises(DisclosureError, match="allows only sums"):
        make_and_check(tmp_path / "a", steps)
    study, clients = make(tmp_path / "b", steps, single=True)
    run_by_hand(study, clients)
    [account] = [a for a in read_ledger(study.parent / "run" / "ledger.jsonl") if a.phase == "run"]
    assert "single" in {entry.seen for entry in account.entries}


def make_and_check(folder, experiment):
    from fedfb.study.trial import check_study

    study, _ = make(folder, experiment)
    check_study(read_study(study))


@pytest.mark.parametrize("lost", range(5))
def test_a_client_lost_in_any_turn_leaves_a_sum_over_the_others(lost, tmp_path):
    """It stays away for the rest of the round and is asked again in the next."""
    study, clients = make(tmp_path, replace(QUICK, algorithm="ditto", notion="cp", rounds=3))
    turns = iter(range(100))

    def loses(hand, action, where, id):
        gone = where == "round 2, fit" and id == 1 and next(turns) == lost
        hand.failed.pop(1, None) if where.startswith("round 3") else None
        return gone

    hand = run_by_hand(study, clients, loses=loses)
    hand.clients = {}
    asked = {id for action, where, id in hand.sent if where == "round 2, confusion"}
    assert asked == {0, 2, 3}
    state = federation.final_state(study)
    assert_same_bits(state, replayed(study, clients))


def test_a_client_lost_in_the_middle_of_an_exact_fit_leaves_a_fit_of_the_others(tmp_path):
    study, clients = make(tmp_path, replace(QUICK, algorithm="fedfb", rounds=3, **EXACT))
    begun = iter(range(100))

    def loses(hand, action, where, id):
        hand.failed.pop(1, None) if where.startswith("round 3") else None
        return where == "round 2, newton" and id == 1 and next(begun) == 5

    hand = run_by_hand(study, clients, loses=loses)
    asked = [
        id for action, where, id in hand.sent if (action, where) == ("begin", "round 2, newton")
    ]
    assert 1 in asked
    assert asked.count(1) < asked.count(0)
    assert_same_bits(federation.final_state(study), replayed(study, clients))


def test_a_sum_that_fails_is_asked_again_of_the_same_exchange_only(tmp_path):
    study, clients = make(tmp_path, replace(QUICK, algorithm="fedfb"))
    undisturbed, elsewhere = make(tmp_path / "b", replace(QUICK, algorithm="fedfb"))
    run_by_hand(undisturbed, elsewhere)
    lost = {1, 2}

    def loses(hand, action, where, id):
        if where == "round 1, measure" and id in lost and action == "turn":
            lost.remove(id)
            return True
        hand.failed.clear()
        return False

    hand = run_by_hand(study, clients, loses=loses)
    begun = [where for action, where, id in hand.sent if action == "begin" and id == 0]
    assert begun.count("round 1, fit") == 1
    assert begun.count("round 1, measure") == 2
    assert_same_bits(federation.final_state(study), federation.final_state(undisturbed))


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm": "fedfb", "lr": ()},
        {"algorithm": "ditto", "notion": "cp"},
        {"algorithm": "fedfb", **EXACT},
    ],
    ids=["fedfb that picks its rate", "ditto", "fedfb that fits exactly"],
)
def test_a_server_killed_again_and_again_asks_nothing_twice(settings, tmp_path):
    experiment = replace(QUICK, **settings)
    undisturbed, elsewhere = make(tmp_path / "b", experiment)
    run_by_hand(undisturbed, elsewhere)
    study, clients = make(tmp_path, experiment)
    there, kills = open_clients(study, clients), 0

    def killed(hand, action, where, id):
        if len(hand.sent) > 59:
            raise KeyboardInterrupt
        return False

    while not (study.parent / "run" / "models.npz").exists():
        try:
            run_by_hand(study, clients, there=there, loses=killed)
        except KeyboardInterrupt:
            kills += 1
    assert kills > 2
    assert_same_bits(federation.final_state(study), federation.final_state(undisturbed))
    asked = [e for a in read_ledger(study.parent / "run" / "ledger.jsonl") for e in a.entries]
    alone = [e for a in read_ledger(undisturbed.parent / "run" / "ledger.jsonl") for e in a.entries]
    assert [e._replace(messages={}) for e in asked] == [e._replace(messages={}) for e in alone]


def test_below_the_threshold_it_stops_with_a_message_and_goes_on_later(tmp_path):
    study, clients = make(tmp_path, replace(QUICK, algorithm="fedavg"))

    def two_are_gone(hand, action, where, id):
        return where.startswith("round 2") and id in (0, 3)

    with pytest.raises(
        TooFewClientsError, match=r"round 2, fit: 2 of the 4 .*\(north, south\).*least 3"
    ):
        run_by_hand(study, clients, loses=two_are_gone)
    hand = run_by_hand(study, clients)
    assert not [where for _, where, _ in hand.sent if where.startswith("round 1")]
    alone = federation.in_one_process(study, clients)
    assert_same_bits(federation.final_state(study), alone.fitted[0].trained.state._asdict())


def test_a_client_that_joins_late_takes_part_from_the_next_round_on(tmp_path):
    study, clients = make(tmp_path, replace(QUICK, algorithm="fedfb", rounds=3), wait_s=0.3)
    everybody = open_clients(study, clients)

    def joins(hand, action, where, id):
        if where == "round 1, confusion":
            hand.clients[3] = everybody[3]
        return False

    there = {id: everybody[id] for id in (0, 1, 2)}
    hand = run_by_hand(study, clients, there=there, loses=joins)
    assert {id for a, where, id in hand.sent if where == "round 2, fit"} == {0, 1, 2, 3}
    assert_same_bits(federation.final_state(study), replayed(study, clients))


def test_a_client_of_another_study_stops_the_run_in_words(tmp_path):
    study, clients = make(tmp_path / "a", replace(QUICK, algorithm="fedavg"))
    other, _ = make(tmp_path / "b", replace(QUICK, algorithm="fedavg", local_epochs=3))
    strangers = {**open_clients(study, clients), 2: open_clients(other, clients)[2]}
    with pytest.raises(StoppedByClientError, match="south: its bundle is of another study"):
        run_by_hand(study, clients, there=strangers)


def test_what_diverges_stops_the_run_and_names_the_client(tmp_path):
    experiment = replace(
        QUICK, algorithm="fedavg", lr=(1e30,), optimiser="sgd", precision="float32"
    )
    study, clients = make(tmp_path, experiment)
    with pytest.raises(StoppedByClientError, match=r"round \d, \w+: \w+: "):
        run_by_hand(study, clients)


def test_clients_keep_the_model_and_can_predict(tmp_path):
    from fedfb.data import encode_file
    from fedfb.experiments.run_folder import load_model

    study, clients = make(tmp_path, replace(QUICK, algorithm="fedavg"), achievable=True)
    run_by_hand(study, clients)
    here, there = study.parent / "run", study.parent / "bundles" / f"{CLIENTS[1]}.bundle.state"
    one, other = load_model(here), load_model(there)
    rows = encode_file(one.encoder, clients / "north.csv")
    np.testing.assert_array_equal(one.predict(rows).score, other.predict(rows).score)
    # Of groups as small as these nothing is shown, and the study ends all the same.
    assert not (here / "achievable.json").exists()
    [why] = [e["text"] for e in read_events(here / EVENTS) if e["event"] == "not told"]
    assert "east, north, south, west withheld their scores" in why
    total = Journal(here / "answers", read_study(study).digest, "achievable", 4).find(0)
    assert not total.arrays["rows"].any()


def test_a_client_takes_no_part_in_a_sum_over_fewer_than_the_study_says(tmp_path):
    """The copy of the server says 3, the copies of the clients say 4."""
    study, clients = make(tmp_path, replace(QUICK, algorithm="fedavg"), least=4)
    study.write_text(study.read_text().replace("least = 4", "least = 3"))
    with pytest.raises(StoppedByClientError, match=r"over 3 clients, .* none over fewer than 4"):
        run_by_hand(study, clients)
