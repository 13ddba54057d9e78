import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfb.data import Encoder, Groups, encode_file, groups_in
from fedfb.data.columns import MAX_CATEGORIES, fit_column
from fedfb.data.derive import Bins, Keep
from fedfb.errors import DataError
from fedfb.tables.table import Table


def fitted(
    table: Table, features=("age", "job"), sensitive_at_prediction=True, **others
) -> Encoder:
    columns = tuple(fit_column(table, name) for name in features)
    return Encoder(
        columns, groups_in(table, ("sex",)), "y", "yes", sensitive_at_prediction, **others
    )


def test_features_by_hand(small_table):
    encoder = fitted(small_table.take(np.array([0, 2, 3])))
    assert encoder.feature_names == (
        "age",
        "age is missing",
        "job=a",
        "job=missing",
        "group=F",
        "group=M",
    )
    expected = [[-1, 0, 1, 0, 1, 0], [1, 0, 0, 1, 1, 0], [0, 1, 1, 0, 0, 1]]
    np.testing.assert_allclose(encoder.encode(small_table.take(np.array([0, 2, 3]))), expected)


def test_an_unseen_category_is_all_zeros(small_table):
    encoder = fitted(small_table.take(np.arange(8)), features=("job",))
    assert encoder.encode(small_table.take(np.array([8]))).tolist() == [[0, 0, 0, 1, 0]]


def test_a_constant_column_becomes_zeros():
    table = Table({"age": np.full(3, 0.1), "sex": np.array(["F"] * 3, object)})
    assert fitted(table, ("age",)).encode(table)[:, 0].tolist() == [0.0, 0.0, 0.0]


def test_a_column_without_any_training_number_becomes_zeros():
    table = Table({"age": np.array([np.nan, 3.0]), "sex": np.array(["F"] * 2, object)})
    encoder = fitted(table.take(np.array([0])), ("age",), False)
    assert encoder.encode(table.take(np.array([0]))).tolist() == [[0.0, 1.0]]


def test_a_gap_that_training_did_not_have_becomes_the_mean():
    table = Table({"age": np.array([1.0, 3.0, np.nan]), "sex": np.array(["F"] * 3, object)})
    encoder = fitted(table.take(np.array([0, 1])), ("age",), False)
    assert encoder.encode(table).tolist() == [[-1.0], [1.0], [0.0]]


def test_without_the_group_at_prediction_x_does_not_hold_it(small_table):
    encoder = fitted(small_table, sensitive_at_prediction=False)
    assert not any(name.startswith("group=") for name in encoder.feature_names)
    assert encoder.encode(small_table).shape == (10, len(encoder.feature_names))


def test_an_identifier_is_refused():
    rows = MAX_CATEGORIES + 1
    identifier = np.array([f"id{i}" for i in range(rows)], object)
    table = Table({"id": identifier, "sex": np.array(["F"] * rows, object)}, "rows.csv")
    with pytest.raises(DataError, match="column 'id' has 2001 different values in 2001 training"):
        fitted(table, ("id",))


CELLS = st.text(st.characters(codec="utf-8"), max_size=4)


@pytest.mark.slow
@given(
    rows=st.lists(
        st.tuples(st.floats(-1e9, 1e9) | st.just(np.nan), CELLS, st.sampled_from("FM")), min_size=1
    ),
    sensitive_at_prediction=st.booleans(),
)
def test_an_encoder_survives_json(rows, sensitive_at_prediction):
    age, job, sex = zip(*rows, strict=True)
    columns = {"age": np.array(age), "job": np.array(job, object), "sex": np.array(sex, object)}
    table = Table(columns)
    derived = (Bins("age", "age group", (1.0,), ("low", "high")), Keep("job", "job", ("a",), "o"))
    encoder = fitted(table, sensitive_at_prediction=sensitive_at_prediction, derived=derived)
    again = Encoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert again == encoder
    x = again.encode(table)
    assert x.shape == (len(rows), len(encoder.feature_names))
    assert np.isfinite(x).all()
    np.testing.assert_array_equal(x, encoder.encode(table))


@pytest.mark.parametrize("values", [{}, {"columns": [{"name": "a"}]}, {"columns": 3}])
def test_what_is_no_encoder_is_refused(values):
    with pytest.raises(DataError, match="not an encoder as fedfb writes it"):
        Encoder.from_dict(values)


def test_raw_rows_are_encoded_as_in_training(small_table, write):
    encoder = fitted(small_table)
    raw = encode_file(encoder, write("id,sex,job,age\n7,M,b,30\n8,F,,?\n"))
    np.testing.assert_array_equal(raw.x[0], encoder.encode(small_table)[1])
    assert raw.group.tolist() == [1, 0]
    names = encoder.feature_names
    assert raw.x[1, names.index("age is missing")] == raw.x[1, names.index("job=missing")] == 1


def test_codes_stay_text_in_a_file_that_holds_only_numbers(write):
    table = Table({"job": np.array(["01", "A"], object), "sex": np.array(["F", "F"], object)})
    encoder = fitted(table, ("job",), False)
    raw = encode_file(encoder, write("job\n01\n"))
    assert raw.x.tolist() == [[1.0, 0.0]]
    assert raw.group is None


def test_raw_rows_get_their_derived_group(write):
    rule = Bins("age", "age group", (30.0,), ("young", "old"))
    table = Table({"n": np.array([1.0, 2.0])})
    groups = Groups(("age group",), ("young", "old"))
    encoder = Encoder((fit_column(table, "n"),), groups, "y", "1", True, (rule,))
    assert encode_file(encoder, write("n,age\n1,31\n2,30\n")).group.tolist() == [1, 0]


def test_raw_rows_without_a_feature_are_refused_by_its_name(small_table, write):
    with pytest.raises(DataError, match="unknown column 'job'"):
        encode_file(fitted(small_table), write("sex,age\nF,1\n"))
