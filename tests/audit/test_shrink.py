"""Rates of crossed groups that borrow from their parents."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from fedfb.audit.record import audit
from fedfb.audit.result import About, Audit, audit_values
from fedfb.audit.rows import AuditedRows, Subject
from fedfb.audit.shrink import add_shrinkage, shrink, shrinkage_tables
from fedfb.audit.text import print_audit
from fedfb.errors import ConfigError

RATES = st.lists(
    st.tuples(st.floats(0, 1), st.integers(1, 10_000), st.floats(0, 1)), min_size=1, max_size=12
)
ABOUT = About(
    kind="scores", name="x", notion=None, data="x.csv", label="y", positive="1",
    rows="all rows", decided_by="column d", baseline=None, hashes={},
)  # fmt: skip


@given(groups=RATES, parameters=st.integers(1, 6))
def test_a_shrunken_rate_lies_between_the_rate_and_its_parents(groups, parameters):
    rate, rows, prior = (np.array(part, float) for part in zip(*groups, strict=True))
    shrunk, share = shrink(rate, rows, prior, parameters)
    low, high = np.minimum(rate, prior), np.maximum(rate, prior)
    assert np.all((low - 1e-12 <= shrunk) & (shrunk <= high + 1e-12))
    assert np.all((share >= 0) & (share < 1))


def test_of_equal_priors_the_group_with_more_rows_keeps_more_of_its_rate():
    rate, rows = np.array([0.9, 0.8, 0.1, 0.2]), np.array([10.0, 100.0, 1000.0, 10_000.0])
    _, share = shrink(rate, rows, np.full(4, 0.5), 1)
    assert np.all(np.diff(share) > 0)


def test_groups_that_follow_their_parents_take_all_from_them():
    prior = np.array([0.2, 0.4, 0.5, 0.7])
    shrunk, share = shrink(prior, np.full(4, 50.0), prior, 3)
    np.testing.assert_array_equal(shrunk, prior)
    np.testing.assert_array_equal(share, np.zeros(4))


def test_as_many_parents_as_groups_say_nothing_of_chance():
    """Then the groups cannot show how far they lie from their parents."""
    _, share = shrink(np.array([0.1, 0.9]), np.full(2, 50.0), np.array([0.3, 0.6]), 2)
    np.testing.assert_array_equal(share, np.zeros(2))


def rows_of(seed, attributes=(3, 6), rows=1_500, unlike=0.05):
    """Rows of crossed groups, some tiny, whose true rates nearly add up over attributes."""
    rng = np.random.default_rng(seed)
    first, second = attributes
    effect = 0.5 + rng.uniform(-0.2, 0.2, first)[:, None] + rng.uniform(-0.2, 0.2, second)
    truth = np.clip(effect + rng.normal(0, unlike, (first, second)), 0.02, 0.98).ravel()
    shares = rng.dirichlet(np.full(first * second, 0.7)) + 12 / rows
    group = rng.choice(first * second, p=shares / shares.sum(), size=rows)
    decision = (rng.random(rows) < truth[group]).astype(float)
    y = rng.integers(0, 2, rows)
    names = tuple(f"a=a{i}, b=b{j}" for i in range(first) for j in range(second))
    subject = Subject({"all": AuditedRows(y, group, decision)}, names, ("a", "b"), ABOUT)
    return subject, dict(zip(names, truth.tolist(), strict=True))


@pytest.mark.slow
def test_shrunken_rates_of_tiny_groups_are_nearer_to_the_truth():
    """15 tables: the mean square error of groups below 40 rows falls by more than a fifth."""
    raw, shrunk = [], []
    for seed in range(15):
        subject, truth = rows_of(seed)
        found = add_shrinkage(audit(subject))
        sizes = {group.name: group.n for group in found.groups}
        for group in found.shrinkage.groups:
            rate = group.selection_rate
            if rate is not None and sizes[group.name] < 40:
                raw.append((rate.rate - truth[group.name]) ** 2)
                shrunk.append((rate.value - truth[group.name]) ** 2)
    assert len(raw) > 50
    assert np.mean(shrunk) < 0.8 * np.mean(raw)


def test_large_groups_keep_their_rates():
    subject, _ = rows_of(1, rows=400_000, unlike=0.1)
    found = add_shrinkage(audit(subject))
    large = [group.name for group in found.groups if group.n > 5_000]
    assert len(large) > 5
    for group in found.shrinkage.groups:
        if group.name in large:
            rate = group.selection_rate
            assert rate.value == pytest.approx(rate.rate, abs=0.01)
            assert rate.share > 0.9


def test_hidden_groups_stay_hidden():
    subject, _ = rows_of(2, rows=200)
    found = add_shrinkage(audit(subject, minimum=25))
    hidden = {*found.hidden.groups}
    assert hidden
    for group in found.shrinkage.groups:
        if group.name in hidden:
            assert group.selection_rate is None


def test_it_is_part_of_the_json_and_nothing_changes_without_it(capsys):
    subject, _ = rows_of(3)
    plain = audit(subject)
    assert "shrinkage" not in audit_values(plain)
    assert shrinkage_tables(plain) == ()
    found = add_shrinkage(plain)
    values = audit_values(found)
    assert convert({k: v for k, v in values.items() if k != "schema"}, Audit) == found
    assert {k: v for k, v in values.items() if k != "shrinkage"} == audit_values(plain)
    print_audit(found)
    assert "Rates shrunk towards parents" in capsys.readouterr().out


def test_one_attribute_has_no_parents():
    y = np.tile([0, 1], 40)
    rows = AuditedRows(y, np.repeat([0, 1], 40), y.astype(float))
    subject = Subject({"all": rows}, ("F", "M"), ("sex",), ABOUT)
    with pytest.raises(ConfigError, match="one attribute alone"):
        add_shrinkage(audit(subject))
