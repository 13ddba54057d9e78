from pathlib import Path

import numpy as np
import pytest

from fedfb.data import DataRequest, Federation, load
from fedfb.data.request import draws_rows
from fedfb.errors import ConfigError, DataError
from own_files import load_own


def client(rows: int, sex: str = "FM", town: str = "ab", start: int = 0) -> str:
    lines = [
        f"{i},{sex[i % len(sex)]},{town[i % len(town)]},{'yn'[i // 2 % 2]}"
        for i in range(start, start + rows)
    ]
    return "\n".join(["age,sex,town,y", *lines]) + "\n"


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Load files from a fresh folder, with label y = 'y' and sensitive column sex."""
    monkeypatch.chdir(tmp_path)

    def load(pattern: str = "rows.csv", **options: object) -> Federation:
        arguments = {"label": "y", "positive": "y", "sensitive": ("sex",), **options}
        return load_own(pattern, **arguments)

    return load


def rows(federation: Federation) -> list[int]:
    return [len(client.y) for client in federation.clients]


def test_a_pattern_makes_one_client_per_file_sorted_by_name(own, write):
    write(client(20), "clients/south.csv")
    write(client(10), "clients/north.csv")
    federation = own("clients/*.csv")
    assert federation.client_names == ("north", "south")
    assert rows(federation) == [7, 14]
    assert np.bincount(federation.test.client).tolist() == [3, 6]
    assert federation.name == "clients/*.csv"


def test_files_of_the_same_name_are_told_apart_by_their_folders(own, write):
    write(client(10), "a/rows.csv")
    write(client(10), "b/rows.csv")
    assert own("*/rows.csv").client_names == ("a/rows.csv", "b/rows.csv")


def test_one_file_is_one_client(own, write):
    write(client(20))
    assert (own().client_names, rows(own())) == (("rows",), [14])


def test_a_client_column_makes_the_clients_and_is_no_feature(own, write):
    write(client(40))
    federation = own(client_column="town")
    assert federation.client_names == ("a", "b")
    assert federation.feature_names == ("age",)
    given = own(client_column="town", sensitive_at_prediction=True)
    assert given.feature_names == ("age", "group=F", "group=M")


@pytest.mark.parametrize(
    ("partition", "names"),
    [
        ("group", ("F", "M")),
        ("column:town", ("a", "b")),
        ("shares:0.5,0.5/0.2,0.8", ("client 0", "client 1")),
    ],
)
def test_a_partition_deals_one_file(own, write, partition, names):
    write(client(40))
    federation = own(partition=partition)
    assert federation.client_names == names
    assert "town=a" in federation.feature_names


def test_the_split_of_a_client_depends_on_seed_and_client_only(own, write):
    write(client(30), "clients/a.csv")
    alone = own("clients/*.csv", split_seed=5)
    write(client(10, start=50), "clients/b.csv")
    both = own("clients/*.csv", split_seed=5)
    np.testing.assert_array_equal(alone.clients[0].y, both.clients[0].y)
    assert not np.array_equal(own("clients/*.csv", split_seed=6).clients[0].x, both.clients[0].x)


def test_clients_with_equal_files_are_split_differently(own, write):
    write(client(60), "clients/a.csv")
    write(client(60), "clients/b.csv")
    first, second = own("clients/*.csv").clients
    assert not np.array_equal(first.x, second.x)


def test_a_test_file_belongs_to_no_client_unless_it_names_one(own, write):
    write(client(20))
    write(client(6, town="abc"), "test.csv")
    assert rows(own(test="test.csv")) == [20]
    assert set(own(test="test.csv").test.client.tolist()) == {-1}
    named = own(test="test.csv", client_column="town").test.client
    assert named.tolist() == [0, 1, -1, 0, 1, -1]


def test_a_test_file_need_not_have_the_client_column(own, write):
    write(client(20))
    write("age,sex,y\n1,F,y\n2,M,n\n", "test.csv")
    assert own(test="test.csv", client_column="town").test.client.tolist() == [-1, -1]


def test_a_column_that_is_text_in_one_client_is_text_in_all(own, write):
    write("code,sex,y\n" + "1,F,y\n2,M,n\n" * 4, "clients/a.csv")
    write("code,sex,y\n" + "1,F,y\nX,M,n\n" * 4, "clients/b.csv")
    names = own("clients/*.csv").feature_names
    assert set(names) == {"code=1", "code=2", "code=X"}


def test_more_than_two_labels_are_set_against_each_other_with_a_note(own, write):
    write(client(20) + "5,F,a,maybe\n5,M,a,maybe\n")
    expected = "the label has more than two values: y is set against the rest (maybe, n)"
    assert expected in own().notes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pattern": "clients/*.csv"}, "no file matches 'clients/\\*.csv'"),
        ({"pattern": "empty"}, "the folder empty has no tables"),
        ({"label": "Y"}, "rows.csv: unknown column 'Y'"),
        ({"sensitive": ("sexe",)}, "rows.csv: unknown column 'sexe'; did you mean 'sex'"),
        ({"client_column": "twn"}, "rows.csv: unknown column 'twn'; did you mean 'town'"),
        ({"partition": "column:twn"}, "unknown column 'twn'; did you mean 'town'"),
        ({"positive": "yes"}, "'yes' never occurs in the label column 'y', whose values are n, y"),
        ({"client_column": "age"}, "none of the 20 clients has 2 rows"),
        ({"test": "absent.csv"}, "there is no file 'absent.csv'"),
        ({"sensitive": ("sex", "age", "town")}, "no columns are left as features"),
    ],
)
def test_what_is_wrong_with_the_files_is_told(own, write, options, message):
    write(client(20))
    Path("empty").mkdir()
    with pytest.raises(DataError, match=message):
        own(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "sex"}, "the label must not be one of the others"),
        ({"sensitive": ("sex", "sex")}, "no sensitive column can be named twice"),
        ({"client_column": "town", "partition": "group"}, "both decide the clients"),
        ({"pattern": "*.csv", "test": "rows.csv"}, "is also a training file"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(own, write, options, message):
    write(client(20))
    with pytest.raises(ConfigError, match=message):
        own(**options)


def test_a_test_file_that_lacks_a_column_is_named(own, write):
    write(client(20))
    write("age,sex,y\n1,F,y\n", "test.csv")
    with pytest.raises(DataError, match=r"test\.csv has no column 'town', but rows\.csv has"):
        own(test="test.csv")


@pytest.mark.parametrize("test", [None, "later.csv"])
@pytest.mark.parametrize("partition", ["paper", "group", "column:job", "shares:.5,.5/.5,.5"])
def test_the_split_seed_has_an_effect_where_rows_are_drawn(tmp_path, monkeypatch, test, partition):
    monkeypatch.chdir(tmp_path)
    lines = [f"{i},{'fm'[i % 2]},{'ab'[i // 2 % 2]},{i // 4 % 2}" for i in range(40)]
    for name in ("rows.csv", "later.csv"):
        Path(name).write_text("\n".join(["x,sex,job,y", *lines]))
    request = DataRequest("rows.csv", "y", "1", ("sex",), test=test, partition=partition)
    one, other = (load(request, seed) for seed in (0, 1))
    rows = [[client.x.tolist() for client in found.clients] for found in (one, other)]
    assert (rows[0] != rows[1]) == draws_rows(request)
