"""A server that drops clients, keeps late vectors or has allies; clients that lie."""

from itertools import combinations

import numpy as np
import pytest

from fedfb import secure
from fedfb.secure import AuthenticationError, Kind, ProtocolError, SecureError, ThresholdError
from fedfb.secure.encoding import pack, pack_entries, pack_set, unpack_entries
from fedfb.secure.keys import agree
from fedfb.secure.messages import SEALED_BYTES, derive_pair_mask_keys, write_frame
from fedfb.secure.secrets import add_masks, combine
from secure.clients import federation, plain_sum, play, ring_vectors
from secure.liars import body_of, reveal_shares, say, survivors, until


@pytest.mark.parametrize("alive", [[0], [0, 1], [0, 1, 2]])
def test_all_but_two_or_three_dropped_is_refused_by_the_clients_themselves(alive):
    fed = federation(6)
    states, _, _ = until(fed, Kind.MASKED)
    with pytest.raises(ThresholdError, match=f"{len(alive)} clients survived, at least 5 must"):
        secure.confirm(states[0], survivors(fed, alive, 0))


def test_two_survivors_are_refused_under_the_lowest_threshold():
    fed = federation(3, plan=secure.make_plan(3, threshold=2))
    states, _, server = until(fed, Kind.MASKED, silent=[2])
    with pytest.raises(ThresholdError, match="2 clients uploaded, at least 3 must"):
        secure.advance(server)
    with pytest.raises(ThresholdError, match="2 clients survived, at least 3 must"):
        secure.confirm(states[0], survivors(fed, [0, 1], 0))


def test_a_client_does_not_upload_where_too_few_share_masks_with_it():
    fed = federation(5)
    states, _, server = until(fed, Kind.SHARES)
    sealed = {1: unpack_entries(server.arrived[1], "", SEALED_BYTES)[0]}
    clients = pack_set([0, 1], fed.roster.ids)
    message = say(fed, Kind.SHARE_LIST, 0, pack(clients, pack_entries(sealed)))
    with pytest.raises(ThresholdError, match="2 clients shared their keys, at least 4"):
        secure.mask(states[0], message, ring_vectors(fed)[0])


def test_a_client_of_a_sparse_graph_counts_its_own_neighbours():
    fed = federation(200, words=1)
    near, plan = fed.roster.neighbours[0], fed.roster.plan
    gone = near[: plan.degree + 2 - plan.threshold]
    assert len(gone) <= plan.dropouts
    states, replies, _ = until(fed, Kind.KEYS)
    joined = [id for id in fed.roster.ids if id not in gone]
    keys = {id: body_of(replies[id]) for id in near if id not in gone}
    body = pack(pack_set(joined, fed.roster.ids), pack_entries(keys))
    with pytest.raises(ThresholdError, match="25 clients near client 0 joined, at least 26 must"):
        secure.share(states[0], say(fed, Kind.KEY_LIST, 0, body))


def test_a_vector_that_comes_late_stays_masked():
    """The server restores the lost client's mask key; the self-mask alone must hide its vector."""
    fed = federation(4)
    zeros = {id: np.zeros(4, dtype=np.uint64) for id in fed.memberships}
    _, uploads, _ = until(fed, Kind.MASKED, zeros)
    late = np.frombuffer(body_of(uploads[3]), "<u8")
    states, _, server = until(fed, Kind.MASKED, zeros, silent=[3])
    for step in (secure.confirm, secure.reveal):
        server, outgoing = secure.advance(server)
        for id, message in outgoing.items():
            states[id], reply = step(states[id], message)
            server = secure.receive(server, reply)
    given = server.revealed
    assert not any(3 in shares.seeds for shares in given.values())
    points = fed.roster.points
    restored = combine({points[w]: shares.mask_keys[3] for w, shares in given.items()}, 3)
    publics = {id: server.keys[id][32:64] for id in range(3)}
    pairs = derive_pair_mask_keys(fed.session, restored, 3, publics)
    # ClientEntry 3 has the highest id: it subtracted every pairwise mask.
    left = add_masks(late, plus=list(pairs.values()), minus=[])
    assert np.all(left != 0)
    with pytest.raises(ProtocolError):
        secure.receive(server, uploads[3])


SEVEN = federation(7, plan=secure.make_plan(7, colluders=2))
ALLIES, HONEST, VICTIM = (5, 6), range(5), 0
SHARED, _, _ = until(SEVEN, Kind.MASKED)


def answers_with_allies(view, listeners):
    """Tell some honest clients a view; the allies confirm it, as they would any other."""
    voices = [*listeners, *ALLIES]
    confirmed = {id: secure.confirm(SHARED[id], survivors(SEVEN, view, id)) for id in voices}
    tags = {id: unpack_entries(body_of(message), "", 32) for id, (_, message) in confirmed.items()}
    answers = []
    for id in listeners:
        listed = pack_entries({v: tags[v][id] for v in voices if v != id})
        message = say(SEVEN, Kind.CONFIRMATION_LIST, id, listed)
        try:
            answers.append(reveal_shares(secure.reveal(confirmed[id][0], message)[1]))
        except ThresholdError:
            continue
    return answers


@pytest.mark.parametrize("size", range(1, 6))
def test_as_many_allies_as_declared_cannot_open_both_secrets(size):
    """Allies hold both shares of the victim and confirm every view; an honest client hears one."""
    for alive_to in combinations(HONEST, size):
        dead_to = [id for id in HONEST if id not in alive_to and id != VICTIM]
        alive = answers_with_allies(frozenset(range(7)), alive_to)
        dead = answers_with_allies(frozenset(range(7)) - {VICTIM}, dead_to)
        seeds = len(ALLIES) + sum(VICTIM in given for given, _ in alive)
        mask_keys = len(ALLIES) + sum(VICTIM in given for _, given in dead)
        assert min(seeds, mask_keys) < SEVEN.roster.plan.threshold


def test_shares_that_were_swapped_or_changed_on_their_way_are_refused():
    fed = federation(4)
    states, _, server = until(fed, Kind.SHARES)
    sealed = {v: unpack_entries(server.arrived[v], "", SEALED_BYTES)[0] for v in (1, 2, 3)}
    for bad in (
        {**sealed, 1: sealed[2], 2: sealed[1]},
        {**sealed, 1: bytes([sealed[1][0] ^ 1]) + sealed[1][1:]},
        {**sealed, 1: unpack_entries(server.arrived[1], "", SEALED_BYTES)[2]},
    ):
        body = pack(pack_set(range(4), fed.roster.ids), pack_entries(bad))
        with pytest.raises(AuthenticationError, match="cannot be decrypted"):
            secure.mask(states[0], say(fed, Kind.SHARE_LIST, 0, body), ring_vectors(fed)[0])


@pytest.mark.parametrize("secret", ["self-mask", "mask key"])
def test_a_client_that_gives_false_shares_stops_the_sum_and_cannot_change_it(secret):
    fed, silent = federation(5), {3: Kind.MASKED}
    vectors = ring_vectors(fed)

    def forge(kind, client, message):
        if (kind, client) != (Kind.REVEAL, 0):
            return message
        seeds, mask_keys = reveal_shares(message)
        false = seeds if secret == "self-mask" else mask_keys
        false.update(dict.fromkeys(false, bytes(33)))
        link = agree(fed.server_key, fed.roster.by_id[0].link, "")
        body = pack(pack_entries(seeds), pack_entries(mask_keys))
        return write_frame(secure.read_header(message), body, link)

    with pytest.raises(SecureError, match=rf"shares of (the {secret}|a secret)"):
        play(fed, vectors, forge, silent)
    total = play(fed, vectors, silent=silent)
    np.testing.assert_array_equal(total.vector, plain_sum(vectors, total.survivors))
