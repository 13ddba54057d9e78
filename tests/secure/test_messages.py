"""Every message that is not the right one is refused; what is malformed never changes a sum."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfb import secure
from fedfb.secure import FormatError, Kind, ProtocolError, SecureError
from fedfb.secure.encoding import pack, pack_entries, pack_set, unpack, unpack_entries, unpack_set
from fedfb.secure.keys import TAG_BYTES, agree
from fedfb.secure.messages import LAYOUT, OVERHEAD_BYTES, write_frame
from secure.clients import federation, plain_sum, play, record, ring_vectors

FED = federation(4, pinned=True)
VECTORS = ring_vectors(FED)
DELIVERIES, TOTAL = record(FED, VECTORS)
deliveries = st.sampled_from(DELIVERIES)


def test_every_recorded_message_is_accepted_as_it_was():
    np.testing.assert_array_equal(TOTAL.vector, plain_sum(VECTORS, FED.memberships))
    for delivery in DELIVERIES:
        delivery.read(delivery.message)


@given(deliveries, st.data())
def test_a_message_with_any_bit_changed_is_refused(delivery, data):
    place = data.draw(st.integers(0, 8 * len(delivery.message) - 1))
    changed = bytearray(delivery.message)
    changed[place // 8] ^= 1 << place % 8
    with pytest.raises(SecureError):
        delivery.read(bytes(changed))


@given(deliveries, st.data())
def test_a_truncated_message_is_refused(delivery, data):
    length = data.draw(st.integers(0, len(delivery.message) - 1))
    with pytest.raises(FormatError):
        delivery.read(delivery.message[:length])


@given(deliveries, st.binary(min_size=1, max_size=50))
def test_a_message_with_something_behind_it_is_refused(delivery, surplus):
    with pytest.raises(FormatError):
        delivery.read(delivery.message + surplus)


def test_every_message_is_refused_by_every_other_reader():
    for delivery in DELIVERIES:
        for other in DELIVERIES:
            same = (other.kind, other.client) == (delivery.kind, delivery.client)
            # Within a phase the server takes its clients' messages in any order.
            if same or (other.kind == delivery.kind and other.kind % 2):
                continue
            with pytest.raises(SecureError):
                delivery.read(other.message)


def test_a_duplicate_is_refused():
    last = {}
    for delivery in DELIVERIES:
        if delivery.kind % 2:
            state = delivery.read(delivery.message)
            with pytest.raises(ProtocolError, match="has arrived already"):
                secure.receive(state, delivery.message)
            last[delivery.kind] = delivery
    assert len(last) == 5


ELSEWHERE = {
    "round": FED.at(round=1),
    "exchange": FED.at(round=0, exchange=1),
    "period": federation(4, pinned=True, period=b"another run here"),
    "schema": federation(4, pinned=True, words=5),
}


@pytest.mark.parametrize("where", ELSEWHERE)
def test_a_message_of_another_round_exchange_period_or_schema_is_refused(where):
    fed = ELSEWHERE[where]
    strangers, _ = record(fed, ring_vectors(fed))
    for delivery, stranger in zip(DELIVERIES, strangers, strict=True):
        assert (delivery.kind, delivery.client) == (stranger.kind, stranger.client)
        if delivery.kind is Kind.INVITATION and where in ("round", "exchange"):
            continue  # to a later sum one may always be invited
        with pytest.raises(SecureError):
            delivery.read(stranger.message)


def malformed(rng, message):
    """Change a message in one of the ways of a bad line or a bad program."""
    way, place = rng.randrange(8), rng.randrange(len(message))
    other = rng.choice(DELIVERIES).message
    size = rng.randrange(1, 40)
    return (
        rng.randbytes(rng.randrange(400)),
        message[:place] + rng.randbytes(size) + message[place + size :],
        message[:place] + message[place + size :],
        message[:place] + rng.randbytes(size) + message[place:],
        message[:place] + other[place:],
        other[: LAYOUT.size] + message[LAYOUT.size :],
        message[:place] + message[place : place + size] * 2 + message[place + size :],
        message[: LAYOUT.size] + rng.randbytes(4) + message[LAYOUT.size + 4 :],
    )[way]


def test_ten_thousand_malformed_messages_are_refused():
    rng, genuine = random.Random(7), {delivery.message for delivery in DELIVERIES}
    refused = 0
    while refused < 10_000:
        delivery = rng.choice(DELIVERIES)
        bad = malformed(rng, delivery.message)
        if bad in genuine:
            continue
        with pytest.raises(SecureError):
            delivery.read(bad)
        refused += 1


def reframed(message, body, client):
    """Wrap another body with a right tag, as a broken client or server could."""
    link = agree(FED.server_key, FED.roster.by_id[client].link, "")
    return write_frame(secure.read_header(message), body, link)


def body_of(message):
    return message[LAYOUT.size + 4 : -TAG_BYTES]


ENTRY_BYTES = 4 + 4 + TAG_BYTES


def test_malformed_content_under_a_right_tag_is_an_error_and_nothing_worse():
    rng = random.Random(11)
    for _ in range(4000):
        delivery = rng.choice(DELIVERIES)
        body = body_of(delivery.message)
        cut = rng.randrange(len(body) + 1)
        bad = (
            body[:cut],
            body + rng.randbytes(rng.randrange(1, 9)),
            body[:cut] + rng.randbytes(rng.randrange(1, 9)) + body[cut:],
            rng.randbytes(rng.randrange(300)),
        )[rng.randrange(4)]
        fewer_tags = delivery.kind is Kind.CONFIRMATION_LIST and body.startswith(bad)
        if len(bad) == len(body) or (fewer_tags and len(bad) % ENTRY_BYTES == 0):
            continue  # a shorter list of confirmations is a right one, too
        with pytest.raises(SecureError):
            delivery.read(reframed(delivery.message, bad, delivery.client))


FORGEABLE = [kind for kind in Kind if kind not in (Kind.INVITATION, Kind.MASKED)]


@given(st.sampled_from(FORGEABLE), st.integers(0, 3), st.integers(0, 2**32), st.booleans())
def test_no_false_content_under_a_right_tag_changes_a_sum(kind, client, seed, lost):
    """A vector is a client's own business; all else that is false ends in the right sum or none."""
    rng, silent = random.Random(seed), {(client + 1) % 4: Kind.MASKED} if lost else {}

    def forge(found, id, message):
        if (found, id) != (kind, client):
            return message
        body = bytearray(body_of(message))
        body[rng.randrange(len(body))] ^= rng.randrange(1, 256)
        return reframed(message, bytes(body), id)

    try:
        total = play(FED, VECTORS, forge, silent)
    except SecureError:
        return
    np.testing.assert_array_equal(total.vector, plain_sum(VECTORS, total.survivors))


fields = st.lists(st.binary(max_size=20), max_size=6)
entries = st.dictionaries(st.integers(0, 2**32 - 1), st.binary(min_size=3, max_size=3), max_size=6)


@given(fields, entries)
def test_what_is_packed_is_unpacked(parts, named):
    assert unpack(pack(*parts), "a test", len(parts)) == parts
    assert unpack_entries(pack_entries(named), "a test", 3) == named


@given(st.binary(max_size=60))
def test_bytes_that_are_read_are_the_only_way_to_write_what_they_say(data):
    try:
        found = unpack_entries(data, "a test", 3)
    except FormatError:
        return
    assert pack_entries(found) == data


@given(st.integers(1, 16), st.binary(max_size=2))
def test_a_set_is_written_in_one_way(places, data):
    try:
        found = unpack_set(data, range(places), "a test")
    except FormatError:
        assert len(data) != -(-places // 8) or int.from_bytes(data, "big") % 2 ** (-places % 8)
        return
    assert pack_set(found, range(places)) == data


def test_duplicate_and_unordered_entries_are_refused():
    one, two = (number.to_bytes(4, "big") + b"abc" for number in (1, 2))
    for wrong in ((one, one), (two, one)):
        with pytest.raises(FormatError, match="must ascend"):
            unpack_entries(pack(*wrong), "a test", 3)


def test_a_header_is_read_without_keys():
    header = secure.read_header(DELIVERIES[0].message)
    assert (header.kind, header.sender, header.recipient) == (Kind.INVITATION, secure.SERVER, 0)
    assert len(DELIVERIES[0].message) == OVERHEAD_BYTES


def test_rosters_are_read_as_they_were_written_and_in_no_other_way():
    text = secure.write_roster(FED.roster)
    assert secure.read_roster(text) == FED.roster
    rng = random.Random(3)
    for _ in range(300):
        place = rng.randrange(len(text))
        for bad in (text[:place], text[:place] + rng.randbytes(3) + text[place:]):
            with pytest.raises(SecureError):
                secure.read_roster(bad)


def test_neither_states_nor_errors_show_a_secret():
    invitation = DELIVERIES[0].message
    _, state, _ = secure.join(FED.memberships[0], invitation, FED.session.schema)
    shown = repr(state) + repr(FED.memberships[0])
    secrets = (state.link, state.channel_key, state.mask_key, FED.memberships[0].keys.link)
    assert not any(repr(secret)[2:-1] in shown for secret in secrets)
