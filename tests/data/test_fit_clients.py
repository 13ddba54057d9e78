"""What is learnt from sums over owners is what one owner of all rows would learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.one_column import encode
from fedfb.data.columns import fit_column
from fedfb.data.fit_columns import QUARTILES, TAILS, ClientRows, fit_columns, make_ask
from fedfb.data.schema import ColumnSchema, Schema
from fedfb.data.statistics import BINS, add_in_clear, quantiles_by, spread_by
from fedfb.tables.table import Table

OWNERS = ("north", "south", "west")
LAWS = {
    "normal": lambda rng, n: rng.normal(50, 7, n),
    "heavy": lambda rng, n: rng.standard_cauchy(n),
    "lognormal": lambda rng, n: rng.lognormal(10, 2, n),
    "whole": lambda rng, n: rng.integers(0, 5, n).astype(float),
    "constant": lambda rng, n: np.full(n, 3.25),
    "mostly zero": lambda rng, n: np.where(rng.random(n) < 0.9, 0.0, rng.exponential(1e4, n)),
}


def clients_of(client: np.ndarray, column: ColumnSchema, add=add_in_clear) -> ClientRows:
    return ClientRows(client, OWNERS, add, Schema((column,), ()))


def numbers(scale: str) -> ColumnSchema:
    return ColumnSchema("x", "feature", "number", missing="mean", scale=scale)


def pooled_quantiles(values: np.ndarray, shares: tuple[float, ...]) -> np.ndarray:
    return np.quantile(values[~np.isnan(values)], shares, method="inverted_cdf")


@settings(derandomize=True)
@given(
    law=st.sampled_from(sorted(LAWS)),
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 300),
    share=st.floats(0.001, 0.999),
    scale=st.sampled_from((1e-6, 1.0, 1e9)),
    gaps=st.booleans(),
)
def test_a_quantile_is_the_pooled_one_to_the_width_of_a_bin(law, seed, rows, share, scale, gaps):
    rng = np.random.default_rng(seed)
    values = scale * LAWS[law](rng, rows)
    if gaps:
        values[1::3] = np.nan
    clients = clients_of(rng.integers(0, 3, rows), numbers("robust"))
    answers = make_ask(Table({"x": values}), clients)
    spread = spread_by(["x"], answers)
    found = quantiles_by("robust histograms", (share,), spread, answers)
    [[width]], [[value]] = found.width, found.values
    [pooled] = pooled_quantiles(values, (share,))
    rounding = 1e-9 * max(abs(pooled), spread.sd[0])
    assert value - width - rounding <= pooled <= value + rounding
    reach = np.sqrt((1 - share) / share) + np.sqrt(share / (1 - share))
    assert width <= 1.0001 * spread.sd[0] * reach / BINS**2 + rounding


def fit_one(values, client, scale: str, add=add_in_clear):
    [column] = fit_columns(Table({"x": values}), clients_of(client, numbers(scale), add))
    return column


@settings(derandomize=True)
@given(law=st.sampled_from(("normal", "heavy", "lognormal")), seed=st.integers(0, 10**6))
def test_a_robust_column_is_scaled_by_the_pooled_median_and_quartiles(law, seed):
    rng = np.random.default_rng(seed)
    values = LAWS[law](rng, 400)
    found = fit_one(values, rng.integers(0, 3, 400), "robust")
    low, middle, high = pooled_quantiles(values, QUARTILES)
    assert found.mean == pytest.approx(middle, abs=1.0001 * found.error)
    if high - low > 4 * found.error:
        assert found.sd == pytest.approx((high - low) / 1.349, abs=1.5 * found.error)


def test_where_the_quartiles_are_one_value_the_deviation_scales():
    rng = np.random.default_rng(1)
    values = LAWS["mostly zero"](rng, 400)
    found = fit_one(values, rng.integers(0, 3, 400), "robust")
    assert found.sd == pytest.approx(values.std(), rel=1e-9)


@settings(derandomize=True)
@given(law=st.sampled_from(sorted(LAWS)), seed=st.integers(0, 10**6))
def test_a_clipped_column_has_the_mean_and_deviation_of_what_is_left(law, seed):
    rng = np.random.default_rng(seed)
    values = LAWS[law](rng, 300)
    found = fit_one(values, rng.integers(0, 3, 300), "clip")
    low, high = pooled_quantiles(values, TAILS)
    rounding = 1e-9 * max(1.0, abs(values).max())
    assert found.low == pytest.approx(low, abs=found.error + rounding)
    assert found.high == pytest.approx(high, abs=found.error + rounding)
    left = np.clip(values, found.low, found.high)
    assert found.mean == pytest.approx(left.mean(), rel=1e-9, abs=1e-9 * found.sd)
    assert found.sd == pytest.approx(left.std() or 1.0, rel=1e-9)
    encoded = encode(found, Table({"x": values}))[:, 0]
    np.testing.assert_allclose(encoded, (left - found.mean) / found.sd, atol=1e-12)


def test_histograms_say_counts_only_and_no_range():
    said = []

    def adding(question, told, answers):
        said.append((question, {k: (v.dtype.kind, v.shape) for k, v in answers["west"].items()}))
        return add_in_clear(question, told, answers)

    rng = np.random.default_rng(0)
    fit_one(rng.normal(size=90), np.arange(90) % 3, "clip", adding)
    histograms = [parts for question, parts in said if question == "clip histograms"]
    assert histograms == [{"present": ("i", (1,)), "below": ("i", (1, 2, BINS))}] * 2


@settings(derandomize=True)
@given(
    cells=st.lists(st.tuples(st.sampled_from(("a", "b", "c d", "")), st.integers(0, 2)), min_size=1)
)
def test_declared_categories_that_nobody_has_make_no_column(cells):
    """So a schema of all rows encodes training rows as the training rows themselves would."""
    text, owners = (list(part) for part in zip(*cells, strict=True))
    table = Table({"town": np.array(text, object)})
    declared = ColumnSchema(
        "town", "feature", "category", ("a", "b", "c d", "never"), missing="category"
    )
    clients = clients_of(np.array(owners), declared)
    assert fit_columns(table, clients) == (fit_column(table, "town"),)


def test_a_category_that_one_owner_alone_has_is_a_column_of_all():
    table = Table({"town": np.array(["a", "a", "b", "only here"], object)})
    declared = ColumnSchema("town", "feature", "category", ("a", "b", "only here"))
    [column] = fit_columns(table, clients_of(np.array([0, 1, 1, 2]), declared))
    assert column.categories == ("a", "b", "only here")
