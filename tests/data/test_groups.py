import numpy as np
import pytest

from fedfb.data import Groups, groups_in
from fedfb.errors import DataError
from fedfb.tables.table import Table


def people(sex: list[str], race: list[str]) -> Table:
    return Table({"sex": np.array(sex, object), "race": np.array(race, object)}, "people.csv")


def test_sensitive_columns_are_crossed_and_groups_sorted_by_name():
    table = people(["Male", "Female", "Male"], ["Black", "Black", "White"])
    groups = groups_in(table, ("sex", "race"))
    assert groups.names == (
        "sex=Female, race=Black",
        "sex=Male, race=Black",
        "sex=Male, race=White",
    )
    assert groups.group_of(table).tolist() == [1, 0, 2]


def test_a_declared_order_comes_before_the_sorted_rest():
    table = people(["a", "b", "c", "d"], ["x"] * 4)
    assert groups_in(table, ("sex",), ("d", "absent", "b")).names == ("d", "b", "a", "c")


def test_numbers_can_be_groups():
    table = Table({"z": np.array([1.0, 0.0])})
    assert groups_in(table, ("z",)).names == ("0", "1")


def test_a_missing_sensitive_value_is_counted():
    message = "people.csv: the sensitive column 'race' is missing in 2 of 3 rows"
    with pytest.raises(DataError, match=message):
        groups_in(people(["F", "F", "M"], ["B", "", ""]), ("sex", "race"))


def test_a_group_that_training_did_not_have_is_named_and_counted():
    groups = Groups(("sex",), ("F", "M"))
    with pytest.raises(DataError, match=r"group 'X' \(2 rows\) does not occur in training rows"):
        groups.group_of(people(["F", "X", "X"], ["B"] * 3))
