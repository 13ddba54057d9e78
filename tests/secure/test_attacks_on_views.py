"""A server that tells different things, asks twice or replays: it gets one secret of each."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfb import secure
from fedfb.secure import AuthenticationError, Kind, ProtocolError, ThresholdError
from fedfb.secure.encoding import pack, pack_entries, pack_set, unpack_entries
from fedfb.secure.messages import SEALED_BYTES
from secure.clients import federation, ring_vectors
from secure.liars import body_of, reveal_shares, say, survivors, until

FIVE = federation(5, plan=secure.make_plan(5, threshold=3))
UPLOADED, _, _ = until(FIVE, Kind.MASKED)


@given(st.sets(st.integers(0, 4), min_size=3), st.integers(0, 4))
def test_one_client_gives_one_share_of_each_peer_whatever_the_survivors(alive, client):
    states = {id: UPLOADED[id] for id in alive}
    if client not in alive:
        with pytest.raises(ProtocolError, match="leaves it out"):
            secure.confirm(UPLOADED[client], survivors(FIVE, alive, client))
        return
    confirmed = {id: secure.confirm(states[id], survivors(FIVE, alive, id)) for id in alive}
    tags = {id: unpack_entries(body_of(m), "", 32) for id, (_, m) in confirmed.items()}
    listed = pack_entries({id: tags[id][client] for id in alive - {client}})
    message = say(FIVE, Kind.CONFIRMATION_LIST, client, listed)
    seeds, mask_keys = reveal_shares(secure.reveal(confirmed[client][0], message)[1])
    assert set(seeds) == alive
    assert set(mask_keys) == set(range(5)) - alive


def split_view(fed, states, told):
    """Tell each client its own survivors, pass on confirmations that fit, return the reveals."""
    confirmed = {id: secure.confirm(states[id], survivors(fed, told[id], id)) for id in told}
    tags = {id: unpack_entries(body_of(m), "", 32) for id, (_, m) in confirmed.items()}
    reveals = []
    for id, (state, _) in confirmed.items():
        agreeing = {v: tags[v].get(id) for v in told if v != id and told[v] == told[id]}
        message = say(fed, Kind.CONFIRMATION_LIST, id, pack_entries(agreeing))
        try:
            reveals.append(reveal_shares(secure.reveal(state, message)[1]))
        except ThresholdError:
            continue
    return reveals


@pytest.mark.parametrize(
    "believers", [g for size in range(6) for g in combinations(range(5), size)]
)
def test_a_peer_that_is_alive_to_some_and_dead_to_others_keeps_one_secret(believers):
    """Every way to split five clients: at most one of the two views gets any answer at all."""
    told = {id: frozenset(range(5)) for id in (*believers, 4)}
    told |= {id: frozenset(range(4)) for id in range(4) if id not in believers}
    reveals = split_view(FIVE, UPLOADED, told)
    seeds = sum(4 in given for given, _ in reveals)
    mask_keys = sum(4 in given for _, given in reveals)
    assert min(seeds, mask_keys) == 0


def test_a_split_view_cannot_narrow_the_sum_to_two():
    """Each client is told of three survivors, and no three clients of the same ones."""
    told = {id: frozenset({id, (id + 1) % 5, (id + 2) % 5}) for id in range(5)}
    assert split_view(FIVE, UPLOADED, told) == []


def test_a_false_view_of_another_client_is_noticed():
    everybody, fewer = range(5), range(4)
    _, message = secure.confirm(UPLOADED[1], survivors(FIVE, fewer, 1))
    false_tag = {1: unpack_entries(body_of(message), "", 32)[0]}
    state, _ = secure.confirm(UPLOADED[0], survivors(FIVE, everybody, 0))
    with pytest.raises(AuthenticationError, match="client 1's view of the survivors"):
        secure.reveal(state, say(FIVE, Kind.CONFIRMATION_LIST, 0, pack_entries(false_tag)))


def test_who_was_gone_does_not_come_back():
    states, _, server = until(FIVE, Kind.SHARES)
    clients = pack_set(range(4), FIVE.roster.ids)
    sealed = {v: unpack_entries(server.arrived[v], "", SEALED_BYTES)[0] for v in (1, 2, 3)}
    listed = say(FIVE, Kind.SHARE_LIST, 0, pack(clients, pack_entries(sealed)))
    state, _ = secure.mask(states[0], listed, ring_vectors(FIVE)[0])
    with pytest.raises(ProtocolError, match=r"\[4\] among who survived: they had left"):
        secure.confirm(state, survivors(FIVE, range(5), 0))


def test_a_client_answers_the_survivors_once():
    state, _ = secure.confirm(UPLOADED[0], survivors(FIVE, range(5), 0))
    with pytest.raises(ProtocolError, match="answers each message once"):
        secure.confirm(state, survivors(FIVE, range(4), 0))


def test_a_client_reveals_once_and_then_holds_nothing():
    states, _, server = until(FIVE, Kind.REVEAL)
    again = say(FIVE, Kind.CONFIRMATION_LIST, 0, b"")
    with pytest.raises(ProtocolError, match="has sent its last message"):
        secure.reveal(states[0], again)
    for state in states.values():
        assert (state.held, state.channels, state.seed, state.mask_key) == ({}, {}, b"", b"")
    assert secure.unmask(secure.advance(server)[0]).survivors == tuple(range(5))


def test_an_old_round_or_the_same_exchange_again_is_not_joined():
    later = FIVE.at(round=4, exchange=1)
    _, invitations = secure.open_sum(later.session, later.server_key)
    membership, _, _ = secure.join(FIVE.memberships[0], invitations[0], FIVE.session.schema)
    for round, exchange in ((3, 7), (4, 0), (4, 1)):
        old = FIVE.at(round, exchange)
        _, invitations = secure.open_sum(old.session, old.server_key)
        with pytest.raises(ProtocolError, match="comes late"):
            secure.join(membership, invitations[0], FIVE.session.schema)


def test_a_server_with_another_schema_in_mind_is_not_answered():
    _, invitations = secure.open_sum(FIVE.session, FIVE.server_key)
    other = [secure.Part("x", (4,), bound=1.0, bits=0)]
    with pytest.raises(ProtocolError, match="another roster or schema"):
        secure.join(FIVE.memberships[0], invitations[0], other)
