"""Fixed point: right to half a step a client, never clipped, never wrapped."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfb.secure import Part, RangeError, choose_bits, decode, encode, make_schema


@st.composite
def uploads(draw):
    clients = draw(st.integers(3, 1000))
    bound = draw(st.floats(1e-6, 1e9))
    bits = draw(st.integers(0, choose_bits(bound, clients)))
    bits = max(bits, 1)
    values = st.floats(-bound, bound)
    rows = draw(st.lists(st.lists(values, min_size=3, max_size=3), min_size=1, max_size=8))
    return clients, bound, bits, np.array(rows)


@given(uploads())
def test_a_sum_is_right_to_half_a_step_a_client(case):
    clients, bound, bits, rows = case
    schema = make_schema([Part("x", (3,), bound, bits)], clients)
    total = np.sum([encode(schema, {"x": row}) for row in rows], axis=0, dtype=np.uint64)
    found = decode(schema, len(rows), total)["x"]
    rounding = 1e-14 * len(rows) * bound
    assert np.all(np.abs(found - rows.sum(axis=0)) <= len(rows) * 2.0 ** -(bits + 1) + rounding)


@given(st.integers(3, 10_000), st.floats(1e-9, 1e12), st.sampled_from([-1, 1]))
def test_a_sum_cannot_wrap_though_all_are_at_the_bound(clients, bound, sign):
    part = Part("x", (), bound, choose_bits(bound, clients))
    if part.bits == 0:
        bound = float(int(bound)) or 1.0
        part = Part("x", (), bound, 0)
    word = encode(make_schema([part], clients), {"x": np.array(sign * bound)})
    total = np.array([int(word[0]) * clients % 2**64], dtype=np.uint64)
    assert decode((part,), clients, total)["x"] == pytest.approx(sign * clients * bound, rel=1e-6)


@given(st.lists(st.integers(-(2**40), 2**40), min_size=3, max_size=20))
def test_whole_numbers_are_exact(values):
    schema = make_schema([Part("n", (1,), 2.0**40, 0)], len(values))
    total = np.sum([encode(schema, {"n": np.array([v])}) for v in values], axis=0, dtype=np.uint64)
    assert decode(schema, len(values), total)["n"] == sum(values)


SCHEMA = make_schema([Part("x", (2,), 10.0, 8), Part("n", (1,), 100.0, 0)], 5)


def upload(x, n=(1,)):
    return {"x": np.array(x), "n": np.array(n)}


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (upload([1.0, np.nan]), "'x' is not finite at place 1"),
        (upload([-np.inf, 1.0]), "'x' is not finite at place 0"),
        (upload([1.0, 10.0001]), "'x' exceeds its bound 10 at 1 of 2 places"),
        (upload([-11.0, 11.0]), "at 2 of 2 places"),
        (upload([1, 11]), "exceeds its bound"),
        (upload([1.0, 1.0], [2**63]), "exceeds its bound"),
        (upload([1.0, 1.0], [0.5]), "'n' is declared whole"),
        (upload([1.0]), "shape"),
        (upload([[1.0, 2.0]]), "shape"),
        (upload([1j, 0]), "expected real numbers"),
        (upload(["a", "b"]), "expected real numbers"),
        ({"x": np.zeros(2)}, "its schema"),
        (upload([1.0, 1.0]) | {"z": np.zeros(1)}, "its schema"),
    ],
)
def test_what_does_not_fit_is_refused_never_clipped(bad, match):
    with pytest.raises(RangeError, match=match):
        encode(SCHEMA, bad)


def test_no_value_stands_in_an_error():
    with pytest.raises(RangeError) as caught:
        encode(SCHEMA, upload([1.0, 123456.5]))
    assert "123456" not in str(caught.value)


@pytest.mark.parametrize(
    "part",
    [
        Part("x", (2,), np.inf, 0),
        Part("x", (2,), np.nan, 0),
        Part("x", (2,), 0.0, 0),
        Part("x", (2,), 1.0, -1),
        Part("x", (2,), 1.0, 61),
        Part("x", (-2,), 1.0, 1),
        Part("x", (2,), 1e300, 0),
    ],
)
def test_a_schema_whose_sum_could_wrap_is_refused(part):
    with pytest.raises(RangeError):
        make_schema([part], 5)


def test_names_are_distinct_and_ordered():
    with pytest.raises(RangeError, match="distinct"):
        make_schema([Part("x", (2,), 1.0, 1), Part("x", (1,), 1.0, 1)], 5)
    assert [part.name for part in SCHEMA] == ["n", "x"]


def test_the_wrap_is_met_to_the_last_unit():
    limit = (2**63 - 1) // 5
    bound = float(limit // 2**20 * 2**20)  # a float has 53 bits
    make_schema([Part("x", (), bound, 0)], 5)
    with pytest.raises(RangeError, match="could wrap"):
        make_schema([Part("x", (), float(2**62), 0)], 5)


def test_a_sum_beyond_the_declared_range_is_thrown_away():
    total = np.array([0, 2**40, 0], dtype=np.uint64)
    with pytest.raises(RangeError, match="discarded"):
        decode(SCHEMA, 5, total)
    with pytest.raises(RangeError, match="expected"):
        decode(SCHEMA, 5, total[:2])


def test_shapes_and_scalars_come_back():
    schema = make_schema(
        [Part("a", (2, 3), 9.0, 4), Part("b", (), 9.0, 4), Part("c", (0,), 1.0, 1)], 3
    )
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.array(2.5), "c": np.zeros(0)}
    found = decode(schema, 3, encode(schema, arrays))
    for name, value in arrays.items():
        np.testing.assert_array_equal(found[name], value)
        assert found[name].shape == value.shape
