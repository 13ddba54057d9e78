import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedfb.data import Groups, Table, by_shares, parse_partition
from fedfb.data.partition import Partition, assign, by_column, by_group
from fedfb.data.table import Words
from fedfb.errors import ConfigError, DataError

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
    try:
        client, names = assign(how, people, GROUPS, rows, (seed, 13))
    except ConfigError:  # a small parameter leaves a client without in nearly every draw
        assert alpha == 0.1
        return
    counts = np.bincount(client, minlength=clients)
    assert len(names) == clients
    assert counts.sum() == len(rows)
    assert counts.min() >= 10
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


def test_too_many_clients_for_the_rows_are_refused():
    with pytest.raises(ConfigError, match="fewer than 10 of the 6 training rows"):
        assign(parse_partition("dirichlet:1,3"), PEOPLE, GROUPS, np.arange(6), (0, 13))
