"""Sums are exact in the ring, whoever drops out wherever, and refused below the threshold."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfb import secure
from fedfb.secure import Kind, ThresholdError
from secure.clients import (
    TURNS,
    client_step,
    federation,
    plain_sum,
    ring_vectors,
    seeded,
)


@st.composite
def dropouts(draw):
    """Clients, threshold, and who falls silent from when on: up to one more than is allowed."""
    clients = draw(st.integers(3, 12) | st.integers(3, 50))
    threshold = draw(st.integers(clients // 2 + 1, clients))
    lost = draw(st.integers(0, clients - threshold + 1))
    ids = draw(st.permutations(range(clients)))[:lost]
    return clients, threshold, {id: draw(st.sampled_from(TURNS)) for id in ids}


def expect_sum(clients, threshold, silent):
    heard = {turn: clients - sum(kind <= turn for kind in silent.values()) for turn in TURNS}
    return heard[Kind.MASKED] >= max(3, threshold) and heard[Kind.REVEAL] >= threshold


@given(dropouts(), st.integers(0, 2**32))
def test_a_sum_is_exact_above_the_threshold_and_refused_below(case, seed):
    clients, threshold, silent = case
    fed = federation(clients, words=3, plan=secure.make_plan(clients, threshold=threshold))
    vectors = ring_vectors(fed, seed)
    arguments = (fed.session, fed.server_key, fed.memberships, vectors, silent, seeded(seed))
    if not expect_sum(*case):
        with pytest.raises(ThresholdError):
            secure.sum_in_process(*arguments)
        return
    total = secure.sum_in_process(*arguments).total
    alive = [id for id in range(clients) if silent.get(id, len(Kind)) > Kind.MASKED]
    assert list(total.survivors) == alive
    np.testing.assert_array_equal(total.vector, plain_sum(vectors, alive))


@pytest.mark.parametrize("seed", range(4))
def test_a_sparse_graph_gives_the_exact_sum_too(seed):
    fed = federation(60, words=3)
    assert fed.roster.plan.degree < 59
    rng = np.random.default_rng(seed)
    lost = rng.choice(60, size=fed.roster.plan.dropouts, replace=False)
    silent = {int(id): TURNS[rng.integers(len(TURNS))] for id in lost}
    vectors = ring_vectors(fed, seed)
    total = secure.sum_in_process(
        fed.session, fed.server_key, fed.memberships, vectors, silent
    ).total
    np.testing.assert_array_equal(total.vector, plain_sum(vectors, total.survivors))
    assert len(total.survivors) == 60 - sum(kind <= Kind.MASKED for kind in silent.values())


def test_a_sparse_graph_refuses_more_dropouts_than_declared():
    fed = federation(60, words=1)
    silent = dict.fromkeys(range(fed.roster.plan.dropouts + 1), Kind.MASKED)
    with pytest.raises(ThresholdError, match="at least 54 must"):
        secure.sum_in_process(
            fed.session, fed.server_key, fed.memberships, ring_vectors(fed), silent
        )


def test_ids_need_not_be_places():
    fed = federation(4, first=1000)
    vectors = ring_vectors(fed)
    total = secure.sum_in_process(fed.session, fed.server_key, fed.memberships, vectors).total
    np.testing.assert_array_equal(total.vector, plain_sum(vectors, fed.memberships))


def test_pinned_identities_do_not_change_the_sum():
    fed = federation(4, pinned=True)
    vectors = ring_vectors(fed)
    silent = {2: Kind.MASKED}
    total = secure.sum_in_process(
        fed.session, fed.server_key, fed.memberships, vectors, silent
    ).total
    np.testing.assert_array_equal(total.vector, plain_sum(vectors, [0, 1, 3]))


def test_both_sides_may_restart_after_every_message():
    fed, states, draw = federation(4), {}, seeded(1)
    vectors = ring_vectors(fed)
    server, outgoing = secure.open_sum(fed.session, fed.server_key)
    for turn in TURNS:
        for id, message in outgoing.items():
            reply = client_step(fed, states, turn, id, message, vectors, draw)
            states = pickle.loads(pickle.dumps(states))
            server = pickle.loads(pickle.dumps(secure.receive(server, reply)))
        server, outgoing = secure.advance(server)
    total = secure.unmask(pickle.loads(pickle.dumps(server)))
    np.testing.assert_array_equal(total.vector, plain_sum(vectors, fed.memberships))


def test_the_setups_of_two_exchanges_may_be_under_way_at_once():
    first = federation(4)
    server_1, invitations_1 = secure.open_sum(first.session, first.server_key)
    second = first.at(round=0, exchange=1)
    server_2, invitations_2 = secure.open_sum(second.session, second.server_key)
    for id, membership in first.memberships.items():
        after, _, keys_1 = secure.join(membership, invitations_1[id], first.session.schema)
        _, _, keys_2 = secure.join(after, invitations_2[id], second.session.schema)
        server_1, server_2 = secure.receive(server_1, keys_1), secure.receive(server_2, keys_2)
    assert secure.advance(server_1)[1].keys() == secure.advance(server_2)[1].keys()


def test_every_message_is_recorded_with_its_size():
    fed = federation(4)
    summed = secure.sum_in_process(fed.session, fed.server_key, fed.memberships, ring_vectors(fed))
    assert len(summed.messages) == 4 * len(Kind)
    assert {sent.kind for sent in summed.messages} == set(Kind)


def test_a_sum_cannot_be_read_before_it_is_complete():
    fed = federation(3)
    server, _ = secure.open_sum(fed.session, fed.server_key)
    with pytest.raises(secure.ProtocolError, match="not complete"):
        secure.unmask(server)
    with pytest.raises(ThresholdError, match="0 clients joined, at least 3 must"):
        secure.advance(server)
