"""Steps of numbers at quantiles: by sums as by pooled rows."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedfb.data import load
from fedfb.data.columns import NumberColumn, add_steps, fit_column
from fedfb.data.encode import Encoder
from fedfb.data.federation import without_steps
from fedfb.data.request import DataRequest
from fedfb.data.statistics import Spread, counts_below, steps_by
from fedfb.tables.table import Table

NUMBERS = st.one_of(
    st.integers(0, 3).map(float), st.floats(-1e3, 1e3, allow_nan=False), st.just(float("nan"))
)


def spread_of(values):
    present = values[~np.isnan(values)]
    return Spread(np.array([present.mean()]), np.array([present.std() or 1.0]), np.zeros(1, int))


@given(values=st.lists(NUMBERS, min_size=2, max_size=80), cut=st.integers(0, 80))
def test_clients_and_pooled_rows_have_the_same_steps_and_each_divides_the_rows(values, cut):
    values = np.array(values)
    if np.isnan(values).all():
        return
    present, spread = values[~np.isnan(values)], spread_of(values)

    def ask(task, broadcast):
        parts = [counts_below([part], **broadcast) for part in (values[:cut], values[cut:])]
        return {name: parts[0][name] + parts[1][name] for name in parts[0]}

    [steps] = steps_by("steps", spread, ask)
    [pooled] = steps_by("steps", spread, lambda _, sent: counts_below([values], **sent))
    assert steps == pooled
    below = [(present <= step).sum() for step in steps]
    assert below == sorted(set(below))
    assert all(0 < count < len(present) for count in below)


def test_many_values_have_twelve_steps_of_equal_shares_and_two_values_have_one():
    rng = np.random.default_rng(0)
    values = rng.normal(3.0, 2.0, 130_000)
    column = add_steps(NumberColumn("x", 3.0, 2.0, False), values)
    shares = np.diff([0, *[(values <= step).mean() for step in column.steps], 1])
    assert len(column.steps) == 12
    np.testing.assert_allclose(shares, 1 / 13, atol=0.003)
    two = rng.integers(0, 2, 1000).astype(float)
    assert len(add_steps(NumberColumn("x", 0.5, 0.5, False), two).steps) == 1
    assert add_steps(NumberColumn("x", 1.0, 1.0, False), np.ones(50)).steps == ()


def test_a_missing_value_is_above_no_step_and_clipped_values_are_compared():
    column = NumberColumn("x", 0.0, 1.0, True, low=-1.0, high=1.0, steps=(-2.0, 0.5, 3.0))
    table = Table({"x": np.array([np.nan, 0.0, 9.0])}, "rows")
    x = np.zeros((3, len(column.feature_names)))
    column.fill(table, x)
    np.testing.assert_array_equal(x[:, 2:], [[0, 0, 0], [1, 0, 0], [1, 1, 0]])
    assert column.feature_names[2:] == ("x > -2", "x > 0.5", "x > 3")


def test_plain_features_are_a_part_of_binned_ones():
    """Without steps a federation is the one that was never given any, bit for bit."""
    plain, binned = (
        load(DataRequest("synthetic", features=kind), 3) for kind in ("plain", "binned")
    )
    assert len(binned.feature_names) > len(plain.feature_names)
    back = without_steps(binned)
    assert back.encoder == plain.encoder
    assert back.feature_names == plain.feature_names
    for one, other in zip(back.clients, plain.clients, strict=True):
        np.testing.assert_array_equal(one.x, other.x)
    np.testing.assert_array_equal(back.test.x, plain.test.x)


def test_an_encoder_with_steps_survives_json():
    encoder = load(DataRequest("synthetic", features="binned"), 0).encoder
    assert Encoder.from_dict(json.loads(json.dumps(encoder.to_dict()))) == encoder


def test_categories_have_no_steps():
    column = fit_column(Table({"x": np.array(["a", "b"], object)}, "rows"), "x", with_steps=True)
    assert column.categories == ("a", "b")
