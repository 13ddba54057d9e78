"""A server that puts other keys or other rosters in place; what it learns is stated."""

import numpy as np
import pytest

from fedfb import secure
from fedfb.secure import AuthenticationError, Kind, ProtocolError
from fedfb.secure.encoding import pack, pack_entries, pack_set
from secure.clients import federation, identity_key, play, ring_vectors
from secure.liars import body_of, say, until

PINNED = federation(4, pinned=True)


def with_false_keys(fed, victim, keys):
    """The key list of a victim in which client 1's keys are the server's own."""
    _, replies, _ = until(fed, Kind.KEYS)
    entries = {id: body_of(message) for id, message in replies.items() if id != victim}
    entries[1] = keys + entries[1][len(keys) :]
    clients = pack_set(fed.roster.ids, fed.roster.ids)
    return say(fed, Kind.KEY_LIST, victim, pack(clients, pack_entries(entries)))


def test_substituted_keys_are_caught_where_identities_are_pinned():
    states, _, _ = until(PINNED, Kind.KEYS)
    own = secure.derive_public_key(bytes([7]) * 32) * 2
    with pytest.raises(AuthenticationError, match="client 1 does not fit the pinned identity"):
        secure.share(states[0], with_false_keys(PINNED, 0, own))


def test_signed_keys_of_an_old_round_are_caught():
    _, replies, _ = until(PINNED.at(round=1), Kind.KEYS)
    states, _, _ = until(PINNED, Kind.KEYS)
    with pytest.raises(AuthenticationError, match="pinned identity"):
        secure.share(states[0], with_false_keys(PINNED, 0, body_of(replies[1])))


def test_a_roster_of_made_up_clients_is_caught_where_identities_are_pinned():
    keys = secure.make_client_keys(0, identity_key(0))
    made_up = [secure.make_client_keys(id, bytes([40 + id]) * 32) for id in (1, 2)]
    server = secure.derive_public_key(bytes([9]) * 32)
    entries = [keys.entry, *(key.entry for key in made_up)]
    roster = secure.make_roster(bytes(16), server, entries, secure.make_plan(3))
    pins = {id: secure.derive_identity_key(identity_key(id)) for id in range(3)}
    with pytest.raises(AuthenticationError, match=r"\[1, 2\] identities that are not the pinned"):
        secure.accept(keys, roster, server, pins)
    with pytest.raises(AuthenticationError, match="another server key"):
        secure.accept(keys, roster, bytes(32), None)
    without = federation(3)
    with pytest.raises(AuthenticationError, match="not the pinned"):
        secure.accept(without.memberships[0].keys, without.roster, without.roster.server, pins)


def test_without_pins_a_server_that_makes_up_the_others_learns_a_vector():
    """Stated in the threat model: the sum of one real client and two made up ones is its own."""
    fed = federation(3)
    secret = np.arange(4, dtype=np.uint64)
    zeros = np.zeros(4, dtype=np.uint64)
    total = play(fed, {0: secret, 1: zeros, 2: zeros})
    np.testing.assert_array_equal(total.vector, secret)


def shortened(fed, without):
    clients = [client for client in fed.roster.clients if client.id != without]
    plan = secure.make_plan(len(clients))
    roster = secure.make_roster(fed.roster.period, fed.roster.server, clients, plan)
    return secure.make_session(roster, 1, 0, fed.session.schema)


def test_clients_under_different_rosters_never_meet_in_one_sum():
    fed = federation(5).at(round=1)
    shorter = shortened(fed, without=4)
    membership = secure.change_roster(fed.memberships[0], shorter.roster)
    _, invitations = secure.open_sum(fed.session, fed.server_key)
    with pytest.raises(ProtocolError, match="another roster"):
        secure.join(membership, invitations[0], fed.session.schema)
    server, invitations = secure.open_sum(shorter, fed.server_key)
    _, _, keys = secure.join(membership, invitations[0], fed.session.schema)
    with pytest.raises(ProtocolError, match="another roster"):
        secure.receive(secure.open_sum(fed.session, fed.server_key)[0], keys)
    assert secure.receive(server, keys).arrived


def test_the_same_exchange_is_not_answered_again_under_a_shorter_roster():
    fed = federation(5).at(round=1)
    _, invitations = secure.open_sum(fed.session, fed.server_key)
    membership, _, _ = secure.join(fed.memberships[0], invitations[0], fed.session.schema)
    shorter = shortened(fed, without=4)
    _, invitations = secure.open_sum(shorter, fed.server_key)
    membership = secure.change_roster(membership, shorter.roster)
    with pytest.raises(ProtocolError, match="comes late"):
        secure.join(membership, invitations[0], fed.session.schema)


def test_two_rosters_that_differ_by_one_tell_its_vector_if_the_others_repeat_theirs():
    """Stated in the threat model: no protocol for sums can prevent it."""
    fed = federation(5)
    vectors = ring_vectors(fed)
    summed = secure.sum_in_process(fed.session, fed.server_key, fed.memberships, vectors)
    shorter = shortened(fed, without=4)
    memberships = {
        id: secure.change_roster(summed.memberships[id], shorter.roster) for id in range(4)
    }
    later = secure.sum_in_process(shorter, fed.server_key, memberships, vectors)
    difference = summed.total.vector - later.total.vector
    np.testing.assert_array_equal(difference, vectors[4])
