import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedfb.data import Groups, Table, by_shares, parse_partition
from fedfb.data.partition import Partition, assign, by_column, by_group
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
    client, names = by_column(np.array(["b", "a", "b"], object))
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
