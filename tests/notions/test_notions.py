"""Laws that hold for every notion, any number of groups and any counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedfb.errors import ConfigError
from fedfb.notions import ClientParity, DemographicParity, long_name, make_notion
from fedfb.notions.base import decay, normalise

NOTIONS = ("dp", "eo", "eod", "cp")


def situation(draw, name):
    """A notion with counts and a feasible lambda of two runs."""
    groups = draw(st.sampled_from([2, 3, 5]))
    symmetric = draw(st.booleans())
    notion = make_notion(name, groups, symmetric)
    shape = (groups,) if name == "cp" else (2, groups)
    counts = draw(arrays(np.int64, shape, elements=st.integers(1, 40)))
    start = np.repeat(notion.init(counts)[None], 2, axis=0)
    jolt = draw(arrays(float, start.shape, elements=st.floats(-1, 1)))
    return notion, counts, notion.step(start, jolt, counts, np.ones(2))


def signals(draw, lam):
    return draw(arrays(float, lam.shape, elements=st.floats(-2, 2)))


@pytest.mark.parametrize("name", NOTIONS)
@given(data=st.data())
def test_a_step_stays_in_lambdas_set(name, data):
    notion, counts, lam = situation(data.draw, name)
    after = notion.step(lam, signals(data.draw, lam), counts, np.array([0.5, 3.0]))
    assert notion.feasible(lam, counts)
    assert notion.feasible(after, counts)


@pytest.mark.parametrize("name", NOTIONS)
@given(data=st.data())
def test_no_signal_no_move(name, data):
    notion, counts, lam = situation(data.draw, name)
    still = normalise(np.zeros_like(lam), "l2")
    np.testing.assert_allclose(notion.step(lam, still, counts, np.ones(2)), lam, atol=1e-12)


@pytest.mark.parametrize("name", NOTIONS)
@given(data=st.data())
def test_at_the_start_every_weight_is_one(name, data):
    notion, counts, _ = situation(data.draw, name)
    weights = notion.weights(notion.init(counts)[None], counts)
    np.testing.assert_allclose(weights, 1.0, rtol=1e-12)


@pytest.mark.parametrize("name", ["eo", "eod", "cp"])
@given(data=st.data())
def test_weights_deal_out_a_fixed_mass(name, data):
    notion, counts, lam = situation(data.draw, name)
    weighted = notion.weights(lam, counts) * counts
    mass = weighted.reshape(len(lam), -1).sum(axis=1)
    np.testing.assert_allclose(mass, counts.sum(), rtol=1e-9)


@given(data=st.data())
def test_the_two_labels_of_a_group_share_a_weight_of_two(data):
    notion, counts, lam = situation(data.draw, "dp")
    np.testing.assert_allclose(notion.weights(lam, counts).sum(axis=1), 2.0, atol=1e-12)


@st.composite
def predicted_rows(draw):
    """Rows (label, decision, group) with every group present."""
    groups = draw(st.sampled_from([2, 3, 5]))
    rows = draw(st.integers(groups, 60))
    bits = arrays(np.int64, rows, elements=st.integers(0, 1))
    y, decision = draw(bits), draw(bits)
    group = draw(arrays(np.int64, rows, elements=st.integers(0, groups - 1)))
    group[:groups] = np.arange(groups)
    return y, decision, group, groups


def tables(y, decision, group, groups):
    cell = y * groups + group
    counts = np.bincount(cell, minlength=2 * groups).reshape(2, groups)
    errors = np.bincount(cell, weights=(decision != y).astype(float), minlength=2 * groups)
    return errors.reshape(1, 2, groups).astype(float), counts


@given(predicted_rows())
def test_under_the_zero_one_loss_the_signal_is_the_gap_of_positive_rates(rows):
    _, decision, group, groups = rows
    losses, counts = tables(*rows)
    rates = np.array([decision[group == a].sum() / (group == a).sum() for a in range(groups)])
    notion = DemographicParity(groups)
    # The numerators are whole numbers, so the rates are equal to the last bit.
    np.testing.assert_array_equal(notion.rates(losses, counts)[0], rates)
    mu = notion.signal(notion.share(losses, counts, 0), counts)[0]
    np.testing.assert_allclose(mu[1:], rates[1:] - rates[0], atol=1e-15)
    np.testing.assert_allclose(mu.sum(), 0.0, atol=1e-14)


@given(predicted_rows(), st.data())
def test_shares_of_clients_sum_to_the_pooled_signal(rows, data):
    y, decision, group, groups = rows
    losses, counts = tables(*rows)
    owner = data.draw(arrays(np.int64, len(y), elements=st.integers(0, 2)))
    for name in ("dp", "eo", "eod"):
        notion = make_notion(name, groups, data.draw(st.booleans()))
        pooled = notion.share(losses, counts, 0)
        parts = [
            tables(y[owner == i], decision[owner == i], group[owner == i], groups)[0]
            for i in range(3)
        ]
        summed = np.sum([notion.share(part, counts, i) for i, part in enumerate(parts)], axis=0)
        np.testing.assert_allclose(summed, pooled, atol=1e-14)


@given(predicted_rows())
def test_equal_opportunity_measures_the_gap_of_false_negative_rates(rows):
    y, decision, group, groups = rows
    losses, counts = tables(*rows)
    notion = make_notion("eo", groups)
    here = notion.present(counts)
    mu = notion.signal(notion.share(losses, counts, 0), counts)[0]
    missed = [np.mean(decision[(group == a) & (y == 1)] == 0) for a in here]
    np.testing.assert_allclose(mu[here], [m - missed[0] for m in missed], atol=1e-14)
    absent = np.setdiff1d(np.arange(groups), here)
    np.testing.assert_array_equal(mu[absent], 0.0)


@pytest.mark.parametrize("name", ["dp", "eo", "eod"])
@given(data=st.data())
def test_groups_that_cannot_be_compared_stay_out_and_weigh_one(name, data):
    groups = data.draw(st.sampled_from([2, 3, 5]))
    notion = make_notion(name, groups, data.draw(st.booleans()))
    counts = data.draw(arrays(np.int64, (2, groups), elements=st.integers(0, 9)))
    counts[:, 0], counts[:, -1] = 3, 0
    lam = np.repeat(notion.init(counts)[None], 1, axis=0)
    losses = data.draw(arrays(float, (1, *counts.shape), elements=st.floats(0, 5))) * (counts > 0)
    mu = notion.signal(notion.share(losses, counts, 0), counts)
    after = notion.step(lam, mu, counts, np.ones(1))
    assert np.all(np.isfinite(mu))
    assert notion.feasible(after, counts)
    np.testing.assert_array_equal(notion.weights(after, counts)[..., -1], 1.0)


@pytest.mark.parametrize("name", NOTIONS)
def test_a_single_group_never_moves(name):
    notion = make_notion(name, 1)
    counts = np.array([7]) if name == "cp" else np.array([[3], [4]])
    lam = notion.init(counts)[None]
    losses = np.ones((1, 2, 1))
    total = notion.share(losses, counts, 0)
    total = total[None] if name == "cp" else total
    after = notion.step(lam, notion.signal(total, counts), counts, np.array([5.0]))
    np.testing.assert_allclose(after, lam)


@given(
    arrays(float, (2, 3), elements=st.floats(0, 3)),
    arrays(np.int64, 3, elements=st.integers(1, 30)),
)
def test_client_parity_compares_mean_losses(losses, sizes):
    notion = ClientParity()
    stack = np.stack(
        [
            notion.share(
                np.broadcast_to(losses[:, i, None, None] / 4, (2, 2, 2)).copy() * sizes[i], sizes, i
            )
            for i in range(3)
        ]
    )
    np.testing.assert_allclose(notion.signal(stack, sizes), losses - losses[:, :1], atol=1e-12)


@pytest.mark.parametrize("name", ["dp", "eo", "eod"])
@given(data=st.data())
def test_the_symmetric_signal_does_not_depend_on_who_is_called_first(name, data):
    notion = make_notion(name, 4, symmetric=True)
    counts = data.draw(arrays(np.int64, (2, 4), elements=st.integers(1, 40)))
    losses = data.draw(arrays(float, (1, 2, 4), elements=st.floats(0, 20)))
    order = np.array([2, 0, 3, 1])

    def signal(losses, counts):
        return notion.signal(notion.share(losses, counts, 0), counts)

    there, back = signal(losses, counts), signal(losses[..., order], counts[:, order])
    np.testing.assert_allclose(back, there[..., order], atol=1e-12)
    np.testing.assert_allclose(there.sum(axis=-1), 0.0, atol=1e-12)


def test_a_normalised_signal_has_length_one_over_both_labels():
    signal = np.array([[[3.0, 0.0], [0.0, 4.0]]])
    np.testing.assert_allclose(normalise(signal, "l2"), signal / 5)
    np.testing.assert_array_equal(normalise(signal, "none"), signal)
    assert decay(9, "inv_sqrt") == 1 / 3


def test_short_and_long_names_mean_the_same():
    assert long_name("dp") == long_name("demographic-parity") == "demographic_parity"
    with pytest.raises(ConfigError, match="did you mean 'eod'"):
        long_name("eodd")
