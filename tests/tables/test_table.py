import numpy as np
import pytest

from fedfb.errors import DataError
from fedfb.tables.table import Table, concat


def text(*cells: str) -> np.ndarray:
    return np.array(cells, object)


def test_take_keeps_the_given_order():
    table = Table({"a": np.arange(4.0), "b": text("p", "q", "r", "s")})
    taken = table.take(np.array([3, 0]))
    assert (taken.columns["a"].tolist(), taken.columns["b"].tolist()) == ([3.0, 0.0], ["s", "p"])


def test_a_table_without_columns_has_no_rows():
    assert len(Table({})) == 0


def test_concat_follows_names_not_positions():
    first = Table({"a": np.array([1.0]), "b": text("x")}, "1.csv")
    second = Table({"b": text("y"), "a": np.array([2.0])}, "2.csv")
    both = concat([first, second])
    assert (both.columns["a"].tolist(), both.columns["b"].tolist()) == ([1.0, 2.0], ["x", "y"])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_concat_names_the_file_and_the_column_that_differ(order):
    tables = [Table({"a": text("x"), "b": text("x")}, "1.csv"), Table({"a": text("x")}, "2.csv")]
    with pytest.raises(DataError, match=r"2\.csv has no column 'b', but 1\.csv has"):
        concat([tables[i] for i in order])


def test_concat_refuses_numbers_beside_text():
    with pytest.raises(DataError, match="column 'a' holds numbers in one"):
        concat([Table({"a": text("x")}, "1.csv"), Table({"a": np.array([1.0])}, "2.csv")])


def test_an_unknown_column_offers_the_nearest():
    with pytest.raises(DataError, match=r"rows\.csv: unknown column 'agee'; did you mean 'age'"):
        Table({"age": np.array([1.0])}, "rows.csv").column("agee")


@pytest.mark.parametrize("cell", ["old", "inf", "1_0"])
def test_text_where_training_had_numbers_names_row_and_column(cell):
    with pytest.raises(DataError, match=f"rows.csv, row 2, column 'age': '{cell}'"):
        Table({"age": text("3", cell)}, "rows.csv").numbers("age")
