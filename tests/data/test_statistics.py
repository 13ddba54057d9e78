"""Means and spreads from sums over clients are those of all rows in one place."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.one_column import encode
from fedfb.data.columns import fit_column
from fedfb.data.fit_columns import ClientRows, fit_columns
from fedfb.data.schema import ColumnSchema, Schema
from fedfb.data.statistics import add_in_clear
from fedfb.errors import DataError
from fedfb.tables.table import Table

SCALES = (1e-200, 1e-6, 1.0, 1e6, 1e150)


def one_column(values, owners, add=add_in_clear):
    table = Table({"x": np.asarray(values, float)})
    schema = Schema((ColumnSchema("x", "feature", "number", missing="mean"),), ())
    clients = ClientRows(np.asarray(owners), ("north", "south", "west"), add, schema)
    [column] = fit_columns(table, clients)
    return column, fit_column(table, "x"), table


@given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from(SCALES),
    shift=st.sampled_from((0.0, 1.0, -1e4)),
    gaps=st.booleans(),
)
def test_columns_are_those_of_all_rows_together(seed, scale, shift, gaps):
    rng = np.random.default_rng(seed)
    values = scale * (rng.normal(size=40) + shift)
    if gaps:
        values[rng.integers(0, 40, 5)] = np.nan
    found, pooled, table = one_column(values, rng.integers(0, 3, 40))
    assert found.indicator == pooled.indicator
    assert found.sd == pytest.approx(np.nanstd(values / scale) * scale, rel=1e-9)
    if scale > 1e-100:  # of the smallest numbers a standard deviation of squares is not known
        np.testing.assert_allclose(encode(found, table), encode(pooled, table), atol=1e-9)


@pytest.mark.parametrize("value", [0.1, 0.0, -3.0, 1e300, 1e-300])
def test_a_constant_column_becomes_zeros(value):
    found, _, table = one_column(np.full(7, value), [0, 1, 1, 2, 2, 2, 0])
    assert not encode(found, table).any()


def test_a_column_that_is_constant_on_every_client_and_differs_between_them_is_scaled():
    found, pooled, table = one_column([1.0, 1.0, 2.0, 2.0, 4.0], [0, 0, 1, 1, 2])
    np.testing.assert_allclose(encode(found, table), encode(pooled, table), atol=1e-12)


def test_an_owner_without_any_number_changes_nothing():
    found, pooled, table = one_column([np.nan, np.nan, 1.0, 2.0, 6.0], [0, 0, 1, 1, 2])
    np.testing.assert_allclose(encode(found, table), encode(pooled, table), atol=1e-12)
    found, _, table = one_column([np.nan] * 3, [0, 1, 2])
    assert (found.mean, found.sd, found.indicator) == (0.0, 1.0, True)


def test_nothing_but_sums_is_asked_for():
    asked = []

    def adding(question, told, answers):
        asked.append((question, {name: np.shape(v) for name, v in answers["north"].items()}))
        assert len({tuple(said) for said in answers.values()}) == 1
        return add_in_clear(question, told, answers)

    one_column(np.arange(9.0), [0, 1, 2] * 3, adding)
    assert [question for question, _ in asked] == [
        *("column sums", "column distances", "column squares"),
    ]
    assert all(shape == (1,) for _, said in asked for shape in said.values())


def test_differences_that_a_coarse_sum_loses_are_refused():
    def coarse(question, told, answers):
        total = add_in_clear(question, told, answers)
        return {name: np.round(value, 6) for name, value in total.items()}

    with pytest.raises(DataError, match=r"column 'x' differ by so little.*smaller unit"):
        one_column([1e-9, 2e-9, 3e-9], [0, 1, 1], coarse)
