from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedfb.data import astype, hold_out, pooled
from fedfb.data.federation import ONE_GROUP
from fedfb.errors import ConfigError, DataError


def test_every_client_has_its_training_rows_in_order(make_federation):
    federation = make_federation()
    assert [client.id for client in federation.clients] == [0, 1]
    assert [client.y.tolist() for client in federation.clients] == [[1, 1, 1], [0, 0, 1, 0, 0]]
    assert [client.group.tolist() for client in federation.clients] == [[0, 1, 1], [1, 0, 0, 0, 1]]
    assert federation.test.client.tolist() == [0, -1]
    assert federation.group_names == ("F", "M")
    assert federation.clients[0].groups == 2


def test_dtypes_are_float64_and_int64(make_federation):
    federation = make_federation()
    for part in (*federation.clients, federation.test):
        assert (part.x.dtype, part.y.dtype, part.group.dtype) == (np.float64, np.int64, np.int64)
    assert federation.test.client.dtype == np.int64


def test_the_encoder_learns_from_training_rows_only(make_federation):
    federation = make_federation()
    x = np.concatenate([client.x for client in federation.clients])
    present = x[x[:, federation.feature_names.index("age is missing")] == 0, 0]
    np.testing.assert_allclose([present.mean(), present.std()], [0, 1], atol=1e-12)
    assert "job=c" not in federation.feature_names


def test_notes_tell_what_was_done_with_gaps_and_unseen_categories(make_federation):
    assert make_federation().notes[-3:] == (
        "missing numbers became the training mean, with an indicator column: age",
        "missing categories became a category of their own: job",
        "categories that training rows do not have became zeros in test rows: job",
    )


def test_numbers_missing_in_test_rows_only_are_noted(make_federation):
    notes = make_federation(train=np.array([0, 1, 2, 4]), test=np.array([3])).notes
    assert "numbers missing in test rows only became the training mean: age" in notes


def test_one_group_only_is_allowed_with_a_note(make_federation, small_table):
    table = small_table.with_column("sex", np.array(["F"] * 10, object))
    assert ONE_GROUP in make_federation(table=table).notes


def test_features_that_memory_cannot_hold_are_refused(make_federation, monkeypatch):
    monkeypatch.setattr("fedfb.data.check.MOST_NUMBERS", 40)
    with pytest.raises(DataError, match=r"10 rows of 5 features .* Column 'job' alone makes 3"):
        make_federation()


def test_one_class_only_is_refused(make_federation):
    with pytest.raises(DataError, match="none of the 8 training rows have y = 'maybe'"):
        make_federation(positive="maybe")


def test_missing_labels_are_counted(make_federation, small_table):
    table = small_table.with_column("y", np.array(["yes", "", "no", "", ""] * 2, object))
    with pytest.raises(DataError, match="the label 'y' is missing in 6 of 10 rows"):
        make_federation(table=table)


def test_a_group_only_in_test_rows_is_refused(make_federation, small_table):
    table = small_table.with_column("sex", np.array(["F", "M"] * 4 + ["X", "F"], object))
    with pytest.raises(DataError, match="group 'X'"):
        make_federation(table=table)


def test_numbers_too_large_to_average_are_refused(make_federation, small_table):
    table = small_table.with_column("age", np.array([1e308] * 5 + [1.7e308] * 5))
    with pytest.raises(DataError, match="feature 'age' is not finite once scaled"):
        make_federation(table=table)


def test_pooled_puts_all_rows_into_one_client(make_federation):
    federation = make_federation()
    one = pooled(federation)
    assert (len(one.clients), one.client_names, one.clients[0].id) == (1, ("pooled",), 0)
    np.testing.assert_array_equal(
        one.clients[0].x, np.concatenate([c.x for c in federation.clients])
    )
    assert one.test.client.tolist() == [0, -1]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fraction=st.floats(0, 0.999), seed=st.integers(0, 99))
def test_hold_out_parts_every_clients_rows(make_federation, fraction, seed):
    federation = make_federation()
    smaller, validation = hold_out(federation, fraction, seed)
    for before, after in zip(federation.clients, smaller.clients, strict=True):
        rows = np.concatenate([after.x, validation.x[validation.client == before.id]])
        assert len(after.y) >= 1
        np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(before.x, axis=0))


def test_hold_out_of_a_client_does_not_depend_on_the_others(make_federation):
    federation = make_federation()
    _, both = hold_out(federation, 0.5, 3)
    _, alone = hold_out(replace(federation, clients=federation.clients[1:]), 0.5, 3)
    np.testing.assert_array_equal(both.x[both.client == 1], alone.x)


@pytest.mark.parametrize("fraction", [-0.1, 1.0])
def test_a_fraction_out_of_range_is_refused(make_federation, fraction):
    with pytest.raises(ConfigError, match="expected at least 0 and below 1"):
        hold_out(make_federation(), fraction, 0)


def test_astype_casts_x_alone(make_federation):
    cast = astype(make_federation(), np.float32)
    assert {part.x.dtype for part in (*cast.clients, cast.test)} == {np.dtype(np.float32)}
    assert cast.clients[0].y.dtype == np.int64
