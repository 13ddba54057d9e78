import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedfb.data import Groups, by_shares, load, parse_partition
from fedfb.data.own import federation_from_frames
from fedfb.data.partition import (
    Clients,
    Partition,
    assign,
    by_column,
    by_group,
    rows_of_clients,
    seat,
)
from fedfb.data.request import DataRequest
from fedfb.errors import ConfigError, DataError
from fedfb.tables.table import Table, Words

PEOPLE = Table(
    {
        "sex": np.array(["F", "F", "M", "M", "F", "M"], object),
        "town": np.array(["b", "a", "a", "b", "c", ""], object),
    },
    "people.csv",
)
GROUPS = Groups(("sex",), ("F", "M"))


@st.composite
def dealings(draw):
    values = draw(arrays(np.int64, st.integers(0, 60), elements=st.integers(0, 2)))
    raw = draw(arrays(float, (3, draw(st.integers(1, 4))), elements=st.floats(0.01, 1)))
    return values, raw / raw.sum(axis=1, keepdims=True)


@given(dealing=dealings(), seed=st.integers(0, 1000))
def test_every_row_goes_to_one_client_and_shares_hold_within_a_row(dealing, seed):
    values, shares = dealing
    client = by_shares(values, shares, np.random.default_rng(seed))
    assert ((client >= 0) & (client < shares.shape[1])).all()
    for value, row in enumerate(shares):
        counts = np.bincount(client[values == value], minlength=len(row))
        assert (np.abs(counts - row * (values == value).sum()) <= 1 + 1e-9).all()


@given(dealing=dealings(), seed=st.integers(0, 1000))
def test_the_same_generator_deals_the_same(dealing, seed):
    first, second = (by_shares(*dealing, np.random.default_rng(seed)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_by_column_sorts_clients_by_name():
    client, names = by_column(Words.of(["b", "a", "b"]))
    assert (client.tolist(), names) == ([1, 0, 1], ("a", "b"))


def test_by_group_makes_one_client_of_each():
    assert by_group(np.array([1, 0]), ("F", "M")) == (pytest.approx([1, 0]), ("F", "M"))


def test_rows_of_a_place_training_did_not_have_belong_to_no_client():
    client, names = assign(Partition("column", "town"), PEOPLE, GROUPS, np.arange(4), (0, 13))
    assert (client.tolist(), names) == ([1, 0, 0, 1, -1, -1], ("a", "b"))


def test_training_rows_without_a_client_are_counted():
    with pytest.raises(
        DataError, match="column 'town' decides the client and is missing in 1 rows"
    ):
        assign(Partition("column", "town"), PEOPLE, GROUPS, np.arange(6), (0, 13))


def test_shares_hold_within_training_and_within_test_rows():
    partition = parse_partition("shares:0.5,0.5/0,1")
    client, names = assign(partition, PEOPLE, GROUPS, np.arange(4), (0, 13))
    assert sorted(client[:2].tolist()) == [0, 1]
    assert client[[2, 3, 5]].tolist() == [1, 1, 1]
    assert names == ("client 0", "client 1")


def test_shares_for_another_number_of_groups_are_refused():
    with pytest.raises(ConfigError, match="shares for 1 groups, but the data have 2: F, M"):
        assign(parse_partition("shares:0.5,0.5"), PEOPLE, GROUPS, np.arange(4), (0, 13))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("paper", Partition()),
        ("group", Partition("group")),
        ("column:native-country", Partition("column", "native-country")),
        ("shares:1/1", Partition("shares", shares=((1.0,), (1.0,)))),
    ],
)
def test_partitions_are_read_from_text(text, expected):
    assert parse_partition(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("papper", "unknown partition 'papper'; did you mean 'paper'"),
        ("column:", "unknown partition 'column:'; did you mean 'column:NAME'"),
        ("shares:0.5,half", "every share is a number"),
        ("shares:0.5,0.5/1", "group 1 has 1 shares and group 0 has 2"),
        ("shares:0.5,0.5/0.5,0.6", "those of group 1 are .* and sum to 1.1"),
        ("shares:1.5,-0.5", "Shares are not negative and sum to 1"),
        ("shares:nan,1", "Shares are not negative and sum to 1"),
    ],
)
def test_a_partition_that_cannot_be_read_says_why(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_partition(text)


@given(
    alpha=st.sampled_from([0.1, 0.5, 10.0, 5000.0]),
    clients=st.integers(2, 6),
    sizes=st.tuples(st.integers(100, 400), st.integers(100, 400)),
    seed=st.integers(0, 1000),
)
def test_drawn_shares_deal_every_row_and_leave_no_client_without(alpha, clients, sizes, seed):
    people = Table({"sex": np.repeat(np.array(["F", "M"], object), sizes)}, "people.csv")
    rows = np.arange(sum(sizes))
    how = parse_partition(f"dirichlet:{alpha},{clients}")
    client, names = assign(how, people, GROUPS, rows, (seed, 13))
    counts = np.bincount(client, minlength=clients)
    assert len(names) == clients
    assert counts.sum() == len(rows)
    # A small parameter leaves a client without rows in nearly every draw.
    assert counts.min() >= 10 or alpha == 0.1
    if alpha == 5000.0:
        share = counts / len(rows)
        assert np.abs(share - 1 / clients).max() < 0.05


def test_a_small_parameter_gives_most_of_a_group_to_one_client():
    people = Table({"sex": np.repeat(np.array(["F", "M"], object), 1000)}, "people.csv")

    def largest(alpha, seed):
        how = parse_partition(f"dirichlet:{alpha},5")
        client = assign(how, people, GROUPS, np.arange(2000), (seed, 13)).client
        return np.bincount(client[:1000]).max()

    uneven, even = (np.mean([largest(alpha, seed) for seed in range(20)]) for alpha in (0.1, 10.0))
    assert uneven > 600
    assert even < 400


@pytest.mark.parametrize(
    "text", ["dirichlet:0,5", "dirichlet:.5", "dirichlet:.5,1", "dirichlet:x,5"]
)
def test_what_is_no_dirichlet_is_refused(text):
    with pytest.raises(ConfigError, match=r"expected a parameter of at least \.001"):
        parse_partition(text)


def test_a_draw_of_more_clients_than_rows_is_a_plain_draw():
    how, rows = parse_partition("dirichlet:.5,1000"), np.arange(600)
    people = Table({"sex": np.repeat(np.array(["F", "M"], object), 300)}, "people.csv")
    client, names = assign(how, people, GROUPS, rows, (3, 13))
    again = assign(how, people, GROUPS, rows, (3, 13))
    np.testing.assert_array_equal(client, again.client)
    assert len(names) == 1000
    assert client.min() >= 0


@given(st.lists(st.integers(-1, 8), min_size=1, max_size=60), st.integers(1, 5))
def test_clients_sit_out_or_keep_their_rows_and_names(client, least):
    names = tuple("abcdefghi")
    dealt, rows = Clients(np.array(client), names), np.arange(len(client))
    counts = np.bincount(dealt.client[dealt.client >= 0], minlength=9)
    if counts.max() < least:
        with pytest.raises(DataError, match="none of the 9 clients"):
            seat(dealt, rows, rows, least)
        return
    (numbers, seated), notes = seat(dealt, rows, rows, least)
    assert seated == tuple(name for name, n in zip(names, counts, strict=True) if n >= least)
    for before, after in zip(client, numbers.tolist(), strict=True):
        stays = before >= 0 and counts[before] >= least
        assert (names[before] == seated[after]) if stays else after == -1
    out = 9 - len(seated)
    assert len(notes) == (out > 0)
    if out:
        lost = sum(counts[counts < least])
        assert notes[0].startswith(f"{out} of 9 clients ha")
        assert f"{lost} training row" in notes[0]


@given(st.lists(st.integers(-1, 5), max_size=40))
def test_rows_of_clients_are_those_of_a_loop(client):
    parts = rows_of_clients(np.array(client, int), 6)
    assert [part.tolist() for part in parts] == [
        [row for row, number in enumerate(client) if number == wanted] for wanted in range(6)
    ]


def test_the_rows_of_clients_that_sit_out_are_counted():
    rng = np.random.default_rng(0)
    rows = {
        "x": rng.standard_normal(400).tolist(),
        "sex": rng.choice(["F", "M"], 400).tolist(),
        "y": rng.integers(0, 2, 400).tolist(),
        "branch": [*(f"b{i // 3}" for i in range(300)), *(f"single {i}" for i in range(100))],
    }
    federation = federation_from_frames(rows, "y", 1, "sex", client_column="branch")
    trained = sum(len(client.y) for client in federation.clients)
    assert len(federation.clients) == len(federation.client_names) == 100
    assert trained + len(federation.test.y) == 300
    [note] = [note for note in federation.notes if "sit out" in note]
    assert note.startswith("100 of 200 clients have fewer than 2 rows (--client-rows)")
    assert "100 training rows are left out" in note


def test_test_rows_of_a_client_that_sits_out_belong_to_no_client():
    request = DataRequest("synthetic", partition="dirichlet:.1,200", rows=300, test_rows=300)
    federation = load(request, 0)
    assert len(federation.test.y) == 300
    assert (federation.test.client == -1).any()
    assert all(len(client.y) for client in federation.clients)
    assert [client.id for client in federation.clients] == list(range(len(federation.clients)))
